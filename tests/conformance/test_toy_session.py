"""A session without sockets: the toy's, played to, and wired to another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wireloom.errors import StateError
from wireloom.sessions import Session
from wireloom.testing.playbook import EOF, Playbook, Wait
from wireloom.wire import Limits

HERE = Path(__file__).parent
START = 1000.0


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(HERE))
    import toy_format.session  # type: ignore[import-not-found]

    return toy_format.session  # type: ignore[no-any-return]


@pytest.fixture
def say(toy: ModuleType) -> Callable[[bytes], bytes]:
    def encode(text: bytes) -> bytes:
        return toy.Say(text=text).encode()  # type: ignore[no-any-return]

    return encode


@pytest.fixture
def talk(toy: ModuleType, say: Callable[[bytes], bytes]) -> Playbook[Any]:
    """A conversation in which both have greeted."""
    return (
        Playbook(lambda: toy.ToySession(START), now=START)
        << say(b"hello")
        >> say(b"hello")
        << toy.PeerGreeted()
    )


def test_it_is_a_session(toy: ModuleType) -> None:
    session: Session[Any] = toy.ToySession(START)
    assert not session.is_closed
    assert session.next_timeout(START) == toy.PATIENCE


def test_both_talk_and_the_peer_leaves(toy, say, talk) -> None:
    assert (
        talk
        >> say(b"one") + toy.Move(x=5, colour=1).encode() + say(b"two")
        << toy.Heard(b"one")
        << toy.PeerMoved(5)
        << toy.Heard(b"two")
        >> (lambda session, now: session.say(b"three"))
        << say(b"three")
        >> say(b"bye") + say(b"not heard any more")
        << say(b"bye")
        << toy.Ended("the peer said goodbye")
        >> say(b"nor this")
        >> Wait(1000)
    )
    assert talk.session.is_closed
    assert talk.session.next_timeout(START) is None


def test_silence_is_asked_about_and_then_left(toy, say, talk) -> None:
    assert (
        talk
        >> Wait(9.9)
        >> Wait(0.2)
        << say(toy.PING)
        >> say(b"yes")
        << toy.Heard(b"yes")
        >> Wait(9.9)
        >> Wait(10.1)
        << say(toy.PING)
        << toy.Ended("the peer is silent")
    )


def test_a_question_is_answered(toy, say, talk) -> None:
    assert talk >> say(toy.PING) << say(b"yes")


def test_who_leaves_waits_for_the_answer(toy, say, talk) -> None:
    assert (
        talk
        >> (lambda session, now: session.close())
        << say(b"bye")
        >> (lambda session, now: session.close())
        >> say(b"late")
        << toy.Heard(b"late")
        >> say(b"bye")
        << toy.Ended("the peer said goodbye")
    )


def test_who_leaves_does_not_wait_for_ever(toy, say, talk) -> None:
    leave = talk >> (lambda session, now: session.close()) << say(b"bye")
    assert leave >> Wait(11) << toy.Ended("the peer is silent")


def test_the_end_of_the_stream_ends_it(toy, say, talk) -> None:
    assert talk >> say(b"one")[:3] >> EOF << toy.Ended("the peer is gone")


def test_what_is_no_packet_ends_it_behind_what_is(toy, say, talk) -> None:
    assert (
        talk
        >> say(b"one") + b"\x7e\x5a\x09\x00\x05"
        << toy.Heard(b"one")
        << toy.Ended("no such packet (at byte 20)")
    )


def test_a_packet_that_is_too_large_ends_it_at_its_header(toy, say) -> None:
    assert (
        Playbook(lambda: toy.ToySession(START, Limits(max_frame=30)), now=START)
        << say(b"hello")
        >> say(bytes(26))[:5]
        << toy.Ended("frame size 31 is over the limit of 30 (at byte 0)")
    )


def test_talking_before_greeting_ends_it(toy, say) -> None:
    made = Playbook(lambda: toy.ToySession(START), now=START) << say(b"hello")
    reason = "HEARD is not allowed in state GREETING, which allows GREETED, SILENCE, LEFT, "
    assert made >> say(b"one") << toy.Ended(reason + "PEER_LEFT, FAILED")


def test_its_owner_cannot_talk_before_the_greeting(toy) -> None:
    with pytest.raises(StateError, match="nothing can be said in state GREETING"):
        toy.ToySession(START).say(b"one")


def test_two_of_them_talk_to_each_other(toy) -> None:
    ann, bob = toy.ToySession(START), toy.ToySession(START)

    def exchange() -> list[object]:
        found: list[object] = []
        while (data := ann.data_to_send()) + (back := bob.data_to_send()):
            found += bob.receive(data, START) if data else []
            found += ann.receive(back, START) if back else []
        return found

    assert exchange() == [toy.PeerGreeted()] * 2
    ann.say(b"a" * 1000)
    assert exchange() == [toy.Heard(b"a" * 1000)]
    bob.close()
    assert exchange() == [toy.Ended("the peer said goodbye")] * 2
    assert ann.is_closed
    assert bob.is_closed


def test_its_states_can_be_drawn(toy) -> None:
    diagram = toy.TRANSITIONS.diagram()
    assert diagram.startswith("stateDiagram-v2\n    [*] --> GREETING\n")
    assert "    ASKING --> TALKING: HEARD\n" in diagram
    assert diagram.endswith("\n    CLOSED --> [*]")
