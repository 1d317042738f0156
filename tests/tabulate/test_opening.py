"""`wireloom.open_capture`: the objects of captures, as the tables have them as rows."""

from __future__ import annotations

import io
import itertools
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import wireloom
from wireloom.captures import Gap
from wireloom.errors import OptionError, UnknownProtocolError
from wireloom.formats import get
from wireloom.framing import Frame, Problem, Text
from wireloom.generate import Faults, generate
from wireloom.generate.traffic import Conversation, pcap
from wireloom.nesting import Unreadable
from wireloom.tabulate import Totals, tabulate
from wireloom.tabulate.opening import Captured

HELLO = get("nrep").samples()["hello"]
STREAM = b"".join(get("nrep").samples().values())


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("opening") / "bad.pcapng.zst"
    faults = Faults(loss=0.02, reorder=0.05, duplicates=0.02, corruption=0.01)
    generate(path, size=300_000, seed=7, compression="zstd", faults=faults)
    return path


def test_frames_problems_and_gaps_are_those_of_the_tables(faulty: Path) -> None:
    rows: dict[str, set[Any]] = {"frames": set(), "errors": set(), "gaps": set()}
    totals = Totals()
    for name, batch in tabulate(faulty, tables=tuple(rows), nested=False, totals=totals):
        key = ("stream", "offset", "length") if name == "gaps" else ("stream", "frame_offset")
        rows[name] |= {tuple(row[each] for each in key) for row in batch.to_pylist()}
    capture = wireloom.open_capture(faulty)
    found: dict[str, set[Any]] = {"frames": set(), "errors": set(), "gaps": set()}
    for each in capture.read():
        if isinstance(each, Gap):
            found["gaps"].add((each.stream.name, each.offset, each.length))
        elif isinstance(each.record, Frame):
            assert each.message is not None
            assert each.message.encode() == each.record.data
            found["frames"].add((each.stream, each.offset))
        elif isinstance(each.record, Problem):
            found["errors"].add((each.stream, each.offset))
    assert rows["gaps"]
    assert rows["errors"]
    assert found == rows
    assert capture.totals.is_balanced
    assert capture.totals.to_dict() == totals.to_dict()
    assert capture.totals.formats == totals.formats
    kinds = {code: kind.number for code, kind in capture.totals.kinds.items()}
    assert kinds == {code: kind.number for code, kind in totals.kinds.items()}


def test_each_kind_can_be_had_alone(faulty: Path) -> None:
    every = Counter(
        "gap" if isinstance(each, Gap) else (type(each.record).__name__, each.layer == "message")
        for each in wireloom.open_capture(faulty).read()
    )
    assert sum(1 for _ in wireloom.open_capture(faulty).frames()) == (
        every[("Frame", False)] + every[("Problem", True)]  # these are told from frames by reading
    )
    assert sum(1 for _ in wireloom.open_capture(faulty).messages()) == every[("Frame", False)]
    assert sum(1 for _ in wireloom.open_capture(faulty).problems()) == (
        every[("Problem", False)] + every[("Problem", True)]
    )
    assert sum(1 for _ in wireloom.open_capture(faulty).gaps()) == every["gap"]
    streams = list(wireloom.open_capture(faulty).streams())
    assert (
        sum(row["frames"] for row in streams) == every[("Frame", False)] + every[("Problem", True)]
    )


def test_a_frame_that_is_no_message_is_a_problem_and_the_sums_hold(tmp_path: Path) -> None:
    model = tmp_path / "m.blz"
    model.write_text("nclass POINT\n{\n@id 301\nint_32 x\n}\n")
    row: dict[str, Any] = {
        "format": "blaze",
        "packet": "TXRQST",
        "txtype": "NCLASS",
        "txactn": "INS",
        "enctyp": "INDEXNOTZERO",
        "nclsid": 301,
        "connid": 7,
        **dict.fromkeys(("txplid", "txsvid", "txcnid", "txprid"), 1),
        "body": "0a000000",
    }
    data = wireloom.from_dict(row).encode()
    capture = wireloom.open_capture(io.BytesIO(data), "blaze", model=str(model))
    (found,) = capture.read()
    assert isinstance(found, Captured)
    assert isinstance(found.record, Problem)
    assert (found.layer, found.record.code) == ("message", "nclass")
    assert (capture.totals.quarantined, capture.totals.decoded) == (len(data), 0)
    assert capture.totals.is_balanced


def test_text_between_frames_is_in_its_place() -> None:
    frame = next(iter(get("nais").samples().values()))
    data = b"one\n" + frame + b"two\n" + frame
    capture = wireloom.open_capture(io.BytesIO(data), "nais")
    found = [each for each in capture.read() if isinstance(each, Captured)]
    assert [type(each.record) for each in found] == [Text, Frame, Text, Frame]
    assert b"".join(each.record.data for each in found) == data
    assert capture.totals.texts == 2


def test_messages_inside_are_found_on_demand() -> None:
    inner = get("tibmsg").samples()["string"]
    body = bytes(10) + len(inner).to_bytes(4, "little") + inner
    packet = b"\0\x0a\0\0\0\0" + len(body).to_bytes(4, "little") + body
    capture = wireloom.open_capture(io.BytesIO(packet))
    (found,) = capture.messages()
    assert [(each.path, each.format) for each in capture.nested(found)] == [("data", "tibmsg")]
    body = bytes(10) + (len(inner) - 1).to_bytes(4, "little") + inner[:-1]
    packet = b"\0\x0a\0\0\0\0" + len(body).to_bytes(4, "little") + body
    capture = wireloom.open_capture(io.BytesIO(packet))
    (found,) = capture.messages()
    assert [type(each) for each in capture.nested(found)] == [Unreadable]
    assert capture.totals.errors == 1


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_what_a_pipe_gives_does_not_depend_on_its_pieces(size: int) -> None:
    class Pieces(io.RawIOBase):
        def __init__(self) -> None:
            self._rest = STREAM * 3

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            piece = self._rest[: min(size, len(buffer))]
            self._rest = self._rest[len(piece) :]
            buffer[: len(piece)] = piece
            return len(piece)

    for source in (Pieces(), io.BufferedReader(Pieces())):
        capture = wireloom.open_capture(source)  # type: ignore[arg-type]
        assert b"".join(each.record.data for each in capture.messages()) == STREAM * 3
        assert list(capture.totals.formats) == ["nrep"]


def test_a_pipe_is_not_waited_for_when_there_is_something_to_show() -> None:
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    captured = pcap([*made.open(), *made.send(STREAM * 10)])
    for data in (STREAM, captured):
        reading, writing = os.pipe()
        os.write(writing, data)
        with os.fdopen(reading, "rb") as file:
            # Nothing more comes for a while; were more waited for, this would block.
            timer = threading.Timer(20, os.close, [writing])
            timer.start()
            first = next(wireloom.open_capture(file).messages())
            assert timer.is_alive()
            timer.cancel()
            os.close(writing)
        assert first.offset == 0


def test_bytes_of_no_format_are_told_of_in_time() -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:1000] = b"\xff" * 1000
            return 1000

    found = wireloom.open_capture(Endless()).problems()  # type: ignore[arg-type]
    (first,) = itertools.islice(found, 1)
    assert first.record.code == "unknown_format"  # type: ignore[union-attr]


def test_options_go_to_the_formats_that_have_them() -> None:
    extension = bytes.fromhex("0040 00000000 00000000") * 5
    assert not list(wireloom.open_capture(io.BytesIO(extension), "nrep").messages())
    assert list(wireloom.open_capture(io.BytesIO(extension), "nrep", extensions=True).messages())
    assert not list(wireloom.open_capture(io.BytesIO(STREAM), dialect="2019").problems())
    given: dict[str, Any] = {"nrep.extensions": True}
    assert list(wireloom.open_capture(io.BytesIO(extension), "nrep", **given).messages())
    bad = ("nosuch", 1), ("dialect", "x"), ("blaze.max_content", 5), ("max_frame", 0)
    for name, value in (*bad, ("max_content", 5)):
        with pytest.raises(OptionError):
            wireloom.open_capture(io.BytesIO(STREAM), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="exclude"):
        wireloom.open_capture(io.BytesIO(STREAM), "nrep", formats=["nrep"])
    with pytest.raises(UnknownProtocolError):
        wireloom.open_capture(io.BytesIO(STREAM), "nosuch")


def test_ports_say_what_is_spoken() -> None:
    made = Conversation("10.0.0.1:1234", "10.0.0.2:80")
    data = pcap([*made.open(), *made.send(HELLO)])
    (found,) = wireloom.open_capture(io.BytesIO(data), ports={80: "nrep"}).messages()
    assert (found.stream, found.is_raw) == ("tcp 10.0.0.1:1234 > 10.0.0.2:80 #1", False)
    assert found.ts_ns is not None
    assert not list(wireloom.open_capture(io.BytesIO(data), ports={80: "tibmsg"}).messages())
