"""The rules of the protocol, one by one, at the broker's own socket: words in, words out.

The client here shares no code with the project (see `oracles.blaze_words`), and the broker is the
program.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.blaze_program import Program
from oracles.blaze_words import (
    MODEL,
    Closed,
    Packet,
    Words,
    array,
    field,
    i32,
    kind_of,
    nclass,
    stamp_of,
    text,
    truck,
    u32,
    until_closed,
)

pytestmark = pytest.mark.slow  # they start brokers as programs

INS, UPD, DLT, DEL, RST = 1, 2, 3, 4, 5
DOWNLOADED = [(2, INS)]
END, STOP = (3, 0), (4, 0)
OK, KO = 1 << 29, 2 << 29
FINE, RESERVED, REFUSED = 1 << 29, 2 << 29, 3 << 29


def start(folder: Path, *options: str) -> Program:
    return Program.start(folder, f"sqlite:///{folder / 'fleet.db'}", *options, model=MODEL)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker for tests that leave no trace in each other's objects."""
    options = ("--handshake-s", "1.5", "--heartbeat-min", "2", "--heartbeat-max", "60")
    with start(tmp_path_factory.mktemp("facts"), *options) as program:
        yield program.address
        assert program.terminate() == 0


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[str]:
    """A broker of one's own."""
    with start(tmp_path) as program:
        yield program.address


# -- connections


@pytest.mark.parametrize(
    ("hbtsec", "word"),
    [
        (30, FINE | 30 << 16),
        (0, FINE),
        (60, FINE | 60 << 16),
        (61, RESERVED | 8 << 25 | 60 << 16),
        (255, RESERVED | 8 << 25 | 60 << 16),
        (1, RESERVED | 8 << 25 | 2 << 16),
    ],
)
def test_a_heartbeat_is_agreed_to_or_changed(broker: str, hbtsec: int, word: int) -> None:
    with Words(broker) as words:
        words.conreq(hbtsec)
        kind, answer, _ = words.packet()
        assert (kind, answer[0]) == (4, word)
        assert answer[1] > 0


@pytest.mark.parametrize("prover", [0, 2, 63])
def test_another_version_is_refused(broker: str, prover: int) -> None:
    with Words(broker) as words:
        words.conreq(30, prover=prover)
        assert words.refused() == (3, 6)


def test_a_second_request_is_refused_and_ends_the_connection(broker: str) -> None:
    with Words.connect(broker) as words:
        words.conreq(30)
        assert words.refused() == (3, 7)


def test_beyond_the_limit_one_is_refused_until_another_leaves(tmp_path: Path) -> None:
    with start(tmp_path, "--limits-max-connections", "1") as program:
        with Words.connect(program.address), Words(program.address) as second:
            second.conreq()
            assert second.refused() == (3, 5)
        for _ in range(100):
            with Words(program.address) as words:
                words.conreq()
                if words.packet().words[0] == FINE:
                    break
        else:
            raise AssertionError("nobody is let in any more")


def test_beyond_the_limit_of_an_address_one_is_told_too(tmp_path: Path) -> None:
    with start(tmp_path, "--limits-max-connections-per-address", "1") as program:
        with Words.connect(program.address), Words(program.address) as second:
            second.conreq()
            assert second.refused() == (3, 5)
        with Words.connect(program.address):
            pass


def test_what_is_sent_behind_a_request_waits_for_its_answer(fresh: str) -> None:
    request = struct.pack(">2I", 0x04830000, 30 << 24)
    point = nclass(field(1, i32(1)))
    for connid, guess in ((1, 1), (2, 1)):
        tail = (guess, 1, 46, 2 << 28 | 301, guess)
        with Words(fresh) as words:
            words.send(request + struct.pack(">9I", 0x06460000, 0x42000000, 0, 0, *tail) + point)
            assert words.packet() == (4, (FINE | 30 << 16, connid), None)
            if connid == guess:
                assert words.packet().words == (OK, 0, 0, connid, 1)
            else:
                assert words.disconnected() == 8
    for size in (1, 16):
        with Words(fresh) as words:
            for at in range(0, 16, size):
                words.send((request * 2)[at : at + size])
            assert words.packet().words[0] == FINE | 30 << 16
            assert words.refused() == (3, 7)


def test_a_subscription_may_be_stopped_in_the_segment_that_asks_for_it(broker: str) -> None:
    with Words.connect(broker) as words:
        subscribe = struct.pack(">5I", 0x05480000, 0x13110000, 2 << 28 | 303, words.connid, 1)
        words.send(subscribe + struct.pack(">2I", 0x048C0000, 1))
        assert words.packet() == (9, (FINE, 1, 1), None)
        assert words.packet() == (13, (FINE, 1), None)
        words.subscribe(nclsid=303, mode=3)
        assert words.packet() == (9, (FINE, 1, 2), None)
        assert words.code(INS, nclass(field(1, u32(1))), nclsid=303) == 0
        assert kind_of(words.event()) == (1, INS)


FIRST = {
    "TSTREQ": (1, 0, 7),
    "HRTBET": (2, 0, 7),
    "CONRES": (4, FINE, 7),
    "TXRQST": (6, 2 << 28 | INS << 25, 1, 1, 7, 1, 7),
    "SBSREQ": (8, 0x11110000, 2 << 28 | 302, 7, 1),
    "SBSACK": (11, 1, 1),
    "SBSTOP": (12, 1),
}


@pytest.mark.parametrize("name", FIRST)
def test_nothing_comes_before_a_connection_request(broker: str, name: str) -> None:
    with Words(broker) as words:
        words.put(*FIRST[name])
        assert words.disconnected() == 8


def test_who_requests_nothing_is_closed(broker: str) -> None:
    with Words(broker) as words:
        started = time.monotonic()
        assert words.is_closed()  # without a word
        assert time.monotonic() - started > 1


@pytest.mark.parametrize("kind", [1, 2, 5, 6, 8, 9])
def test_another_connections_id_ends_the_connection(broker: str, kind: int) -> None:
    with Words.connect(broker) as words:
        other = words.connid + 1
        if kind == 9:
            words.tx(INS, truck(1), connid=other)
        elif kind == 8:
            words.subscribe(connid=other)
        elif kind == 6:
            words.put(6, 2 << 28 | INS << 25, 1, 1, words.connid, 1, other)
        else:
            words.put(kind, 7 << 28, other)
        assert words.disconnected() == 8


@pytest.mark.parametrize(
    "packet",
    [
        (4, FINE, 7),
        (7, OK, 1, 1, 1, 1),
        (9, FINE, 1, 1),
        (10, 1, 3 << 28, 1, 0, 0),
        (13, FINE, 1),
        (1, 0),
        (2, 0),
        (5, 7 << 28),
    ],
)
def test_a_servers_packet_from_a_client_ends_the_connection(
    broker: str, packet: tuple[int, ...]
) -> None:
    with Words.connect(broker) as words:
        words.put(*packet)
        assert words.disconnected() in (1, 8)


def test_a_test_request_is_answered_and_a_heartbeat_is_not(broker: str) -> None:
    with Words.connect(broker) as words:
        before = int(time.time())
        words.put(1, 12345, words.connid)
        kind, answer, _ = words.packet()
        assert (kind, len(answer)) == (2, 1)
        assert before <= answer[0] <= time.time()  # its own clock, not an echo
        words.put(2, 0, words.connid)
        assert words.is_silent()


def test_silence_is_asked_about_and_then_ends_the_connection(broker: str) -> None:
    with Words.connect(broker, 2) as words:
        kind, answer, _ = words.packet()
        assert (kind, len(answer)) == (1, 1)
        words.put(2, 0, words.connid)
        assert words.packet().type == 1  # the next silence
        assert words.disconnected() == 6


def test_who_says_goodbye_is_told_nothing(broker: str) -> None:
    with Words.connect(broker) as words:
        words.put(5, 7 << 28, words.connid)
        assert words.is_closed()


# -- hostile peers


def test_what_cannot_be_a_packet_ends_its_own_connection_alone(broker: str) -> None:
    with Words.connect(broker) as good:
        odd = [struct.pack(">I", 1 << 26 | 2 << 22 | kind << 16) + bytes(8) for kind in (0, 14, 63)]
        odd += [
            struct.pack(">I", 1 << 26 | size << 22 | 6 << 16) + bytes(80) for size in (0, 1, 8, 15)
        ]
        for data in (*odd, b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 64):
            for make in (Words, Words.connect):
                with make(broker) as bad:
                    bad.send(data)
                    assert bad.disconnected() in (1, 8), data
        for size in (0, 4, 35, (1 << 20) + 1, 0xFFFFFFFF):
            with Words.connect(broker) as bad:
                ids = (1, 1, bad.connid, 1)
                bad.put(6, 4 << 28 | INS << 25, *ids, size, 2 << 28 | 302, bad.connid)
                assert bad.disconnected() == 1
        with Words(broker) as half, Words(broker) as none:
            half.send(b"\x04\x83")
            assert good.code(INS, truck(1_000)) == 0  # meanwhile
            assert until_closed(half) < 10
            assert until_closed(none) < 10
        good.put(1, 0, good.connid)
        assert good.packet().type == 2


def test_a_request_may_be_in_one_segment_with_the_end_of_its_connection(tmp_path: Path) -> None:
    garbage = b"\xff" * 8
    with start(tmp_path, "--limits-max-connections", "1") as program:
        subscribe = struct.pack(">3I", 0x05480000, 0x13110000, 2 << 28 | 302)
        with Words.connect(program.address) as words:
            words.send(subscribe + struct.pack(">2I", words.connid, 1) + garbage)
            assert words.disconnected() == 1
        with Words.connect(program.address) as words:
            goodbye = struct.pack(">3I", 0x04C50000, 7 << 28, words.connid)
            words.send(subscribe + struct.pack(">2I", words.connid, 1) + goodbye)
            assert words.is_closed()
        with Words.connect(program.address) as words:
            connid = words.connid
            head = (0x06460000, 4 << 28 | INS << 25, 1, 1, connid, 1, 46, 2 << 28 | 302, connid)
            words.send(struct.pack(">9I", *head) + truck(1) + garbage)
            # It may be carried out, so there is no answer that says it is not.
            assert words.disconnected() == 1
        with Words.connect(program.address), Words(program.address) as second:
            second.send(struct.pack(">2I", 0x04830000, 0) + garbage)
            assert second.refused() == (3, 5)  # what is behind the request is not looked at
        assert program.terminate() == 0
        assert '"level": "error"' not in program.log.read_text()


def test_the_log_says_where_a_request_cannot_be_read(tmp_path: Path) -> None:
    with start(tmp_path) as program, Words.connect(program.address) as words:
        assert words.code(INS, truck(1, field(6, array(field(1, nclass(field(9, b""))))))) == 5
        words.subscribe(rqstid=7, nclsid=4242)
        assert words.packet().type == 9
        for _ in range(100):
            assert words.code(7, truck(1)) == 5
        assert program.terminate() == 0
        lines = [json.loads(line) for line in program.log.read_text().splitlines()]
    said = [line for line in lines if line["event"] == "rejected"]
    assert said[0]["id"] == [1, 1, words.connid, 1]
    assert said[0]["code"] == "REQUEST_MALFORMED"
    assert said[0]["detail"] == "body: class POINT has no field 9 (at byte 22 in stops[1])"
    assert (said[1]["packet"], said[1]["id"]) == ("SBSREQ", 7)
    assert 10 < len(said) < 50  # a flood of them does not fill the disk


# -- transactions


def test_actions_do_what_they_say(fresh: str) -> None:
    with Words.connect(fresh) as words:

        def image(action: int, body: bytes, enctyp: int = 2) -> bytes | None:
            answer = words.ask(action, body, wants=1, enctyp=enctyp)
            assert answer.words[0] == OK | 1 << 28
            assert answer.words[6] == 2 << 28 | 302
            return answer.body

        one = truck(1, field(2, text(b"one")), field(3, i32(-5)))
        assert image(INS, one) == one
        assert words.ask(INS, truck(1), wants=1) == (7, (KO | 4, 1, 1, words.connid, 2), None)
        assert words.ask(INS, truck(2)).words[0] == OK  # nothing is asked for, nothing comes
        assert words.code(UPD, truck(3)) == 4
        speed = field(3, i32(9))
        assert image(UPD, truck(1, speed)) == truck(1, speed)  # the name is gone
        # Deltas: arrays by element, nested objects by field, explicit zeros.
        temps = field(4, array(field(1, i32(7)), field(3, i32(-1))))
        assert image(DLT, truck(1, temps), 3) == truck(1, speed, temps)
        change = field(4, array(field(1, i32(0)), field(0, i32(8))))
        temps = field(4, array(field(0, i32(8)), field(3, i32(-1))))
        assert image(DLT, truck(1, change), 3) == truck(1, speed, temps)
        home = field(5, nclass(field(1, i32(3)), field(3, text(b"dock"))))
        assert image(DLT, truck(1, home), 3) == truck(1, speed, temps, home)
        change = field(5, nclass(field(2, i32(4)), field(3, text(b""))))
        home = field(5, nclass(field(1, i32(3)), field(2, i32(4))))
        assert image(DLT, truck(1, change), 3) == truck(1, speed, temps, home)
        stop = field(6, array(field(2, nclass(field(1, i32(1))))))
        assert image(DLT, truck(1, field(3, i32(0)), stop), 3) == truck(1, temps, home, stop)
        change = field(6, array(field(2, nclass(field(2, i32(2))))))
        stop = field(6, array(field(2, nclass(field(1, i32(1)), field(2, i32(2))))))
        assert image(DLT, truck(1, change), 3) == truck(1, temps, home, stop)
        assert words.code(DLT, truck(3), enctyp=3) == 4
        assert words.code(DEL, truck(2)) == 0
        assert words.code(DEL, truck(2)) == 4
        assert words.code(INS, truck(2)) == 0  # once more
        assert words.code(RST, nclass()) == 0
        assert words.code(UPD, truck(1)) == 4
        assert words.code(RST, nclass(field(1, u32(1))), nclsid=303) == 6


def test_an_object_in_the_encoding_all_has_every_field(fresh: str) -> None:
    point = nclass(field(1, i32(0)), field(2, i32(0)), field(3, text(b"")))
    whole = truck(
        1,
        field(2, text(b"")),
        field(3, i32(0)),
        field(4, array(*(field(i, i32(0)) for i in range(4)))),
        field(5, point),
        field(6, array(*(field(i, point) for i in range(3)))),
    )
    with Words.connect(fresh) as words:
        answer = words.ask(INS, whole, enctyp=1, wants=1)
        assert answer.words[6] == 1 << 28 | 302
        assert answer.body == whole
        words.subscribed(enctyp=1)
        assert words.event().body == whole


BAD_BODIES = {
    "element N of N": truck(1, field(4, array(field(4, i32(1))))),
    "N + 1 characters": truck(1, field(2, text(b"x" * 17))),
    "an unknown field": truck(1, field(7, i32(1))),
    "field 0": truck(1, field(0, i32(1))),
    "a byte left over": truck(1) + b"\0",
    "no body": b"",
    "half a length": b"\0\0",
    "a length beyond the body": u32(99),
    "a length beyond its object": truck(1, field(5, u32(50))),
    "a field twice": truck(1, field(1, u32(2))),
    "an element twice": truck(1, field(4, array(field(1, i32(1)), field(1, i32(2))))),
    "half an element": truck(1, field(4, u32(5) + b"\0\0\1\0\0")),
}


def test_what_cannot_be_done_has_its_code(broker: str) -> None:
    with Words.connect(broker) as words:
        connid = words.connid
        for name, body in BAD_BODIES.items():
            assert words.code(INS, body) == 5, name
        assert words.code(INS, truck(40, field(2, text(b"x" * 16)))) == 0
        assert words.code(INS, nclass(), nclsid=4242) == 5
        assert words.code(INS, truck(41), enctyp=3) == 5
        assert [words.code(action, truck(41)) for action in (0, 6, 7)] == [5, 5, 5]
        assert [words.code(INS, truck(41), enctyp=e) for e in (0, 4, 15)] == [5, 6, 6]
        codes = []
        for kind in (0, 1, 2, 3, 4):
            words.put(6, kind << 28 | INS << 25, 1, 1, connid, 500 + kind, connid)
            codes.append(words.packet().words)
        assert [answer[0] for answer in codes] == [KO | 5, KO | 6, KO | 6, KO | 6, KO | 5]
        assert codes[3][1:] == (1, 1, connid, 503)
        for ids in ((1, 1, connid + 1, 9), (1, 1, 0, 9), (1, 1, connid, 0)):
            assert words.code(INS, truck(41), ids=ids) == 200  # type: ignore[arg-type]
        zeros = (0, 0, connid, 900)
        assert words.code(INS, truck(42), ids=zeros) == 0  # type: ignore[arg-type]
        assert words.code(INS, truck(43), ids=zeros) == 201  # type: ignore[arg-type]
        refused = (1, 1, connid, 901)
        assert words.code(INS, truck(42), ids=refused) == 4  # type: ignore[arg-type]
        assert words.code(INS, truck(43), ids=refused) == 201  # type: ignore[arg-type]
        # What is unused counts for nothing.
        head = 1 << 26 | 9 << 22 | 6 << 16 | 0xFFFF
        ids = (1, 1, connid, 902)
        more = (46, 2 << 28 | 0xFF << 20 | 302, connid)
        words.send(struct.pack(">9I", head, 4 << 28 | INS << 25 | 0xFFFFFF, *ids, *more))
        words.send(truck(43))
        assert words.packet().words[0] == OK


HANDLERS = """
import asyncio
from wireloom.formats.blaze import new_value
from wireloom.services.blaze import Hooks, Refused

hooks = Hooks()


@hooks.transaction("TRUCK")
async def handle(tx):
    number = tx.object.read("truck_id")
    if number == 4:
        raise ValueError("a fault")
    if number == 7:
        raise Refused(result=new_value(tx.object.model, "POINT", {"label": "nope"}))
    if number in (202, 203):
        await asyncio.sleep(3600 if number == 203 else 1)


@hooks.authorise
def may(caller, intent):
    if intent.verb == "SUBSCRIBE":
        return intent.nclass != "POINT"
    number = intent.object.read("truck_id") if intent.nclass == "TRUCK" else 0
    return {8: 8, 9: 9, 10: False}.get(number)
"""


def test_what_the_application_decides_has_its_code(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    options = ("--handlers", str(tmp_path / "handlers.py"), "--tx-s", "2", "--strict-ids")
    with start(tmp_path, *options) as program, Words.connect(program.address) as words:
        for code in (4, 8, 9, 10, 203):
            assert words.code(INS, truck(code)) == code
        reason = nclass(field(3, text(b"nope")))
        answer = words.ask(INS, truck(7))  # not asked for, and there all the same
        assert (answer.words[0], answer.words[6], answer.body) == (
            KO | 1 << 28 | 7,
            2 << 28 | 301,
            reason,
        )
        ids = words.tx(INS, truck(202))
        words.tx(INS, truck(1), ids=ids)
        answers = [words.packet().words for _ in range(2)]
        assert [answer[0] for answer in answers] == [KO | 202, OK]
        for zero in ((0, 1, words.connid, 77), (1, 0, words.connid, 77)):
            assert words.code(INS, truck(1), ids=zero) == 200  # type: ignore[arg-type]
        words.subscribe(nclsid=301)
        assert words.packet() == (9, (REFUSED | 10, 1), None)


# -- subscriptions


def test_a_download_is_by_stamp_one_event_at_a_time_and_changes_follow(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        for number in (1, 2, 3, 4):
            writer.code(INS, truck(number))
        writer.code(DEL, truck(3))
        writer.code(UPD, truck(1, field(3, i32(1))))
        assert words.subscribed() == 1
        first = words.event(acks=False)
        assert words.is_silent()
        writer.code(UPD, truck(2, field(3, i32(2))))
        writer.code(DEL, truck(4))
        words.ack(Packet(10, (99, 0, first.words[2]), None))
        words.ack(Packet(10, (1, 0, first.words[2] + 1000), None))
        assert words.is_silent()  # other acknowledgements count for nothing
        words.ack(first)
        events = [first, *(words.event() for _ in range(5))]
        assert [(*kind_of(event), event.body) for event in events] == [
            (2, INS, truck(2)),
            (2, INS, truck(4)),
            (2, INS, truck(1, field(3, i32(1)))),
            (3, 0, None),
            (1, UPD, truck(2, field(3, i32(2)))),
            (1, DEL, truck(4)),
        ]
        stamps = [stamp_of(event) for event in events if event.body is not None]
        assert stamps == sorted(set(stamps))
        assert stamp_of(events[3]) == (0, 0)
        assert all(event.words[2] for event in events)
        # A second one is refused, and its id is used up.
        words.subscribe(rqstid=2)
        assert words.packet() == (9, (REFUSED | 400, 2), None)
        words.put(12, 1)
        assert words.packet() == (13, (FINE, 1), None)
        words.put(12, 1)
        assert words.packet() == (13, (REFUSED | 401, 1), None)
        # Since the end of the first download: what has changed, deletions too.
        assert words.subscribed(rqstid=3, since=stamps[2]) == 3
        events = [words.event() for _ in range(3)]
        assert [(*kind_of(event), event.body) for event in events] == [
            (2, INS, truck(2, field(3, i32(2)))),
            (2, DEL, truck(4)),
            (3, 0, None),
        ]
        assert [stamp_of(event) for event in events[:2]] == stamps[3:]


@pytest.mark.parametrize("is_cumulative", [False, True])
def test_in_a_window_an_acknowledgement_makes_room(tmp_path: Path, is_cumulative: bool) -> None:
    options = ("--window", "4", *["--cumulative-acks"] * is_cumulative)
    with (
        start(tmp_path, *options) as program,
        Words.connect(program.address) as writer,
        Words.connect(program.address) as words,
    ):
        for number in range(1, 13):
            assert writer.code(INS, truck(number)) == 0
        words.subscribed()
        events = [words.event(acks=False) for _ in range(4)]
        assert words.is_silent()
        words.ack(events[2])
        events += [words.event(acks=False) for _ in range(3 if is_cumulative else 1)]
        assert words.is_silent()
        words.ack(events[2])  # again, and one that the other counts for: nothing
        if is_cumulative:
            words.ack(events[0])
        assert words.is_silent()
        words.ack(events[-1])
        events += [words.event(acks=False) for _ in range(4 if is_cumulative else 1)]
        assert words.is_silent()
        assert [event.body for event in events] == [truck(n) for n in range(1, len(events) + 1)]


def test_a_stamp_is_the_second_and_a_counter_in_it(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        words.subscribed(mode=3)
        while time.time() % 1 > 0.2:
            time.sleep(0.02)
        before = int(time.time())
        for number in range(1, 6):
            writer.code(INS, truck(number))
        time.sleep(1.1)
        writer.code(INS, truck(6))
        events = [words.event() for _ in range(6)]
        stamps = [stamp_of(event) for event in events]
        assert before <= stamps[0][0] <= stamps[5][0] <= time.time()
        for (second, counter), after in itertools.pairwise(stamps):
            assert after == (second, counter + 1) or (after[0] > second and after[1] == 0)
        assert stamps[5][1] == 0
        ids = [event.words[2] for event in events]
        assert ids == sorted(set(ids))
        # Strictly newer than a position inside a second, deletions too.
        writer.code(DEL, truck(5))
        words.put(12, 1)
        assert words.event()  # of the deletion
        assert words.packet().type == 13
        words.subscribed(rqstid=2, since=stamps[1])
        assert words.told(5) == [*DOWNLOADED * 3, (2, DEL), END]


def test_past_ends_with_a_stop_and_live_has_no_download(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        before = int(time.time())
        writer.code(INS, truck(1))
        words.subscribed(mode=2)
        assert words.told(2) == [*DOWNLOADED, END]
        stop = words.event()
        assert kind_of(stop) == STOP
        assert (len(stop.words), stop.words[1] & 0xFFFF) == (5, 0)
        assert before <= stop.words[3] <= time.time()
        assert stop.words[4] == 0
        writer.code(UPD, truck(1, field(3, i32(1))))
        assert words.is_silent()
        words.subscribed(mode=3, rqstid=2)
        assert words.is_silent()
        writer.code(UPD, truck(1, field(3, i32(2))))
        assert words.told(1) == [(1, UPD)]


def test_a_position_ahead_of_the_broker_hides_no_change(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        writer.code(INS, truck(1))
        words.subscribed(since=(int(time.time()) + 3600, 0))
        assert words.told(1) == [END]
        writer.code(UPD, truck(1, field(3, i32(2))))
        assert words.told(1) == [(1, UPD)]


def test_under_last_only_the_newest_of_an_object_waits(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        words.subscribed(mode=3, flow=2)
        writer.code(INS, truck(1))
        first = words.event(acks=False)
        writer.code(INS, truck(2))
        for speed in range(1, 6):
            writer.code(UPD, truck(2, field(3, i32(speed))))
            writer.code(UPD, truck(1, field(3, i32(speed))))
        words.ack(first)
        events = [words.event() for _ in range(2)]
        assert [event.body for event in events] == [
            truck(2, field(3, i32(5))),
            truck(1, field(3, i32(5))),
        ]
        assert words.is_silent()


def test_a_full_download_tells_of_no_earlier_deletion(tmp_path: Path) -> None:
    with (
        start(tmp_path, "--subscriptions-download-rows", "2", "--window", "64") as program,
        Words.connect(program.address) as words,
    ):
        for number in range(1, 10):
            words.code(INS, truck(number))
        for number in (2, 5, 9):
            words.code(DEL, truck(number))
        words.subscribed()
        assert words.told(7) == [*DOWNLOADED * 6, END]


def test_a_class_that_is_not_stored_has_no_download(broker: str) -> None:
    with Words.connect(broker) as words:
        for rqstid, mode in enumerate((1, 2), 1):
            words.subscribe(nclsid=303, mode=mode, rqstid=rqstid)
            kind, (word, *_, sbsrid), _ = words.packet()
            assert (kind, word) == (9, RESERVED)  # SBSPART
            assert words.told(1) == [END]
            if mode == 1:
                body = nclass(field(1, u32(9)))
                assert words.code(INS, body, nclsid=303) == 0
                event = words.event()
                assert (kind_of(event), event.body) == ((1, INS), body)
                words.put(12, sbsrid)
                assert words.packet().type == 13
            else:
                assert kind_of(words.event()) == STOP


def test_deltas_go_to_who_holds_the_object(fresh: str) -> None:
    with Words.connect(fresh) as writer, Words.connect(fresh) as words:
        writer.code(INS, truck(1, field(2, text(b"one")), field(3, i32(1))))
        words.subscribed(kind=2, enctyp=3)
        assert words.told(2) == [*DOWNLOADED, END]
        delta = truck(1, field(3, i32(0)))
        writer.code(DLT, delta, enctyp=3)
        event = words.event()
        assert (kind_of(event), event.body) == ((1, DLT), delta)
        writer.code(UPD, truck(1, field(3, i32(4))))
        event = words.event()
        assert (kind_of(event), event.body) == ((1, UPD), truck(1, field(3, i32(4))))
        writer.code(RST, nclass())
        event = words.event()
        assert (kind_of(event), event.body) == ((1, RST), nclass())


def test_a_subscription_that_cannot_be_is_refused(broker: str) -> None:
    with Words.connect(broker) as words:
        answers = []
        for word in (0x01110000, 0x10110000, 0x11010000, 0x11100000, 0x31110000, 0x14110000):
            words.put(8, word, 2 << 28 | 302, words.connid, 1)
            answers.append(words.packet().words[0])
        assert answers == [REFUSED | 5] * 6
        # PARTIAL without a position, ALL with one; what is unused counts for nothing.
        for given in ((0x11120000,), (0x11110000, 0, 0)):
            words.put(8, given[0], 2 << 28 | 302, words.connid, 1, *given[1:])
            assert words.packet().words == (REFUSED | 5, 1)
        for enctyp, nclsid, code in ((3, 302, 6), (4, 302, 6), (0, 302, 5), (2, 4242, 6)):
            words.subscribe(enctyp=enctyp, nclsid=nclsid)
            assert words.packet() == (9, (REFUSED | code, 1), None)


def test_brokers_on_one_database_tell_everything_in_one_order(
    tmp_path: Path, postgres_url: str
) -> None:
    programs = [Program(tmp_path, postgres_url, "--window", "64", model=MODEL) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        for program in programs:
            stack.enter_context(program).wait_ready()
        places = [program.address for program in programs]
        writers = [stack.enter_context(Words.connect(place)) for place in places]
        readers = [stack.enter_context(Words.connect(place)) for place in places]
        assert len({words.connid for words in (*writers, *readers)}) == 4
        for words in readers:
            words.subscribed()
            assert words.told(1) == [END]
        for number in range(1, 61):
            for at, words in enumerate(writers):
                words.tx(INS, truck(at * 1000 + number))
        for words in writers:
            assert {words.packet().words[0] for _ in range(60)} == {OK}
        told = [[(stamp_of(e), e.body) for e in map(Words.event, [r] * 120)] for r in readers]
        assert told[0] == told[1] == sorted(told[0], key=lambda event: event[0])
        assert len({stamp for stamp, _ in told[0]}) == 120
        programs[0].kill()
        assert writers[1].code(DEL, truck(7)) == 0
        assert writers[1].code(UPD, truck(8, field(3, i32(8)))) == 0
        # The other broker goes on where this one has stopped.
        with Words.connect(places[1]) as words:
            words.subscribed(since=told[0][-1][0])
            assert words.told(3) == [(2, DEL), (2, INS), END]


# -- dialects, and the end


def test_2017_has_its_own_numbers(tmp_path: Path) -> None:
    with start(tmp_path, "--dialect", "2017") as program, Words.connect(program.address) as words:
        one = truck(1, field(4, i32(5)), first=2)  # fields from 2 on
        assert words.code(INS, one, enctyp=1) == 0  # 1 is INDEXNOTZERO
        assert words.code(INS, truck(2, first=2), enctyp=2) == 6
        words.subscribed(enctyp=1)
        event = words.event()
        assert (kind_of(event), event.body) == ((2, INS), one)
        assert words.told(1) == [END]
        words.subscribe(rqstid=2, enctyp=1)
        assert words.packet().words[0] == REFUSED | 400
        assert words.code(5, one, enctyp=1) == 0  # REMOVE
        assert words.told(1) == [(1, DEL)]
        assert words.code(INS, one, enctyp=1) == 0
        assert words.told(1) == [(1, INS)]
        assert words.code(6, one, enctyp=1) == 0  # RESET
        assert words.told(1) == [(1, 6)]


def test_2019_knows_no_acknowledgements_and_no_end(tmp_path: Path) -> None:
    with start(tmp_path, "--dialect", "2019") as program, Words.connect(program.address) as words:
        for number in (1, 2, 3):
            assert words.code(INS, truck(number), enctyp=1) == 0
        words.subscribed(enctyp=1)
        assert words.told(3, acks=False) == DOWNLOADED * 3
        assert words.code(INS, truck(4), enctyp=1) == 0
        assert words.told(1, acks=False) == [(1, INS)]
        words.subscribe(rqstid=2, enctyp=1)
        assert words.packet().words[0] == REFUSED | 300
        words.put(12, 99)
        assert words.packet().words[0] == REFUSED | 301


def test_going_down_what_flies_is_finished_and_everybody_is_told(tmp_path: Path) -> None:
    with (
        start(tmp_path) as program,
        Words.connect(program.address) as writer,
        Words.connect(program.address) as idle,
    ):
        for number in range(1, 51):
            writer.tx(INS, truck(number))
        # Whatever was read is carried out; what was not is answered with 206, or not at all.
        assert writer.packet().words[0] == OK
        program.process.send_signal(signal.SIGTERM)
        answers = [OK]
        while (packet := writer.packet()).type == 7:
            answers.append(packet.words[0])
        assert (packet.type, packet.words) == (5, (4 << 28,))
        with pytest.raises(Closed):
            writer.packet()
        assert set(answers) <= {OK, KO | 206}
        assert idle.disconnected() == 4
        assert program.wait() == 0
    with start(tmp_path) as program, Words.connect(program.address) as words:
        words.subscribed(mode=2)
        kept = [words.event() for _ in range(answers.count(OK) + 1)]
        assert kind_of(kept[-1]) == END
        assert words.code(INS, truck(1)) == 4
