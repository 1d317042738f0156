"""nclass bodies ↔ fields of scalars and texts: what `wireloom.formats.blaze.body` does, faster.

What is unusual, wrong or nested is left to that module, which has the same bytes or values.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.primitives import (
    bytes_at,
    copy_bytes,
    le16,
    le32,
    low_bytes,
    new_bytes,
    new_bytes_at,
    put_low,
)

__all__ = ["FlatClass"]

FLAT_OTHER = cython.declare(cython.int, 0)
"""Objects, arrays, and what only some bytes are legal for."""
FLAT_TEXT = cython.declare(cython.int, 1)
FLAT_UNSIGNED = cython.declare(cython.int, 2)
FLAT_SCALAR = cython.declare(cython.int, 3)
"""Read and written by functions of Python."""

_MOST_FIELD_BYTES = cython.declare(cython.longlong, 0x7FFFFFFF)


@cython.final
@cython.cclass
class FlatClass:
    """Reads and writes the objects of one class."""

    def __init__(
        self,
        names: tuple,
        kinds: memoryview,
        sizes: memoryview,
        reads: tuple,
        packs: tuple,
        first: int,
    ) -> None:
        """A class.

        Args:
            names: of its fields.
            kinds: of each field, see above.
            sizes: bytes of each scalar, the most bytes of each text.
            reads: functions of bytes and an offset, which give a scalar.
            packs: functions of a scalar, which give its bytes.
            first: INDEX of the first field.
        """
        if first + len(names) > 0x10000:
            raise OverflowError("an INDEX has 16 bits")
        self.names = names
        self.kinds = kinds
        self.sizes = sizes
        self.reads = reads
        self.packs = packs
        self.first = first

    def read(self, body: bytes, has_zeros: cython.bint) -> object:
        """The fields in a body, by name; None when it is not as a writer would make it.

        Args:
            body: LEN and fields.
            has_zeros: whether zeros are written.
        """
        end: cython.Py_ssize_t = len(body)
        pos: cython.Py_ssize_t = 4
        stop: cython.Py_ssize_t
        size: cython.longlong
        place: cython.Py_ssize_t
        next_place: cython.Py_ssize_t = 0
        bits: cython.ulonglong
        kind: cython.int
        start = bytes_at(body)
        count: cython.Py_ssize_t = len(self.kinds)
        if end < 4 or le32(start, 0, end) != end - 4:
            return None
        items: dict = {}
        while pos < end:
            if end - pos < 3:
                return None
            place = le16(start, pos, end)
            place -= self.first
            if place < next_place or place >= count:
                return None
            next_place = place + 1
            pos += 2
            kind = self.kinds[place]
            size = self.sizes[place]
            if kind == FLAT_TEXT:
                if end - pos < 4 or le32(start, pos, end) > size:
                    return None
                size = le32(start, pos, end)
                pos += 4
                if size > end - pos or (size == 0 and not has_zeros):
                    return None
                stop = pos + size
                items[self.names[place]] = body[pos:stop].decode("utf-8", "surrogateescape")
            elif kind == FLAT_OTHER or size > end - pos:
                return None
            else:
                stop = pos + size
                bits = low_bytes(start, pos, size, end)
                if bits == 0 and not has_zeros:
                    return None
                if kind == FLAT_UNSIGNED:
                    items[self.names[place]] = bits
                else:
                    items[self.names[place]] = self.reads[place](body, pos)
            pos = stop
        return items

    def write(self, items: dict) -> object:
        """The body of an object without its zeros; None when a field is not a scalar or a text.

        Raises:
            Exception: of any kind, when a value does not fit its field.
        """
        raw: bytes
        place: cython.Py_ssize_t
        at: cython.Py_ssize_t = 4
        bits: cython.ulonglong
        total: cython.longlong = 4
        found: list = []
        count: cython.Py_ssize_t = len(self.kinds)
        for place in range(count):
            value = items.get(self.names[place])
            if value is None:
                found.append(None)
                continue
            if self.kinds[place] == FLAT_TEXT:
                raw = value.encode("utf-8", "surrogateescape")
                if len(raw) > self.sizes[place]:
                    return None
                if raw:
                    total += 6 + len(raw)
            elif self.kinds[place] == FLAT_OTHER:
                return None
            elif self.kinds[place] == FLAT_UNSIGNED and isinstance(value, int):
                if not cython.compiled and not 0 <= value < 1 << 64:
                    raise OverflowError("the value does not fit")  # as C does
                bits = value
                if self.sizes[place] < 8 and bits >> (8 * self.sizes[place]) != 0:
                    return None
                if bits != 0:
                    total += 2 + self.sizes[place]
                    found.append(bits)
                else:
                    found.append(None)
                continue
            else:
                raw = self.packs[place](value)
                if low_bytes(bytes_at(raw), 0, len(raw), len(raw)) != 0:
                    total += 2 + len(raw)
                else:
                    raw = b""
            found.append(raw)
            if total > _MOST_FIELD_BYTES:
                return None
        made = new_bytes(total)
        out = new_bytes_at(made)
        bits = total - 4
        put_low(out, 0, total, bits, 4)
        for place in range(count):
            part = found[place]
            if not part:
                continue
            bits = self.first + place
            put_low(out, at, total, bits, 2)
            at += 2
            if isinstance(part, int):
                bits = part
                put_low(out, at, total, bits, self.sizes[place])
                at += self.sizes[place]
                continue
            raw = part
            if self.kinds[place] == FLAT_TEXT:
                bits = len(raw)
                put_low(out, at, total, bits, 4)
                at += 4
            copy_bytes(out, at, bytes_at(raw), 0, len(raw), len(raw))
            at += len(raw)
        return bytes(made)
