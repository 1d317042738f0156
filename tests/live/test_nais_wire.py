"""The rules of a junction and of a board, one by one, at the sockets of the programs.

The peers share no code with the project (see `oracles.nais_wire`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from oracles.nais_wire import (
    ACK,
    COMMAND,
    CONFIG,
    EVENT,
    PROFILE,
    SECRET,
    MqttPeer,
    TcpPeer,
    WsPeer,
    ack,
    command,
    config,
    event,
    frame,
    number,
    stamp,
    text,
    varint,
)
from oracles.naislive import MOSQUITTO, Program, free_port, mosquitto

from wireloom.formats import nais

pytestmark = pytest.mark.slow  # they start programs

A, B, C, WS = (
    "a=tcp://127.0.0.1:0",
    "b=tcp://127.0.0.1:0",
    "c=tcp://127.0.0.1:0",
    "w=ws://127.0.0.1:0",
)


def junction(*lines: str, routes: tuple[str, ...]) -> Program:
    options = [part for line in lines for part in ("--line", line)]
    options += [part for route in routes for part in ("--route", route)]
    return Program("serve", "nais", *options, "--metrics", "127.0.0.1:0")


@pytest.fixture
def lines() -> Iterator[dict[str, str]]:
    """Lines a, b, c and w; a has a route to each other."""
    with junction(A, B, C, WS, routes=("a-b", "a-c", "a-w")) as program:
        yield program.said["lines"]


def pair(lines: dict[str, str]) -> tuple[TcpPeer, TcpPeer]:
    """Sessions 1 and 2, on lines a and b."""
    return TcpPeer(lines["a"]), TcpPeer(lines["b"])


# -- delivery


def test_a_frame_for_all_goes_to_every_session_of_every_peer_line(lines: dict[str, str]) -> None:
    with ExitStack() as stack:
        enter = stack.enter_context
        a1, a2 = enter(TcpPeer(lines["a"])), enter(TcpPeer(lines["a"]))
        b1, b2 = enter(TcpPeer(lines["b"])), enter(TcpPeer(lines["b"]))
        c1, w1 = enter(TcpPeer(lines["c"])), enter(WsPeer(lines["w"]))
        # Whatever it says of itself, it is session 1; everything else stays.
        one = frame(77, b"\x1e\x17\x1e", sline=5, rsv=0xFF)
        a1.send(one)
        for each in (b1, b2, c1, w1):
            assert each.frame() == stamp(one, 1)
        # No echo to whom is beside it, and none to itself; no way from b to c.
        b1.send(one)
        assert (a1.frame(), a2.frame()) == (stamp(one, 3), stamp(one, 3))
        w1.binary(one)
        assert (a1.frame(), a2.frame()) == (stamp(one, 6), stamp(one, 6))
        for each in (a1, a2, b1, b2, c1, w1):
            assert each.is_silent()


def test_a_frame_for_one_goes_to_that_session_alone(lines: dict[str, str]) -> None:
    with ExitStack() as stack:
        enter = stack.enter_context
        a1, b2, b3, w4 = (
            enter(TcpPeer(lines["a"])),
            enter(TcpPeer(lines["b"])),
            enter(TcpPeer(lines["b"])),
            enter(WsPeer(lines["w"])),
        )
        a1.send(frame(8, dline=3) + frame(9, dline=4))
        assert b3.frame() == frame(8, sline=1, dline=3)
        assert w4.frame() == frame(9, sline=1, dline=4)
        # An answer goes where the request came from, by its SLINE.
        w4.binary(frame(10, command(1)))
        request = a1.frame()
        assert request == frame(10, command(1), sline=4)
        a1.send(frame(ACK, ack(10, 0), dline=request[2]))
        assert w4.frame() == frame(ACK, ack(10, 0), sline=1, dline=4)
        # To itself, to who is beside it, to another line's, to nobody, to one that cannot be.
        b2.send(b"".join(frame(8, dline=each) for each in (2, 3, 4, 99, 30, 255)))
        a1.send(b"".join(frame(8, dline=each) for each in (1, 99, 30)))
        for each in (a1, b2, b3, w4):
            assert each.is_silent()


def test_text_goes_to_every_session_as_it_is(lines: dict[str, str]) -> None:
    with ExitStack() as stack:
        enter = stack.enter_context
        a1, b2, w3 = (
            enter(TcpPeer(lines["a"])),
            enter(TcpPeer(lines["b"])),
            enter(WsPeer(lines["w"])),
        )
        a1.send(b"hello\r\n\xc3\xa4\xff\0\n")
        assert b2.exactly(12) == b"hello\r\n\xc3\xa4\xff\0\n"
        assert w3.message() == (1, b"hello\r\n")
        w3.message()
        w3.text("to the board")
        assert a1.exactly(12) == b"to the board"
        # Text without an end before a frame is a record of its own.
        a1.send(b"temp=21" + frame(6, event(12)))
        assert b2.exactly(7) == b"temp=21"
        assert b2.frame() == frame(6, event(12), sline=1)
        assert w3.message() == (1, b"temp=21")
        assert w3.frame() == frame(6, event(12), sline=1)


def test_any_type_and_any_size_passes_but_type_0(lines: dict[str, str]) -> None:
    a, b = pair(lines)
    with a, b:
        sizes = (0, 1, 29, 30, 127, 128, 255, 300, 16_383, 16_384, 1 << 20)
        for type in (1, 2, 6, 7, 0x17, 0x1E, 255):
            for size in sizes[:6]:
                a.send(frame(type, bytes([0x1E]) * size))
                assert b.frame() == frame(type, bytes([0x1E]) * size, sline=1)
        for size in sizes:
            a.send(frame(0) + frame(80, bytes([0x17]) * size))
            assert b.frame() == frame(80, bytes([0x17]) * size, sline=1)
        # Longer than one LEN may be, or than what a line takes: only itself is lost.
        for bad in (b"\xff\xff\xff\xff", varint((1 << 20) + 1)):
            a.send(b"\x1e\x01\0\0\0" + bad + frame(81))
            assert b.frame() == frame(81, sline=1)
        # A LEN that is longer than needed is handed on in its shortest form.
        a.send(b"\x1e\x52\0\0\0\x83\0abc\x17")
        assert b.frame() == frame(82, b"abc", sline=1)


VECTORS = Path(nais.__file__).parent / "vectors" / "nais.jsonl"
STREAMS = [
    each for each in map(json.loads, VECTORS.read_text().splitlines()) if each["kind"] == "stream"
]


@pytest.mark.parametrize("vector", STREAMS, ids=lambda vector: vector["id"])
def test_what_a_damaged_stream_holds_is_found(vector: dict[str, Any]) -> None:
    given = vector["opts"]
    query = "".join(f"&{name.replace('_', '-')}={value}" for name, value in given.items())
    query = query.replace("True", "true")
    wanted = b""
    for each in vector["expect"]:
        if each["kind"] == "frame":
            payload = bytes.fromhex(each["payload_hex"])
            wanted += frame(each["type"], payload, sline=1, dline=each["dline"], rsv=each["rsv"])
        elif each["kind"] == "text":
            wanted += bytes.fromhex(each["hex"])
    # Where no pause is meant, a machine that is busy must not make one.
    idle_s = 0.3 if "idle" in vector["chunks"] else 60
    with junction(f"{A}?idle-s={idle_s}{query}", B, routes=("a-b",)) as program:
        a, b = pair(program.said["lines"])
        with a, b:
            for chunk in vector["chunks"]:
                if chunk == "idle":
                    time.sleep(0.8)
                else:
                    a.send(bytes.fromhex(chunk))
            if vector["eof"]:
                a.close()
            if wanted:
                assert b.exactly(len(wanted)) == wanted
            assert b.is_silent()


# -- sessions


def test_ids_go_from_1_to_255_without_30_and_then_nobody_is_let_in() -> None:
    with junction(A, B, WS, routes=("a-b", "a-w")) as program, ExitStack() as stack:
        lines = program.said["lines"]
        first = stack.enter_context(TcpPeer(lines["a"]))
        page = stack.enter_context(WsPeer(lines["w"]))
        page.binary(frame(7))
        assert first.frame()[2] == 2
        ids = []
        for _ in range(252):
            board = stack.enter_context(TcpPeer(lines["b"]))
            board.send(frame(7))
            ids.append(first.frame()[2])
        assert ids == [each for each in range(3, 256) if each != 30]
        with TcpPeer(lines["b"]) as late:
            assert late.is_closed()
        with WsPeer(lines["w"]) as late_page:
            assert late_page.closed_with() == 1013
        # An id that is free again is at rest: an answer may still be on its way to who had it.
        board.close()
        with TcpPeer(lines["b"]) as late:
            assert late.is_closed()
        first.send(frame(7))
        assert page.frame() == frame(7, sline=1)


def test_what_came_before_the_first_session_waits_and_later_it_does_not(
    lines: dict[str, str],
) -> None:
    with TcpPeer(lines["a"]) as a:
        for at in range(300):
            a.send(frame(80, number(1, at)))
        time.sleep(0.5)
        with TcpPeer(lines["b"]) as b:
            assert b.frames(256) == [
                frame(80, number(1, at), sline=1) for at in range(300 - 256, 300)
            ]
            a.send(frame(81))
            assert b.frame() == frame(81, sline=1)
        time.sleep(0.2)
        a.send(frame(82))
        with TcpPeer(lines["b"]) as b:
            assert b.is_silent(0.3)
            a.send(frame(83))
            assert b.frame() == frame(83, sline=1)


def test_a_sender_may_be_told_that_there_is_no_such_session() -> None:
    with junction(
        A + "?notify-undeliverable=ack", B + "?notify-undeliverable=text", routes=("a-b",)
    ) as program:
        a, b = pair(program.said["lines"])
        with a, b:
            assert a.ask(frame(80, dline=77)) == frame(ACK, ack(80, (1 << 64) - 2))
            b.send(frame(80, dline=77))
            assert b"77" in b.line()


# -- lines of other kinds


def test_a_websocket_message_is_one_record(lines: dict[str, str]) -> None:
    with TcpPeer(lines["a"]) as a, WsPeer(lines["w"]) as w:
        for wrong in (frame(7) + b"x", frame(7)[:-1], frame(7) + frame(8), b"\x1e", b""):
            w.binary(wrong)
        w.binary(frame(0))
        w.binary(frame(9, bytes(70_000)))
        assert a.frame() == frame(9, bytes(70_000), sline=2)
        w.put(9, b"ping")
        assert w.message() == (10, b"ping")
        w.put(8, b"\x03\xe8")
        assert w.closed_with() == 1000


def test_the_json_of_old_pages_is_understood() -> None:
    with junction(A, WS + "?form=page", routes=("a-w",)) as program:
        lines = program.said["lines"]
        with TcpPeer(lines["a"]) as a, WsPeer(lines["w"]) as one, WsPeer(lines["w"]) as two:

            def told(page: WsPeer) -> Any:
                opcode, data = page.message()
                assert opcode == 1
                return json.loads(data)

            # A page can address nobody: what it says is for all boards.
            one.text('{"uid": "lan", "pwd": "secret"}')
            assert a.frame() == frame(PROFILE, text(1, "lan") + text(2, "secret"), sline=2)
            one.text('{"leds": "get"}')
            assert a.frame() == frame(10, command(1), sline=2)
            one.text('{"leds": "set", "red": "on", "green": "off"}')
            assert a.frame() == frame(10, command(1, 5, 1), sline=2)
            a.send(frame(ACK, ack(1, 0), dline=2))
            assert told(one) == {"id": 1, "sts": 0}
            assert two.is_silent()
            a.send(frame(ACK, ack(2)))
            assert told(one) == told(two) == {"id": 2, "sts": None}
            a.send(frame(ACK, ack(10, 5)))
            assert told(one) == told(two) == {"red": "on", "yellow": "off", "green": "on"}
            a.send(frame(CONFIG, config("local", "hall", "h") + number(4, 1884)))
            expected = {"network": "local", "board": "hall", "host": "h", "port": 1884}
            expected |= {"alive_period": None, "secure": None}  # type: ignore[dict-item]
            assert told(one) == told(two) == expected
            # What cannot be read stops nothing.
            a.send(frame(EVENT, b"\xff\xff") + frame(EVENT, event(12, svals=("x",), ivals=(-3,))))
            heard = told(one)
            assert heard == told(two)
            assert (heard["id"], heard["svals"], heard["ivals"]) == (12, ["x"], [-3])
            one.text("{not json")
            one.text("plain")
            assert a.exactly(5) == b"plain"


def test_a_page_of_old_may_get_what_is_for_others() -> None:
    with junction(A, WS + "?broadcast", routes=("a-w",)) as program:
        lines = program.said["lines"]
        with TcpPeer(lines["a"]) as a, WsPeer(lines["w"]) as one, WsPeer(lines["w"]) as two:
            one.binary(frame(10))
            assert a.frame() == frame(10, sline=2)
            a.send(frame(ACK, ack(10, 1), dline=2))
            assert one.frame() == two.frame() == frame(ACK, ack(10, 1), sline=1, dline=2)


def test_old_boards_get_only_what_they_can_take() -> None:
    with junction(A, B + "?board", routes=("a-b",)) as program:
        a, b = pair(program.said["lines"])
        with a, b:
            for type in (0, 3, 6, 1, 2, 4, 5, 7, 255):
                a.send(frame(type, b"\x08\x01"))
            assert [each[1] for each in b.frames(6)] == [1, 2, 4, 5, 7, 255]
            a.send(frame(7, bytes(249)) + frame(7, bytes(248)))
            assert len(b.frame()) == 256
            b.send(frame(3, ack(7, 0)) + frame(6, event(12)))  # it may say anything
            assert [each[1] for each in a.frames(2)] == [3, 6]


def test_junctions_reach_one_another_over_a_trunk() -> None:
    port = free_port()
    with (
        junction(A, f"t=tcp://127.0.0.1:{port}?trunk", routes=("a-t",)) as near,
        junction(B, f"t=tcp-client://127.0.0.1:{port}?trunk", routes=("b-t",)) as far,
        TcpPeer(near.said["lines"]["a"]) as one,
        TcpPeer(near.said["lines"]["a"]) as two,
        TcpPeer(far.said["lines"]["b"]) as board,
    ):
        deadline = time.monotonic() + 20
        while True:  # until the trunk is there
            two.send(frame(9))
            try:
                assert not board.is_silent(0.3)
                break
            except AssertionError:
                assert time.monotonic() < deadline
        second = board.frame()[2]
        while not board.is_silent(0.3):
            assert board.frame()[2] == second
        one.send(frame(10, command(1)))
        request = board.frame()
        first = request[2]
        assert request == frame(10, command(1), sline=first)
        assert first not in (0, second)
        for dline, peer in ((first, one), (second, two)):
            board.send(frame(ACK, ack(10, dline), dline=dline))
            answer = peer.frame()
            assert (answer[1], answer[6:-1]) == (ACK, ack(10, dline))
            assert (one.is_silent(), two.is_silent()) == (True, True)
        # The board has an id on both sides, and can be addressed by it.
        one.send(frame(11, dline=answer[2]))
        assert board.frame()[:3] == bytes([0x1E, 11, first])


@pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on this machine")
def test_a_board_on_a_tcp_line_is_a_board_on_mqtt(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as broker:
        at = f"127.0.0.1:{broker.port}"
        with (
            MqttPeer(at, "hb/local/hall") as app,
            junction(A, f"m=mqtt://{at}/local/hall", routes=("a-m",)) as program,
            TcpPeer(program.said["lines"]["a"]) as board,
        ):
            deadline = time.monotonic() + 20
            while board.is_silent(0.2):
                app.publish("local/hall", frame(10, command(1), sline=9))
                assert time.monotonic() < deadline
            request = board.frame()
            while not board.is_silent(0.2):
                board.frame()
            assert request == frame(10, command(1), sline=request[2])
            assert request[2] not in (0, 9)
            board.send(frame(ACK, ack(10, 3), dline=request[2], sline=77))
            own = {1, 2} - {request[2]}
            answer = frame(ACK, ack(10, 3), sline=own.pop(), dline=request[2])
            assert app.message() == ("hb/local/hall", answer, 0)  # not retained, QoS 0
            board.send(b"a line\n")
            assert app.message() == ("hb/local/hall", b"a line\n", 0)
            app.publish("local/hall", frame(7) + b"x")
            app.publish("local/hall", b"text")
            assert board.exactly(4) == b"text"


# -- the simulated board


@pytest.fixture
def board() -> Iterator[TcpPeer]:
    """A connection to a board."""
    with (
        Program("nais", "board", "--listen", "127.0.0.1:0", "--name", "hall") as program,
        TcpPeer(program.said["listen"]) as peer,
    ):
        assert b"local/hall" in peer.line()
        yield peer


def test_a_board_acknowledges_by_type_and_seq(board: TcpPeer) -> None:
    for request, answer in (
        ((PROFILE, text(1, "lan") + text(2, "pw")), ack(1, 0)),
        ((CONFIG, config("n", "b", "h")), ack(2, 0)),
        ((COMMAND, command(4)), ack(5, -1)),
        ((COMMAND, command(99, seq=7)), ack(5, -1, 7)),
        ((10, command(1, 7, 5, seq=8)), ack(10, 5, 8)),
        ((10, command(1)), ack(10, 5)),
        ((10, command(1, 1, 0)), ack(10, 4)),
        ((99, command(1)), ack(99, -1)),
    ):
        assert board.ask(frame(*request, sline=33)) == frame(ACK, answer, dline=33), request
    # The answer to a question about the Config goes to who asked.
    board.send(frame(COMMAND, command(5), sline=33))
    assert board.frame() == frame(ACK, ack(5, 0), dline=33)
    assert board.frame() == frame(CONFIG, config("n", "b", "h"), dline=33)
    # Not for boards, and no message: nothing happens.
    board.send(frame(ACK, ack(1)) + frame(EVENT, event(9)) + b"text\n" + frame(0))
    assert board.is_silent()


@pytest.mark.parametrize("request_of", [(COMMAND, command(1)), (SECRET, text(1, "key"))])
def test_a_board_starts_again_when_it_is_told(
    board: TcpPeer, request_of: tuple[int, bytes]
) -> None:
    assert board.ask(frame(*request_of, sline=3)) == frame(ACK, ack(request_of[0], 0), dline=3)
    assert board.is_closed()
