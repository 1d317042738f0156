"""Conversations of a session as a test writes them down: ``>>`` goes in, ``<<`` comes out.

::

    assert (
        Playbook(lambda: Server(greeting=b"hi"))
        >> b"hello"             # received from the peer
        << b"hi"                # to be sent
        << Greeted(b"hello")    # the next event; a type stands for any event of it
        >> Wait(30)             # time passes, timers ring
        << TimedOut
        >> (lambda session, now: session.close())   # what the owner does; may return events
        >> EOF                  # the peer sends no more
    )

Nothing happens until the playbook is evaluated as a bool. It is then played to a new session for
each way to cut the input into chunks. Between one ``>>`` and the next, exactly what is written must
come out: bytes in their order, events in theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wireloom.sessions import Session
from wireloom.testing.chunks import cut

__all__ = ["CHUNKS", "EOF", "Playbook", "Wait"]

EOF = b""
"""The peer sends no more."""

CHUNKS: tuple[int | None, ...] = (None, 1, 2, 3, 7, 64)
"""Sizes of the chunks in which bytes are received; None: everything of one ``>>`` at once."""

_MOST_TIMEOUTS = 1000

S = TypeVar("S", bound=Session[Any])


@dataclass(frozen=True, slots=True)
class Wait:
    """Time that passes; the session is asked at each of its timeouts."""

    seconds: float


class Playbook(Generic[S]):
    """A conversation with the sessions that `make` gives; it is true or raises `AssertionError`.

    Args:
        make: gives a new session for each way to cut the input.
        chunks: sizes of chunks; ``(None,)`` where input comes in datagrams, which are not cut.
        now: what the clock says at the start.
    """

    def __init__(
        self, make: Callable[[], S], *, chunks: Iterable[int | None] = CHUNKS, now: float = 1000.0
    ) -> None:
        self._make = make
        self._chunks = tuple(chunks)
        self._start = now
        self._steps: list[tuple[str, Any]] = []
        self.session: S = make()
        """The last session played to, for inspecting its state."""

    def __rshift__(self, given: bytes | Wait | Callable[[S, float], Any]) -> Playbook[S]:
        """Something happens to the session."""
        self._steps.append((">>", given))
        return self

    def __lshift__(self, expected: object) -> Playbook[S]:
        """Something comes out of it: bytes, an event, or any event of a type."""
        self._steps.append(("<<", expected))
        return self

    def __bool__(self) -> bool:
        """Play it.

        Raises:
            AssertionError: something else came out, or nothing, or more.
        """
        for size in self._chunks:
            self.session = self._make()
            _Run(self.session, size, self._start).play(self._steps)
        return True


class _Run:
    """One conversation with one session."""

    def __init__(self, session: Session[Any], size: int | None, now: float) -> None:
        self.session = session
        self.size = size
        self.now = now
        self.log: list[str] = []
        self.sent = b""
        self.events: list[Any] = []

    def play(self, steps: Iterable[tuple[str, Any]]) -> None:
        self.collect(None)
        for direction, step in steps:
            if direction == ">>":
                self.nothing_is_left()
                self.log.append(f">> {step!r}")
                self.give(step)
            else:
                self.expect(step)
                self.log.append(f"<< {step!r}")
        self.nothing_is_left()

    def give(self, step: Any) -> None:
        if isinstance(step, bytes):
            for chunk in cut(step, self.size) if self.size and step else [step]:
                self.collect(self.session.receive(chunk, self.now))
        elif isinstance(step, Wait):
            self.wait(step.seconds)
        else:
            self.collect(step(self.session, self.now))

    def wait(self, seconds: float) -> None:
        target = self.now + seconds
        for _ in range(_MOST_TIMEOUTS):
            delay = self.session.next_timeout(self.now)
            if delay is None or self.now + delay > target:
                break
            if delay < 0:
                self.fail(f"a timeout of {delay} seconds")
            self.now += delay
            self.collect(self.session.handle_timeout(self.now))
        else:
            self.fail(f"{_MOST_TIMEOUTS} timeouts within {seconds} seconds")
        self.now = target

    def collect(self, events: Any) -> None:
        self.events += events if isinstance(events, list) else []
        self.sent += self.session.data_to_send()
        if again := self.session.data_to_send():
            self.fail(f"{again!r} is to be sent twice")

    def expect(self, step: Any) -> None:
        if isinstance(step, bytes):
            if not self.sent.startswith(step):
                self.fail(f"{step!r} is not sent, but {self.sent!r}")
            self.sent = self.sent[len(step) :]
            return
        if not self.events:
            self.fail(f"no event where {step!r} is expected; {self.sent!r} is sent")
        event = self.events.pop(0)
        is_right = isinstance(event, step) if isinstance(step, type) else event == step
        if not is_right:
            self.fail(f"the event is {event!r}, not {step!r}")

    def nothing_is_left(self) -> None:
        if self.sent:
            self.fail(f"{self.sent!r} is sent, too")
        if self.events:
            self.fail(f"there are more events: {self.events!r}")

    def fail(self, reason: str) -> None:
        cut_into = f"chunks of {self.size}" if self.size else "one chunk each"
        raise AssertionError("\n".join([*self.log, f"then, received in {cut_into}: {reason}"]))
