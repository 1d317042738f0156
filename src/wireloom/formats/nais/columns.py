"""NAIS in columns: the scanner of frames and text, one form of packet, the message in it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wireloom.columns import Column, Columns, Enums, ExtraReaders, Shape
from wireloom.errors import DecodeError
from wireloom.formats.nais.options import rules_from, types_from
from wireloom.formats.nais.packets import PARTS, NaisPacket
from wireloom.formats.nais.rules import LineRules, Refusal
from wireloom.formats.nais.schema import Reading
from wireloom.formats.nais.stream import _REASONS
from wireloom.kernel.frames import naisscan
from wireloom.layout import Packet, Varint
from wireloom.messages import Message
from wireloom.wire import Limits

__all__ = ["COLUMNS", "NaisColumns"]

_MAX_LENGTH = (1 << 31) - 1
_TYPE_AT = 1
"""Offset of the TYPE in a frame."""
_LINE_REASONS = {
    naisscan.BAD_END: ("bad_end", "sync_end"),
    naisscan.CUT_LINE: ("truncated", ""),
}
_MESSAGE_COLUMNS: Mapping[str, Callable[[Reading], str | None]] = {
    "message_name": lambda reading: reading.name,
    "message": lambda reading: None if reading.value is None else json.dumps(reading.value),
    "message_error": lambda reading: reading.error or None,
}


class NaisColumns(Columns):
    """How NAIS becomes columns."""

    payload = "payload"
    payloads_in_messages = True
    extra = (
        Column("message_name", "name", "full name of the message in the payload"),
        Column("message", "text", "that message in protobuf's JSON form"),
        Column("message_error", "text", "why the payload could not be read; null if it could"),
    )
    least_frame = 4

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """The kernel's scanner of frames and text."""
        rules = framer._rules
        most = min(framer._max_text, _MAX_LENGTH)
        return kernel.NaisScan(
            rules.max_payload, rules.max_len_bytes, rules.strict_rsv, rules.max_frame, most
        )

    def is_fresh(self, scan: Any) -> bool:
        """Whether the scanner is past the extent of what looked like a frame."""
        return bool(scan.junk_end <= scan.pos)

    def why(self, framer: Any, data: memoryview, kind: int, pos: int) -> DecodeError | None:
        """The reason that `wireloom.formats.nais.stream.StreamDecoder` gives."""
        if kind == naisscan.JUNK:
            return DecodeError("part of what looked like a frame", offset=pos, code="junk")
        rules: LineRules = framer._rules
        head = bytes(data[pos : pos + self.max_header])
        size = rules.measure(head, 0, len(head))
        if isinstance(size, Refusal):
            size.error.shifted(pos)
            return size.error
        code, path = _LINE_REASONS[kind]
        at = len(data) if kind == naisscan.CUT_LINE or size is None else pos + size - 1
        return DecodeError(_REASONS[code], offset=at, path=path, code=code)

    def is_line(self, kind: int) -> bool | None:
        """Text, or a whole line of it."""
        return {naisscan.TEXT: False, naisscan.TEXT_LINE: True}.get(kind)

    def shapes(
        self, packets: Sequence[type[Packet]], limits: Limits, strict: bool, options: Any
    ) -> tuple[list[Shape], Enums]:
        """One form for every type, with their names."""
        most = rules_from(limits, strict, options).max_len_bytes
        types = types_from(options)
        parts = tuple(
            dataclasses.replace(part, max_bytes=most) if isinstance(part, Varint) else part
            for part in PARTS
        )
        names = {code: NaisPacket(type=code, types=types).type_name for code in range(256)}
        return [Shape(NaisPacket, 0, parts, (0,), NaisPacket.name, "type", names)], {}

    def row(self, packet: Message) -> dict[str, Any]:
        """The values of a packet's own columns, and of those of its message."""
        assert isinstance(packet, NaisPacket)
        own = {name: read(packet.reading) for name, read in _MESSAGE_COLUMNS.items()}
        return super().row(packet) | own

    def extra_readers(self, options: Mapping[str, Any]) -> ExtraReaders | None:
        """What reads the message in a payload."""
        read = types_from(options).read
        return (
            lambda data, frame, payload: read(data[frame + _TYPE_AT], payload)
        ), _MESSAGE_COLUMNS


COLUMNS = NaisColumns()
