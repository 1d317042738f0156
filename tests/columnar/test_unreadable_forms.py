"""Forms that the word kernel cannot read have the rows that the object path gives them."""

from __future__ import annotations

import importlib
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from wireloom import kernel
from wireloom.columnar.framing import scan_frames
from wireloom.columnar.packettables import PacketDecoder
from wireloom.formats import REGISTRY, _load
from wireloom.tables import table

SOURCE = '''
from enum import IntEnum
from wireloom.errors import DecodeError, EncodeError, TruncatedError
from wireloom.format import Format, TypeInfo
from wireloom.framing import Scanner
from wireloom.layout import Packet, Rest, Word, describe, packet

ORDER, MAGIC, CODE_SIZE = {order!r}, {magic!r}, {code_size}
HEADER = (
    *((Word("magic", size=8, const=int.from_bytes(MAGIC, "big")),) if MAGIC else ()),
    Word("type", size=CODE_SIZE, order=ORDER, derived="code"),
    Word("length", size=4, order=ORDER, derived="frame"),
)
AT = len(MAGIC)
SIZE = AT + CODE_SIZE + 4


class Place(IntEnum):
    HERE = 1
    FAR = 70000


class WidePacket(Packet):
    __slots__ = ()
    format = "wide64"


@packet(code=1, name="COUNT", parts=(
    *HEADER, Word("count", size=8, order=ORDER), Word("place", size=4, order=ORDER, enum=Place)))
class Count(WidePacket):
    """Counts."""

    count: int
    place: Place | int


@packet(code=2, name="TEXT", parts=(
    *HEADER, Word("place", size=2, order=ORDER, enum=Place), Rest("text")))
class Text(WidePacket):
    """Tells."""

    place: Place | int
    text: bytes = b""


PACKETS = {{cls.code: cls for cls in (Count, Text)}}


class Rules:
    has_magic = bool(MAGIC)

    def measure(self, data, pos, end):
        if data[pos : min(pos + AT, end)] != MAGIC[: end - pos]:
            raise DecodeError("no magic", offset=pos, code="magic")
        if end - pos < SIZE:
            raise TruncatedError(needed=SIZE, available=end - pos, offset=pos)
        code = int.from_bytes(data[pos + AT : pos + AT + CODE_SIZE], ORDER)
        size = int.from_bytes(data[pos + SIZE - 4 : pos + SIZE], ORDER)
        if code not in PACKETS or not SIZE <= size < 1000:
            raise DecodeError("no such packet", offset=pos, code="type")
        return size

    def check(self, data, pos, end, steps):
        code = int.from_bytes(data[pos + AT : pos + AT + CODE_SIZE], ORDER)
        PACKETS[code].codec.decode(bytes(data), pos, end)
        return True

    def find(self, data, pos, end):
        for at in range(pos, end):
            try:
                self.measure(data, at, end)
            except TruncatedError:
                return at
            except DecodeError:
                continue
            return at
        return end


class Wide(Format):
    name = "wide64"
    title = "Wide"
    kind = "transport"
    summary = "Made up."
    magic = MAGIC

    def decode(self, data, *, limits, strict, **options):
        size = Rules().measure(data, 0, len(data))
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        code = int.from_bytes(data[AT : AT + CODE_SIZE], ORDER)
        return PACKETS[code].codec.decode(data, 0, size, strict)

    def framer(self, *, limits, strict, offset=0, **options):
        return Scanner(self.name, Rules(), limits, offset)

    def detect(self, data):
        return 90 if MAGIC and data.startswith(MAGIC) else 0

    def from_dict(self, d):
        raise EncodeError("not needed here")

    def outline(self, data, *, limits, strict, **options):
        return Count.codec.outline(data, 0, len(data))

    def types(self):
        return [TypeInfo(c.code, c.name, c.__doc__, describe(c)) for c in PACKETS.values()]

    def packets(self):
        return tuple(PACKETS.values())

    def samples(self):
        return {{"count": Count(count=1, place=1).encode()}}


FORMAT = Wide()
'''


@pytest.fixture(params=["compiled", "interpreted"])
def either(request: pytest.FixtureRequest) -> Any:
    if request.param == "interpreted":
        return kernel.interpreted()
    if not kernel.is_compiled():
        pytest.skip("no compiled kernel here")
    return kernel.load()


@pytest.mark.parametrize("code_size", [1, 4])
@pytest.mark.parametrize("magic", [b"", b"\xffWIDE64\xfe"], ids=["no magic", "magic"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_a_64_bit_number_and_large_tables_of_names(
    order: str,
    magic: bytes,
    code_size: int,
    either: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = f"wide64_{order}_{len(magic)}_{code_size}"
    source = SOURCE.format(order=order, magic=magic, code_size=code_size)
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(REGISTRY, "wide64", module)
    _load.cache_clear()
    try:
        made = importlib.import_module(module)
        packets = [
            made.Count(count=(1 << 64) - 1, place=made.Place.FAR),
            made.Text(place=made.Place.HERE, text=b"tea"),
            made.Count(count=7, place=3),
            made.Text(place=9),
        ]
        assert table("wide64")["count"].type == "decimal"
        decoder = PacketDecoder("wide64", kernel=either)
        data = b"".join(each.encode() for each in packets)
        rows: list[dict[str, Any]] = []
        for batch in scan_frames("wide64", data, kernel=either):
            for found in decoder.decode(batch):
                assert not found.refused
                rows += found.rows.to_pylist()
    finally:
        _load.cache_clear()
        sys.modules.pop(module, None)
    columns = ("type_code", "type_name", "count", "place", "text")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (1, "COUNT", Decimal((1 << 64) - 1), "FAR", None),
        (2, "TEXT", None, "HERE", b"tea"),
        (1, "COUNT", Decimal(7), "3", None),
        (2, "TEXT", None, "9", b""),
    ]
    assert rows[1]["frame_offset"] == len(packets[0].encode())
