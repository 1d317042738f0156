"""Headers of the packets that a busy server reads and writes, without an object per packet.

Nothing here decides anything: an unusual packet is left to the codec, which has the same bytes and
says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, Protocol

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

__all__ = ["ACK_HEAD", "REQUEST_HEAD", "Numbers", "Packet"]

_DATA_LEN: Final = 28
"""Bytes of the header of an event with an object."""

Packet = tuple[Any, ...]
"""The words of a header, and a body if there is one: what `join_packets` makes bytes of."""


def _head(packet: type[BlazePacket], words: int) -> int:
    return VERSION << 26 | words << 22 | packet.code << 16


ACK_HEAD: Final = _head(SubscriptionAck, 3)
REQUEST_HEAD: Final = _head(TransactionRequest, 9)
_RESPONSE_HEAD: Final = _head(TransactionResponse, 6)
_EVENT_HEAD: Final = _head(SubscriptionEvent, 6)
_DATA_HEAD: Final = _head(SubscriptionEvent, 7)


class Shown(Protocol):
    """A change, as its subscribers see it."""

    @property
    def action(self) -> Action:
        """What has happened to the object."""

    @property
    def stamp(self) -> tuple[int, int]:
        """When."""

    @property
    def sevtid(self) -> int:
        """Id of the event."""

    def full(self, encoding: Encoding) -> bytes:
        """The whole object."""


class Numbers:
    """The numbers of a dialect's names, and vice versa."""

    __slots__ = ("_event_words", "_live_words", "_response_words", "actions", "encodings")

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
        live = EventType.DATALIVE
        self._live_words = {
            # What a delta changes is sent whole.
            action: self._event_words[live, Action.UPD if action is Action.DLT else action]
            for action in Action
        }
        codes = enum_of(dialect, "blzcod")
        self._response_words = {
            (is_ok, code): (1 if is_ok else 2) << 29
            | int(code if codes is None else codes[code.name])
            for is_ok in (True, False)
            for code in BlazeCode
        }

    def response(self, is_ok: bool, code: BlazeCode, txid: tuple[int, int, int, int]) -> Packet:
        """A TXRESP without a result."""
        return (_RESPONSE_HEAD, self._response_words[is_ok, code], *txid)

    def live_events(
        self, sbsrid: int, changes: Iterable[Shown], encoding: Encoding
    ) -> list[Packet]:
        """The SBSEVTs of changes, with whole objects."""
        words = self._live_words
        packets: list[Packet] = []
        for change in changes:
            body = change.full(encoding)
            seconds, number = change.stamp
            size = _DATA_LEN + len(body)
            word = words[change.action]
            packets.append((_DATA_HEAD, sbsrid, word, change.sevtid, seconds, number, size, body))
        return packets

    def event(
        self,
        sbsrid: int,
        kind: int,
        action: int,
        sevtid: int,
        stamp: tuple[int, int],
        body: bytes | None,
    ) -> Packet:
        """An SBSEVT, with an object or without."""
        word = self._event_words[kind, action]
        if body is None:
            return (_EVENT_HEAD, sbsrid, word, sevtid, *stamp)
        return (_DATA_HEAD, sbsrid, word, sevtid, *stamp, _DATA_LEN + len(body), body)
