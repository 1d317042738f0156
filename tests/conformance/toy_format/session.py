"""A toy conversation: who greets may talk, who is silent for too long is asked, then left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from toy_format import PACKETS, Move, Rules, Say, ToyPacket
from wireloom.errors import DecodeError, StateError
from wireloom.framing import Splitter
from wireloom.sessions import BaseSession, Transitions
from wireloom.wire import DEFAULT_LIMITS, Limits

HELLO, BYE, PING = b"hello", b"bye", b"still there?"
PATIENCE = 10.0
"""Seconds of silence until the peer is asked, and from then until it is left."""


class State(Enum):
    GREETING = auto()
    TALKING = auto()
    ASKING = auto()
    LEAVING = auto()
    CLOSED = auto()


class Trigger(Enum):
    GREETED = auto()
    HEARD = auto()
    SILENCE = auto()
    LEFT = auto()
    PEER_LEFT = auto()
    FAILED = auto()


S, T = State, Trigger
TRANSITIONS = Transitions(
    S.GREETING,
    [
        (S.GREETING, T.GREETED, S.TALKING),
        (S.GREETING, T.SILENCE, S.CLOSED),
        (S.TALKING, T.HEARD, S.TALKING),
        (S.TALKING, T.SILENCE, S.ASKING),
        (S.ASKING, T.HEARD, S.TALKING),
        (S.ASKING, T.SILENCE, S.CLOSED),
        (S.LEAVING, T.HEARD, S.LEAVING),
        (S.LEAVING, T.SILENCE, S.CLOSED),
        *((state, T.LEFT, S.LEAVING) for state in (S.GREETING, S.TALKING, S.ASKING)),
        *((state, T.PEER_LEFT, S.CLOSED) for state in S if state is not S.CLOSED),
        *((state, T.FAILED, S.CLOSED) for state in S if state is not S.CLOSED),
    ],
    final=[S.CLOSED],
)


@dataclass(frozen=True, slots=True)
class PeerGreeted:
    pass


@dataclass(frozen=True, slots=True)
class Heard:
    text: bytes


@dataclass(frozen=True, slots=True)
class PeerMoved:
    x: int


@dataclass(frozen=True, slots=True)
class Ended:
    reason: str


Event = PeerGreeted | Heard | PeerMoved | Ended


class ToySession(BaseSession[State, Trigger, Event]):
    """Either side of it: both greet, both may talk, either may leave."""

    transitions = TRANSITIONS

    def __init__(self, now: float, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__()
        self._splitter = Splitter(Rules(), limits)
        self._say(HELLO)
        self._listen(now)

    def say(self, text: bytes) -> None:
        """Say something to the peer.

        Raises:
            StateError: the peer has not greeted yet, or the conversation is over.
        """
        if self.state not in (State.TALKING, State.ASKING):
            raise StateError(f"nothing can be said in state {self.state.name}")
        self._say(text)

    def close(self) -> None:
        if self.state in (State.LEAVING, State.CLOSED):
            return
        self._move(Trigger.LEFT)
        self._say(BYE)

    def _received(self, data: bytes, now: float) -> list[Event]:
        if not data:
            self._move(Trigger.PEER_LEFT)
            return [Ended("the peer is gone")]
        events: list[Event] = []
        try:
            self._splitter.feed(data)
            for frame in self._splitter:
                message = PACKETS[frame[2]].codec.decode(frame, 0, len(frame))
                events += self._heard(message, now)
                if self.is_closed:
                    break
        except (DecodeError, StateError) as error:
            self._move(Trigger.FAILED)
            events.append(Ended(str(error)))
        return events

    def _heard(self, message: ToyPacket, now: float) -> list[Event]:
        if isinstance(message, Say) and message.text == BYE:
            if self.state is not State.LEAVING:
                self._say(BYE)
            self._move(Trigger.PEER_LEFT)
            return [Ended("the peer said goodbye")]
        self._listen(now)
        if isinstance(message, Say) and message.text == HELLO:
            self._move(Trigger.GREETED)
            return [PeerGreeted()]
        self._move(Trigger.HEARD)
        if isinstance(message, Move):
            return [PeerMoved(message.x)]
        assert isinstance(message, Say)
        if message.text == PING:
            self._say(b"yes")
            return []
        return [Heard(message.text)]

    def _timed_out(self, name: Trigger, now: float) -> list[Event]:
        self._move(name)
        if self.is_closed:
            return [Ended("the peer is silent")]
        self._say(PING)
        self._listen(now)
        return []

    def _listen(self, now: float) -> None:
        self._timers.set(Trigger.SILENCE, now + PATIENCE)

    def _say(self, text: bytes) -> None:
        self._send(Say(text=text).encode())
