"""The kernel stays inside its messages and its memory, whatever the bytes say."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tracemalloc

import pyarrow as pa
import pytest
from oracles.tabled import check_messages

from wireloom import kernel as kernels
from wireloom.columnar import messages as driver
from wireloom.columnar.messages import MessageDecoder
from wireloom.formats import tibmsg, tibrv
from wireloom.formats._tib.problems import MAX_DEPTH
from wireloom.formats.qform import walk as qform_walk
from wireloom.formats.tibmsg import walk as tibmsg_walk
from wireloom.formats.tibrv import walk as tibrv_walk
from wireloom.kernel.frames import framecheck as contents
from wireloom.kernel.frames import framerules
from wireloom.kernel.rows import fieldrows
from wireloom.kernel.walk import qform as kernel_qform
from wireloom.kernel.walk import tibmsg as kernel_tibmsg
from wireloom.kernel.walk import tibrv as kernel_tibrv
from wireloom.kernel.walk import walk
from wireloom.nesting import MAX_BYTES
from wireloom.nesting import MAX_DEPTH as MOST_NESTED
from wireloom.rows import MAX_PATH
from wireloom.tables import table

GUARDED = """
import sys
from wireloom.columnar import MessageDecoder
from oracles.guarded import Guarded
from wireloom.testing.mutations import Mutator
from oracles.tabled import carriers, options_for
from oracles.twins import seeds

room = Guarded(1 << 17)
if sys.argv[1:] == ["beyond"]:
    view = room.place(b"x")
    import ctypes
    print(ctypes.string_at(ctypes.addressof(ctypes.c_char.from_buffer(view)), 2))
for name in ("tibmsg", "tibrv", "qform"):
    samples = [data for data in seeds(name) + carriers(name) if len(data) < 400][::2]
    frames = samples + [data for _, data in Mutator(samples, 41).mutants(0, 800)]
    frames += [data[:end] for data in samples[:8] for end in range(len(data))]
    for columns in (None, ["BID:decimal", "TEXT:date", "A:binary", "I32:time"]):
        tables = ["fields", "wide"] if columns else ["fields", "messages"]
        decoder = MessageDecoder(name, tables=tables, columns=columns, **options_for(name))
        rows = 0
        for frame in frames:
            for _, batch in decoder.feed(room.place(frame), [0], [len(frame)]):
                rows += batch.num_rows
        rows += sum(batch.num_rows for _, batch in decoder.flush())
        print(name, rows)
"""


def _run(*arguments):
    command = [sys.executable, "-c", GUARDED, *arguments]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=100, env=env
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected with Linux's calls")
def test_no_read_goes_behind_a_frame():
    if not kernels.is_compiled():
        pytest.skip("the kernel is not compiled")
    done = _run()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6
    assert _run("beyond").returncode == -signal.SIGSEGV  # the guard does its work


@pytest.fixture
def kernel():
    if not kernels.is_compiled():
        pytest.skip("the kernel is not compiled")
    return kernels.load()


def test_limits_are_those_of_the_object_path():
    assert walk.MAX_DEPTH == contents._DEEPEST == MAX_DEPTH
    assert (walk.MOST_NESTED, walk.MOST_NESTED_BYTES) == (MOST_NESTED, MAX_BYTES)
    assert walk._LONGEST_PATH == MAX_PATH


def test_magics_are_those_of_the_declarations():
    """The kernel needs them as constants of its own."""
    magics = {each.MAGIC for each in (qform_walk, tibmsg_walk, tibrv_walk)}
    for part in (contents, framerules, kernel_qform, kernel_tibmsg, kernel_tibrv):
        own = {value for name, value in vars(part).items() if "_MAGIC" in name}
        assert own
        assert {value.to_bytes(4, "big") for value in own} <= magics, part


TOGETHER = {
    "position",
    "name",
    "type",
    "size",
    "value_int",
    "value_real",
    "value_decimal",
    "hint",
    "text",
    "text_ends",
}
"""What the quick path fills: leaving some of it out would take longer."""


@pytest.mark.parametrize("format", ["tibmsg", "qform"])
@pytest.mark.parametrize("column", table("fields").names)
def test_columns_that_are_not_wanted_have_no_memory(column, format, kernel):
    """Only what is asked for is allocated, and what is filled with it."""
    allocated = []

    def allocate(size):
        allocated.append(size)
        return pa.allocate_buffer(size)

    patch = pytest.MonkeyPatch()
    try:
        patch.setattr("wireloom.columnar.batches.allocate", allocate)
        decoder = MessageDecoder(format, tables=["fields"], select={"fields": [column]})
    finally:
        patch.undo()
    rows = decoder._walk.rows
    always = {"low", "high"}  # a byte each in which columns are noted
    own = {
        "value_text": {"text", "text_ends"},
        "value_binary": {"binary", "binary_ends"},
        "is_blank": set(),
        "source": {"stream"},  # a stream has one source
    }.get(column, {column})
    found = (set(rows.buffers) - always) | set(rows.keys.buffers)
    if format == "qform":
        assert found == own
        assert sum(allocated) < 40 * driver.BATCH_ROWS
    else:
        assert found == own | TOGETHER
        assert sum(allocated) < 120 * driver.BATCH_ROWS


def test_nothing_but_the_wide_cells_is_built_without_the_long_table(kernel):
    decoder = MessageDecoder("tibmsg", tables=["wide"], columns=["BID:f64"], kernel=kernel)
    rows = decoder._walk.rows
    assert rows.capacity == 1
    assert not rows.want & (fieldrows.V_TEXT | fieldrows.V_DECIMAL | fieldrows.V_DATE)
    assert not rows.keys.buffers


def test_names_are_forgotten_before_they_are_too_many(kernel, monkeypatch):
    monkeypatch.setattr(driver, "_MAX_NAMES", 300)
    numbers = itertools.count()
    frames = [
        tibmsg.build({f"NAME{next(numbers)}": 1 for _ in range(20)} | {"BID": 2}).encode()
        for _ in range(80)
    ]
    check_messages("tibmsg", frames, kernel=kernel, batch_rows=100)
    decoder = MessageDecoder("tibmsg", tables=["fields"], kernel=kernel, batch_rows=100)
    most = 0
    for frame in frames:
        for _ in decoder.feed(frame, [0], [len(frame)]):
            pass
        most = max(most, decoder._walk.names.count)
    assert 300 < most < 1500


def test_paths_are_forgotten_before_they_are_too_many(kernel, monkeypatch):
    monkeypatch.setattr(driver, "_MAX_NAMES", 300)
    frames = [
        tibrv.build({f"DATA{number}_{i}": {"BID": 2} for i in range(15)}).encode()
        for number in range(50)
    ]
    check_messages("tibrv", frames, kernel=kernel, batch_rows=50)


def test_the_hash_of_names_has_a_key_of_its_own():
    """So that nobody can make names that all end up in one place."""
    names = [f"NAME{number}".encode() for number in range(100)]
    first, second = kernels.interpreted().Names(), kernels.interpreted().Names()
    for name in names:
        assert first.add(name) == second.add(name)
    assert first.texts() == second.texts() == names
    assert not set(first.hashes[:100]) & set(second.hashes[:100])


def test_memory_does_not_grow_with_the_input(kernel):
    frames = [
        tibmsg.build({"BID": number, "TEXT": "x" * 100, f"N{number}": 1}).encode()
        for number in range(500)
    ]
    data, starts, lengths, at = b"".join(frames), [], [], 0
    for frame in frames:
        starts.append(at)
        lengths.append(len(frame))
        at += len(frame)
    decoder = MessageDecoder("tibmsg", kernel=kernel, batch_rows=1000)

    def feed(times):
        for _ in range(times):
            for _ in decoder.feed(data, starts, lengths):
                pass

    feed(3)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    feed(40)
    grown = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert grown < 1 << 20
    assert pa.total_allocated_bytes() - before < 1 << 22


def test_damage_is_given_out_before_there_is_too_much_of_it(kernel, monkeypatch):
    monkeypatch.setattr(driver, "_MAX_ERRORS", 10)
    decoder = MessageDecoder("tibmsg", tables=["errors"], kernel=kernel)
    frame = b"damage"
    found = []
    for _ in range(95):
        found += [batch.num_rows for _, batch in decoder.feed(frame, [0], [len(frame)])]
    assert found == [10] * 9
    assert [batch.num_rows for _, batch in decoder.flush()] == [5]
    assert decoder.refused == 95


def test_long_texts_make_smaller_batches(kernel, monkeypatch):
    monkeypatch.setattr(driver, "_MAX_TEXT", 10_000)
    frames = [tibmsg.build({"TEXT": "y" * 3000, "DATA": b"z" * 3000}).encode()] * 20
    check_messages("tibmsg", frames, kernel=kernel)
    damaged = [frame[:-1] for frame in frames]
    check_messages("tibmsg", damaged + frames, kernel=kernel)
