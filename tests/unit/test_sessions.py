from __future__ import annotations

from enum import Enum, auto
from typing import Any

import pytest

from wireloom.errors import StateError
from wireloom.sessions import BaseSession, Timers, Transitions


class Lamp(Enum):
    OFF = auto()
    ON = auto()
    BROKEN = auto()


class Act(Enum):
    SWITCH = auto()
    HIT = auto()


TABLE = [
    (Lamp.OFF, Act.SWITCH, Lamp.ON),
    (Lamp.ON, Act.SWITCH, Lamp.OFF),
    (Lamp.ON, Act.HIT, Lamp.BROKEN),
]
LAMPS = Transitions(Lamp.OFF, TABLE, final=[Lamp.BROKEN])


def test_the_table_says_what_follows() -> None:
    for state, trigger, after in TABLE:
        assert LAMPS.after(state, trigger) is after
    assert LAMPS.allowed(Lamp.ON) == [Act.SWITCH, Act.HIT]
    assert LAMPS.rows()[2] == ("ON", "HIT", "BROKEN")


def test_what_is_not_in_the_table_is_an_error_that_says_what_is() -> None:
    with pytest.raises(StateError, match="HIT is not allowed in state OFF, which allows SWITCH"):
        LAMPS.after(Lamp.OFF, Act.HIT)
    with pytest.raises(StateError, match="in state BROKEN, which allows nothing"):
        LAMPS.after(Lamp.BROKEN, Act.HIT)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ((Lamp.ON, Act.HIT, Lamp.OFF), "HIT is twice in state ON"),
        ((Lamp.BROKEN, Act.HIT, Lamp.OFF), "BROKEN is final, and HIT leads out of it"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(
    more: tuple[Lamp, Act, Lamp], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Transitions(Lamp.OFF, [*TABLE, more], final=[Lamp.BROKEN])


def test_a_state_that_nothing_leads_to_is_refused() -> None:
    with pytest.raises(ValueError, match="no transition leads to BROKEN"):
        Transitions(Lamp.OFF, TABLE[:2])


def test_states_that_only_lead_to_each_other_are_refused() -> None:
    island = [(Lamp.ON, Act.SWITCH, Lamp.BROKEN), (Lamp.BROKEN, Act.SWITCH, Lamp.ON)]
    with pytest.raises(ValueError, match="no transition leads to ON, BROKEN"):
        Transitions(Lamp.OFF, island)


def test_timers_ring_once_and_in_their_order() -> None:
    timers: Timers[Act] = Timers()
    assert timers.next(5.0) is None
    timers.set(Act.SWITCH, 9.0)
    timers.set(Act.HIT, 7.0)
    assert timers.next(5.0) == 2.0
    assert timers.next(8.0) == 0.0
    assert timers.due(6.9) == []
    assert timers.due(9.0) == [Act.HIT, Act.SWITCH]
    assert timers.due(9.0) == []
    timers.set(Act.HIT, 7.0)
    timers.set(Act.HIT, 12.0)
    assert timers.due(11.0) == []
    timers.cancel(Act.HIT)
    timers.cancel(Act.HIT)
    assert timers.next(11.0) is None


def test_a_timer_that_floats_miss_by_a_hair_rings() -> None:
    timers: Timers[Act] = Timers()
    deadline = 0.1 + 0.7
    timers.set(Act.HIT, deadline)
    now = 0.7999999999999998
    assert now < deadline
    assert timers.due(now) == [Act.HIT]


class LampSession(BaseSession[Lamp, Act, str]):
    transitions = LAMPS

    def close(self) -> None:
        self._timers.set(Act.HIT, 0.0)

    def _received(self, data: bytes, now: float) -> list[str]:
        self._move(Act.SWITCH)
        self._timers.set(Act.HIT, now + 5)
        self._timers.set(Act.SWITCH, now + 6)
        self._send(data)
        return [self.state.name]

    def _timed_out(self, name: Act, now: float) -> list[str]:
        self._move(name)
        return [name.name]


def test_the_base_keeps_state_bytes_and_timers() -> None:
    session = LampSession()
    assert session.receive(memoryview(b"ab"), 1.0) == ["ON"]
    assert session.state is Lamp.ON
    assert session.unsent == 2
    assert session.data_to_send() == b"ab"
    assert session.data_to_send() == b""
    assert session.next_timeout(2.0) == 4.0
    assert session.handle_timeout(2.0) == []


def test_nothing_happens_in_a_session_that_is_over() -> None:
    session = LampSession()
    session.receive(b"a", 1.0)
    assert session.handle_timeout(10.0) == ["HIT"]  # and not SWITCH, which was due as well
    assert session.is_closed
    assert session.next_timeout(10.0) is None
    assert session.receive(b"b", 11.0) == []
    assert session.data_to_send() == b"a"


def test_a_session_with_timers_must_handle_them() -> None:
    class Deaf(LampSession):
        _timed_out: Any = BaseSession._timed_out

    session = Deaf()
    session.close()
    with pytest.raises(NotImplementedError, match="Deaf sets timers"):
        session.handle_timeout(0.0)
