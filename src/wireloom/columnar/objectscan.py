"""Bytes → frames for formats that the kernel has no rules for, with those of the object path.

A format whose framer is `wireloom.framing.Scanner` gets the kernel's scanner, interpreted, with its
own rules: the same decisions, in the same order. Any other framer is fed as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from wireloom.errors import DecodeError, TruncatedError
from wireloom.framing import Frame, Framer, FrameRules, Problem, Record, Scanner, Text
from wireloom.kernel.frames import framerules
from wireloom.kernel.frames.scan import RUN_DONE, RUN_FULL, RUN_MORE, Scan

__all__ = ["FramerScan", "object_scan"]

_OTHER: Final = 255
"""The kind of a mark whose record a framer has made; the record is kept."""


def object_scan(framer: Framer, max_frame: int, make: Callable[[], Framer]) -> Any:
    """A scanner for a format that the kernel has none for.

    Args:
        framer: of the format.
        max_frame: bytes of the longest frame.
        make: gives a new framer for a stream from offset 0.
    """
    if type(framer) is Scanner:
        rules: Any = _Rules(framer._rules, max_frame)
        return Scan(rules)
    return FramerScan(make)


class _Rules:
    """A format's own rules, as the kernel's scanner asks for them."""

    def __init__(self, rules: FrameRules, max_frame: int) -> None:
        self.max_frame = max_frame
        self.has_magic = rules.has_magic
        self.needed = 0
        self._rules = rules
        self._data: memoryview | None = None
        self._bytes = b""

    def _plain(self, data: memoryview) -> bytes:
        """The data as bytes, copied once: rules search in it, and a view has no `find`."""
        if self._data is not data:
            self._data, self._bytes = data, bytes(data)
        return self._bytes

    def measure(self, data: memoryview, pos: int, end: int) -> int:
        """See `wireloom.kernel.frames.framerules.HeaderRules`."""
        if pos >= end:
            self.needed = 1
            return int(framerules.CUT_HEADER)
        try:
            size = self._rules.measure(self._plain(data), pos, end)
        except TruncatedError as error:
            self.needed = error.needed
            return int(framerules.CUT_HEADER)
        except DecodeError:
            return int(framerules.NO_HEADER)
        return int(framerules.NO_HEADER) if size > self.max_frame else size

    def check(self, data: memoryview, pos: int, end: int, steps: int) -> int:
        """See `wireloom.kernel.frames.framerules.HeaderRules`."""
        try:
            found = self._rules.check(self._plain(data), pos, end, None if steps < 0 else steps)
        except DecodeError:
            return int(framerules.FAILED)
        return int(framerules.PROVEN if found else framerules.UNPROVEN)

    def find(self, data: memoryview, pos: int, end: int) -> int:
        """See `wireloom.kernel.frames.framerules.HeaderRules`."""
        return self._rules.find(self._plain(data), pos, end)


class FramerScan:
    """A framer of any kind with the surface of the kernel's scanner.

    Its internal state is not known, so a stream is never begun in the middle.
    """

    bad = 1  # never fresh
    suspect = 0

    def __init__(self, make: Callable[[], Framer]) -> None:
        self._make = make
        self.limit = 0  # ignored: only the framer knows where nothing before matters
        self.start(0)

    def start(self, pos: int) -> None:
        """Begin at `pos`, as if nothing came before."""
        self.pos = pos
        self.need = pos + 1
        self._framer = self._make()
        self._fed = pos  # bytes of the data that were fed to it
        self._base = -pos  # its offset of the first byte that is kept
        self._waiting: deque[Record] = deque()
        self._is_closed = False
        self.records: dict[int, Problem | Text] = {}

    def drop(self, count: int) -> None:
        """Forget the first `count` bytes, which are decided."""
        self.pos -= count
        self.need -= count
        self._fed -= count
        self._base += count

    def run(self, out: Any, data: memoryview, is_last: bool) -> int:
        """Decide about as many bytes as possible; `is_last`: no more will come."""
        if self._fed < len(data):
            self._waiting += self._framer.feed(data[self._fed :])
            self._fed = len(data)
        if is_last and not self._is_closed:
            self._waiting += self._framer.close()
            self._is_closed = True
        self.records = {}
        while self._waiting:
            if out.is_full():
                return int(RUN_FULL)
            record = self._waiting.popleft()
            pos = record.offset - self._base
            self.pos = pos + record.length
            if isinstance(record, Frame):
                out.put_frame(pos, self.pos)
            else:
                self.records[pos] = record
                out.put_mark(pos, self.pos, _OTHER, len(data))
        self.need = self._fed + 1
        return int(RUN_DONE if self.pos >= len(data) else RUN_MORE)

    def find_from(self, data: memoryview, pos: int, end: int) -> int:
        """`end`: where frames start cannot be told in the middle of a stream."""
        return end

    def stands_at(self, data: memoryview, pos: int, count: int) -> bool:
        """False: only its own framer could tell."""
        return False
