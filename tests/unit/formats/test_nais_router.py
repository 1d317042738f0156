"""The junction's router: golden routes, each rule of SPEC §6, and random interleavings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from wireloom.errors import OptionError, StateError
from wireloom.formats import nais
from wireloom.formats.nais import LineRules, NaisPacket, StreamDecoder
from wireloom.formats.nais.lines import Direction, LineOptions, board_line, mqtt_board_payload
from wireloom.formats.nais.packets import read_packet
from wireloom.formats.nais.router import UNDELIVERABLE, Router
from wireloom.formats.nais.sessionids import HOLD_S, MAX_SESSIONS, UNSAFE_ID, SessionIds
from wireloom.framing import Frame, Text
from wireloom.testing.vectors import load
from wireloom.testing.vectors.nais import Verifier

ROUTES = Path(nais.__file__).parent / "vectors" / "nais_routes.jsonl"
CASES = {case["id"]: case for _, case in load(ROUTES)}


def frame(
    type: int = 10, *, sline: int = 0, dline: int = 0, rsv: int = 0, payload: bytes = b"\x08\x01"
) -> bytes:
    return NaisPacket(type=type, sline=sline, dline=dline, rsv=rsv, payload=payload).encode()


def junction(*routes: str, options: dict[str, LineOptions] | None = None, **given: Any) -> Router:
    router = Router(**given)
    for name in dict.fromkeys("".join(routes)):
        router.add_line(name, (options or {}).get(name))
    for a, b in routes:
        router.add_route(a, b)
    return router


# --- golden routes


@pytest.mark.parametrize("name", CASES)
def test_golden_route(name: str) -> None:
    verifier = Verifier()
    assert verifier.accepts(CASES[name])
    assert verifier.check(CASES[name]) is None


@pytest.mark.parametrize("name", CASES)
def test_a_route_that_expects_something_else_fails(name: str) -> None:
    case = CASES[name]
    for index, expected in enumerate(case["expect_after_step"]):
        steps = list(case["expect_after_step"])
        steps[index] = {"a1": "00"} if not expected else {}
        assert "received after step" in str(Verifier().check(case | {"expect_after_step": steps}))
    assert "not understood" in str(Verifier().check(case | {"surprise": 1}))
    step = {"op": "explode"}
    steps, expects = [*case["steps"], step], [*case["expect_after_step"], {}]
    assert Verifier().check(case | {"steps": steps, "expect_after_step": expects})


# --- the delivery rule


def test_an_answer_reaches_only_the_session_that_asked() -> None:
    router = junction("AB")
    a1, a2, b1 = (router.connect(line, 0) for line in "AAB")
    router.receive(a2, frame(), 0)
    assert router.data_to_send(b1, 0) == frame(sline=a2)
    router.receive(b1, frame(3, dline=a2), 0)
    assert router.data_to_send(a1, 0) == b""
    assert router.data_to_send(a2, 0) == frame(3, sline=b1, dline=a2)


def test_a_forged_sender_is_overwritten_and_the_rest_is_kept() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame(200, sline=77, rsv=1, payload=b"\xff"), 0)
    assert router.data_to_send(b1, 0) == frame(200, sline=a1, rsv=1, payload=b"\xff")


def test_a_long_len_is_forwarded_short() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, bytes.fromhex("1e0a000000828000080117"), 0)
    assert router.data_to_send(b1, 0) == frame(sline=a1)
    router.receive(a1, frame(payload=bytes(300)), 0)
    assert router.data_to_send(b1, 0) == frame(sline=a1, payload=bytes(300))


def test_siblings_and_the_sender_hear_nothing() -> None:
    router = junction("AB")
    a1, a2 = router.connect("A", 0), router.connect("A", 0)
    router.connect("B", 0)
    router.receive(a1, frame() + frame(dline=a2) + b"text\n", 0)
    assert router.data_to_send(a1, 0) == router.data_to_send(a2, 0) == b""
    assert router.counters.undeliverable == 1


def test_text_reaches_all_and_stands_apart_from_a_frame_behind_it() -> None:
    router = junction("AB")
    a1, b1, b2 = (router.connect(line, 0) for line in "ABB")
    router.receive(a1, b"boot\nhalf" + frame(dline=b2), 0)
    assert router.data_to_send(b1, 0) == b"boot\nhalf"
    assert router.data_to_send(b2, 0) == b"boot\nhalf" + frame(sline=a1, dline=b2)


def test_damage_is_dropped_and_counted_and_what_follows_passes() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    events = router.receive(a1, frame()[:-1] + b"\x00" + frame(11), 0)
    assert router.data_to_send(b1, 0) == frame(11, sline=a1)
    assert [event.detail for event in events] == ["bad_end", "junk"]
    assert router.counters.problems == 2


def test_an_unfinished_frame_is_given_up_when_the_line_is_idle() -> None:
    router = junction("AB", options={"A": LineOptions(idle_s=5)})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame()[:4], 1)
    assert router.next_timeout(2) == 4
    assert router.handle_timeout(5.9) == []
    assert router.next_timeout(7) == 0
    router.receive(a1, frame(), 6)  # the time decides, not who asked first
    assert router.data_to_send(b1, 6) == frame(sline=a1)
    router.receive(a1, frame()[:4], 7)
    assert [event.detail for event in router.handle_timeout(12)] == ["timeout", "junk"]
    assert router.next_timeout(12) is None


def test_type_zero_and_lines_without_a_route_are_dropped() -> None:
    router = junction("AB")
    router.add_line("C")
    a1, b1, c1 = (router.connect(line, 0) for line in "ABC")
    router.receive(a1, frame(0), 0)
    router.receive(c1, frame() + b"x\n", 0)
    assert router.data_to_send(b1, 0) == b""
    assert (router.counters.type_zero, router.counters.unrouted) == (1, 2)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("", b""),
        ("text", b"no session 9\n"),
        ("ack", NaisPacket.from_message(3, {"id": 10, "status": UNDELIVERABLE}).encode()),
    ],
)
def test_a_sender_may_be_told_that_there_is_no_such_session(how: Any, expected: bytes) -> None:
    router = junction("AB", options={"A": LineOptions(notify_undeliverable=how)})
    a1 = router.connect("A", 0)
    router.connect("B", 0)
    router.receive(a1, frame(dline=9), 0)
    assert router.counters.undeliverable == 1
    assert router.data_to_send(a1, 0) == expected


# --- filters, transforms, sizes


def test_routes_filter_by_type_and_direction() -> None:
    router = Router()
    for line in "AB":
        router.add_line(line)
    router.add_route(
        "A",
        "B",
        Direction(types=frozenset({10, 11}), blocked=frozenset({11}), has_text=False),
        Direction(is_open=False),
    )
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame(10) + frame(11) + frame(12) + b"text\n", 0)
    router.receive(b1, frame(10) + b"text\n", 0)
    assert router.data_to_send(b1, 0) == frame(10, sline=a1)
    assert router.data_to_send(a1, 0) == b""
    assert router.counters.filtered == 5


def test_boards_get_no_acks_and_no_events() -> None:
    router = junction("AB", options={"B": board_line("tcp")})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    for type in range(1, 8):
        router.receive(a1, frame(type), 0)
    sent = StreamDecoder().feed(router.data_to_send(b1, 0))
    assert [record.data[1] for record in sent] == [1, 2, 4, 5, 7]


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        (board_line("serial"), 1, 127),
        (board_line("tcp"), 0, 248),
        (board_line("mqtt", "n/b"), 0, 238),
    ],
)
def test_old_boards_get_only_what_they_can_take(
    options: LineOptions, least: int, most: int
) -> None:
    router = junction("AB", options={"B": options})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    for size in (0, 1, most, most + 1):
        router.receive(a1, frame(payload=bytes(size)), 0)
    sizes = [len(read_packet(each).payload) for each in router.messages_to_send(b1, 0)]
    assert sizes == [size for size in (0, 1, most) if size >= least]
    assert router.counters.wrong_size == 4 - len(sizes)


def test_the_largest_frame_for_a_board_on_mqtt_fills_its_buffer() -> None:
    for length in range(1, 249):
        try:
            payload = mqtt_board_payload("t" * length)
        except OptionError:
            assert length > 241
            continue
        room = 256 - 7 - length
        assert len(frame(payload=bytes(payload))) <= room < len(frame(payload=bytes(payload + 1)))


def test_a_transform_sees_records_and_the_address_is_the_one_before_it() -> None:
    seen: list[Frame | Text] = []

    def to_frame(record: Frame | Text) -> bytes | None:
        seen.append(record)
        if record.data == b"fail\n":
            raise ValueError("no")
        if record.data == b"drop\n":
            return None
        return frame(12, sline=99, dline=200) if isinstance(record, Text) else b"was a frame\n"

    router = Router()
    for line in "AB":
        router.add_line(line)
    router.add_route("A", "B", Direction(transform=to_frame))
    a1, b1, b2 = (router.connect(line, 0) for line in "ABB")
    events = router.receive(a1, b"set\nfail\ndrop\n" + frame(dline=b2), 0)
    assert [event.reason for event in events] == ["transform_errors", "discarded"]
    assert router.data_to_send(b1, 0) == frame(12, sline=a1, dline=200)
    assert router.data_to_send(b2, 0) == frame(12, sline=a1, dline=200) + b"was a frame\n"
    assert [type(record) for record in seen] == [Text, Text, Text, Frame]


def test_a_transform_that_makes_a_bad_frame_has_made_text_and_type_zero_is_dropped() -> None:
    results = iter([b"\x1e\x01", frame()[:-1] + b"\x00", frame() + b"\x17", frame(0)])
    router = Router()
    for line in "AB":
        router.add_line(line)
    router.add_route("A", "B", Direction(transform=lambda record: next(results)))
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, b"1\n2\n3\n4\n", 0)
    assert router.messages_to_send(b1, 0) == [
        b"\x1e\x01",
        frame()[:-1] + b"\x00",
        frame() + b"\x17",
    ]
    assert (router.counters.texts_out, router.counters.type_zero) == (3, 1)


def test_lines_that_validate_drop_payloads_that_are_not_what_their_type_says() -> None:
    router = junction("AB", options={"A": LineOptions(validates=True)})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame(1) + frame(3) + frame(77, payload=b"\xff"), 0)
    assert router.data_to_send(b1, 0) == frame(3, sline=a1) + frame(77, sline=a1, payload=b"\xff")
    assert router.counters.bad_payload == 1


def test_on_a_message_line_a_message_is_one_record() -> None:
    router = junction("AB", options={"A": LineOptions(is_message_line=True)})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    for message in (frame(), b"text", frame() + frame(), frame()[:-1], b""):
        router.receive(a1, message, 0)
    assert router.messages_to_send(b1, 0) == [frame(sline=a1), b"text"]
    assert router.counters.problems == 2


# --- queues


def test_a_line_without_a_session_keeps_the_newest_records_for_a_while() -> None:
    router = junction("AB", options={"B": LineOptions(max_stored=2, max_age_s=10)})
    a1 = router.connect("A", 0)
    router.receive(a1, frame(10), 0)
    router.receive(a1, frame(11), 1)
    router.receive(a1, frame(12), 2)
    assert router.counters.overflow == 1
    assert router.next_timeout(3) == 8
    b1 = router.connect("B", 11)
    assert router.data_to_send(b1, 11) == frame(12, sline=a1)
    assert (router.counters.stored, router.counters.expired) == (3, 1)


def test_a_stored_frame_to_another_session_is_not_given_to_the_first_one() -> None:
    router = junction("AB")
    a1 = router.connect("A", 0)
    router.receive(a1, frame(dline=2) + frame(dline=3), 0)
    b1 = router.connect("B", 1)
    assert b1 == 2
    assert router.data_to_send(b1, 1) == frame(sline=a1, dline=2)
    assert router.counters.undeliverable == 1


def test_a_line_may_keep_records_after_its_last_session_too() -> None:
    for keeps in (False, True):
        router = junction("AB", options={"B": LineOptions(keeps_when_empty=keeps)})
        a1, b1 = router.connect("A", 0), router.connect("B", 0)
        router.disconnect(b1, 1)
        router.receive(a1, b"hello\n", 2)
        assert router.counters.no_session == (not keeps)
        assert router.data_to_send(router.connect("B", 3), 3) == (b"hello\n" if keeps else b"")


def test_a_slow_session_loses_its_oldest_records_and_nobody_else_does() -> None:
    router = junction("AB", options={"B": LineOptions(max_queue_records=3)})
    a1, b1, b2 = (router.connect(line, 0) for line in "ABB")
    for type in range(10, 15):
        router.receive(a1, frame(type), 0)
        assert router.data_to_send(b2, 0) == frame(type, sline=a1)
    kept = [each[1] for each in router.messages_to_send(b1, 0)]
    assert kept == [12, 13, 14]
    assert router.counters.overflow == 2


def test_queues_are_bounded_in_bytes_and_age() -> None:
    router = junction("AB", options={"B": LineOptions(max_queue_bytes=20, max_age_s=5)})
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame() * 3, 0)  # 9 bytes each
    assert router.pending(b1) == 18
    router.receive(a1, frame(payload=bytes(50)), 0)  # larger than the queue
    assert router.pending(b1) == 0
    assert router.counters.overflow == 4
    router.receive(a1, frame(), 1)
    assert router.next_timeout(1) == 5
    router.handle_timeout(6)
    assert router.data_to_send(b1, 6) == b""
    assert router.counters.expired == 1


def test_whole_records_are_taken_up_to_a_size() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame() * 5, 0)
    assert router.ready() == [b1]
    assert router.ready() == []
    assert len(router.data_to_send(b1, 0, most=20)) == 18
    assert len(router.data_to_send(b1, 0, most=1)) == 9
    assert router.pending(b1) == 18


def test_what_waits_for_a_session_that_goes_is_counted() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, frame() * 2, 0)
    router.disconnect(b1, 0)
    assert router.counters.lost_on_close == 2
    assert router.ready() == []


def test_an_unfinished_line_of_text_is_delivered_when_its_sender_goes() -> None:
    router = junction("AB")
    a1, b1 = router.connect("A", 0), router.connect("B", 0)
    router.receive(a1, b"last words", 0)
    router.disconnect(a1, 0)
    assert router.data_to_send(b1, 0) == b"last words"


# --- session ids


def test_ids_are_given_in_order_without_30_and_refused_when_all_are_taken() -> None:
    router = junction("AB")
    given = [router.connect("A", 0) for _ in range(MAX_SESSIONS)]
    assert given == [number for number in range(1, 256) if number != UNSAFE_ID]
    with pytest.raises(StateError, match="254 are in use, 0 held"):
        router.connect("B", 0)
    router.disconnect(7, 10)
    with pytest.raises(StateError, match="253 are in use, 1 held"):
        router.connect("B", 10 + HOLD_S - 1)
    assert router.connect("B", 10 + HOLD_S) == 7
    assert router.counters.refused == 2


def test_ids_rotate() -> None:
    ids = SessionIds(hold_s=0)
    seen = []
    for now in range(300):
        number = ids.allot(now)
        assert number is not None
        seen.append(number)
        ids.free(number, now)
    assert seen[:254] == sorted(set(seen[:254]))
    assert seen[254:] == seen[:46]
    with pytest.raises(KeyError):
        ids.free(1, 300)
    with pytest.raises(OptionError):
        SessionIds(-1)


# --- trunks


def test_over_a_trunk_a_client_and_a_board_of_two_junctions_talk_as_over_one() -> None:
    trunk = {"T": LineOptions(is_trunk=True)}
    here, there = junction("CT", options=trunk), junction("BT", options=trunk)
    for _ in range(5):  # so that the ids of the two differ
        there.connect("B", 0)
    c1, c2, mine = here.connect("C", 0), here.connect("C", 0), here.connect("T", 0)
    board, theirs = there.connect("B", 0), there.connect("T", 0)

    def carry() -> None:
        there.receive(theirs, here.data_to_send(mine, 0), 0)
        here.receive(mine, there.data_to_send(theirs, 0), 0)

    here.receive(c2, frame(10), 0)
    carry()
    (request,) = there.messages_to_send(board, 0)
    virtual = request[2]
    assert virtual not in (theirs, 0)
    there.receive(board, frame(3, dline=virtual), 0)
    carry()
    assert here.data_to_send(c1, 0) == b""
    (answer,) = here.messages_to_send(c2, 0)
    assert (answer[1], answer[3]) == (3, c2)
    # The board can now be addressed by the id under which it is known here.
    here.receive(c1, frame(11, dline=answer[2]), 0)
    carry()
    (addressed,) = there.messages_to_send(board, 0)
    assert (addressed[1], addressed[3]) == (11, board)
    assert addressed[2] not in (virtual, theirs)
    behind = [info for info in there.sessions() if info.via]
    assert {(info.via, info.remote) for info in behind} == {(theirs, c1), (theirs, c2)}
    there.disconnect(theirs, 0)
    assert not [info for info in there.sessions() if info.via]
    assert theirs not in [info.id for info in there.sessions()]


def test_peers_behind_a_trunk_have_a_bounded_number_of_ids() -> None:
    router = junction("TB", options={"T": LineOptions(is_trunk=True, max_virtual=2)})
    trunk, board = router.connect("T", 0), router.connect("B", 0)
    router.receive(trunk, frame(sline=50) + frame(sline=51), 0)
    router.receive(trunk, frame(sline=50) + frame(sline=52) + frame(sline=0), 0)
    stamps = [each[2] for each in router.messages_to_send(board, 0)]
    assert stamps[0] == stamps[2]
    assert len(set(stamps)) == 4
    assert stamps[-1] == trunk
    router.receive(board, frame(3, dline=stamps[1]), 0)  # the one that was silent for longest
    assert router.data_to_send(trunk, 0) == b""
    router.receive(board, frame(3, dline=stamps[0]), 0)
    assert router.data_to_send(trunk, 0) == frame(3, sline=board, dline=50)


def test_without_a_free_id_frames_from_behind_a_trunk_are_dropped() -> None:
    router = junction("TB", options={"T": LineOptions(is_trunk=True)})
    trunk = router.connect("T", 0)
    for _ in range(MAX_SESSIONS - 1):
        router.connect("B", 0)
    events = router.receive(trunk, frame(sline=50), 0)
    assert [event.reason for event in events] == ["no_virtual_id"]


# --- what cannot be


def test_wrong_lines_routes_and_sessions_are_refused() -> None:
    router = junction("AB")
    with pytest.raises(OptionError, match="already"):
        router.add_line("A")
    with pytest.raises(OptionError, match="already"):
        router.add_route("B", "A")
    with pytest.raises(OptionError, match="itself"):
        router.add_route("A", "A")
    with pytest.raises(OptionError, match="no line"):
        router.connect("X", 0)
    for call in (router.disconnect, router.data_to_send):
        with pytest.raises(StateError, match="session id 9"):
            call(9, 0)
    assert router.lines == ("A", "B")
    assert set(router.counters.to_dict().values()) == {0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_text": 0},
        {"max_stored": -1},
        {"idle_s": 0},
        {"max_age_s": float("nan")},
        {"notify_undeliverable": "shout"},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        LineOptions(**wrong)


def test_boards_are_on_known_kinds_of_lines() -> None:
    with pytest.raises(OptionError, match="pigeon"):
        board_line("pigeon")  # type: ignore[arg-type]


# --- random interleavings

PEERS = {"A": "B", "B": "AC", "C": "B"}
LIMIT = 40


class Interleavings(RuleBasedStateMachine):
    """Connections come and go, send and read in any order; a model says who must get what."""

    @initialize()
    def start(self) -> None:
        options = LineOptions(max_queue_records=LIMIT, max_stored=LIMIT, max_age_s=1000)
        self.router = junction("AB", "BC", options=dict.fromkeys("ABC", options))
        self.now = 0.0
        self.live: dict[int, str] = {}
        self.freed: dict[int, float] = {}
        self.unread: dict[int, list[bytes]] = {}
        self.half: dict[int, bytes] = {}
        self.stored: dict[str, list[tuple[int, bytes]]] = {line: [] for line in "ABC"}
        self.had: set[str] = set()
        self.serial = 0
        self.seen: Counter[tuple[int, float, bytes]] = Counter()
        self.born: dict[int, float] = {}

    @rule(line=st.sampled_from("ABC"))
    def connect(self, line: str) -> None:
        number = self.router.connect(line, self.now)
        assert number not in self.live
        assert number not in (0, UNSAFE_ID)
        assert self.now - self.freed.get(number, -HOLD_S) >= HOLD_S
        self.live[number], self.born[number] = line, self.now
        self.half[number] = b""
        self.unread[number] = [
            data for dline, data in self.stored[line][-LIMIT:] if dline in (0, number)
        ]
        self.stored[line].clear()
        self.had.add(line)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(1, 60), keep=st.integers(0, 8))
    def send(self, data: st.DataObject, count: int, keep: int) -> None:
        sender = data.draw(st.sampled_from(sorted(self.live)))
        dline = data.draw(st.sampled_from([0, 0, 1, 2, 3, 200, *self.live]))
        stream = self.half[sender]
        for _ in range(count):
            self.serial += 1
            sent = frame(dline=dline, payload=b"%08d" % self.serial)
            stream += sent
            self.expect(sender, dline, frame(sline=sender, dline=dline, payload=sent[6:-1]))
        # All but the last byte of a frame may come now, and the byte with the next ones.
        self.half[sender] = b""
        cut = len(stream) - keep
        self.router.receive(sender, stream[:cut], self.now)
        self.router.receive(sender, stream[cut:], self.now)

    def expect(self, sender: int, dline: int, data: bytes) -> None:
        for peer in PEERS[self.live[sender]]:
            sessions = [number for number, line in self.live.items() if line == peer]
            for number in sessions:
                if dline in (0, number):
                    self.unread[number].append(data)
            if peer not in self.had and (not dline or dline not in self.live):
                self.stored[peer].append((dline, data))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.live)))
        got = self.router.messages_to_send(number, self.now)
        assert got == self.unread[number][-LIMIT:]
        self.unread[number].clear()
        self.seen.update((number, self.born[number], each) for each in got)
        assert all(times == 1 for times in self.seen.values())

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.live)))
        self.router.disconnect(number, self.now)
        del self.live[number], self.unread[number], self.half[number]
        self.freed[number] = self.now

    @rule(seconds=st.sampled_from([0.1, 5, 29.9, 30]))
    def wait(self, seconds: float) -> None:
        if self.now + seconds < 900:  # what waits must not get too old for the model
            self.now += seconds
            self.router.handle_timeout(self.now)

    @invariant()
    def queues_are_bounded(self) -> None:
        for info in self.router.sessions() if hasattr(self, "router") else ():
            assert info.queued <= LIMIT * 16
            assert self.live[info.id] == info.line


Interleavings.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestInterleavings = Interleavings.TestCase


PIECES = st.sampled_from(
    [
        NaisPacket(type=10, payload=b"\x08\x01").encode(),
        NaisPacket(type=80, payload=b"\x1e\x17\x1e").encode(),
        NaisPacket(type=11, dline=3).encode(),
        NaisPacket(type=12, dline=200).encode(),
        NaisPacket(type=0).encode(),
        NaisPacket(type=10, payload=bytes(127)).encode(),
        NaisPacket(type=10, payload=bytes(128)).encode(),
        NaisPacket(type=10, payload=bytes(60)).encode(),
        bytes.fromhex("1e0a00000082000801 17"),  # LEN is longer than needed
        b"text\n",
        b"text without end",
        b"\x1e",
        b"\x1e\x0a\x00\x00\x00\x03\x01",
        b"\x1e\x0a\x00\x00\x00\xff\xff\xff\xff",
    ]
)


@given(st.lists(PIECES, max_size=12), st.lists(st.integers(1, 40), max_size=12), st.booleans())
def test_many_frames_at_once_are_routed_as_one_by_one(
    pieces: list[bytes], cuts: list[int], has_session: bool
) -> None:
    options = LineOptions(max_queue_records=5, max_stored=4)
    found = []
    # A TYPE that never passes is blocked: that changes nothing but the way taken.
    for direction in (Direction(), Direction(blocked=frozenset({0}))):
        router = Router()
        router.add_line("a", LineOptions(rules=LineRules(max_payload=1000)))
        router.add_line("b", options)
        router.add_line("c", LineOptions(max_send_payload=50))
        router.add_route("a", "b", direction)
        router.add_route("a", "c", direction)
        sender = router.connect("a", 0)
        others = [router.connect("b", 0), router.connect("b", 0)] if has_session else []
        dropped, data = [], b"".join(pieces)
        for cut in cuts:
            dropped += router.receive(sender, data[:cut], 1)
            data = data[cut:]
        dropped += router.receive(sender, data, 2)
        others += [] if has_session else [router.connect("b", 2)]
        others.append(router.connect("c", 3))
        dropped += router.disconnect(sender, 3)
        sent = [router.data_to_send(session, 3) for session in others]
        counters = [router.line_counters(name).to_dict() for name in "abc"]
        found.append((sent, counters, dropped))
    assert found[0] == found[1]


def test_a_line_is_taken_away_with_its_routes() -> None:
    router = Router()
    for name in ("a", "b", "c"):
        router.add_line(name)
    router.add_route("a", "b")
    router.add_route("a", "c")
    a, c = router.connect("a", 0), router.connect("c", 0)
    router.receive(a, frame(), 0)
    with pytest.raises(StateError, match="sessions"):
        router.remove_line("c")
    router.remove_line("b")
    assert router.lines == ("a", "c")
    assert router.counters.lost_on_close == 1
    router.receive(a, frame(), 0)
    assert len(router.messages_to_send(c, 0)) == 2
    router.clear_routes()
    router.receive(a, frame(), 0)
    assert router.counters.unrouted == 1


def test_a_line_refuses_more_sessions_and_ids_than_it_may_have() -> None:
    router = Router(hold_s=30)
    router.add_line("a", LineOptions(max_sessions=2, max_ids=3))
    router.add_line("b")
    first, _ = router.connect("a", 0), router.connect("a", 0)
    with pytest.raises(StateError, match="2 sessions"):
        router.connect("a", 0)
    router.disconnect(first, 1)
    router.disconnect(router.connect("a", 2), 3)
    with pytest.raises(StateError, match="2 ids of it are held"):
        router.connect("a", 4)
    assert router.connect("b", 4)
    assert router.connect("a", 31)
    assert router.line_counters("a").refused == 2


def test_what_a_line_makes_of_records_comes_first_and_last() -> None:
    router = Router()
    made = NaisPacket(type=80, dline=2).encode()
    router.add_line("a", LineOptions(incoming=lambda record: made))
    router.add_line("b", LineOptions(outgoing=lambda record: b"<%d>" % record.data[2]))
    router.add_route("a", "b")
    a, b = router.connect("a", 0), router.connect("b", 0)
    other = router.connect("b", 0)
    router.receive(a, b"any\n", 0)
    assert (router.data_to_send(b, 0), router.data_to_send(other, 0)) == (b"<1>", b"")


def test_a_broadcast_line_gives_every_session_what_is_for_one() -> None:
    router = Router()
    router.add_line("a")
    router.add_line("b", LineOptions(is_broadcast=True))
    router.add_route("a", "b")
    a, b, c = router.connect("a", 0), router.connect("b", 0), router.connect("b", 0)
    router.receive(a, NaisPacket(type=80, dline=b).encode(), 0)
    assert router.data_to_send(b, 0) == router.data_to_send(c, 0) != b""


def test_a_busy_shell_does_not_make_a_line_idle() -> None:
    router = Router()
    router.add_line("a", LineOptions(idle_s=1))
    router.add_line("b")
    router.add_route("a", "b")
    a, b = router.connect("a", 0), router.connect("b", 0)
    data = frame()
    router.receive(a, data[:4], 0)
    router.receive(a, data[4:], 5, checks_idle=False)
    assert router.data_to_send(b, 5)
