"""Bytes → frames for NREP: what `wireloom.framing.Scanner` must know about its packets."""

from __future__ import annotations

import re
import struct
from typing import cast

from wireloom.errors import DecodeError, FrameTooLargeError, InvalidFieldError, TruncatedError
from wireloom.formats.nrep.packets import FIRST_EXTENSION, HEADER_LEN, PACKETS
from wireloom.layout import Blob, Items, PacketCodec, When, Word

__all__ = ["DEFAULT_MAX_CONTENT", "LEAST_MAX_CONTENT", "Rules"]

DEFAULT_MAX_CONTENT = 1 << 20
"""Bytes of content that are accepted by default. The wire allows 4 GiB, but a sender has no reason
to exceed 64 KiB per packet, and a reader must not reserve memory on a stranger's word."""

LEAST_MAX_CONTENT = 81_934
"""The limit cannot be set lower: existing port forwarders send up to 14 + 81,920 bytes, the size of
their copy buffer."""

_SIZE = struct.Struct("<I")

# A lone zero byte at the end may become a header.
_PLAIN = re.compile(rb"\x00(?:[\x01-\x0a]|\Z)")
_EXTENDED = re.compile(rb"\x00(?:[\x01-\x0a\x40-\xff]|\Z)")


class Rules:
    """Measures, checks and finds NREP frames (see `wireloom.framing.FrameRules`)."""

    # A zero and a small number start a header, and few packets have a length inside: the end of one
    # packet and the header of the next easily look like a third.
    has_magic = False

    def __init__(self, max_frame: int, extensions: bool = False) -> None:
        self.max_frame = max_frame
        self.extensions = extensions
        self._candidate = _EXTENDED if extensions else _PLAIN

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the frame whose header starts at `pos`.

        Raises:
            TruncatedError: the header is not complete (code ``short_header``).
            DecodeError: it is not a header (codes ``reserved``, ``type``, ``too_large``).
        """
        left = end - pos
        if left > 0 and data[pos]:
            raise InvalidFieldError(
                "the reserved byte is not zero", offset=pos, path="reserved", code="reserved"
            )
        if left > 1 and not self._is_type(data[pos + 1]):
            raise InvalidFieldError(
                f"there is no packet type {data[pos + 1]:#04x}",
                offset=pos + 1,
                path="type",
                code="type",
            )
        if left < HEADER_LEN:
            raise TruncatedError(needed=HEADER_LEN, available=left, offset=pos, code="short_header")
        size: int = HEADER_LEN + _SIZE.unpack_from(data, pos + 6)[0]
        if size > self.max_frame:
            raise FrameTooLargeError(size, self.max_frame, offset=pos + 6, path="content_size")
        return size

    def _is_type(self, code: int) -> bool:
        return code in PACKETS or (self.extensions and code >= FIRST_EXTENSION)

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the inner lengths account for every byte of the content.

        Trailing content says nothing, unless it is a whole packet: then the size was damaged, and
        that packet would be lost. Unknown types say nothing either, nor does an empty packet in a
        damaged region (`steps` is given there): four zero bytes are too common to prove a header.

        Raises:
            DecodeError: the content is shorter than its fields, or runs over the next packet.
        """
        extent = _EXTENTS.get(data[pos + 1])
        if extent is None:
            return False
        content = end - pos - HEADER_LEN
        size = extent.size(data, pos + HEADER_LEN, end)
        if size > content:
            # Raises, and knows the field and the offset. Nothing is copied before that.
            return extent.codec.decode(cast("bytes", data), pos, end) is None
        if size == content:
            return size > 0 or steps is None
        if self._is_packet(data, pos + HEADER_LEN + size, end):
            reason = "the content runs over the next packet"
            raise InvalidFieldError(reason, offset=pos + 6, path="content_size", code="length")
        return False

    def agrees(self, data: bytes | bytearray, pos: int, end: int) -> bool:
        """Whether a packet that the end cuts off has the size that its first fields require."""
        at = pos + HEADER_LEN
        extent = _EXTENTS.get(data[pos + 1]) if end > at else None
        if extent is None or end - at < extent.fixed:
            return False
        size: int = _SIZE.unpack_from(data, pos + 6)[0]
        return extent.size(data, at, end) == size

    def _is_packet(self, data: bytes | bytearray, at: int, end: int) -> bool:
        """Whether trailing content starts with a packet whose fields fill it."""
        try:
            stop = at + self.measure(data, at, end)
        except DecodeError:
            return False
        extent = _EXTENTS.get(data[at + 1])
        at += HEADER_LEN
        return extent is not None and at < stop <= end and extent.size(data, at, stop) == stop - at

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The first position in ``[pos, end)`` where a header might start; `end` if none."""
        found = self._candidate.search(data, pos, end)
        return found.start() if found else end


class _Extent:
    """How long a packet's declared content is, derived from its parts without decoding it."""

    def __init__(self, codec: PacketCodec) -> None:
        self.codec = codec
        self.fixed = -HEADER_LEN
        """Bytes that are always there."""
        self.times = 0
        """Bytes per unit of the count at `number`; 0 if there is no such count."""
        self.number = slice(0)
        self.mask = 0
        """Bits of the byte at `flags` that add `extra` bytes."""
        self.flags = self.extra = 0
        places: dict[str, slice] = {}
        for part in codec.forms[min(codec.forms)]:
            match part:
                case Word():
                    places[part.name] = slice(self.fixed, self.fixed + part.size)
                    self.fixed += part.size
                case Items():
                    self.times, self.number = part.size, places[part.count]
                case Blob(length=str() as length):
                    self.times, self.number = 1, places[length]
                case Blob(length=int() as length, when=None):
                    self.fixed += length
                case Blob(length=int() as length, when=When() as when):
                    self.mask, self.flags, self.extra = when.mask, places[when.field].start, length

    def size(self, data: bytes | bytearray, at: int, end: int) -> int:
        """Bytes of content that the fields of ``data[at:end]`` need."""
        if end - at < self.fixed:
            return self.fixed
        size = self.fixed
        if self.times:
            number = data[at + self.number.start : at + self.number.stop]
            size += self.times * int.from_bytes(number, "little")
        if self.mask and data[at + self.flags] & self.mask:
            size += self.extra
        return size


_EXTENTS = {code: _Extent(cls.codec) for code, cls in PACKETS.items()}
