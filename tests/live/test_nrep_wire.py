"""The entry point as a program, against peers that share no line of code with it.

Every golden packet and every transcript goes over real sockets, with and without TLS, whole and
cut at every byte. That nothing is sent where nothing is expected is known without waiting: the
answer to a later question comes next.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import ssl
import struct
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from oracles.nrep_live import Program
from oracles.nrep_wire import (
    ACCEPT,
    CLOSE,
    OPEN_ACK,
    OPEN_REQUEST,
    READY,
    REFUSE,
    WirePeer,
    app,
    ask_udp,
    control,
    data,
    find,
    needs_ipv6,
    open_socket,
    packet,
    publish,
)

from wireloom.services._shell.addresses import Address

SOCKET = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")
"""The socket that golden packets name."""


def _golden(name: str) -> list[dict[str, Any]]:
    text = (files("wireloom.formats.nrep") / "vectors" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


VECTORS = {each["id"]: each for each in _golden("nrep.jsonl")}
TRANSCRIPTS = _golden("nrep_transcripts.jsonl")


class Running:
    """An entry point that runs as a program."""

    def __init__(self, program: Program, is_plain: bool) -> None:
        self.program, self.is_plain = program, is_plain
        self.at = Address.parse(program.ready["listen"])
        self.discovery = Address.parse(program.ready["discovery"])

    def peer(self) -> WirePeer:
        return WirePeer(self.at, is_plain=self.is_plain)


@contextlib.contextmanager
def running(folder: Path, *words: str, is_plain: bool = True, host: str = "127.0.0.1") -> Any:
    at = ("--listen", f"{host}:0", "--discovery", f"{host}:0")
    how = ("--insecure",) if is_plain else ()
    with Program(folder, "serve", "nrep", *at, *how, *words) as program:
        yield Running(program.wait_ready(), is_plain)


@pytest.fixture(scope="module", params=["tls", "plain"])
def entry(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("entry")
    with running(folder, is_plain=request.param == "plain") as found:
        yield found


def _play(entry: Running, transcript: dict[str, Any], *, is_cut: bool) -> None:
    """Play one transcript; ids that the entry point chose stand for those in the text."""
    ids: dict[bytes, bytes] = {}

    def real(hexadecimal: str) -> bytes:
        found = bytes.fromhex(hexadecimal)
        for told, chosen in ids.items():
            found = found.replace(told, chosen)
        return found

    def learn(expected: bytes, got: bytes) -> None:
        if expected[1] == 5 and expected[10] == 1:
            ids[expected[21:31]] = got[21:31]
        elif expected[1] == 9 and expected[20] in (OPEN_ACK, OPEN_REQUEST):
            ids[expected[10:20]] = got[10:20]

    with contextlib.ExitStack() as stack:
        peers = {name: stack.enter_context(entry.peer()) for name in transcript["peers"]}
        gone = set()
        for step in transcript["steps"]:
            said = step["recommended"]["input"]
            peer = peers[said["peer"]]
            if said.get("event") == "tcp_lost":
                gone.add(said["peer"])
                peer.sock.close()
            elif is_cut:
                for byte in real(said["hex"]):
                    peer.send(bytes([byte]))
            else:
                peer.send(real(said["hex"]))
            expected: dict[str, list[str]] = {}
            for out in step["recommended"]["output"]:
                expected.setdefault(out["peer"], []).append(out["hex"])
            # Whoever said something first: its words are then dealt with.
            for name in sorted(peers.keys() - gone, key=lambda name: name != said["peer"]):
                wanted = expected.get(name, [])
                # The end of a connection is seen in its own time.
                early = [peers[name].next()] if gone and wanted and said.get("event") else []
                got = early + peers[name].until_now()
                assert len(got) == len(wanted), (transcript["id"], name, got)
                for one, other in zip(wanted, got, strict=True):
                    learn(bytes.fromhex(one), other)
                    assert other.hex() == real(one).hex(), transcript["id"]


@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=[each["id"] for each in TRANSCRIPTS])
def test_a_transcript_is_kept_to_the_byte(
    entry: Running, transcript: dict[str, Any], is_cut: bool
) -> None:
    _play(entry, transcript, is_cut=is_cut)


def _wire(vector: dict[str, Any]) -> bytes:
    if "segments" in vector:
        return bytes.fromhex("".join(vector["segments"]))
    return bytes.fromhex(vector["hex"])


def _of(kind: str, transport: str, direction: str = "C>S") -> list[Any]:
    return [
        pytest.param(each, id=each["id"])
        for each in VECTORS.values()
        if each["kind"] == kind and each["transport"] == transport and each["dir"] == direction
        and "recipe" not in each
    ]  # fmt: skip


@pytest.mark.parametrize("vector", _of("malformed", "udp"))
def test_a_bad_datagram_is_dropped(entry: Running, vector: dict[str, Any]) -> None:
    assert ask_udp(entry.discovery, _wire(vector)) == []


@pytest.mark.parametrize("vector", _of("valid", "udp"))
def test_a_good_datagram_is_answered_with_its_nonce(entry: Running, vector: dict[str, Any]) -> None:
    wire = _wire(vector)
    answers = ask_udp(entry.discovery, wire, wire + b"more")
    port, size = struct.unpack_from("<II", answers[0], 10)
    assert answers == 2 * [packet(2, answers[0][10:], int.from_bytes(wire[2:6], "little"))]
    assert port == entry.at.port
    assert size == len(answers[0]) - 18
    if entry.is_plain:
        assert size == 0
    else:
        found = hashlib.sha256(answers[0][18:]).hexdigest()
        assert found == entry.program.ready["fingerprint"]
        with entry.peer() as peer:
            assert isinstance(peer.sock, ssl.SSLSocket)
            assert peer.sock.getpeercert(binary_form=True) == answers[0][18:]


@pytest.mark.parametrize(
    "vector", [*_of("valid", "tcp"), *_of("tolerated", "tcp"), *_of("stream", "tcp")]
)
def test_a_good_packet_has_its_effect(entry: Running, vector: dict[str, Any]) -> None:
    wire = _wire(vector)
    nonce = int.from_bytes(wire[2:6], "little")
    with entry.peer() as one, entry.peer() as other:
        instance = one.publish(b"golden")
        if wire[1] == 9:  # of the receiver, of a socket that waits
            other.send(open_socket(instance, 9))
            mine = other.next()[10:20]
            theirs = one.next()[10:20]
            one.send(wire.replace(SOCKET, theirs))
            assert one.until_now() == []
            flags = wire[20]
            said = READY if flags == ACCEPT else CLOSE
            assert other.until_now() == [control(mine, said)]
            return
        mine, theirs = other.joined(one, instance)
        wire = wire.replace(SOCKET, mine)
        at = 0
        for segment in vector.get("segments", [wire.hex()]):
            other.send(wire[at : at + len(segment) // 2])
            at += len(segment) // 2
        got, relayed = other.until_now(), one.until_now()
        match wire[1]:
            case 4:
                size = int.from_bytes(wire[10:14], "little")
                (reply,) = got
                assert reply[:21] == packet(
                    5, b"\1" + app(wire[14 : 14 + size]) + bytes(10), nonce
                )[:21]  # fmt: skip
                assert len(reply) == 31
                assert relayed == []
            case 6:
                assert got == [packet(7, b"\0", nonce)]
            case 10:
                assert got == []
                assert relayed == [data(theirs, wire[24:])]
            case kind:
                pytest.fail(f"what is {kind}?")


@pytest.mark.parametrize("vector", _of("malformed", "tcp"))
def test_a_bad_packet_has_the_effect_that_is_written_down(
    entry: Running, vector: dict[str, Any]
) -> None:
    expected: str = vector["expect"]["recommended"]
    wire = _wire(vector)
    nonce = int.from_bytes(wire[2:6], "little")
    with entry.peer() as one, entry.peer() as other:
        mine, theirs = other.joined(one, one.publish(b"golden"))
        other.send(wire.replace(SOCKET, mine))
        if expected.startswith(("close_connection", "at EOF")):
            if expected.startswith("at EOF"):
                other.sock.close()
            else:
                assert other.is_shut()
            assert one.next() == control(theirs, CLOSE)  # and nothing of the packet
            assert one.until_now() == []
            return
        got, relayed = other.until_now(), one.until_now()
        if expected.startswith("PUBLISH_REPLY success=0"):
            assert (got, relayed) == ([packet(5, bytes(21), nonce)], [])
        elif expected.startswith("INSTANCE_REPLY count=0"):
            assert (got, relayed) == ([packet(7, b"\0", nonce)], [])
        elif expected.startswith("close that virtual socket"):
            assert (got, relayed) == ([control(mine, CLOSE)], [control(theirs, CLOSE)])
        elif expected.startswith("relay 2 bytes"):
            assert (got, relayed) == ([], [data(theirs, b"he")])
        else:
            assert expected == "ignore_packet"
            assert (got, relayed) == ([], [])


def test_the_largest_packet_of_old_forwarders_is_relayed(entry: Running) -> None:
    content = bytes(range(256)) * 320
    assert len(content) == 81_920
    with entry.peer() as one, entry.peer() as other:
        mine, theirs = other.joined(one, one.publish(b"large"))
        other.send(data(mine, content))
        assert one.next() == data(theirs, content)


def test_many_packets_in_one_segment_and_then_one_cut_at_every_place(entry: Running) -> None:
    with entry.peer() as one, entry.peer() as other:
        instance = one.publish(b"cut")
        mine, theirs = other.joined(one, instance)
        other.send(
            find(app(b"cut"), 5),
            *(data(mine, b"%d" % n) for n in range(200)),
            publish(b"x", 6),
            control(mine, CLOSE),
            data(mine, b"late"),
        )
        found, published = other.until_now()
        assert found == packet(7, b"\1" + instance, 5)
        assert published[:11] == packet(5, bytes(21), 6)[:10] + b"\1"
        assert one.until_now() == [
            *(data(theirs, b"%d" % n) for n in range(200)),
            control(theirs, CLOSE),
        ]
        mine, theirs = other.joined(one, instance)
        wire = data(mine, b"hello")
        for at in range(1, len(wire)):
            other.send(wire[:at])
            assert one.until_now() == []
            other.send(wire[at:])
            assert one.next() == data(theirs, b"hello")


def test_only_the_ends_of_a_socket_are_obeyed(entry: Running) -> None:
    with entry.peer() as one, entry.peer() as other, entry.peer() as stranger:
        instance = one.publish(b"mine")
        mine, theirs = other.joined(one, instance)
        for flags in (CLOSE, REFUSE, ACCEPT, READY, OPEN_ACK, CLOSE | REFUSE, 0xFF):
            stranger.send(control(mine, flags), control(theirs, flags))
        stranger.send(data(mine, b"forged"), data(theirs, b"forged"))
        assert stranger.until_now() == []
        other.send(control(mine, ACCEPT), control(mine, REFUSE), control(mine, READY))
        one.send(control(theirs, ACCEPT), control(theirs, REFUSE), control(theirs, 0))
        assert (one.until_now(), other.until_now(), one.until_now()) == ([], [], [])
        # A requester cannot accept its own request.
        other.send(open_socket(instance, 3))
        pending = other.next()[10:20]
        one.next()
        other.send(control(pending, ACCEPT), control(pending, READY), data(pending, b"early"))
        assert (other.until_now(), one.until_now()) == ([], [])
        other.send(data(mine, b"still here"))
        assert one.next() == data(theirs, b"still here")


def test_close_comes_before_refuse_and_refuse_before_accept(entry: Running) -> None:
    with entry.peer() as one, entry.peer() as other:
        instance = one.publish(b"bits")
        bits = {
            ACCEPT | CLOSE: CLOSE,
            REFUSE | CLOSE: CLOSE,
            ACCEPT | REFUSE: CLOSE,
            0xFF: CLOSE,
            # Bits of the entry point, and those without a meaning, count for nothing.
            ACCEPT | OPEN_ACK | READY: READY,
            ACCEPT | 0x03: READY,
            OPEN_ACK | OPEN_REQUEST | READY | 0x03: None,
        }
        for flags, said in bits.items():
            other.send(open_socket(instance, 5))
            mine, theirs = other.next()[10:20], one.next()[10:20]
            one.send(control(theirs, flags))
            assert one.until_now() == []
            assert other.until_now() == ([] if said is None else [control(mine, said)])


def test_an_app_with_more_instances_than_a_reply_holds_shows_them_in_turn(entry: Running) -> None:
    with entry.peer() as one, entry.peer() as two, entry.peer() as other:
        published = {one.publish(b"many") for _ in range(200)}
        published |= {two.publish(b"many") for _ in range(200)}
        assert len(published) == 400
        seen: set[bytes] = set()
        for nonce in range(1, 6):
            other.send(find(app(b"many"), nonce))
            reply = other.next()
            found = {reply[at : at + 10] for at in range(11, len(reply), 10)}
            assert reply[:11] == packet(7, b"\xff" + bytes(2550), nonce)[:11]
            assert len(found) == 255
            seen |= found
        assert seen == published


def test_who_is_lost_ends_its_sockets_once_and_a_late_close_is_ignored(entry: Running) -> None:
    with entry.peer() as other, entry.peer() as third:
        with entry.peer() as one:
            instance = one.publish(b"lost")
            mine, _ = other.joined(one, instance)
            also, _ = third.joined(one, instance)
            other.send(open_socket(instance, 4))
            pending = other.next()[10:20]
        got = {other.next(), other.next()}
        assert got == {control(mine, CLOSE), control(pending, CLOSE)}
        assert third.next() == control(also, CLOSE)
        other.send(control(mine, CLOSE), control(pending, CLOSE), data(mine, b"x"))
        assert other.until_now() == []
        other.send(find(app(b"lost"), 5), open_socket(instance, 6))
        assert other.until_now() == [
            packet(7, b"\0", 5),
            packet(9, bytes(10) + bytes([OPEN_ACK | CLOSE]), 6),
        ]


def test_extensions_of_a_client_that_did_not_agree_end_it(entry: Running) -> None:
    for kind in (0x0B, 0x3F, 0x41, 0x46, 0xFF):
        with entry.peer() as peer:
            peer.send(packet(kind))
            assert peer.is_shut()


def test_sockets_that_nobody_accepts_end_at_both_ends_once(tmp_path: Path) -> None:
    config = tmp_path / "entry.toml"
    config.write_text("[times]\naccept_s = 0.5\n")
    with (
        running(tmp_path, "--config", str(config)) as entry,
        entry.peer() as one,
        entry.peer() as other,
    ):
        instance = one.publish(b"slow")
        other.send(open_socket(instance, 1))
        mine = other.next()[10:20]
        theirs = one.next()[10:20]
        assert other.next() == control(mine, CLOSE)
        assert one.next() == control(theirs, CLOSE)
        one.send(control(theirs, ACCEPT))
        assert (one.until_now(), other.until_now()) == ([], [])


def test_quotas_are_told_with_their_reason_to_who_agreed_to_reasons(tmp_path: Path) -> None:
    config = tmp_path / "entry.toml"
    config.write_text("[quotas]\ninstances = 1\nrequests = 1\n")
    with (
        running(tmp_path, "--config", str(config)) as entry,
        entry.peer() as old,
        entry.peer() as new,
    ):
        reason = b"WL\x04\x04\x00\x05\x00\x00\x00"
        new.send(packet(0x40, b"WL\x01\x04\x00\x10\x00\x00\x00"))  # Client Hello: close reasons
        for peer, tail in ((old, b""), (new, reason)):
            instance = peer.publish(b"one")
            peer.send(publish(b"two", 7))
            assert peer.next() == packet(5, bytes(21) + tail, 7)
            peer.send(open_socket(instance, 8))
            assert [each[1] for each in peer.until_now()] == [9, 9]
            peer.send(open_socket(instance, 9))
            assert peer.next() == packet(9, bytes(10) + bytes([OPEN_ACK | CLOSE]) + tail, 9)


def _is_let_in(entry: Running) -> bool:
    with contextlib.suppress(ConnectionError):
        entry.peer().sock.close()
        return True
    return False


def test_a_program_that_is_told_to_stop_lets_sockets_end_and_takes_nothing_new(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as entry, entry.peer() as one, entry.peer() as other:
        instance = one.publish(b"drain")
        mine, theirs = other.joined(one, instance)
        entry.program.process.terminate()
        while _is_let_in(entry):
            pass
        other.send(open_socket(instance, 5), publish(b"new", 6), data(mine, b"on its way"))
        assert other.until_now() == [
            packet(9, bytes(10) + bytes([OPEN_ACK | CLOSE]), 5),
            packet(5, bytes(21), 6),
        ]
        assert one.next() == data(theirs, b"on its way")
        one.send(data(theirs, b"answer"), control(theirs, CLOSE))
        assert other.next() == data(mine, b"answer")
        assert other.next() == control(mine, CLOSE)
        assert other.is_shut()
        assert entry.program.process.wait(30) == 0
        assert entry.program.process.stdout is not None
        assert entry.program.process.stdout.read() == b""


@needs_ipv6
@pytest.mark.parametrize("is_plain", [False, True], ids=["tls", "plain"])
def test_a_program_on_ipv6_answers_and_relays(tmp_path: Path, is_plain: bool) -> None:
    with (
        running(tmp_path, is_plain=is_plain, host="[::1]") as entry,
        entry.peer() as one,
        entry.peer() as other,
    ):
        assert entry.at.host == entry.discovery.host == "::1"
        (answer,) = ask_udp(entry.discovery, packet(1, nonce=5))
        assert struct.unpack_from("<I", answer, 10) == (entry.at.port,)
        mine, theirs = other.joined(one, one.publish(b"six"))
        other.send(data(mine, b"hello"))
        assert one.next() == data(theirs, b"hello")
