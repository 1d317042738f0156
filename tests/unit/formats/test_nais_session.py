"""Client and board: playbooks, and the two wired to each other through a junction."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wireloom.errors import EncodeError, OptionError, StateError
from wireloom.formats.nais import CommandId, NaisPacket, NaisType
from wireloom.formats.nais.board import LEDS_TYPE, UNKNOWN, BoardSession, Leds
from wireloom.formats.nais.lines import LineOptions, board_line
from wireloom.formats.nais.router import Router
from wireloom.formats.nais.session import (
    Acknowledged,
    ClientSession,
    ConfigReceived,
    EventReceived,
    LineState,
    PacketReceived,
    PeerClosed,
    ProblemFound,
    RequestFailed,
    TextReceived,
)
from wireloom.testing.playbook import EOF, Playbook, Wait

CONFIG = {"network": "local", "board": "b", "host": "h"}


def packet(type: int, message: dict[str, Any], **header: int) -> bytes:
    return NaisPacket.from_message(type, message, **header).encode()


def ack(id: int, *, sline: int = 0, dline: int = 0, **values: int) -> bytes:
    return packet(NaisType.ACK, {"id": id, **values}, sline=sline, dline=dline)


# --- client


def test_a_request_is_acknowledged_by_its_type() -> None:
    assert (
        Playbook(ClientSession)
        >> (lambda client, now: client.profile("u", "p", now))
        << packet(1, {"uid": "u", "pwd": "p"})
        >> ack(2)
        << PacketReceived
        >> ack(1, sline=4)
        << Acknowledged(1, 0, 4)
        >> ack(1)
        << PacketReceived
        >> Wait(100)
    )


def test_a_request_without_an_answer_is_sent_again_with_the_same_seq_and_then_fails() -> None:
    sent = packet(10, {"id": 1, "seq": 1, "ivals": [7, 5]})
    assert (
        Playbook(lambda: ClientSession(timeout_s=2, retries=2))
        >> (lambda client, now: client.command(1, now, type=10, ivals=[7, 5]))
        << sent
        >> Wait(1.9)
        >> Wait(0.1)
        << sent
        >> Wait(2)
        << sent
        >> Wait(2)
        << RequestFailed(1, 3, "no answer")
        >> Wait(100)
    )


def test_seq_decides_when_both_have_it_and_the_oldest_goes_first_otherwise() -> None:
    def ask(client: ClientSession, now: float) -> None:
        for _ in range(3):
            client.command(1, now, type=10)

    sent = b"".join(packet(10, {"id": 1, "seq": seq}) for seq in (1, 2, 3))
    assert (
        Playbook(ClientSession)
        >> ask
        << sent
        >> ack(10, seq=2, status=5)
        << Acknowledged(2, 5, 0)
        >> ack(10, seq=9)
        << PacketReceived
        >> ack(10, status=-1)
        << Acknowledged(1, -1, 0)
        >> ack(10)
        << Acknowledged(3, 0, 0)
    )
    assert not Acknowledged(1, -1, 0).is_success
    assert Acknowledged(1, 7, 0).is_success


def test_only_the_board_that_was_addressed_can_answer() -> None:
    assert (
        Playbook(ClientSession)
        >> (lambda client, now: client.config(CONFIG, now, board=7))
        << packet(2, CONFIG, dline=7)
        >> ack(2, sline=8)
        << PacketReceived
        >> ack(2, sline=7)
        << Acknowledged(1, 0, 7)
    )


def test_a_config_is_asked_for_and_its_ack_is_not_the_end() -> None:
    asked = packet(5, {"id": 5, "seq": 1})
    assert (
        Playbook(ClientSession)
        >> (lambda client, now: client.get_config(now))
        << asked
        >> ack(5, seq=1, status=0)
        >> packet(2, CONFIG, sline=3)
        << ConfigReceived(1, CONFIG, 3)
    )
    assert (
        Playbook(ClientSession)
        >> (lambda client, now: client.get_config(now))
        << asked
        >> ack(5, seq=1, status=-1)
        << Acknowledged(1, -1, 0)
    )


def test_what_is_not_answered_is_not_waited_for() -> None:
    assert (
        Playbook(ClientSession)
        >> (lambda client, now: client.secret("key", now))
        << packet(4, {"key": "key"})
        >> (lambda client, now: client.command(1, now, expects_answer=False))
        << packet(5, {"id": 1, "seq": 2})
        >> Wait(100)
    )


def test_events_are_reported_as_subscribed() -> None:
    fire, move = packet(6, {"id": 10}, sline=2), packet(6, {"id": 12}, sline=2)
    assert (
        Playbook(ClientSession)
        >> fire + move
        << EventReceived(10, {"id": 10}, 2)
        << EventReceived(12, {"id": 12}, 2)
        >> (lambda client, now: client.unsubscribe())
        >> fire + move
        >> (lambda client, now: client.subscribe(12, 13))
        >> (lambda client, now: client.unsubscribe(13))
        >> fire + move
        << EventReceived(12, {"id": 12}, 2)
        >> (lambda client, now: client.subscribe())
        >> fire
        << EventReceived
    )
    with pytest.raises(StateError, match="all events"):
        ClientSession().unsubscribe(10)


def test_text_damage_and_bad_payloads_are_told_apart() -> None:
    assert (
        Playbook(lambda: ClientSession(LineOptions(idle_s=5)))
        >> b"boot\n" + bytes.fromhex("1e030000000017")
        << TextReceived(b"boot\n", True)
        << ProblemFound("bad_payload", "not a Ack: no id")
        >> b"\x1e\x03\x00"
        >> Wait(4.9)
        >> Wait(0.1)
        << ProblemFound("timeout", "the line went idle before the frame was complete")
        << ProblemFound("junk", "part of what looked like a frame")
        >> ack(77)
        << PacketReceived
        >> b"half a line"
        >> EOF
        << TextReceived(b"half a line", False)
        << PeerClosed()
    )


def test_the_end_of_the_line_fails_what_waits() -> None:
    book = (
        Playbook(ClientSession)
        >> (lambda client, now: client.profile("u", "p", now))
        << packet(1, {"uid": "u", "pwd": "p"})
        >> EOF
        << RequestFailed(1, 1, "the line was closed")
        << PeerClosed()
        >> ack(1)
        >> Wait(100)
        >> (lambda client, now: client.close())
    )
    assert book
    assert book.session.state is LineState.CLOSED
    with pytest.raises(StateError, match="over"):
        book.session.profile("u", "p", 0)
    with pytest.raises(StateError, match="over"):
        book.session.send_text("x")


def test_what_was_to_be_sent_is_sent_after_close() -> None:
    client = ClientSession()
    client.send_text("hello")
    client.close()
    assert client.is_closed
    assert client.data_to_send() == b"hello\n"
    assert client.next_timeout(0) is None


def test_what_a_board_cannot_take_is_an_error_here() -> None:
    client = ClientSession(board_line("serial"), max_requests=1)
    with pytest.raises(EncodeError, match="1 to 127"):
        client.secret("k" * 126, 0)
    with pytest.raises(EncodeError, match="no TYPE 3"):
        client.request(3, {"id": 1}, 0)
    with pytest.raises(EncodeError, match="0x1e"):
        client.send_text("a\x1eb")
    with pytest.raises(EncodeError, match="never sent"):
        ClientSession().send_packet(NaisPacket(type=0))
    assert client.data_to_send() == b""
    assert client.request("Profile", {"uid": "", "pwd": ""}, 0) == 1
    assert client.waiting == (1,)
    with pytest.raises(StateError, match="1 requests wait"):
        client.get_config(0)
    with pytest.raises(OptionError):
        ClientSession(timeout_s=0)


# --- board


def test_a_board_takes_its_settings_and_answers_to_the_sender() -> None:
    book = (
        Playbook(BoardSession)
        >> packet(1, {"uid": "u", "pwd": "p"}, sline=9)
        << ack(1, status=0, dline=9)
        << PacketReceived
        >> packet(5, {"id": CommandId.GET_CONFIG, "seq": 3}, sline=9)
        << ack(5, seq=3, status=UNKNOWN, dline=9)
        << PacketReceived
        >> packet(2, CONFIG, sline=9)
        << ack(2, status=0, dline=9)
        << PacketReceived
        >> packet(5, {"id": CommandId.GET_CONFIG, "seq": 4}, sline=9)
        << ack(5, seq=4, status=0, dline=9) + packet(2, CONFIG, dline=9)
        << PacketReceived
        >> packet(4, {"key": "k"})
        << ack(4, status=0)
        << PacketReceived
        >> packet(5, {"id": 1}) + packet(5, {"id": 4})
        << ack(5, status=0) + ack(5, status=UNKNOWN)
        << PacketReceived
        << PacketReceived
    )
    assert book
    assert (book.session.profile, book.session.config) == ({"uid": "u", "pwd": "p"}, CONFIG)


def test_a_board_ignores_what_only_boards_send() -> None:
    assert (
        Playbook(BoardSession)
        >> ack(1) + packet(6, {"id": 1}) + NaisPacket(type=0).encode()
        << ProblemFound
        << ProblemFound
        << ProblemFound
    )


def test_the_leds_are_switched_by_mask() -> None:
    def leds(*ivals: int) -> bytes:
        return packet(LEDS_TYPE, {"id": 1, "ivals": list(ivals)})

    assert (
        Playbook(BoardSession)
        >> leds(7, 5)
        << ack(10, status=5)
        << PacketReceived
        >> leds(1, 0)
        << ack(10, status=4)
        << PacketReceived
        >> leds()
        << ack(10, status=4)
        << PacketReceived
    )


def test_a_command_that_comes_again_is_answered_and_not_done_again() -> None:
    done: list[int] = []

    def count(command: dict[str, Any]) -> int:
        done.append(command["id"])
        return len(done)

    board = BoardSession({20: count})
    for sline, seq in [(1, 1), (1, 1), (2, 1), (1, 2), (1, 1)]:
        board.receive(packet(20, {"id": 1, "seq": seq}, sline=sline), 0)
    statuses = [(1, 1, 1), (1, 1, 1), (2, 1, 2), (1, 2, 3), (1, 1, 1)]
    assert board.data_to_send() == b"".join(
        ack(20, dline=sline, seq=seq, status=status) for sline, seq, status in statuses
    )
    for seq in range(200):
        board.receive(packet(20, {"id": 1, "seq": seq}, sline=3), 0)
    assert len(board._statuses) == 64


def test_unknown_commands_and_handlers_that_fail_are_answered_too() -> None:
    def fail(command: dict[str, Any]) -> int:
        raise RuntimeError("smoke")

    assert (
        Playbook(lambda: BoardSession({20: fail, 21: lambda command: 1 << 40}))
        >> packet(20, {"id": 1})
        << ack(20, status=UNKNOWN)
        << PacketReceived
        << ProblemFound("handler", "RuntimeError: smoke")
        >> packet(21, {"id": 1})
        << ack(21, status=UNKNOWN)
        << PacketReceived
        << ProblemFound
        >> packet(22, {"id": 1})
        << ack(22, status=UNKNOWN)
        << PacketReceived
        >> NaisPacket(type=22, payload=b"\xff").encode()
        << ack(22, status=UNKNOWN)
        << ProblemFound
    )


def test_a_board_reports_prints_and_misbehaves_on_request() -> None:
    board = BoardSession()
    board.send_text("button")
    board.send_event(9001, svals=["a"], fvals=[0.5], ivals=[-1])
    board.send_raw(b"\x1e\x1e")
    event = {"id": 9001, "svals": ["a"], "fvals": [0.5], "ivals": [-1]}
    assert board.data_to_send() == b"button\n" + packet(6, event) + b"\x1e\x1e"
    board.close()
    with pytest.raises(StateError):
        board.send_raw(b"")


# --- all together


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_request_ends_once_and_is_carried_out_at_most_once(data: st.DataObject) -> None:
    """Clients and boards on a junction that loses what it carries, in any order and pieces."""
    router = Router()
    for line in "CB":
        router.add_line(line, board_line("tcp") if line == "B" else None)
    router.add_route("C", "B")
    done: list[tuple[int, int]] = []
    now = 0.0
    clients = {router.connect("C", now): ClientSession(timeout_s=1, retries=2) for _ in range(2)}
    boards: dict[int, BoardSession] = {}
    for _ in range(2):
        number = router.connect("B", now)

        def carry_out(command: dict[str, Any], number: int = number) -> int:
            done.append((number, command["ivals"][0]))
            return int(command["ivals"][0])

        boards[number] = BoardSession({20: carry_out})
    sessions: dict[int, ClientSession | BoardSession] = {**clients, **boards}
    open_requests: dict[tuple[int, int], int] = {}
    task = 0

    def take(number: int, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, Acknowledged):
                assert open_requests.pop((number, event.request)) == event.status
            elif isinstance(event, RequestFailed):
                del open_requests[number, event.request]

    def turn(number: int, is_lost: bool) -> None:
        session = sessions[number]
        router.receive(number, session.data_to_send(), now)
        sent = router.data_to_send(number, now)
        if sent and not is_lost:
            half = len(sent) // 2
            take(number, session.receive(sent[:half], now))
            take(number, session.receive(sent[half:], now))

    for _ in range(data.draw(st.integers(1, 40))):
        number = data.draw(st.sampled_from(sorted(sessions)))
        action = data.draw(st.sampled_from(["ask", "turn", "turn", "lose", "wait"]))
        session = sessions[number]
        if action == "ask" and isinstance(session, ClientSession):
            task += 1
            board = data.draw(st.sampled_from(sorted(boards)))
            request = session.command(1, now, type=20, ivals=[task], board=board)
            open_requests[number, request] = task
        elif action == "wait":
            now += 0.4
            for each in sessions:
                take(each, sessions[each].handle_timeout(now))
        else:
            turn(number, action == "lose")
    for _ in range(20):
        for number in sessions:
            turn(number, False)
        now += 0.5
        for number in sessions:
            take(number, sessions[number].handle_timeout(now))
    assert not open_requests
    assert len(done) == len(set(done)) <= task
    assert not any(client.waiting for client in clients.values())


def test_leds_start_dark() -> None:
    assert Leds().lit == 0
