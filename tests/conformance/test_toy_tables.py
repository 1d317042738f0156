"""Two formats of one folder and one line each have all that the others have in captures."""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from wireloom import kernel
from wireloom.arrow.arrays import strings
from wireloom.arrow.bodies import Bodies, BodyRows
from wireloom.arrow.frames import FrameBatch, Keys, Refused
from wireloom.arrow.types import schema_of
from wireloom.cli import main
from wireloom.columnar.framing import scan_frames
from wireloom.columnar.messages import MessageDecoder
from wireloom.columnar.packettables import PacketDecoder
from wireloom.columnar.split import scan_parallel
from wireloom.columns import Column, Columns, Table
from wireloom.errors import DecodeError, OptionError
from wireloom.format import Option
from wireloom.formats import REGISTRY, _load, get
from wireloom.framing import Frame, Problem, Record, scan
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.rows import field_row
from wireloom.tables import _packet_table, table
from wireloom.wire import DEFAULT_LIMITS

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(HERE))  # where the folders are
    monkeypatch.setitem(REGISTRY, "toy", "toy_format")  # the lines
    monkeypatch.setitem(REGISTRY, "note", "toy_note")
    yield
    _load.cache_clear()
    _packet_table.cache_clear()


@pytest.fixture(params=["compiled", "interpreted"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "interpreted":
        monkeypatch.setenv("WIRELOOM_KERNEL", "interpreted")
        return kernel.interpreted()
    if not kernel.is_compiled():
        pytest.skip("no compiled kernel here")
    return kernel.load()


def stream() -> bytes:
    from toy_format import Colour, Move, Say

    note = get("note").samples()["tea"]
    frames = [Say(text=b"hello").encode(), Move(x=300, colour=Colour.RED, speed=3).encode()]
    return b"".join([*frames, Say(text=note).encode(), Move(x=1, colour=7).encode()] * 5)


def damaged() -> bytes:
    data = stream()
    return b"\x00\x7e" + data[:40] + b"\x7e\x5a\x02junk" + data[40:] + data[:9]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_frames_are_those_of_the_object_path(either: Any, size: int) -> None:
    data = damaged()
    framer = get("toy").framer(limits=DEFAULT_LIMITS, strict=False)
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    batches = scan_frames("toy", chunks, kernel=either)
    assert [each for batch in batches for each in batch.records()] == list(scan(framer, data))


def test_a_file_is_split_with_the_same_records() -> None:
    data = damaged() * 20
    framer = get("toy").framer(limits=DEFAULT_LIMITS, strict=False)
    batches = scan_parallel("toy", data, workers=2, segment=500)
    assert [each for batch in batches for each in batch.records()] == list(scan(framer, data))


def test_packets_have_typed_columns(either: Any) -> None:
    assert {c.name: c.type for c in table("toy").columns[7:]} == {
        "type_code": "i32",
        "type_name": "name",
        "text": "binary",
        "x": "i64",
        "colour": "name",
        "speed": "name",
        "flags": "i32",
        "stamp": "text",
        "since": "i64",
        "until": "i64",
        "load": "binary",
        "tail": "binary",
        "field_source": "i32",
        "sum": "i64",
    }
    decoder = PacketDecoder("toy", kernel=either)
    rows = [
        row
        for batch in scan_frames("toy", stream(), kernel=either)
        for made in decoder.decode(batch)
        for row in made.rows.to_pylist()
    ]
    assert len(rows) == 20
    assert rows[1] | {"type_name": "MOVE", "x": 300, "colour": "RED", "speed": "3"} == rows[1]
    assert rows[3] | {"x": 1, "colour": "7", "text": None} == rows[3]


def test_what_only_a_packet_can_tell_is_asked_of_it(either: Any) -> None:
    mark = get("toy").samples()["mark"]
    size = len(mark)
    data = bytearray(mark * 3)
    data[size + 10] ^= 1  # the second says another place, which its sum does not fit
    starts, sizes = array("q", [0, size, 2 * size]), array("i", [size] * 3)
    batch = FrameBatch("toy", memoryview(data), 0, memoryview(starts), memoryview(sizes))
    [made] = PacketDecoder("toy", kernel=either).decode(batch, source="here")
    rows = made.rows.to_pylist()
    assert [(row["source"], row["field_source"]) for row in rows] == [("here", 200)] * 2
    assert [(each.index, each.error.path) for each in made.refused] == [(1, "sum")]


def test_a_message_without_a_walker_has_rows(either: Any) -> None:
    data = get("note").samples()["tea"]
    decoder = MessageDecoder(
        "note", tables=["messages", "fields", "wide"], columns=["cups:int"], kernel=either
    )
    found = dict([*decoder.feed(data, [0], [len(data)]), *decoder.flush()])
    assert found["messages"].to_pylist()[0]["format"] == "note"
    assert found["wide"].to_pylist()[0]["cups"] == -3
    rows = found["fields"].to_pylist()
    assert [(row["name"], row["type"]) for row in rows] == [
        ("what", "words"),
        ("cups", "number"),
        ("leaf", "blob"),
    ]
    assert [rows[0]["value_text"], rows[1]["value_int"], rows[2]["value_binary"]] == [
        "tea",
        -3,
        b"\x00\x01",
    ]


def test_a_group_of_fields_is_a_message_where_its_format_lists_no_such_type() -> None:
    def row(**item: Any) -> dict[str, Any]:
        return field_row(SimpleNamespace(name="leg", **item), get("note").columns())

    group = {"value": None, "fields": (SimpleNamespace(name="a", value=1),)}
    for found in (row(**group), row(type="g", **group)):
        assert (found["type"], found["is_blank"]) == ("message", False)
    assert row(type=SimpleNamespace(name="BLOB"), **group)["type"] == "blob"
    assert (row(type="g", value=None)["type"], row(value=2)["type"]) == ("string", "int")


def write_pcap(path: Path, data: bytes) -> None:
    """The stream as UDP datagrams of one packet each, in a pcap file."""
    import struct

    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    framer = get("toy").framer(limits=DEFAULT_LIMITS, strict=False)
    for record in scan(framer, data):
        udp = struct.pack(">HHHH", 4000, 6543, 8 + record.length, 0) + record.data
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2"
        )
        packet = ip + udp
        parts.append(struct.pack("<IIII", 1, 0, len(packet), len(packet)) + packet)
    path.write_bytes(b"".join(parts))


@pytest.mark.parametrize("options", [{}, {"ports": {6543: "toy"}}, {"formats": ("toy",)}])
@pytest.mark.parametrize("name", ["toy.bin", "toy.pcap"])
def test_a_capture_has_all_tables(
    name: str, options: dict[str, Any], tmp_path: Path, either: Any
) -> None:
    from wireloom.tabulate import Settings, tabulate

    path = tmp_path / name
    path.write_bytes(stream())
    if name.endswith("pcap"):
        write_pcap(path, stream())
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for table_name, batch in tabulate([str(path)], Settings(**options)):
        tables[table_name] += batch.to_pylist()
    assert len(tables["frames"]) == len(tables["toy"]) == 20
    assert {row["format"] for row in tables["frames"]} == {"toy"}
    assert [row["path"] for row in tables["messages"]] == ["text"] * 5
    assert len(tables["fields"]) == 15
    assert not tables["errors"]
    assert all(row["captured"] == row["decoded"] for row in tables["accounting"])
    assert sum(row["captured"] for row in tables["accounting"]) == len(stream())


def test_problems_are_rows_of_errors(tmp_path: Path) -> None:
    from wireloom.tabulate import Settings, tabulate

    path = tmp_path / "toy.bin"
    path.write_bytes(damaged())
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, batch in tabulate([str(path)], Settings(formats=("toy",))):
        tables[name] += batch.to_pylist()
    framer = get("toy").framer(limits=DEFAULT_LIMITS, strict=False)
    problems = [each for each in scan(framer, damaged()) if isinstance(each, Problem)]
    assert [row["frame_offset"] for row in tables["errors"] if row["layer"] == "frame"] == [
        each.offset for each in problems
    ]
    [account] = tables["accounting"]
    assert account["captured"] == len(damaged()) == account["decoded"] + account["quarantined"]


def write_pcapng(path: Path, data: bytes) -> None:
    """The stream in both directions of a TCP connection."""
    from wireloom.generate.traffic.containers import pcapng
    from wireloom.generate.traffic.conversation import Conversation

    talk = Conversation("10.0.0.1:4000", "10.0.0.2:6543", mss=50)
    packets = [*talk.open(), *talk.send(data), *talk.answer(data), *talk.close()]
    path.write_bytes(pcapng(packets, link_type=talk.link_type))


@pytest.mark.parametrize("options", [[], ["--ports", "6543=toy"], ["--format", "toy"]])
@pytest.mark.parametrize("name", ["toy.bin", "toy.pcap", "toy.pcapng"])
def test_the_commands_read_a_capture(name: str, options: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(stream())
    if name != "toy.bin":
        (write_pcap if name == "toy.pcap" else write_pcapng)(path, stream())
    count = 40 if name == "toy.pcapng" else 20
    run = CliRunner().invoke
    decoded = run(main, ["decode", str(path), "--json", *options])
    assert decoded.exit_code == 0, decoded.output
    rows = [json.loads(line) for line in decoded.stdout.splitlines()]
    assert [row["format"] for row in rows] == ["toy"] * count
    assert rows[1]["colour"] == "RED"
    stat = run(main, ["stat", str(path), "--json", *options])
    assert stat.exit_code == 0, stat.output
    total = json.loads(stat.stdout)["accounting"]["total"]
    assert (total["frames"], total["decoded"]) == (count, count // 20 * len(stream()))
    wanted = "frames,toy,messages,fields,errors,accounting"
    out = tmp_path / "tables"
    made = run(main, ["decode", str(path), "--tables", wanted, "-o", f"{out}/", *options])
    assert made.exit_code == 0, made.output
    counts = {each.stem: pq.read_metadata(each).num_rows for each in out.rglob("*.parquet")}
    assert counts["frames"] == counts["toy"] == count
    assert (counts["messages"], counts["fields"]) == (count // 4, 3 * count // 4)


@pytest.mark.parametrize("options", [{}, {"ports": {6543: "toy"}}])
def test_tcp_in_pcapng_goes_through_the_pipeline_into_a_lake(
    options: dict[str, Any], tmp_path: Path
) -> None:
    from wireloom.lake import Lake, read, totals
    from wireloom.pipeline import run_pipeline
    from wireloom.tabulate import Settings

    path = tmp_path / "toy.pcapng"
    write_pcapng(path, stream())
    run_pipeline(path, tmp_path / "lake", Settings(**options))
    lake = Lake(tmp_path / "lake")
    assert [read(lake, name).num_rows for name in ("toy", "messages", "fields")] == [40, 10, 30]
    assert totals(lake) == {
        "captured": 2 * len(stream()),
        "decoded": 2 * len(stream()),
        "quarantined": 0,
        "gap": 0,
        "duplicate": 0,
        "left_out": 0,
        "missing": 0,
        "frames": 40,
    }


def test_rows_are_those_of_the_object_path(either: Any) -> None:
    toy = get("toy")
    frames = [data for data in toy.samples().values() for _ in range(3)]
    decoder = PacketDecoder("toy", kernel=either)
    found = [
        row
        for batch in scan_frames("toy", b"".join(frames), kernel=either)
        for made in decoder.decode(batch)
        for row in made.rows.to_pylist()
    ]
    own = [column.name for column in table("toy").columns[7:]]
    wanted = [
        toy.columns().row(toy.decode(each, limits=DEFAULT_LIMITS, strict=False)) for each in frames
    ]
    for row in wanted:
        if isinstance(row.get("speed"), int):
            row["speed"] = str(row["speed"])  # MARK has names there
    assert [[row[name] for name in own] for row in found] == [
        [row.get(name) for name in own] for row in wanted
    ]


# --- a transport that declares no packets, with a framer of its own -------------------------------


@dataclass(frozen=True)
class Line(Message):
    """What stands between two line feeds: a number of one digit and a text."""

    format: ClassVar[str] = "toy"
    digit: int
    text: bytes

    @property
    def type_name(self) -> str:
        return "LINE"

    def encode(self) -> bytes:
        return b"%d%s\n" % (self.digit, self.text)

    def to_dict(self) -> Json:
        return {"format": "toy", "digit": self.digit, "text": self.text.hex()}

    def outline(self) -> Node:
        return Node("LINE", 0, len(self.text) + 2)

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        yield "text", self.text


class LineFramer:
    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.data = b""

    def feed(self, data: Any) -> list[Record]:
        *lines, self.data = (self.data + bytes(data)).split(b"\n")
        return [self.record(line + b"\n") for line in lines]

    def close(self) -> list[Record]:
        return [self.record(self.data)] if self.data else []

    def record(self, line: bytes) -> Record:
        start, self.offset = self.offset, self.offset + len(line)
        if line[:1].isdigit() and line.endswith(b"\n"):
            return Frame("toy", start, line)
        return Problem("toy", start, line, "line", "no line", at=start)


class LineColumns(Columns):
    extra = (Column("digit", "i32", "the number"), Column("text", "binary", "what it carries"))


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    toy, columns = type(get("toy")), LineColumns()

    def decode(self: Any, data: bytes, **_: Any) -> Message:
        line = data[: data.index(b"\n") + 1]
        if line[0] == ord("9"):
            raise DecodeError("no such number", offset=0, code="nine")
        return Line(int(line[:1]), line[1:-1])

    monkeypatch.setattr(toy, "packets", lambda self: ())
    monkeypatch.setattr(toy, "columns", lambda self: columns)
    monkeypatch.setattr(toy, "decode", decode)
    monkeypatch.setattr(toy, "framer", lambda self, offset=0, **_: LineFramer(offset))
    monkeypatch.setattr(toy, "magic", b"")
    _packet_table.cache_clear()
    note = get("note").samples()["tea"]
    yield b"1one\n2" + note + b"\nbad\n9nine\n3"
    _packet_table.cache_clear()


def test_a_transport_without_packets_has_its_table(
    lines: bytes, tmp_path: Path, either: Any
) -> None:
    from wireloom.tabulate import Settings, tabulate

    path = tmp_path / "toy.bin"
    path.write_bytes(lines)
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, batch in tabulate([str(path)], Settings(formats=("toy",))):
        tables[name] += batch.to_pylist()
    rows = [(row["type_name"], row["digit"], row["text"]) for row in tables["toy"]]
    assert rows == [("LINE", 1, b"one"), ("LINE", 2, get("note").samples()["tea"])]
    assert [row["path"] for row in tables["messages"]] == ["text"]
    assert [row["code"] for row in tables["errors"]] == ["line", "nine", "line"]
    [account] = tables["accounting"]
    assert account["captured"] == len(lines) == account["decoded"] + account["quarantined"]


def test_problems_of_any_framer_are_where_the_stream_says(lines: bytes, either: Any) -> None:
    want = list(scan(LineFramer(5 << 32), lines))
    for size in (3, 1000):
        chunks = [lines[at : at + size] for at in range(0, len(lines), size)]
        batches = scan_frames("toy", chunks, offset=5 << 32, kernel=either)
        assert [each for batch in batches for each in batch.records()] == want


# --- detection ------------------------------------------------------------------------------------


def test_without_a_magic_frames_between_sure_ones_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What carries messages proves little by itself, and they must not be taken for the stream."""
    from wireloom.tabulate import tabulate

    toy = type(get("toy"))
    monkeypatch.setattr(toy, "magic", b"")
    monkeypatch.setattr(
        toy, "detect", lambda self, data: {1: 60, 2: 95}.get(data[2], 0) if len(data) > 7 else 0
    )
    from toy_format import Move, Say

    note = get("note").samples()["tea"]
    path = tmp_path / "toy.bin"
    path.write_bytes(b"".join([Move(x=1, colour=1).encode(), Say(text=note).encode()] * 50)[3:])
    accounts = [
        row for name, batch in tabulate(path) if name == "accounting" for row in batch.to_pylist()
    ]
    assert [(row["format"], row["quarantined"]) for row in accounts] == [("toy", 5)]


# --- an option of its own -------------------------------------------------------------------------


def names_of(tables: Any) -> list[str]:
    return [row["name"] for name, batch in tables if name == "fields" for row in batch.to_pylist()]


def test_its_options_are_those_of_tables(tmp_path: Path, either: Any) -> None:
    from wireloom.tabulate import Settings, tabulate

    path = tmp_path / "toy.bin"
    path.write_bytes(stream())
    assert names_of(tabulate(path, shout=True))[:3] == ["WHAT", "CUPS", "LEAF"]
    for settings in (
        Settings(options={"note.skip": ("what", "cups")}),
        Settings(options={"skip": "what, cups"}),
        Settings.from_options({"note.skip": "what,cups"}),
        Settings.from_options({"skip": "what,cups", "note.shout": "false"}),
    ):
        assert settings.options["note.skip"] == ("what", "cups")
        assert names_of(tabulate(path, settings)) == ["leaf"] * 5
    with pytest.raises(OptionError, match=r"there is no option 'toy\.skip'"):
        Settings.from_options({"toy.skip": "what"})
    with pytest.raises(OptionError, match="shout must be true or false"):
        Settings.from_options({"note.shout": "perhaps"})


@pytest.mark.parametrize(
    "options",
    [
        ["--shout", "--skip", "what,cups"],
        ["--shout", "--skip=what", "--skip", "cups"],
        ["-O", "shout=true", "-O", "skip=what,cups"],
        ["-O", "note.shout=yes", "-O", "note.skip=what,cups"],
    ],
)
@pytest.mark.parametrize("name", ["toy.bin", "toy.pcap"])
def test_its_options_are_those_of_the_commands(
    name: str, options: list[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(stream())
    if name.endswith("pcap"):
        write_pcap(path, stream())
    run = CliRunner().invoke
    made = run(main, ["decode", str(path), "--tables", "fields", "--json", *options])
    assert made.exit_code == 0, made.output
    assert [json.loads(line)["name"] for line in made.stdout.splitlines()] == ["LEAF"] * 5
    decoded = run(main, ["decode", str(path), "--nested", "--json", *options])
    assert decoded.exit_code == 0, decoded.output
    rows = [json.loads(line) for line in decoded.stdout.splitlines()]
    notes = [row for row in rows if row["format"] == "note"]
    assert [[field["name"] for field in row["fields"]] for row in notes] == [["LEAF"]] * 5
    lake = str(tmp_path / "lake")
    piped = run(main, ["pipeline", str(path), "--out", lake, "--master", "none", "-q", *options])
    assert piped.exit_code == 0, piped.output
    from wireloom.lake import Lake, read

    assert read(Lake(lake), "fields")["name"].to_pylist() == ["LEAF"] * 5


def test_formats_lists_its_options() -> None:
    shown = CliRunner().invoke(main, ["formats", "note", "--json"])
    options = {each["name"]: each for each in json.loads(shown.stdout)["options"]}
    assert options["skip"]["type"] == "list"
    assert options["shout"]["type"] == "flag"


def test_inspect_shows_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "toy.bin"
    path.write_bytes(get("toy").samples()["move"])
    shown = CliRunner().invoke(main, ["inspect", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "colour" in shown.output


def test_the_page_of_tables_has_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE.parent.parent / "docs"))
    import generate  # type: ignore[import-not-found]

    page = generate.tables_page()
    assert "to the right" in page
    assert "`until`" in page


# --- bodies ---------------------------------------------------------------------------------------


class Said(Bodies):
    """Reads what is said as words, each of which is a field."""

    def __init__(self, table: Table, least: int) -> None:
        self._table = table
        self._least = least

    def read(
        self,
        batch: FrameBatch,
        words: memoryview,
        keys: Keys,
        *,
        passed_over: Iterable[int] = (),
        texts: bool = False,
        payloads: bool = False,
    ) -> Iterator[BodyRows]:
        rows: list[dict[str, Any]] = []
        refused: list[Refused] = []
        said: list[str | None] = [None] * batch.count
        for index in range(batch.count):
            raw = batch.frame(index)
            if raw[2] != 1 or raw[5:].startswith(b"\xf0NOT"):
                continue
            found = raw[5:].decode().split()
            if any(len(word) < self._least for word in found):
                error = DecodeError("a word is short", offset=5, path="text", code="short")
                refused.append(Refused(index, keys.offset(index, batch), raw, error))
                continue
            said[index] = "|".join(found)
            key = keys.row(index, batch) | {"path": "text", "is_blank": False}
            for position, word in enumerate(found):
                value = {"position": position, "type": "string", "value_text": word}
                rows.append(key | value | {"size": len(word)})
        made = pa.RecordBatch.from_pylist(rows, schema_of(self._table))
        yield BodyRows(made, refused, strings(said) if texts else None, [] if payloads else None)


class SaidColumns(Columns):
    """How the toy becomes columns when somebody wants its words."""

    payload = "text"
    extra = (Column("said", "text", "the words"),)
    body = "said"
    body_options = ("least",)

    def bodies(self, options: Mapping[str, Any], *, table: Table, **_: Any) -> Bodies | None:
        return Said(table, options["least"]) if "least" in options else None


def test_a_format_may_have_bodies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, either: Any
) -> None:
    from wireloom.tabulate import tabulate

    toy = type(get("toy"))
    columns = SaidColumns()
    monkeypatch.setattr(toy, "columns", lambda self: columns)
    monkeypatch.setattr(toy, "options", (Option("least", "letters of a word", default=1),))
    _packet_table.cache_clear()
    from toy_format import Say

    path = tmp_path / "toy.bin"
    path.write_bytes(b"".join(Say(text=text).encode() for text in (b"good day", b"a b", b"bye")))
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, batch in tabulate(path, least=3):
        tables[name] += batch.to_pylist()
    assert [row["said"] for row in tables["toy"]] == ["good|day", None, "bye"]
    assert [(row["path"], row["value_text"]) for row in tables["fields"]] == [
        ("text", "good"),
        ("text", "day"),
        ("text", "bye"),
    ]
    [error] = tables["errors"]
    assert error | {"layer": "message", "format": "toy", "code": "short", "path": "text"} == error
    tables.clear()
    for name, batch in tabulate(path):
        tables[name] += batch.to_pylist()
    assert [row["said"] for row in tables["toy"]] == [None] * 3
    assert not tables["fields"]
