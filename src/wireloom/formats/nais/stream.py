"""Bytes → frames: the decoder for lines that mix frames and text (SPEC §2).

Every byte of a stream is in exactly one record, and the records do not depend on how the stream is
cut into chunks:

* `Frame`: a whole frame.
* `Text`: a line of text with its newline, or a piece of one (``eol=False``).
* `Problem` of one byte, a SYNC_START that does not start a frame: its code is ``bad_rsv``,
  ``len_overflow``, ``too_long``, ``bad_end``, ``timeout`` or ``truncated``.
* `Problem` with the code ``junk``: bytes in the extent of such a false start.

Cost: a false start does not cost its extent again. A SYNC_START is decided by the header, LEN and
the one byte where SYNC_END must be, all reached by index; the bytes between are never looked at. So
each SYNC_START is decided in constant time, once, however many false starts overlap; one that has
to wait is looked at again only when the byte it waits for has arrived (while LEN is incomplete,
once per feed, and LEN has at most ten bytes). All other bytes are searched once: junk and text end
at the next SYNC_START, and a search that had to stop at the end of the buffer continues from there.
Nothing is searched twice when a line goes idle or ends either: then every SYNC_START left in the
buffer is decided in the same way, in one pass. Memory is bounded by the longest frame plus one
chunk, or `max_text`.
"""

from __future__ import annotations

import re

from wireloom.errors import OptionError
from wireloom.formats.nais.rules import (
    DEFAULT_RULES,
    SYNC_END,
    SYNC_START,
    LineRules,
    Refusal,
)
from wireloom.framing import Frame, Problem, Record, Text
from wireloom.wire import Buffer

__all__ = ["IDLE_SERIAL_MS", "IDLE_TCP_MS", "MAX_TEXT", "StreamDecoder"]

MAX_TEXT = 4096
"""Bytes of text without a newline that are held back; a board's printf lines are far shorter."""
IDLE_SERIAL_MS = 250
"""Silence after which an unfinished frame on a serial line is given up (a byte takes 87 µs)."""
IDLE_TCP_MS = 5000

_FORMAT = "nais"
_SYNC = bytes([SYNC_START])
_TEXT_END = re.compile(rb"[\x1e\n]")
_NEWLINE = 0x0A
_REASONS = {
    "bad_end": "the frame does not end with SYNC_END",
    "timeout": "the line went idle before the frame was complete",
    "truncated": "the stream ended before the frame was complete",
}


class StreamDecoder:
    """The framer of a stream line; `feed`, `idle` and `close` give the records they complete."""

    def __init__(
        self, rules: LineRules = DEFAULT_RULES, *, max_text: int = MAX_TEXT, offset: int = 0
    ) -> None:
        """A decoder for one stream.

        Args:
            rules: what the line lets pass as a frame.
            max_text: longer lines of text are split into pieces of this many bytes.
            offset: of the first byte that will be fed.

        Raises:
            OptionError: `max_text` is not positive.
        """
        if max_text < 1:
            raise OptionError(f"max_text must be positive, not {max_text}")
        self._rules = rules
        self._max_text = max_text
        self._buffer = bytearray()
        self._base = offset  # stream offset of buffer[0], which is undecided: a SYNC_START or text
        self._need = 1  # buffer length at which something can be decided
        self._searched = 0  # buffer index up to which the text at the start is known not to end
        self._junk_end = 0  # buffer index where the extent of the false starts so far ends

    @property
    def is_in_frame(self) -> bool:
        """Whether a frame has started and is not complete: what an idle timer watches."""
        return self._buffer.startswith(_SYNC)

    @property
    def pending(self) -> int:
        """Bytes held back until more is known."""
        return len(self._buffer)

    @property
    def missing(self) -> int:
        """Bytes needed before an unfinished frame can be decided; at least one."""
        return max(1, self._need - len(self._buffer))

    def skip(self, count: int) -> None:
        """The caller has read `count` bytes of frames itself, while nothing was pending."""
        self._base += count

    def feed(self, data: Buffer) -> list[Record]:
        """Take the next bytes; give the records they complete."""
        self._buffer += data
        return self._run("") if len(self._buffer) >= self._need else []

    def idle(self) -> list[Record]:
        """Nothing came for a while: give up an unfinished frame. Text stays."""
        return self._run("timeout") if self.is_in_frame else []

    def close(self) -> list[Record]:
        """The stream has ended; give what is left."""
        records = self._run("truncated")
        if self._buffer:
            records.append(self._text(0, len(self._buffer), False))
            self._drop(len(self._buffer))
        return records

    def _run(self, giving_up: str) -> list[Record]:
        """Decide as many bytes as possible; `giving_up` is the code for unfinished frames."""
        records: list[Record] = []
        buffer, end = self._buffer, len(self._buffer)
        pos = 0
        self._need = 1
        while pos < end:
            if buffer[pos] == SYNC_START:
                size = self._rules.measure(buffer, pos, end)
                if isinstance(size, Refusal):
                    records.append(self._refused(pos, size))
                elif size is None or pos + size > end:
                    if not giving_up:
                        self._need = end - pos + 1 if size is None else size
                        break
                    records.append(self._false_start(pos, end - pos, giving_up, end))
                elif buffer[pos + size - 1] == SYNC_END:
                    data = bytes(buffer[pos : pos + size])
                    records.append(Frame(_FORMAT, self._base + pos, data))
                    pos += size
                    continue
                else:
                    records.append(self._false_start(pos, size, "bad_end", pos + size - 1))
                pos += 1
            elif pos < self._junk_end:
                stop = buffer.find(_SYNC, pos, self._junk_end)
                stop = self._junk_end if stop < 0 else stop
                records.append(self._junk(pos, stop))
                pos = stop
            else:
                stop = self._text_end(pos, end)
                if stop < 0:
                    break
                records.append(self._text(pos, stop, buffer[stop - 1] == _NEWLINE))
                pos = stop
        self._drop(pos)
        return records

    def _text_end(self, pos: int, end: int) -> int:
        """Where the text that starts at `pos` ends; -1 when that is not known yet."""
        limit = pos + self._max_text
        stop = min(limit, end)
        found = _TEXT_END.search(self._buffer, max(pos, self._searched), stop)
        if found is not None:
            return found.start() + (self._buffer[found.start()] == _NEWLINE)
        self._searched = stop
        return limit if limit <= end else -1

    def _drop(self, count: int) -> None:
        # Cheap: a bytearray moves its start, and copies the rest only now and then.
        del self._buffer[:count]
        self._base += count
        self._searched = max(0, self._searched - count)
        self._junk_end = max(0, self._junk_end - count)

    # --- records

    def _text(self, pos: int, stop: int, eol: bool) -> Text:
        return Text(_FORMAT, self._base + pos, bytes(self._buffer[pos:stop]), eol)

    def _junk(self, pos: int, stop: int) -> Problem:
        data, at = bytes(self._buffer[pos:stop]), self._base + pos
        return Problem(_FORMAT, at, data, "junk", "part of what looked like a frame", "", at)

    def _false_start(self, pos: int, extent: int, code: str, at: int) -> Problem:
        self._junk_end = max(self._junk_end, pos + extent)
        path = "sync_end" if code == "bad_end" else ""
        offset = self._base + pos
        return Problem(_FORMAT, offset, _SYNC, code, _REASONS[code], path, self._base + at)

    def _refused(self, pos: int, refusal: Refusal) -> Problem:
        self._junk_end = max(self._junk_end, pos + refusal.extent)
        error = refusal.error
        at = self._base + error.offset
        return Problem(_FORMAT, self._base + pos, _SYNC, error.code, error.reason, error.path, at)
