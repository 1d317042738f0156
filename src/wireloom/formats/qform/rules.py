"""QForm bytes → frames: how a stream of messages is cut."""

from __future__ import annotations

from collections.abc import Mapping

from wireloom.errors import DecodeError, InvalidFieldError
from wireloom.formats._tib.headers import HeaderRules
from wireloom.formats.qform.dictionary.model import Dictionary, Entry
from wireloom.formats.qform.walk import HEADER, HEADER_LEN, MAGIC, walk
from wireloom.wire import Limits

__all__ = ["Rules"]


class Rules(HeaderRules):
    """Measures, checks and finds QForm messages (see `wireloom.framing.FrameRules`)."""

    header = HEADER

    def __init__(self, dictionary: Dictionary | None) -> None:
        self.entries: Mapping[int, Entry] = dictionary.by_fid if dictionary else {}

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the fields fill the frame exactly; False if the dictionary lacks a field.

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
            # An unknown fid says nothing about the length, unless another message starts there.
            # What follows the frame may not have arrived yet.
            magic = data[error.offset : min(error.offset + len(MAGIC), end)]
            if magic == MAGIC or error.code == "null_fid":
                raise
            return False
        return count > 0
