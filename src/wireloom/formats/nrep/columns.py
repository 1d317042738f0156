"""NREP in columns: a table of content lengths for the kernel's scanner, packets of extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wireloom.columns import Columns, Enums, Shape, declared_shapes, numbers
from wireloom.formats.nrep.packets import FIRST_EXTENSION, Discover, Unknown
from wireloom.formats.nrep.rules import _EXTENTS
from wireloom.kernel.frames import framerules
from wireloom.layout import Packet
from wireloom.messages import Message
from wireloom.wire import Limits

__all__ = ["COLUMNS", "NrepColumns"]


class NrepColumns(Columns):
    """How NREP becomes columns."""

    payload = "data"
    least_frame = 4

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """How long the content of each type is, by its own fields; the longest frame."""
        rules = framer._rules
        row = framerules.NREP_ROW
        table = numbers(row * 256)
        for code, extent in _EXTENTS.items():
            place = 0
            if extent.times:
                place = extent.number.start << 4 | (extent.number.stop - extent.number.start)
            values = (1, extent.fixed, extent.times, place, extent.mask, extent.flags, extent.extra)
            for i, value in enumerate(values):
                table[row * code + i] = value
        if rules.extensions:
            for code in range(FIRST_EXTENSION, 256):
                table[row * code] = 2
        made = (framerules.FORMAT_NREP, table, rules.max_frame)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, False))

    def shapes(
        self, packets: Sequence[type[Packet]], limits: Limits, strict: bool, options: Any
    ) -> tuple[list[Shape], Enums]:
        """The declared forms, and one for packets of extensions."""
        shapes = declared_shapes(packets)
        if options.get("extensions"):
            # A header, and content that is not known: treated as a packet without fields.
            parts = Discover.codec.forms[min(Discover.codec.forms)]
            codes = range(FIRST_EXTENSION, 256)
            shapes.append(Shape(Discover, 0, parts, codes, Unknown.name, type_field="type"))
        return shapes, {}

    def row(self, packet: Message) -> dict[str, Any]:
        """The values of a packet's own columns; of an extension's packet those of its header."""
        if not isinstance(packet, Unknown):
            return super().row(packet)
        return {
            "type_code": packet.code,
            "type_name": packet.name,
            "nonce": packet.nonce,
            "trailing": packet.content,
        }


COLUMNS = NrepColumns()
