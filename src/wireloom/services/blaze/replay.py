"""Recorded clients once more: their packets are sent to a broker, and its answers compared.

What is different in every connection is rewritten: CONNID, TXCNID, SBSRID, the ids of events that
are acknowledged, and the stamps from which downloads go on. An answer is waited for wherever the
recorded client had it before it went on, in any of the connections; so the order of things is that
of the recording, however fast it is replayed. Heartbeats and test requests are not compared.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, cast

from wireloom.errors import DecodeError
from wireloom.formats.blaze.codes import DownloadType
from wireloom.formats.blaze.frames import FORMS, RULES, header_fields
from wireloom.formats.blaze.packets import PACKETS, Heartbeat, SubscriptionAck
from wireloom.formats.blaze.session import Stamp
from wireloom.framing import Splitter
from wireloom.services.blaze.recordings import Frame, Recording

__all__ = ["Difference", "Replayed", "replay"]

_COMPARED = {
    "CONRES": ("conres", "errcod", "agrhbt"),
    "DSCOND": ("disres",),
    "TXRESP": ("txresl", "rescls", "blzcod", "enctyp", "nclsid"),
    "SBSRES": ("sbresl", "blzcod"),
    "SBSEVT": ("sevttp", "sbeact", "blzcod"),
    "SBSSPR": ("sbresl", "blzcod"),
}
"""Fields of the answers that must be the same; bodies must be, too."""

_SHOWN = 1000
"""Differences that are kept; all are counted."""

_ALIGNED = 20_000
"""Events of a subscription that are aligned, which may take the square of that; more are compared
one by one."""

_RECENT = 4096
"""Events among which the one is looked for that is acknowledged; windows are far smaller."""

Key = tuple[Any, ...]
Content = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that is not as it was."""

    connection: str
    packet: str
    key: str
    """Which one it was."""
    recorded: str | None
    """None: there was none."""
    live: str | None
    """None: none has come."""


@dataclass(slots=True)
class Replayed:
    """What came back, by packet type."""

    connections: int = 0
    sent: int = 0
    skipped: int = 0
    """Packets that could not be sent, because what they refer to has not come."""
    equal: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    extra: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether everything came back as it was."""
        return not (self.different or self.missing or self.extra or self.skipped)


def _name(fields: dict[str, int]) -> str:
    return PACKETS[fields["pkttyp"]].name


def _content(frame: Frame) -> Content:
    names = _COMPARED[_name(frame.fields)]
    return (*(frame.fields.get(name) for name in names), frame.body)


def _shown(packet: str, content: Content | None) -> str | None:
    if content is None:
        return None
    names = _COMPARED[packet]
    told = [f"{n}={v}" for n, v in zip(names, content, strict=False) if v is not None]
    return " ".join([*told, *([f"body={content[-1].hex()}"] if content[-1] else [])])


class _Keys:
    """What tells the answers of one connection apart, whatever ids the server has given."""

    def __init__(self) -> None:
        self._count: Counter[Key] = Counter()
        self.rqstid_of: dict[int, int] = {}
        """By SBSRID."""
        self.sbsrid_of: dict[int, int] = {}
        """By RQSTID."""
        self.events: dict[int, list[Frame]] = defaultdict(list)
        """By RQSTID, in order."""
        self.connid = 0

    def of(self, frame: Frame) -> Key | None:
        """The key of an answer; None when it is not compared."""
        fields, name = frame.fields, _name(frame.fields)
        if name not in _COMPARED:
            return None
        key: Key = (name,)
        if name == "CONRES":
            self.connid = fields.get("connid", 0)
        elif name == "TXRESP":
            key = (name, fields["txplid"], fields["txsvid"], fields["txprid"])
        elif name == "SBSRES":
            rqstid = fields["rqstid"]
            if "sbsrid" in fields:
                self.rqstid_of[fields["sbsrid"]] = rqstid
                self.sbsrid_of[rqstid] = fields["sbsrid"]
            key = (name, rqstid)
        elif "sbsrid" in fields:
            rqstid = self.rqstid_of.get(fields["sbsrid"], 0)
            key = (name, rqstid)
            if name == "SBSEVT":
                self.events[rqstid].append(frame)
        self._count[key] += 1
        return (*key, self._count[key])


def _patched(frame: Frame, **values: int) -> bytes:
    """The packet with other numbers in some fields that fill whole words."""
    raw = bytearray(frame.data)
    form = FORMS[frame.fields["hdrlen"] << 6 | frame.fields["pkttyp"]]
    for name, value in values.items():
        at = form.fields[name][0]
        raw[at : at + 4] = value.to_bytes(4, "big")
    return bytes(raw)


class _Peer(asyncio.Protocol):
    """One connection to the broker."""

    def __init__(self, recording: Recording, on_news: Callable[[], None]) -> None:
        self.recording = recording
        self.recorded = _Keys()
        self.live = _Keys()
        self.expected: dict[Key, Content] = {}
        self.got: dict[Key, Content] = {}
        self.is_closed = False
        self.missed: Counter[int] = Counter()
        """Events of a subscription that did not come in time, by RQSTID."""
        self.unsent: list[tuple[int, int]] = []
        """Acknowledgements whose event has not come yet: RQSTID and place of the event."""
        self._on_news = on_news
        self._splitter = Splitter(RULES)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
            for raw in self._splitter:
                self._received(Frame(0, False, raw, header_fields(raw)))
        except DecodeError:
            self.close()
        self._on_news()

    def _received(self, frame: Frame) -> None:
        if _name(frame.fields) == "TSTREQ" and self.live.connid:
            answer = Heartbeat(tmstmp=frame.fields["tmstmp"], connid=self.live.connid)
            self.write(answer.encode())
        key = self.live.of(frame)
        if key is not None:
            self.got[key] = _content(frame)
        if self.unsent and _name(frame.fields) == "SBSEVT":
            waiting, self.unsent = self.unsent, []
            for rqstid, place in waiting:
                self.acknowledge(rqstid, place)

    def acknowledge(self, rqstid: int, place: int) -> None:
        """Acknowledge the event that came where the recorded one came, or when it comes."""
        events = self.live.events[rqstid]
        if place < len(events):
            fields = events[place].fields
            self.write(SubscriptionAck(sbsrid=fields["sbsrid"], sevtid=fields["sevtid"]).encode())
        else:
            self.unsent.append((rqstid, place))

    def has(self, key: Key) -> bool:
        """Whether an answer has come, or will not: events count, and some may have been missed."""
        if key[0] == "SBSEVT":
            rqstid, number = key[1:]
            return bool(len(self.live.events[rqstid]) >= number - self.missed[rqstid])
        return key in self.got

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._on_news()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def rewritten(self, frame: Frame) -> bytes | None:
        """A recorded packet for this connection; None when what it refers to has not come."""
        fields, name = frame.fields, _name(frame.fields)
        values: dict[str, int] = {}
        if "connid" in fields and fields["connid"] == self.recorded.connid:
            values["connid"] = self.live.connid or fields["connid"]
        if fields.get("txcnid") == self.recorded.connid and self.recorded.connid:
            values["txcnid"] = self.live.connid
        if name == "SBSTOP":
            rqstid = self.recorded.rqstid_of.get(fields["sbsrid"], 0)
            if rqstid not in self.live.sbsrid_of:
                return None
            values["sbsrid"] = self.live.sbsrid_of[rqstid]
        return _patched(frame, **values)

    def acked(self, frame: Frame) -> tuple[int, int] | None:
        """RQSTID and place of the event that a recorded SBSACK is for."""
        rqstid = self.recorded.rqstid_of.get(frame.fields["sbsrid"], 0)
        sevtids = [event.fields["sevtid"] for event in self.recorded.events[rqstid][-_RECENT:]]
        if frame.fields["sevtid"] not in sevtids:
            return None
        skipped = len(self.recorded.events[rqstid]) - len(sevtids)
        return rqstid, skipped + sevtids.index(frame.fields["sevtid"])


def _aligned(
    recorded: Sequence[Frame], live: Sequence[Frame]
) -> Iterator[tuple[Frame | None, Frame | None]]:
    """Pairs of events that stand for each other; None where the other one has no counterpart."""
    past, now = [_content(frame) for frame in recorded], [_content(frame) for frame in live]
    if past == now or len(past) + len(now) > _ALIGNED:
        yield from zip_longest(recorded, live)
        return
    for _, start, end, live_start, live_end in SequenceMatcher(
        None, past, now, autojunk=False
    ).get_opcodes():
        yield from zip_longest(recorded[start:end], live[live_start:live_end])


class _Replay:
    def __init__(self, recordings: Sequence[Recording], speed: float, wait: float) -> None:
        self.report = Replayed(connections=len(recordings))
        self._speed = speed
        self._wait = wait
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.peers = [_Peer(recording, self._news.set) for recording in recordings]
        self._order = sorted(
            (
                (frame, place)
                for place, peer in enumerate(self.peers)
                for frame in peer.recording.frames
            ),
            key=lambda pair: (pair[0].ts_ns, not pair[0].is_client),
        )
        self._owed: dict[tuple[int, Key], None] = {}
        self._classes: dict[tuple[int, int], int] = {}

    async def run(self, connect: Callable[[_Peer], Any]) -> Replayed:
        """Send everything, and compare what comes."""
        opened: set[int] = set()
        start, began = (self._order[0][0].ts_ns if self._order else 0), self._loop.time()
        for frame, place in self._order:
            peer = self.peers[place]
            if not frame.is_client:
                key = peer.recorded.of(frame)
                if key is not None:
                    peer.expected[key] = _content(frame)
                    self._owed[place, key] = None
                continue
            await self._settle()
            if self._speed:
                due = began + (frame.ts_ns - start) / 1e9 / self._speed
                await asyncio.sleep(max(0.0, due - self._loop.time()))
            if place not in opened:
                opened.add(place)
                await connect(peer)
            self._send(place, peer, frame)
        await self._settle()
        await asyncio.sleep(0.05 if self._wait else 0)  # what nobody asked for would come now
        for peer in self.peers:
            peer.close()
            self._compare(peer)
        return self.report

    def _send(self, place: int, peer: _Peer, frame: Frame) -> None:
        if _name(frame.fields) == "SBSACK":
            acked = peer.acked(frame)
            if acked is not None and not peer.is_closed:
                peer.acknowledge(*acked)
                self.report.sent += 1
            else:
                self.report.skipped += 1
            return
        data = peer.rewritten(frame)
        if data is not None and _name(frame.fields) == "SBSREQ":
            self._classes[place, frame.fields["rqstid"]] = frame.fields["nclsid"]
            if frame.fields["dwltyp"] == DownloadType.PARTIAL:
                data = self._restamped(Frame(0, True, data, frame.fields))
        if data is None or peer.is_closed:
            self.report.skipped += 1
            return
        self.report.sent += 1
        peer.write(data)

    def _restamped(self, frame: Frame) -> bytes:
        """A download that went on behind an event goes on behind the one that stands for it now."""
        fields = frame.fields
        wanted = fields["tmstmp0"], fields["tmstmp1"]
        known = self._stamps_of(fields["nclsid"])
        # If that event is missing here, the one before it is the place.
        before = max((stamp for stamp in known if stamp <= wanted), default=None)
        seconds, number = wanted if before is None else known[before]
        return _patched(frame, tmstmp0=seconds, tmstmp1=number)

    def _stamps_of(self, nclsid: int) -> dict[Stamp, Stamp]:
        """The stamps of this broker by those of the recording, from events that are the same."""
        found: dict[Stamp, Stamp] = {}
        for (place, rqstid), known in self._classes.items():
            if known == nclsid:
                peer = self.peers[place]
                for was, now in _aligned(peer.recorded.events[rqstid], peer.live.events[rqstid]):
                    if was is not None and now is not None and was.body:
                        stamp = was.fields["tmstmp0"], was.fields["tmstmp1"]
                        found[stamp] = now.fields["tmstmp0"], now.fields["tmstmp1"]
        return found

    async def _settle(self) -> None:
        """Wait for the answers that the recorded clients had at this point, but not for ever."""
        deadline = self._loop.time() + self._wait
        while True:
            for place, key in list(self._owed):
                peer = self.peers[place]
                if peer.is_closed or peer.has(key):
                    del self._owed[place, key]
            left = deadline - self._loop.time()
            if not self._owed:
                return
            if left <= 0:
                self._give_up()
                return
            self._news.clear()
            try:
                async with asyncio.timeout(left):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _give_up(self) -> None:
        """What has not come is not waited for again."""
        for place, key in self._owed:
            if key[0] == "SBSEVT":
                peer, rqstid = self.peers[place], key[1]
                lack = key[2] - len(peer.live.events[rqstid])
                peer.missed[rqstid] = max(peer.missed[rqstid], lack)
        self._owed.clear()

    def _compare(self, peer: _Peer) -> None:
        self.report.skipped += len(peer.unsent)
        for rqstid in {**peer.recorded.events, **peer.live.events}:
            self._align(peer, rqstid)
        for key in [*peer.expected, *(key for key in peer.got if key not in peer.expected)]:
            if key[0] != "SBSEVT":
                self._note(peer, key, peer.expected.get(key), peer.got.get(key))

    def _align(self, peer: _Peer, rqstid: int) -> None:
        """Compare the events of a subscription: one that is missing does not spoil the rest."""
        pairs = _aligned(peer.recorded.events[rqstid], peer.live.events[rqstid])
        for number, (was, now) in enumerate(pairs, 1):
            past = None if was is None else _content(was)
            live = None if now is None else _content(now)
            self._note(peer, ("SBSEVT", rqstid, number), past, live)

    def _note(self, peer: _Peer, key: Key, past: Content | None, live: Content | None) -> None:
        packet = key[0]
        if past == live:
            self.report.equal[packet] += 1
            return
        counter = self.report.different
        if past is None or live is None:
            counter = self.report.extra if past is None else self.report.missing
        counter[packet] += 1
        if len(self.report.differences) < _SHOWN:
            told = " ".join(map(str, key[1:]))
            contents = _shown(packet, past), _shown(packet, live)
            self.report.differences.append(Difference(peer.recording.name, packet, told, *contents))


async def replay(
    recordings: Sequence[Recording],
    host: str,
    port: int,
    *,
    speed: float = 1.0,
    wait: float = 5.0,
    tls: ssl.SSLContext | None = None,
) -> Replayed:
    """Send what recorded clients sent to a broker, each over a connection of its own.

    Args:
        recordings: the connections; see `read_recordings`.
        host: of the broker.
        port: of the broker.
        speed: 2 is twice as fast as it was; 0: as fast as answers come.
        wait: seconds to wait for an answer that the recorded client had got.
        tls: with it, the connections are encrypted.

    Raises:
        OSError: there is nobody.
    """
    work = _Replay(recordings, speed, wait)
    loop = asyncio.get_running_loop()

    async def connect(peer: _Peer) -> None:
        name = host if tls is not None else None
        await loop.create_connection(lambda: peer, host, port, ssl=tls, server_hostname=name)

    try:
        return await work.run(connect)
    finally:
        for peer in work.peers:
            peer.close()
