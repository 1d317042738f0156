"""Bytes of pcap and pcapng files → packets: position and time of each.

A record is accepted only when a record follows it too (pcap), or when its length is at both ends
(pcapng), so that a damaged length never swallows the packets after it. Where that fails, these
functions return; the readers in `wireloom.captures` decide what was damaged and search
for the next good record, with the functions here.
"""

from __future__ import annotations

from wireloom.kernel import shim as cython
from wireloom.kernel.packets.flowtable import _array, _wider
from wireloom.kernel.packets.packetrows import Packets
from wireloom.kernel.primitives import be16, be32, le16, le32
from wireloom.kernel.walk.decimals import _ALL64, Wide

__all__ = [
    "MAX_BLOCK",
    "MAX_RECORD",
    "NO_TIME",
    "RECORDS_BAD",
    "RECORDS_BLOCK",
    "RECORDS_END",
    "RECORDS_FOUND",
    "RECORDS_FULL",
    "RECORDS_JUMP",
    "RECORDS_MORE",
    "RECORDS_PACKET",
    "SMALL_TIME",
    "Interfaces",
    "find_block",
    "find_record",
    "pcap_records",
    "pcapng_records",
]

# Why a function came back: `Packets.stop`.
RECORDS_END = cython.declare(cython.int, 10)
"""The file ends here, as it should, or the part of it that was asked for."""
RECORDS_MORE = cython.declare(cython.int, 11)
"""More bytes are needed to go on."""
RECORDS_FULL = cython.declare(cython.int, 12)
"""There is no free row left."""
RECORDS_BAD = cython.declare(cython.int, 13)
"""There is no good record at this position."""
RECORDS_BLOCK = cython.declare(cython.int, 14)
"""A block that the reader itself handles: a section or an interface."""
RECORDS_PACKET = cython.declare(cython.int, 15)
"""A block of packet data that contradicts itself or names no known interface."""
RECORDS_FOUND = cython.declare(cython.int, 16)
"""A search found a good record."""
RECORDS_JUMP = cython.declare(cython.int, 17)
"""The next record has a very different time."""

NO_TIME = cython.declare(cython.longlong, -0x7FFFFFFFFFFFFFFF)
"""In place of a time: simple packet blocks have none."""

MAX_RECORD = cython.declare(cython.Py_ssize_t, 262144)
"""Captured bytes of one packet: the most that capture programs write."""
MAX_BLOCK = cython.declare(cython.Py_ssize_t, 16777216)
"""Bytes of one pcapng block; a block is held whole before it is believed."""

_LONGEST = cython.declare(cython.uint, 0xFFFFFF)
"""Largest plausible length on the wire."""
_CHAIN = cython.declare(cython.int, 4)
"""Good records in a row that end a search."""
_APART = cython.declare(cython.longlong, 4194304)
"""Seconds, 48 days, between two records in a row that make them suspect."""
SMALL_TIME = cython.declare(cython.longlong, 16777216)
"""Seconds; a time below this, in 1970, may just be a small number in a payload."""
_MICRO = cython.declare(cython.uint, 0xA1B2C3D4)
_NANO = cython.declare(cython.uint, 0xA1B23C4D)
_SECTION = cython.declare(cython.uint, 0x0A0D0D0A)
_ORDER = cython.declare(cython.uint, 0x1A2B3C4D)
_LATEST = cython.declare(cython.longlong, 0x4000000000000000)
"""Times from 1824 to 2116 are accepted: the difference of any two fits in 64 bits."""


def file_word(data, pos, end, is_big):
    """Four bytes in the file's order."""
    return be32(data, pos, end) if is_big else le32(data, pos, end)


def file_half(data, pos, end, is_big):
    """Two bytes in the file's order."""
    return be16(data, pos, end) if is_big else le16(data, pos, end)


def is_file_header(data, pos, end):
    """Whether there is a pcap file header here: captures may be joined with `cat`."""
    big: cython.uint = be32(data, pos, end)
    little: cython.uint = le32(data, pos, end)
    if big in (_MICRO, _NANO):
        return be32(data, pos + 4, end) == 0x00020004
    if little in (_MICRO, _NANO):
        return le32(data, pos + 4, end) == 0x00040002
    return False


def is_first_record(data, pos, end):
    """Whether a record follows the header of a pcap file at `pos`."""
    magic: cython.uint = be32(data, pos, end)
    is_big: cython.bint = magic in (_MICRO, _NANO)
    return is_record(data, pos + 24, end, is_big, True)


def is_record(data, pos, end, is_big, is_strict):
    """Whether these 16 bytes can be a record header.

    Files with nanoseconds under the magic for microseconds exist, so up to 10**9 is accepted.
    """
    captured: cython.uint = file_word(data, pos + 8, end, is_big)
    length: cython.uint = file_word(data, pos + 12, end, is_big)
    if captured > MAX_RECORD:
        return False
    if captured == 0 and (file_word(data, pos, end, is_big) == 0 or is_file_header(data, pos, end)):
        return False
    if not is_strict:
        return True
    return captured <= length <= _LONGEST and file_word(data, pos + 4, end, is_big) < 1000000000


def is_odd(data, pos, end, is_big):
    """Whether everything but the fraction of a second is plausible in a 16-byte header."""
    captured: cython.uint = file_word(data, pos + 8, end, is_big)
    length: cython.uint = file_word(data, pos + 12, end, is_big)
    if file_word(data, pos + 4, end, is_big) < 1000000000 or file_word(data, pos, end, is_big) == 0:
        return False
    return 0 < captured <= MAX_RECORD and captured <= length <= _LONGEST


def is_close(data, pos, end, is_big, seconds):
    """Whether the record at `pos` has about that time.

    Where four bytes are lost, the next header and all that follow still make sense shifted by one
    word: with small numbers for a time.
    """
    found: cython.longlong = file_word(data, pos, end, is_big)
    return -_APART < found - seconds < _APART


def is_shifted(data, pos, end, is_big):
    """Whether the header at `pos` really begins four bytes earlier.

    After a header that has lost bytes, all others make sense shifted by one word: each leads to the
    next one, and the length, which is there twice, is also taken for the fraction of a second.
    """
    if file_word(data, pos + 4, end, is_big) != file_word(data, pos + 8, end, is_big):
        return False
    captured: cython.uint = file_word(data, pos + 4, end, is_big)
    ticks: cython.uint = file_word(data, pos, end, is_big)
    return 0 < captured <= MAX_RECORD and ticks < 1000000000


def pcap_records(
    rows: Packets,
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    is_end: cython.bint,
    is_big: cython.bint,
    ticks: cython.uint,
    link: cython.int,
    is_strict: cython.bint,
    until: cython.Py_ssize_t,
) -> int:
    """Append the packets of the pcap records from `pos` on; return where it stopped.

    `is_end`: nothing comes after `data`. Records from `until` on are left to others.
    """
    end: cython.Py_ssize_t = len(data)
    following: cython.Py_ssize_t
    scale: cython.longlong = 1000000000 // ticks
    seconds: cython.longlong
    ts: cython.longlong
    length: cython.uint
    has_time: cython.bint
    if end == 0:
        rows.stop = RECORDS_END if is_end else RECORDS_MORE
        return 0
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while True:
            if (pos == end and is_end) or pos >= until:
                rows.stop = RECORDS_END
                break
            if rows.count == rows.capacity:
                rows.stop = RECORDS_FULL
                break
            if end - pos < 16:
                rows.stop = RECORDS_BAD if is_end else RECORDS_MORE
                break
            # An impossible fraction of a second costs only the time, if the neighbours are sound.
            has_time = is_record(start, pos, end, is_big, is_strict)
            if not has_time and not is_odd(start, pos, end, is_big):
                rows.stop = RECORDS_BAD
                break
            following = pos + 16 + file_word(start, pos + 8, end, is_big)
            if end - following < 16:
                if not is_end:
                    rows.stop = RECORDS_MORE
                    break
                if following != end:
                    rows.stop = RECORDS_BAD
                    break
            elif not is_record(start, following, end, is_big, is_strict) and not (
                has_time and is_odd(start, following, end, is_big)
            ):
                rows.stop = RECORDS_BAD
                break
            seconds = file_word(start, pos, end, is_big)
            if end - following >= 16 and not is_close(start, following, end, is_big, seconds):
                rows.stop = RECORDS_JUMP
                break
            ts = seconds * 1000000000 + file_word(start, pos + 4, end, is_big) * scale
            if is_odd(start, pos, end, is_big):
                ts = NO_TIME
            length = file_word(start, pos + 12, end, is_big)
            if length > _LONGEST:
                length = _LONGEST
            rows.begin(rows.count, pos + 16, following - pos - 16, length, ts, link)
            rows.count += 1
            pos = following
    return pos


def find_record(
    rows: Packets,
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    until: cython.Py_ssize_t,
    beyond: cython.Py_ssize_t,
    is_end: cython.bint,
    is_big: cython.bint,
    near: cython.longlong = -1,
) -> int:
    """The first position from `pos` on, before `until`, where a chain of good records starts.

    The chain must lead past `beyond`: that is where a record ends whose length may be right, and
    whose payload may hold records of its own. Its times must not be far from each other, nor from
    `near` if that is given, in seconds. A single record that ends with the file may be anything, so
    a chain inside it takes precedence.
    """
    end: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t
    single: cython.Py_ssize_t = -1
    count: cython.int
    seconds: cython.longlong
    rows.stop = RECORDS_END if is_end else RECORDS_MORE
    if end == 0:
        return 0
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while pos < until:
            at = pos
            count = 0
            seconds = near
            while True:
                if end - at < 40:
                    if not is_end:
                        break
                    # The file ends with a record, or in a header. Where it ends in a packet, any
                    # length would fit, so fewer records prove nothing.
                    if (count >= 1 and at == end) or (
                        count >= 2 and at < end and seconds >= SMALL_TIME
                    ):
                        if single >= 0:
                            count = -1
                        elif count == 1:
                            single = pos
                            count = -1
                        else:
                            rows.stop = RECORDS_FOUND
                        break
                    if end - at < 16:
                        count = -1
                        break
                elif is_file_header(start, at, end):
                    if at < beyond or not is_first_record(start, at, end):
                        count = -1
                    else:
                        rows.stop = RECORDS_FOUND
                    break
                if not is_record(start, at, end, is_big, True):
                    count = -1
                    break
                # Small numbers in a payload look like a header, and may lead to a true one.
                if seconds >= 0 and (
                    not is_close(start, at, end, is_big, seconds)
                    or (count and is_shifted(start, at, end, is_big))
                ):
                    count = -1
                    break
                seconds = file_word(start, at, end, is_big)
                if seconds == 0 or file_word(start, at + 8, end, is_big) == 0:
                    count = -1
                    break
                count += 1
                at += 16 + file_word(start, at + 8, end, is_big)
                if count >= _CHAIN and at > beyond:
                    rows.stop = RECORDS_FOUND
                    break
            if count >= 0:
                break
            pos += 1
        if single >= 0 and rows.stop != RECORDS_FOUND:
            pos = single
            rows.stop = RECORDS_FOUND
    return pos


@cython.final
@cython.cclass
class Interfaces:
    """The interfaces of a pcapng section: link type and clock resolution."""

    def __init__(self) -> None:
        self.wide = Wide()
        self.clear()

    def clear(self) -> None:
        """Forget all interfaces, for a new section."""
        self.count = 0
        self.link = _array("i", 16)
        self.snap = _array("I", 16)
        self.factor = _array("Q", 16)
        self.divisor = _array("Q", 16)
        self.shift = _array("i", 16)
        self.offset = _array("q", 16)

    def add(self, link: int, snap: int, resolution: int, offset: int) -> None:
        """Add an interface. `resolution` is the option's byte, `offset` is in seconds."""
        if self.count == len(self.link):
            rows = 2 * self.count
            self.link = _wider(self.link, "i", rows)
            self.snap = _wider(self.snap, "I", rows)
            self.factor = _wider(self.factor, "Q", rows)
            self.divisor = _wider(self.divisor, "Q", rows)
            self.shift = _wider(self.shift, "i", rows)
            self.offset = _wider(self.offset, "q", rows)
        index: cython.Py_ssize_t = self.count
        places = resolution & 0x7F
        self.link[index] = link
        self.snap[index] = snap
        self.factor[index] = self.divisor[index] = 1
        if resolution & 0x80:
            self.factor[index] = 10**9
            self.shift[index] = places
        elif places <= 9:
            self.factor[index] = 10 ** (9 - places)
        elif places <= 28:
            self.divisor[index] = 10 ** (places - 9)
        else:
            self.factor[index] = 0  # no 64-bit count of such ticks reaches a nanosecond
        if abs(offset) > 4 * 10**9:
            self.divisor[index] = 0  # no plausible time
        else:
            self.offset[index] = offset * 10**9
        self.count = index + 1

    def time(self, index, ticks):
        """Nanoseconds since 1970; `NO_TIME` if implausible."""
        low: cython.ulonglong
        high: cython.ulonglong
        shift: cython.int = self.shift[index]
        offset: cython.longlong = self.offset[index]
        ts: cython.longlong
        if self.divisor[index] == 0:
            return NO_TIME
        self.wide.product(ticks, self.factor[index])
        low = self.wide.low
        high = self.wide.high
        if shift >= 64:
            low = high >> (shift - 64)
            high = 0
        elif shift:
            low = low >> shift | (high << (64 - shift) & _ALL64)
            high = high >> shift
        if high:
            return NO_TIME
        low = low // self.divisor[index]
        if low >= _LATEST:
            return NO_TIME
        ts = low
        ts += offset
        return ts if -_LATEST < ts < _LATEST else NO_TIME


def pcapng_records(
    rows: Packets,
    interfaces: Interfaces,
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    is_end: cython.bint,
    is_big: cython.bint,
    until: cython.Py_ssize_t,
) -> int:
    """Append the packets of the pcapng blocks from `pos` on; return where it stopped.

    Blocks from `until` on are left to others.
    """
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    captured: cython.Py_ssize_t
    length: cython.uint
    kind: cython.uint
    interface: cython.Py_ssize_t
    head: cython.Py_ssize_t
    ticks: cython.ulonglong
    ts: cython.longlong
    rows.stop = RECORDS_END if is_end else RECORDS_MORE
    if end == 0:
        return 0
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while True:
            if (pos == end and is_end) or pos >= until:
                rows.stop = RECORDS_END
                break
            if rows.count == rows.capacity:
                rows.stop = RECORDS_FULL
                break
            if end - pos < 12:
                rows.stop = RECORDS_BAD if is_end else RECORDS_MORE
                break
            kind = file_word(start, pos, end, is_big)
            if kind == _SECTION:
                rows.stop = RECORDS_BLOCK
                break
            size = file_word(start, pos + 4, end, is_big)
            if size < 12 or size & 3 or size > MAX_BLOCK:
                rows.stop = RECORDS_BAD
                break
            if end - pos < size:
                rows.stop = RECORDS_BAD if is_end else RECORDS_MORE
                break
            if file_word(start, pos + size - 4, end, is_big) != size:
                rows.stop = RECORDS_BAD
                break
            if kind == 1:
                rows.stop = RECORDS_BLOCK
                break
            if kind != 2 and kind != 3 and kind != 6:
                rows.skipped += 1
                pos += size
                continue
            head = 12 if kind == 3 else 28
            if size < head + 4:
                rows.stop = RECORDS_PACKET
                break
            interface = 0
            ts = NO_TIME
            if kind == 3:
                length = file_word(start, pos + 8, end, is_big)
                captured = length
                if interfaces.count and interfaces.snap[0] and captured > interfaces.snap[0]:
                    captured = interfaces.snap[0]
                if captured > size - 16:
                    captured = size - 16
            else:
                if kind == 6:
                    interface = file_word(start, pos + 8, end, is_big)
                else:
                    interface = file_half(start, pos + 8, end, is_big)
                captured = file_word(start, pos + 20, end, is_big)
                length = file_word(start, pos + 24, end, is_big)
            if interface >= interfaces.count or captured > size - head - 4:
                rows.stop = RECORDS_PACKET
                break
            if kind != 3:
                ticks = file_word(start, pos + 12, end, is_big)
                ticks = ticks << 32 | file_word(start, pos + 16, end, is_big)
                ts = interfaces.time(interface, ticks)
            if length > _LONGEST:
                length = _LONGEST
            rows.begin(rows.count, pos + head, captured, length, ts, interfaces.link[interface])
            rows.count += 1
            pos += size
    return pos


def is_block(data, pos, end, is_big):
    """Bytes of the block at `pos`; 0 if there cannot be one, -1 if more bytes are needed."""
    kind: cython.uint = file_word(data, pos, end, is_big)
    size: cython.Py_ssize_t
    if end - pos < 12:
        return -1
    if kind == _SECTION:
        # It may be in the other byte order.
        if be32(data, pos + 8, end) == _ORDER:
            is_big = True
        elif le32(data, pos + 8, end) == _ORDER:
            is_big = False
        else:
            return 0
    elif kind == 0 or (kind > 12 and kind != 0xBAD and kind != 0x40000BAD):
        return 0
    size = file_word(data, pos + 4, end, is_big)
    if size < 12 or size & 3 or size > MAX_BLOCK:
        return 0
    if end - pos < size:
        return -1
    return size if file_word(data, pos + size - 4, end, is_big) == size else 0


def find_block(
    rows: Packets,
    data: cython.const[cython.uchar][::1],
    pos: cython.Py_ssize_t,
    is_end: cython.bint,
    is_big: cython.bint,
) -> int:
    """The first position from `pos` on with two good blocks in a row, or the file's last block."""
    end: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t
    rows.stop = RECORDS_END if is_end else RECORDS_MORE
    if end == 0:
        return 0
    start = cython.address(data[0]) if cython.compiled else data
    with cython.nogil:
        while pos < end:
            size = is_block(start, pos, end, is_big)
            if size > 0:
                if (pos + size == end and is_end) or is_block(start, pos + size, end, is_big) > 0:
                    rows.stop = RECORDS_FOUND
                    break
                if not is_end and is_block(start, pos + size, end, is_big) < 0:
                    break
            elif size < 0 and not is_end:
                break
            pos += 1
    return pos
