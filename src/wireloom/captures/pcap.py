"""pcap: a header of 24 bytes, then records: a header of 16 bytes and a packet each.

Microseconds or nanoseconds, either byte order, and several files joined end to end. A record has no
check value, so one is believed only when a record of about the same time follows it. Where none
does, either its length or the header behind it is damaged. A chain of good records that starts
*inside* the record, or where it would end had it been captured whole, proves that its length is;
otherwise the record is good, and the bytes behind it are skipped up to the next chain. A record of
quite another time is not skipped: clocks are set, and captures are merged. A date there proves both
records, and so does a chain that starts there, where times count from 0; without them, only a chain
inside the record that is of its own time can prove that its length is damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

from wireloom.captures.container import LINK_TYPES, NO_END, PacketReader, damage_of, unknown_link
from wireloom.captures.events import Damage
from wireloom.captures.window import Window
from wireloom.errors import EncodeError
from wireloom.kernel import Kernel
from wireloom.kernel.packets.records import (
    MAX_RECORD,
    RECORDS_BAD,
    RECORDS_END,
    RECORDS_FOUND,
    RECORDS_JUMP,
    RECORDS_MORE,
    SMALL_TIME,
)

__all__ = ["PcapReader", "PcapState", "PcapWriter", "is_pcap"]

_HEADER = 24
_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (True, 1_000_000),
    b"\xd4\xc3\xb2\xa1": (False, 1_000_000),
    b"\xa1\xb2\x3c\x4d": (True, 1_000_000_000),
    b"\x4d\x3c\xb2\xa1": (False, 1_000_000_000),
}
"""First bytes of a file → whether it is big-endian, and ticks per second."""
_FIRST = (False, 1_000_000, 1, True)
"""The state before anything is read."""


def is_pcap(head: bytes | memoryview) -> bool:
    """Whether a file with these first bytes is a pcap capture."""
    return bytes(head[:4]) in _MAGICS


class PcapState(NamedTuple):
    """What a reader knows at the start of a record: how to read it and those behind it."""

    is_big: bool
    ticks: int
    link: int
    is_strict: bool


class PcapReader(PacketReader):
    """The packets of a pcap capture, or those of a part of it."""

    def __init__(
        self, window: Window, kernel: Kernel, state: PcapState | None = None, until: int = NO_END
    ) -> None:
        """As for every reader; `state` is that of another reader that has come to this record."""
        super().__init__(window, kernel, until)
        self._is_started = state is not None
        self._is_big, self._ticks, self._link, self._is_strict = state or _FIRST
        self._inside = 0
        """End of the record at `_bad`, while it is not known which of the two is damaged."""
        self._whole = 0
        """Its end if it was captured whole and its captured length is wrong."""
        self._is_jump = False
        """Whether it is followed by a record after all, but of quite another time."""
        self._near = -1
        """Time in seconds that a chain inside the record must have; -1: any."""

    @property
    def state(self) -> PcapState:
        """What another reader needs to know to continue at `position`."""
        return PcapState(self._is_big, self._ticks, self._link, self._is_strict)

    def _go_on(self, rows: Any) -> Iterable[Damage]:
        return self._records(rows) if self._is_started else self._start()

    def _start(self) -> Iterable[Damage]:
        """Read the file's header at the current place, and look at the first record."""
        window = self.window
        while len(window.data) - self._pos < _HEADER + 16 and not window.is_end:
            self._more(self._pos)
        head = bytes(window.data[self._pos : self._pos + _HEADER + 16])
        if len(head) < _HEADER:
            self.is_done = True
            yield from damage_of(
                self._name, window, self._pos, len(window.data), "truncated", "cut in its header"
            )
            return
        self._is_big, self._ticks = _MAGICS[head[:4]]
        order = ">" if self._is_big else "<"
        (network,) = struct.unpack_from(order + "I", head, 20)
        self._link = network & 0xFFFF
        self._is_started = True
        self._pos += _HEADER
        self._is_strict = (
            len(head) < _HEADER + 16 or self._is_record(self._pos) or self._is_empty(self._pos)
        )
        if self._link not in LINK_TYPES:
            yield unknown_link(self._name, window.base + self._pos - 4, self._link)

    def _record(self, pos: int) -> tuple[int, int, int, int]:
        order = ">4I" if self._is_big else "<4I"
        seconds, ticks, captured, length = struct.unpack_from(order, self.window.data, pos)
        return seconds, ticks, captured, length

    def _is_record(self, pos: int) -> bool:
        """Whether the header at `pos` has no impossible value; as `is_record` of the kernel."""
        _, ticks, captured, length = self._record(pos)
        if self._is_empty(pos):
            return False
        return captured <= MAX_RECORD and captured <= length < 1 << 24 and ticks < 10**9

    def _is_empty(self, pos: int) -> bool:
        """Whether the header at `pos` has no time and no bytes, or is that of a file."""
        seconds, _, captured, _ = self._record(pos)
        return captured == 0 and (seconds == 0 or self._is_file(pos))

    def _is_shifted(self, pos: int) -> bool:
        """Whether the header at `pos` has lost four bytes; as `is_shifted` of the kernel."""
        if len(self.window.data) - pos < 16:
            return False
        first, second, captured, _ = self._record(pos)
        return second == captured and 0 < captured <= MAX_RECORD and first < 10**9

    def _is_dated(self, pos: int) -> bool:
        """Whether the header at `pos` has a time that no small number in a payload looks like."""
        is_good = self._is_record(pos) and not self._is_shifted(pos)
        return is_good and self._record(pos)[0] >= SMALL_TIME

    def _records(self, rows: Any) -> Iterable[Damage]:
        window = self.window
        self._pos = self._kernel.pcap_records(
            rows,
            window.data,
            self._pos,
            window.is_end,
            self._is_big,
            self._ticks,
            self._link,
            self._is_strict,
            self._until - window.base,
        )
        stop = rows.stop
        if stop == RECORDS_END:
            self.is_done = True
        elif stop == RECORDS_MORE and rows.count == 0:
            self._more(self._pos)
        elif stop in (RECORDS_BAD, RECORDS_JUMP) and rows.count == 0:
            return self._suspect(rows, is_jump=stop == RECORDS_JUMP)
        # If there are packets, the rest waits: they lie in this window.
        return ()

    def _suspect(self, rows: Any, is_jump: bool) -> Iterable[Damage]:
        """There is no record at the current place, or none behind the one there.

        One of another time (a jump) may not be a record either.
        """
        data, pos = self.window.data, self._pos
        if self._is_file(pos):
            self._is_started = False
            return ()
        left = len(data) - pos
        following = pos
        if left >= 16:
            captured = self._record(pos)[2]
            is_lax = not self._is_strict and not self._is_empty(pos)
            if captured <= MAX_RECORD and (self._is_record(pos) or is_lax):
                following = pos + 16 + captured
        if following > pos and self._is_file(following):
            self._accept(rows, following)
            return ()
        self._bad = self.window.base + pos
        # From the next byte on: a header with a stray byte in front may look like one, too.
        self._searched = self._bad + 1
        self._inside = self._whole = 0
        self._is_jump = is_jump
        self._near = -1
        if pos < following <= len(data):
            self._inside = self.window.base + following
            captured, length = self._record(pos)[2:]
            if captured < length < 1 << 24:
                self._whole = self._bad + 16 + length
        if following > len(data):
            self._why = ("truncated", "the file ends inside a record")
        elif left < 16:
            self._why = ("truncated", "the file ends inside a record's header")
        else:
            self._why = ("record", "not a record's header")
        return ()

    def _is_file(self, pos: int) -> bool:
        """Whether the header of another file is at `pos`."""
        if not is_pcap(self.window.data[pos : pos + 4]):
            return False
        order = ">" if self.window.data[pos] == 0xA1 else "<"
        return bytes(self.window.data[pos + 4 : pos + 8]) == struct.pack(order + "HH", 2, 4)

    def _accept(self, rows: Any, stop: int) -> None:
        """Take the record at the current place, which ends at `stop`, without checking the next."""
        self._kernel.pcap_records(
            rows,
            self.window.data[:stop],
            self._pos,
            True,
            self._is_big,
            self._ticks,
            self._link,
            self._is_strict,
            NO_END,
        )
        self._pos = stop

    def _search(self, rows: Any) -> Iterable[Damage]:
        """Look for the next good record; one step, which may need more bytes."""
        assert self._bad is not None
        window, base = self.window, self.window.base
        start, end = self._bad - base, len(window.data)
        inside = max(0, self._inside - base)
        if self._is_jump and self._inside and self._near < 0:
            if self._is_dated(inside):
                return self._jump(rows, start, inside)
            if self._find(rows, inside, inside + 1, inside) == inside:
                if rows.stop == RECORDS_FOUND:
                    return self._jump(rows, start, inside)
                return self._wait(start, start)
            self._near = self._record(start)[0]
        if self._whole:
            whole = self._whole - base
            if window.is_end and whole == end and not self._is_jump:
                self.is_done = True
                return self._found(whole)
            found = self._find(rows, whole, whole + 1, whole, self._near)
            if found == whole and rows.stop != RECORDS_END:
                if rows.stop == RECORDS_FOUND:
                    return self._found(whole)
                return self._wait(start, start)
            self._whole = 0
        at = self._find(rows, self._searched - base, inside or end, inside, self._near)
        self._searched = base + at
        if rows.stop == RECORDS_FOUND:
            return self._found(at)
        if inside and at >= inside:
            # Nothing inside contradicts the record, so it is good, and what follows is not.
            if self._is_jump and not self._is_shifted(inside):
                return self._jump(rows, start, inside)
            self._pos = start
            self._accept(rows, inside)
            self._near = -1
            self._bad = base + inside
            self._searched = self._bad + 1
            self._inside = 0
            return ()
        if rows.stop == RECORDS_END:
            self.is_done = True
            return self._found(end)
        # Until it is known which record is damaged, all of the first one is kept.
        return self._wait(start, start if self._inside else at)

    def _jump(self, rows: Any, start: int, following: int) -> Iterable[Damage]:
        """Take the record at `start`: the one at `following` is good too, but of another time."""
        self._pos = start
        self._accept(rows, following)
        self._bad = None
        return ()

    def _find(self, rows: Any, pos: int, until: int, beyond: int, near: int = -1) -> int:
        """Where a chain of records starts; `rows.stop` says whether one was found."""
        window = self.window
        at: int = self._kernel.find_record(
            rows, window.data, pos, until, beyond, window.is_end, self._is_big, near
        )
        return at


class PcapWriter:
    """Writes a pcap capture."""

    def __init__(
        self,
        file: BinaryIO,
        link_type: int = 1,
        *,
        is_nano: bool = True,
        is_big: bool = False,
        snap_length: int = MAX_RECORD,
    ) -> None:
        self._file = file
        order = ">" if is_big else "<"
        self._struct = struct.Struct(order + "4I")
        self._scale = 1 if is_nano else 1000
        self._snap = snap_length
        magic = 0xA1B23C4D if is_nano else 0xA1B2C3D4
        header = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)
        file.write(header)

    def write(self, ts_ns: int, packet: bytes, length: int | None = None) -> None:
        """Append a packet; `length` is its length on the wire, if only a part of it is given.

        Raises:
            EncodeError: the time does not fit: it is before 1970 or after 2105.
        """
        seconds, ns = divmod(ts_ns, 1_000_000_000)
        length = len(packet) if length is None else length
        packet = packet[: self._snap]
        try:
            head = self._struct.pack(seconds, ns // self._scale, len(packet), length)
        except struct.error as error:
            raise EncodeError(f"{ts_ns} ns or {length} bytes do not fit a pcap record") from error
        self._file.write(head + packet)
