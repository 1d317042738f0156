"""The entry point over real sockets, with peers that are written by hand."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path

import httpx
import pytest
from oracles.nrep_live import LOCAL, Program, RawPeer, control, metric, run, served

from wireloom.captures import Capture, Gap, StreamData
from wireloom.errors import OptionError, SourceError
from wireloom.formats.nrep import (
    FORMAT,
    ZERO_ID,
    Hello,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
)
from wireloom.formats.nrep.extensions import (
    ALL_FEATURES,
    Extension,
    Feature,
    Reason,
    Tag,
    features_in,
    number,
    packet,
    read_tags,
    reason_in,
    write_tags,
)
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import LimitSettings, TapSettings, TlsSettings
from wireloom.services.nrep.entrypoint import EntryPoint
from wireloom.services.nrep.identity import kept_identity
from wireloom.services.nrep.settings import (
    DiscoverySettings,
    EntryPointSettings,
    QuotaSettings,
    TimeSettings,
)

F = SocketFlags


@pytest.mark.parametrize("insecure", [False, True], ids=["tls", "plain"])
def test_legacy_peers_publish_find_open_talk_and_close(tmp_path: Path, insecure: bool) -> None:
    async def main() -> None:
        async with served(tmp_path, insecure=insecure) as entry:
            a, b = await entry.raw(), await entry.raw()
            instance = await a.publish("echo")
            assert await b.find("echo") == (instance,)
            assert await b.find("other") == ()
            mine, theirs = await b.joined(a, instance)
            b.send(SocketData(socket_id=mine, data=b"ping"))
            assert await a.data(4) == b"ping"
            a.send(SocketData(socket_id=theirs, data=b"pong"))
            assert await b.data(4) == b"pong"
            a.send(control(theirs, F.CLOSE))
            closed = await b.next()
            assert isinstance(closed, SocketControl)
            # Nothing beyond the document: no reason, no tags.
            assert (closed.flags, closed.trailing) == (F.CLOSE, b"")
            b.send(control(mine, F.CLOSE))  # late, as the first implementation's client does
            assert await b.find("echo") == (instance,)
            await a.close()
            await entry.until("unpublishes", 1)
            assert await b.find("echo") == ()
            await b.close()
            assert metric(entry.service, "relayed_bytes") == 8
            assert metric(entry.service, "finds") == 4

    run(main())


def test_a_publisher_that_sends_at_once_is_heard_behind_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            a, b = await entry.raw(), await entry.raw()
            mine = await b.open(await a.publish("greeter"))
            request = await a.next()
            assert isinstance(request, SocketControl)
            a.send(
                control(request.socket_id, F.ACCEPT),
                SocketData(socket_id=request.socket_id, data=b"welcome"),
            )
            ready = await b.next()
            assert ready == SocketControl(socket_id=mine, flags=F.READY)
            assert await b.data(7) == b"welcome"
            await a.close()
            closed = await b.next()
            assert closed == SocketControl(socket_id=mine, flags=F.CLOSE)
            await b.close()

    run(main())


def test_what_cannot_be_opened_is_answered_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        times, quotas = TimeSettings(accept_s=0.3), QuotaSettings(requests=1, instances=1)
        async with served(tmp_path, times=times, quotas=quotas) as entry:
            a, b = await entry.raw(), await entry.raw()
            instance = await a.publish("silent")
            b.send(OpenSocket(nonce=9, instance_id=b"?" * 10))
            refused = await b.next()
            assert refused == SocketControl(nonce=9, socket_id=ZERO_ID, flags=F.OPEN_ACK | F.CLOSE)
            mine = await b.open(instance)
            b.send(OpenSocket(nonce=10, instance_id=instance))  # beyond the quota
            refused = await b.next()
            assert isinstance(refused, SocketControl)
            assert refused.flags == F.OPEN_ACK | F.CLOSE
            closed = await b.next()  # nobody accepts in time
            assert closed == SocketControl(socket_id=mine, flags=F.CLOSE)
            assert await a.next()  # the request
            closed = await a.next()
            assert closed == SocketControl(socket_id=mine, flags=F.CLOSE)
            a.send(Publish(nonce=1, description="one too many"))
            reply = await a.next()
            assert isinstance(reply, PublishReply)
            assert not reply.is_success
            service = entry.service
            assert metric(service, "opens_refused", "no_instance") == 1
            assert metric(service, "opens_refused", "quota") == 1
            assert metric(service, "sockets_closed", "timeout") == 1
            assert metric(service, "publishes_refused", "quota") == 1
            await a.close()
            await b.close()

    run(main())


def test_capabilities_are_in_hello_and_extensions_wait_for_an_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            a, old = await entry.raw(), await entry.raw()
            assert isinstance(a.hello, Hello)
            assert features_in(read_tags(a.hello.trailing)) == ALL_FEATURES
            agreed = Feature.PING | Feature.CLOSE_REASON
            a.send(packet(Extension.CLIENT_HELLO, write_tags({Tag.FEATURES: number(agreed)})))
            a.send(packet(Extension.PING, b"tick", 5))
            assert (await a.next()).encode() == packet(Extension.PONG, b"tick", 5)
            a.send(OpenSocket(nonce=1, instance_id=b"?" * 10))
            refused = await a.next()
            assert isinstance(refused, SocketControl)
            assert reason_in(refused.trailing) is Reason.NO_INSTANCE
            # Without an answer to Hello such a type is as unknown as any other.
            old.send(packet(Extension.PING, b"", 5))
            assert await old.is_shut()
            assert metric(entry.service, "peers_failed", "type") == 1
            await a.close()
            await old.close()

    run(main())


def test_the_side_port_shows_metrics_status_and_readiness(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as entry:
            a = await entry.raw()
            await a.publish("db\x1b[2J")
            async with httpx.AsyncClient(base_url=f"http://{entry.said['metrics']}") as http:
                text = (await http.get("/metrics")).text
                assert "wireloom_nrep_instances 1.0" in text
                assert "wireloom_nrep_publishes_total 1.0" in text
                status = (await http.get("/status")).json()
                assert status["apps"] == [{"app": "db\x1b[2J", "instances": 1}]
                assert status["peers"][0]["instances"] == 1
                assert status["fingerprint"] == entry.said["fingerprint"]
                assert (await http.get("/readyz")).status_code == 200
            await a.close()

    run(main())


def test_the_tap_records_plain_text_behind_tls(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, tap=TapSettings(tmp_path / "tap")) as entry:
            a, b = await entry.raw(), await entry.raw()
            mine, _ = await b.joined(a, await a.publish("echo"))
            b.send(SocketData(socket_id=mine, data=b"secret"))
            assert await a.data(6) == b"secret"
            await a.close()
            await b.close()

    run(main())
    streams: dict[object, bytearray] = {}
    for event in Capture(sorted((tmp_path / "tap").iterdir())):
        assert not isinstance(event, Gap)
        if isinstance(event, StreamData):
            streams.setdefault(event.stream, bytearray()).extend(event.data)
    names = []
    for data in streams.values():
        at = 0
        while at < len(data):
            found = FORMAT.decode(bytes(data[at:]))
            names.append(type(found).__name__)
            at += len(found.encode())
    assert names.count("Hello") == 2
    assert names.count("SocketData") == 2


def test_a_drain_takes_nothing_new_and_lets_sockets_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, drain_s=20) as entry:
            a, b = await entry.raw(), await entry.raw()
            instance = await a.publish("echo")
            mine, theirs = await b.joined(a, instance)
            entry.stop.set()
            async with asyncio.timeout(10):
                while not entry.service.table.is_draining:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            b.send(OpenSocket(nonce=3, instance_id=instance))
            refused = await b.next()
            assert isinstance(refused, SocketControl)
            assert refused.flags & F.CLOSE
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await RawPeer.connect(entry.address)
            a.send(SocketData(socket_id=theirs, data=b"the end"), control(theirs, F.CLOSE))
            assert await b.data(7) == b"the end"
            assert await b.next() == SocketControl(socket_id=mine, flags=F.CLOSE)
            assert await b.is_shut()
            await a.close()
            await b.close()

    run(main())


def test_connections_beyond_the_limit_are_refused_and_the_others_stay(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path, limits=LimitSettings(max_connections=1)) as entry:
            a = await entry.raw()
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await entry.raw()
            assert await a.find("x") == ()
            await a.close()

    run(main())


# --- identity -----------------------------------------------------------------------------------


def test_a_generated_certificate_is_kept_and_its_key_is_for_the_owner_alone(
    tmp_path: Path,
) -> None:
    first, second = kept_identity(tmp_path / "state"), kept_identity(tmp_path / "state")
    assert first == second
    assert stat.S_IMODE(first.cert.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    assert b"PRIVATE" not in (tmp_path / "state" / "certificate.pem").read_bytes()
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        "certificate.pem",
        "identity.pem",
    ]


def test_packets_of_existing_forwarders_cannot_be_forbidden() -> None:
    with pytest.raises(OptionError, match="at least 81934"):
        QuotaSettings(max_content=1000)


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        cert = tmp_path / "none.pem"
        for settings, error in [
            (EntryPointSettings(insecure=True, tls=TlsSettings(cert=cert)), OptionError),
            (EntryPointSettings(tls=TlsSettings(key=cert)), OptionError),
            (EntryPointSettings(tls=TlsSettings(cert=cert)), SourceError),
        ]:
            with pytest.raises(error):
                EntryPoint(settings)

    run(main())


# --- as a program -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_program_says_when_it_is_ready_warns_of_plain_tcp_and_drains(tmp_path: Path) -> None:
    words = ("serve", "nrep", "--listen", "127.0.0.1:0", "--discovery", "127.0.0.1:0")
    with Program(tmp_path, *words, "--insecure") as program:
        said = program.wait_ready().ready
        assert said["event"] == "ready"
        for name in ("listen", "discovery", "metrics"):
            assert Address.parse(said[name]).port
        assert "fingerprint" not in said

        async def main() -> None:
            peer = await RawPeer.connect(Address.parse(said["listen"]), is_plain=True)
            await peer.publish("x")
            await peer.close()

        run(main())
        assert program.terminate() == 0
        events = [json.loads(line)["event"] for line in program.log.read_text().splitlines()]
        assert events[0] == "insecure"
        assert events[-2:] == ["draining", "stopped"]


def test_discovery_can_be_switched_off(tmp_path: Path) -> None:
    async def main() -> None:
        discovery = DiscoverySettings(listen=LOCAL, is_on=False)
        async with served(tmp_path, discovery=discovery) as entry:
            assert "discovery" not in entry.said
            assert entry.service.status()["discovery"] is None

    run(main())
