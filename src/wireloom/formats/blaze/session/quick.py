"""Headers of the packets that a busy server reads and writes, without an object per packet.

Nothing here decides anything: an unusual packet is left to the codec, which has the same bytes and
says what is wrong.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding, EventType
from wireloom.formats.blaze.dialects import Dialect, enum_of
from wireloom.formats.blaze.packets import (
    VERSION,
    BlazePacket,
    SubscriptionAck,
    SubscriptionEvent,
    TransactionRequest,
    TransactionResponse,
)

__all__ = ["ACK", "ACK_HEAD", "REQUEST", "REQUEST_HEAD", "WORD", "Numbers"]

WORD: Final = struct.Struct(">I")
ACK: Final = struct.Struct(">3I")
REQUEST: Final = struct.Struct(">9I")
_RESPONSE: Final = struct.Struct(">6I")
_EVENT: Final = struct.Struct(">6I")
_DATA: Final = struct.Struct(">7I")


def _head(packet: type[BlazePacket], words: int) -> int:
    return VERSION << 26 | words << 22 | packet.code << 16


ACK_HEAD: Final = _head(SubscriptionAck, 3)
REQUEST_HEAD: Final = _head(TransactionRequest, 9)
_RESPONSE_HEAD: Final = _head(TransactionResponse, 6)
_EVENT_HEAD: Final = _head(SubscriptionEvent, 6)
_DATA_HEAD: Final = _head(SubscriptionEvent, 7)


class Numbers:
    """The numbers of a dialect's names, and vice versa."""

    __slots__ = ("_codes", "_event_words", "actions", "encodings")

    def __init__(self, dialect: Dialect) -> None:
        actions = enum_of(dialect, "txactn")
        assert actions is not None
        self.actions: dict[int, IntEnum] = {int(each): each for each in actions if each}
        """Of requests; all but NONE."""
        self.encodings: dict[int, Encoding] = {}
        for number in range(1, 16):
            if (found := dialect.encoding(number)) is not None:
                self.encodings[number] = found
        names = {"RST": "RST" if "RST" in actions.__members__ else "RESET"}
        self._event_words = {
            (int(kind), int(action)): kind << 28
            | actions[names.get(action.name, action.name)] << 25
            for kind in EventType
            for action in Action
        }
        codes = enum_of(dialect, "blzcod")
        self._codes = {
            int(code): int(code if codes is None else codes[code.name]) for code in BlazeCode
        }

    def response(self, is_ok: bool, code: int, txid: tuple[int, int, int, int]) -> bytes:
        """A TXRESP without a result."""
        word = (1 if is_ok else 2) << 29 | self._codes[code]
        return _RESPONSE.pack(_RESPONSE_HEAD, word, *txid)

    def event(
        self,
        sbsrid: int,
        kind: int,
        action: int,
        sevtid: int,
        stamp: tuple[int, int],
        body: bytes | None,
    ) -> bytes:
        """An SBSEVT, with an object or without."""
        word = self._event_words[kind, action]
        if body is None:
            return _EVENT.pack(_EVENT_HEAD, sbsrid, word, sevtid, *stamp)
        size = _DATA.size + len(body)
        return _DATA.pack(_DATA_HEAD, sbsrid, word, sevtid, *stamp, size) + body
