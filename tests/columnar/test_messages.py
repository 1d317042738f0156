"""The tables of tibmsg, tibrv and qform messages against the object path, row for row."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracles.tabled import (
    carriers,
    check_messages,
    choices,
    names_in,
    options_for,
    tabled,
    ways,
)
from oracles.twins import seeds

from wireloom import kernel as kernels
from wireloom.columnar.messages import MAX_FRAME, MessageDecoder
from wireloom.errors import OptionError
from wireloom.formats import tibmsg
from wireloom.rows import walked_formats
from wireloom.tables import table
from wireloom.testing.mutations import Mutator
from wireloom.testing.strategies import messages, options
from wireloom.wire import Limits

WALKED = walked_formats()
FORMATS = (*WALKED, None)


@pytest.fixture
def is_slow(kernel):
    return kernel is kernels.interpreted()


def _corpus(name, most=4096):
    """Golden vectors; for payloads those of every format, and some that are none."""
    if name is None:
        found = [data for each in WALKED for data in seeds(each, most)]
        return [*found, b"no message", b"", found[0] + found[0], found[0] + b"more"]
    return seeds(name, most) + carriers(name, min(most, 600))


@pytest.mark.parametrize("name", FORMATS)
def test_golden_vectors(name, kernel, is_slow):
    frames = _corpus(name)[:: 16 if is_slow else 1]
    found = check_messages(name, frames, kernel=kernel, options=options_for(name))
    assert len(found["fields"]) > len(found["messages"]) > 3


@pytest.mark.parametrize("batch_rows", [1, 2, 7])
@pytest.mark.parametrize("name", FORMATS)
def test_small_batches_give_the_same_rows(name, batch_rows, kernel, is_slow):
    """Every batch that is full in the middle of a message takes that message back."""
    frames = _corpus(name, 500)[:: 50 if is_slow else 7]
    choice = choices(names_in(name, frames[:20], **options_for(name))[:20])[0]
    check_messages(
        name,
        frames,
        kernel=kernel,
        options=options_for(name),
        batch_rows=batch_rows,
        choice=choice,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_mutants_in_every_way(name, kernel, is_slow):
    given = options_for(name)
    corpus = _corpus(name, 600)
    names = names_in(name, corpus[:200], **given)
    mutator, random = Mutator(corpus, seed=31), Random(31)
    for start in range(0, 240 if is_slow else 6_000, 60):
        frames = [data for _, data in mutator.mutants(start, start + 60)]
        # Whole messages between them, so that what is taken back lies between what stays.
        frames[::4] = random.choices(corpus, k=15)
        way = ways(random, names)
        if name is None:
            way.pop("nested", None)
        check_messages(name, frames, kernel=kernel, options=given, **way)


@pytest.mark.parametrize("name", WALKED)
def test_every_cut_and_every_bit_of_a_message(name, kernel, is_slow):
    samples = [data for data in _corpus(name, 100) if len(data) > 50][: 1 if is_slow else 4]
    for data in samples:
        frames = [data[:end] for end in range(len(data))]
        for bit in range(8 * len(data)):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            frames.append(bytes(damaged))
        check_messages(name, frames, kernel=kernel, options=options_for(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKED)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_valid_messages(name, kernel, data):
    made = data.draw(st.lists(messages(name), min_size=1, max_size=5))
    found = check_messages(
        name, [message.encode() for message in made], kernel=kernel, options=options(name)
    )
    own = [row for row in found["messages"] if not row["path"]]
    assert [row["field_count"] for row in own] == [len(message.fields) for message in made]


@pytest.mark.parametrize("is_timed", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_each_column_alone_is_the_same(name, is_timed, kernel, is_slow):
    frames = _corpus(name, 300)[:: 80 if is_slow else 25]
    given = options_for(name)
    for of in ("messages", "fields", "errors"):
        for column in table(of).names:
            check_messages(
                name,
                frames,
                kernel=kernel,
                options=given,
                select={of: [column]},
                is_timed=is_timed,
            )


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_frame=100),
        Limits(max_fields=4),
        Limits(max_depth=1),
        Limits(max_depth=1, max_fields=1),
        Limits(max_frame=MAX_FRAME, max_depth=1 << 70, max_fields=1 << 70),
    ],
)
def test_limits(name, limits, kernel, is_slow):
    frames = _corpus(name, 500)[:: 40 if is_slow else 4]
    check_messages(name, frames, kernel=kernel, options=options_for(name), limits=limits)


@pytest.mark.parametrize("name", WALKED)
def test_payloads_are_left_alone_when_they_are_not_wanted(name, kernel, is_slow):
    frames = _corpus(name, 500)[:: 40 if is_slow else 4]
    found = check_messages(name, frames, kernel=kernel, options=options_for(name), nested=False)
    assert {row["path"] for row in found["messages"]} == {""}


@pytest.mark.parametrize(("name", "given"), [("tibrv", {"dialect": "document"}), ("qform", {})])
def test_other_options(name, given, kernel, is_slow):
    frames = seeds(name, 500)[:: 10 if is_slow else 1]
    found = check_messages(name, frames, kernel=kernel, options=given)
    assert found["errors"]


def test_strict_reading_is_that_of_the_object_path(kernel):
    frames = seeds("tibmsg", 300)
    loose = tabled("tibmsg", frames, kernel=kernel)
    strict = tabled("tibmsg", frames, kernel=kernel, strict=True)
    assert len(strict["errors"]) > len(loose["errors"])


def test_deep_nesting_ends_where_the_object_path_ends(kernel):
    frames = []
    for depth in (1, 30, 31, 32, 33, 34, 63, 64, 65, 66, 250):
        body = b""
        for _ in range(depth):
            body = b"\2A\0\x81" + len(body).to_bytes(4, "big") + body
        frames.append(b"\xce\x13\xaa\x1f\1" + len(body).to_bytes(4, "big") + body)
    for limits in (Limits(), Limits(max_depth=200), Limits(max_depth=5000)):
        check_messages("tibmsg", frames, kernel=kernel, limits=limits)


def test_payloads_in_payloads_end_where_the_object_path_ends(kernel):
    frames = []
    for depth in (1, 15, 16, 17, 18):
        data = tibmsg.build({"LAST": 1}).encode()
        for _ in range(depth):
            data = tibmsg.build({"DATA": data}).encode()
        frames.append(data)
    found = check_messages("tibmsg", frames, kernel=kernel)
    assert {len(row["path"].split(".")) for row in found["messages"]} > {1, 16}


def test_paths_get_an_ellipsis_where_they_get_too_long(kernel):
    data = tibmsg.build({"LAST": 1}).encode()
    for number in range(12):
        data = tibmsg.build({f"{number}" * 120: data}).encode()
    found = check_messages("tibmsg", [data], kernel=kernel)
    assert any(row["path"].endswith("…") for row in found["messages"])


def test_more_fields_than_a_batch_has_rows(kernel, is_slow):
    count = 300 if is_slow else 5_000
    frame = tibmsg.build({f"F{number}": number for number in range(count)}).encode()
    found = check_messages("tibmsg", [frame, frame], kernel=kernel, batch_rows=16)
    assert len(found["fields"]) == 2 * count


def test_more_messages_in_a_frame_than_a_batch_has_rows(kernel):
    inner = tibmsg.build({"BID": 1}).encode()
    frame = tibmsg.build({f"DATA{number}": inner * 20 for number in range(5)}).encode()
    choice = choices(["BID"])[0]
    found = check_messages("tibmsg", [frame] * 3, kernel=kernel, batch_rows=3, choice=choice)
    assert len(found["wide"]) == 3 * 101


def test_streams_and_times_may_change_between_calls(kernel):
    frame = tibmsg.build({"BID": 1, "ASK": 2}).encode()
    decoder = MessageDecoder("tibmsg", source="s", kernel=kernel, tables=["fields"], batch_rows=7)
    fed = [("one", None, 0), ("two", [5], 10), ("two", [6], 20), ("one", [7], 30), ("x", None, 1)]
    found = []
    for stream, times, base in fed:
        found += list(decoder.feed(frame, [0], [len(frame)], base=base, ts_ns=times, stream=stream))
    found += list(decoder.flush())
    rows = [row for _, batch in found for row in batch.to_pylist()]
    assert [(row["stream"], row["ts_ns"], row["frame_offset"]) for row in rows[::2]] == [
        (stream, times and times[0], base) for stream, times, base in fed
    ]
    assert rows[::2][0]["name"] == "BID"


def test_frames_outside_of_the_data_are_refused(kernel):
    for start, length in ((-1, 5), (0, 101), (100, 1), (1 << 40, 5), (0, -1), (1 << 62, 1 << 30)):
        decoder = MessageDecoder("tibmsg", kernel=kernel)
        with pytest.raises(OptionError, match="not in the data"):
            list(decoder.feed(bytes(100), [start], [length]))


def test_numbers_of_frames_must_agree(kernel):
    decoder = MessageDecoder("tibmsg", kernel=kernel)
    with pytest.raises(OptionError, match="differ in number"):
        list(decoder.feed(bytes(100), [0, 1], [5]))
    with pytest.raises(OptionError, match="differ in number"):
        list(decoder.feed(bytes(100), [0], [5], ts_ns=[1, 2]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "blaze"},
        {"tables": ["frames"]},
        {"tables": ["wide"]},
        {"columns": ["BID"]},
        {"select": {"fields": ["colour"]}},
        {"unwrap": True},
        {"tables": ["wide"], "columns": ["BID:colour"]},
        {"tables": ["wide"], "columns": ["BID", "BID"]},
        {"tables": ["wide"], "columns": ["path"]},
    ],
)
def test_what_is_not_there_is_refused(wrong, kernel):
    with pytest.raises(OptionError):
        MessageDecoder(**{"format": "tibmsg", "kernel": kernel} | wrong)


def test_offsets_over_four_gigabytes(kernel):
    frame = tibmsg.build({"BID": 1}).encode()
    base = (1 << 33) + 5
    decoder = MessageDecoder("tibmsg", kernel=kernel)
    fed = decoder.feed(frame * 2 + b"\0" * 9, [0, len(frame), 0], [len(frame)] * 2 + [9], base=base)
    rows = dict([*fed, *decoder.flush()])
    wanted = [base, base + len(frame)]
    assert rows["messages"]["frame_offset"].to_pylist() == wanted
    assert rows["fields"]["frame_offset"].to_pylist() == wanted
