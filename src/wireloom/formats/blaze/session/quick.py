"""Headers of the packets that a busy server reads and writes, without an object per packet.

Nothing here decides anything: an unusual packet is left to the codec, which has the same bytes and
says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, Protocol

from wireloom.formats.blaze.codes import Action, BlazeCode, Encoding, EventType
from wireloom.formats.blaze.dialects import Dialect, enum_of
from wireloom.formats.blaze.packets import (
    SubscriptionAck,
    SubscriptionEvent,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.runs import head_of

__all__ = ["ACK_HEAD", "REQUEST_HEAD", "Columns", "Numbers"]

Columns = tuple[Any, ...]
"""Packets as `join_packets` takes them: what all of them have, or a list with the part of each."""


ACK_HEAD: Final = head_of(SubscriptionAck.code, 3)
REQUEST_HEAD: Final = head_of(TransactionRequest.code, 9)
_RESPONSE_HEAD: Final = head_of(TransactionResponse.code, 6)
_EVENT_HEAD: Final = head_of(SubscriptionEvent.code, 6)
_DATA_HEAD: Final = head_of(SubscriptionEvent.code, 7)


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

    def responses(
        self, sender: tuple[int, int, int], numbers: Sequence[int], is_ok: bool, code: BlazeCode
    ) -> Columns:
        """TXRESPs without a result, for transactions of one sender that ended alike."""
        word = self._response_words[is_ok, code]
        return (_RESPONSE_HEAD, word, sender, list(numbers))

    def live_events(
        self,
        sbsrid: int,
        changes: Sequence[Shown],
        sevtids: Sequence[int],
        encoding: Encoding,
    ) -> Columns:
        """The SBSEVTs of changes, with whole objects."""
        words = self._live_words
        return (
            _DATA_HEAD,
            sbsrid,
            [words[change.action] for change in changes],
            sevtids,
            [change.stamp for change in changes],
            None,
            [change.full(encoding) for change in changes],
        )

    def event(
        self,
        sbsrid: int,
        kind: int,
        action: int,
        sevtid: int,
        stamp: Stamp,
        body: bytes | None,
    ) -> Columns:
        """An SBSEVT, with an object or without."""
        word = self._event_words[kind, action]
        if body is None:
            return (_EVENT_HEAD, sbsrid, word, sevtid, stamp)
        return (_DATA_HEAD, sbsrid, word, sevtid, stamp, None, body)
