"""QForm bytes → frames: how a stream of messages back to back is cut."""

from __future__ import annotations

from collections.abc import Mapping

from wireloom.errors import DecodeError, InvalidFieldError
from wireloom.formats.qform.dictionary.model import Dictionary, Entry
from wireloom.formats.qform.walk import HEADER_LEN, MAGIC, measure, walk
from wireloom.wire import Limits

__all__ = ["Rules"]


class Rules:
    """Measures, checks and finds QForm messages (see `wireloom.framing.FrameRules`)."""

    def __init__(self, dictionary: Dictionary | None) -> None:
        self.entries: Mapping[int, Entry] = dictionary.by_fid if dictionary else {}

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the message whose header starts at `pos`.

        Raises:
            TruncatedError: the header is not complete.
            DecodeError: it is not a QForm header.
        """
        return measure(data, pos, end)

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the fields fill the frame exactly; False where the dictionary does not know.

        Raises:
            DecodeError: the length is odd, or the fields do not end where the message does.
        """
        if (end - pos) & 1:
            raise DecodeError("an odd length: every field is padded", offset=pos + 4, code="length")
        count = 0
        try:
            for _ in walk(data, pos + HEADER_LEN, end, self.entries, Limits(max_fields=end - pos)):
                if count == steps:
                    return False
                count += 1
        except InvalidFieldError as error:
            # A fid that is not known says nothing of the length, unless another message starts
            # there.
            if data[error.offset : error.offset + 4] == MAGIC or error.code == "null_fid":
                raise
            return False
        return count > 0

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The next magic in ``[pos, end)``, also one that the end cuts off; `end` without any."""
        found = data.find(MAGIC, pos, end)
        if found >= 0:
            return found
        for size in (3, 2, 1):
            if end - size >= pos and data[end - size : end] == MAGIC[:size]:
                return end - size
        return end
