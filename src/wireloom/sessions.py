"""Messages ↔ a live peer: what a session is, without sockets, event loops or clocks.

A session is one side of one conversation. It is told what has arrived and what time it is, and says
what happened (events), what is to be sent, and when it wants to be asked again::

    events = session.receive(data, now)     # b"": the peer has closed its side
    transport.write(session.data_to_send())
    delay = session.next_timeout(now)       # None: nothing to wait for but the peer
    events = session.handle_timeout(now)    # when that time has passed
    session.close()                         # says goodbye; then send what there is to send

Whoever runs it (`wireloom.services`, a test, a notebook) does the input and output. `now` is any
clock in seconds that does not go backwards. What a session may do in which state is a table,
`Transitions`; the documentation draws it, and whatever is not in it raises `StateError`.

`Session` is the contract. `BaseSession` is the part that most of them share: the state, what is to
be sent, and timers. Tests write conversations down with `wireloom.testing.playbook`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from enum import Enum
from typing import ClassVar, Generic, Protocol, TypeVar

from wireloom.errors import StateError
from wireloom.wire import Buffer, as_bytes

__all__ = ["CLOCK_SLACK", "BaseSession", "Session", "Timers", "Transitions"]

CLOCK_SLACK = 1e-6
"""Seconds by which a timer may be early: sums of floats rarely meet a deadline exactly, and a
deadline missed by a hair would cause another wait of zero seconds."""

Event = TypeVar("Event")
State = TypeVar("State", bound=Enum)
Trigger = TypeVar("Trigger", bound=Enum)


class Session(Protocol[Event]):
    """One side of one conversation, with no input or output of its own."""

    @property
    def is_closed(self) -> bool:
        """Whether it is over. Send what is left of `data_to_send`, then close the transport."""
        ...

    def receive(self, data: Buffer, now: float) -> list[Event]:
        """What the next bytes from the peer mean; ``b""`` says that the peer sends no more.

        What the *peer* does wrong does not raise: it ends the session, and an event says why. Bytes
        that come after the end are ignored.
        """
        ...

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once; empty if there is nothing."""
        ...

    def next_timeout(self, now: float) -> float | None:
        """Seconds until `handle_timeout` is to be called, 0 if it is overdue; None: not at all."""
        ...

    def handle_timeout(self, now: float) -> list[Event]:
        """What the time that has passed means; nothing if it was called too early."""
        ...

    def close(self) -> None:
        """End it from this side, with a goodbye if the protocol has one; calling it again is safe.

        It may go on until the peer has answered or a timeout has passed: see `is_closed`.
        """
        ...


class Transitions(Generic[State, Trigger]):
    """The states of a session, and what leads from one to the next.

    Args:
        start: the state of a new session.
        table: (state, trigger, next state), each pair of state and trigger once.
        final: states in which a session is over; nothing leads out of them.

    Raises:
        ValueError: the table contradicts itself, or has a state that cannot be reached.

    >>> Door = Enum("Door", "OPEN SHUT GONE")
    >>> Act = Enum("Act", "PUSH BURN")
    >>> doors = Transitions(
    ...     Door.SHUT,
    ...     [(Door.SHUT, Act.PUSH, Door.OPEN), (Door.OPEN, Act.BURN, Door.GONE)],
    ...     final=[Door.GONE],
    ... )
    >>> doors.after(Door.SHUT, Act.PUSH)
    <Door.OPEN: 1>
    >>> print(doors.diagram())
    stateDiagram-v2
        [*] --> SHUT
        SHUT --> OPEN: PUSH
        OPEN --> GONE: BURN
        GONE --> [*]
    """

    def __init__(
        self,
        start: State,
        table: Iterable[tuple[State, Trigger, State]],
        final: Collection[State] = (),
    ) -> None:
        self.start = start
        self.table = tuple(table)
        self.final = frozenset(final)
        self._next: dict[tuple[State, Trigger], State] = {}
        for state, trigger, after in self.table:
            if state in self.final:
                raise ValueError(f"{state.name} is final, and {trigger.name} leads out of it")
            if (state, trigger) in self._next:
                raise ValueError(f"{trigger.name} is twice in state {state.name}")
            self._next[state, trigger] = after
        reached, new = {start}, {start}
        while new:
            new = {b for a, _, b in self.table if a in new} - reached
            reached |= new
        lost = [state.name for state in type(start) if state not in reached]
        if lost:
            raise ValueError(f"no transition leads to {', '.join(lost)}")

    def after(self, state: State, trigger: Trigger) -> State:
        """The state that follows.

        Raises:
            StateError: the trigger is not allowed in that state.
        """
        try:
            return self._next[state, trigger]
        except KeyError:
            allowed = ", ".join(each.name for each in self.allowed(state)) or "nothing"
            raise StateError(
                f"{trigger.name} is not allowed in state {state.name}, which allows {allowed}"
            ) from None

    def allowed(self, state: State) -> list[Trigger]:
        """The triggers that are allowed in a state, in the order of the table."""
        return [trigger for before, trigger, _ in self.table if before is state]

    def rows(self) -> list[tuple[str, str, str]]:
        """The table as text, for the documentation: state, trigger, next state."""
        return [(a.name, trigger.name, b.name) for a, trigger, b in self.table]

    def diagram(self) -> str:
        """The table as a state diagram in the language of Mermaid."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.start.name}"]
        lines += [f"    {a} --> {b}: {trigger}" for a, trigger, b in self.rows()]
        lines += [f"    {state.name} --> [*]" for state in type(self.start) if state in self.final]
        return "\n".join(lines)


class Timers(Generic[Trigger]):
    """Named deadlines, one per name; a session has so few that searching all of them is quick."""

    def __init__(self) -> None:
        self._deadlines: dict[Trigger, float] = {}

    def set(self, name: Trigger, deadline: float) -> None:
        """Set a timer to `deadline`; it replaces any earlier setting."""
        self._deadlines[name] = deadline

    def cancel(self, name: Trigger) -> None:
        """Cancel a timer; no effect when it is not set."""
        self._deadlines.pop(name, None)

    def clear(self) -> None:
        """Cancel all timers."""
        self._deadlines.clear()

    def next(self, now: float) -> float | None:
        """Seconds until the first timer expires, 0 if it is overdue; None when none is set."""
        if not self._deadlines:
            return None
        return max(0.0, min(self._deadlines.values()) - now)

    def due(self, now: float) -> list[Trigger]:
        """The timers that have expired, earliest first; they are no longer set."""
        rung = [name for name, at in self._deadlines.items() if at <= now + CLOCK_SLACK]
        rung.sort(key=self._deadlines.__getitem__)
        for name in rung:
            del self._deadlines[name]
        return rung


class BaseSession(ABC, Generic[State, Trigger, Event]):
    """What sessions share: a state from a table, bytes to be sent, and timers.

    A subclass has `transitions`, reads in `_received`, and reacts to its timers in `_timed_out`.
    Whatever ends the session leads to a final state in its table; the timers end with it.
    """

    transitions: ClassVar[Transitions]  # type: ignore[type-arg]  # a ClassVar cannot be generic

    def __init__(self) -> None:
        self._state: State = self.transitions.start
        self._unsent: list[bytes] = []
        self._timers: Timers[Trigger] = Timers()
        self._is_closed = False

    @property
    def state(self) -> State:
        """The current state in `transitions`."""
        return self._state

    @property
    def is_closed(self) -> bool:
        """Whether it is over. Send what is left of `data_to_send`, then close the transport."""
        return self._is_closed

    @property
    def unsent(self) -> int:
        """Bytes that wait for `data_to_send`; whoever runs the session bounds them."""
        return sum(map(len, self._unsent))

    def receive(self, data: Buffer, now: float) -> list[Event]:
        """What the next bytes from the peer mean; ``b""`` says that the peer sends no more."""
        return [] if self.is_closed else self._received(as_bytes(data), now)

    def data_to_send(self) -> bytes:
        """What is to be sent now, each byte once."""
        return b"".join(self.parts_to_send())

    def parts_to_send(self) -> list[bytes]:
        """The same as a list of parts, without joining them."""
        parts, self._unsent = self._unsent, []
        return parts

    def next_timeout(self, now: float) -> float | None:
        """Seconds until `handle_timeout` is to be called, 0 if it is overdue; None: not at all."""
        return self._timers.next(now)

    def handle_timeout(self, now: float) -> list[Event]:
        """What the time that has passed means."""
        events: list[Event] = []
        for name in self._timers.due(now):
            if self.is_closed:  # by the timer before
                break
            events += self._timed_out(name, now)
        return events

    @abstractmethod
    def close(self) -> None:
        """End it from this side; a second call does nothing."""

    @abstractmethod
    def _received(self, data: bytes, now: float) -> list[Event]:
        """See `receive`; only called while the session is open."""

    def _timed_out(self, name: Trigger, now: float) -> list[Event]:
        """Handle a timer that has expired; only called while the session is open."""
        raise NotImplementedError(f"{type(self).__name__} sets timers and does not handle them")

    def _move(self, trigger: Trigger) -> None:
        """Go to the next state; a final state cancels all timers.

        Raises:
            StateError: the trigger is not allowed in this state.
        """
        self._state = self.transitions.after(self._state, trigger)
        self._is_closed = self._state in self.transitions.final
        if self._is_closed:
            self._timers.clear()

    def _send(self, data: bytes) -> None:
        """Queue these bytes to be sent after those that already wait."""
        self._unsent.append(data)
