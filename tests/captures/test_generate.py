"""Generated captures: what the manifest says is what reading them finds."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import wireloom
from wireloom.captures import Capture, Damage, Gap, StreamData
from wireloom.errors import DecodeError, OptionError
from wireloom.formats.blaze import from_blz
from wireloom.formats.blaze.packets import SubscriptionRequest, SubscriptionResponse
from wireloom.formats.nais import TypeRegistry
from wireloom.framing import Frame, Text
from wireloom.generate import (
    BINDINGS,
    DICTIONARY,
    MODEL,
    PROTO,
    SCENARIOS,
    Faults,
    Manifest,
    descriptor_set,
    generate,
    write_schemas,
)
from wireloom.generate.traffic import checksum

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TYPES = TypeRegistry()
TYPES.load_descriptor_set(descriptor_set())
for code, name in BINDINGS.items():
    TYPES.bind(code, name)
OPTIONS: dict[str, dict[str, Any]] = {
    "qform": {"dictionary": DICTIONARY},
    "nais": {"types": TYPES},
    "blaze": {"model": from_blz(MODEL)},
}


@dataclass
class Found:
    """What reading finds, in the terms of a manifest."""

    frames: dict[str, dict[str, int]] = field(default_factory=dict)
    nested: Counter[str] = field(default_factory=Counter)
    text: int = 0
    problems: int = 0
    damage: int = 0
    gaps: int = 0
    streams: int = 0
    messages: list[wireloom.Message] = field(default_factory=list)

    def read(self, pieces: list[bytes], format: str, subscriptions: dict[int, Any]) -> None:
        options = OPTIONS.get(format, {})
        framing = {} if format == "blaze" else options
        if format == "blaze":
            options = options | {"subscriptions": subscriptions}
        for record in wireloom.scan(pieces, format, **framing):
            if isinstance(record, Text):
                self.text += record.length
            elif isinstance(record, Frame):
                self._frame(record.data, format, options)
            else:
                self.problems += 1

    def _frame(self, data: bytes, format: str, options: dict[str, Any]) -> None:
        try:
            message = wireloom.decode(data, format, **options)
        except DecodeError:
            self.problems += 1
            return
        self.messages.append(message)
        types = self.frames.setdefault(format, {})
        types[message.type_name] = types.get(message.type_name, 0) + 1
        for inner in wireloom.nested(message, dictionary=DICTIONARY):
            self.nested[inner.format] += 1


def subscriptions_of(streams: dict[str, list[bytes]]) -> dict[int, Any]:
    """What each subscription of the Blaze streams is about."""
    packets = [
        wireloom.decode(record.data, "blaze")
        for pieces in streams.values()
        for record in wireloom.scan(pieces, "blaze")
        if isinstance(record, Frame) and len(record.data) < 40
    ]
    asked = {p.rqstid: p for p in packets if isinstance(p, SubscriptionRequest)}
    return {
        p.sbsrid: (asked[p.rqstid].nclsid, asked[p.rqstid].enctyp)
        for p in packets
        if isinstance(p, SubscriptionResponse) and p.rqstid in asked
    }


def read(data: bytes, manifest: Manifest) -> Found:
    found = Found()
    streams: dict[tuple[int, str], dict[str, list[bytes]]] = {}
    (raw_format,) = list(manifest.frames) if manifest.container == "raw" else [""]
    for event in Capture(io.BytesIO(data)):
        if isinstance(event, Damage):
            found.damage += 1
        elif isinstance(event, Gap):
            found.gaps += 1
        if isinstance(event, StreamData):
            stream = event.stream
            format = raw_format or (
                manifest.ports.get(stream.src_port) or manifest.ports[stream.dst_port]
            )
            # A server's address stands for one scenario: ids are unique there.
            server = stream.src if stream.src_port in manifest.ports else stream.dst
            pieces = streams.setdefault((format, server), {}).setdefault(stream.name, [])
            pieces.append(bytes(event.data))
    for (format, _), group in streams.items():
        subscriptions = subscriptions_of(group) if format == "blaze" else {}
        for pieces in group.values():
            found.streams += 1
            found.read(pieces, format, subscriptions)
    return found


def capture(formats: list[str] | None = None, **options: Any) -> tuple[bytes, Manifest]:
    out = io.BytesIO()
    manifest = generate(out, formats, **options)
    return out.getvalue(), manifest


def check(data: bytes, manifest: Manifest) -> Found:
    found = read(data, manifest)
    assert found.frames == manifest.frames
    assert found.nested == manifest.nested
    assert found.text == manifest.text_bytes
    assert (found.problems, found.damage, found.gaps) == (0, 0, 0)
    return found


@pytest.mark.parametrize("container", ["raw", "pcap", "pcapng"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_decoding_finds_what_the_manifest_says(scenario, container):
    data, manifest = capture([scenario], messages=200, container=container, symbols=20)
    assert manifest.messages == 200
    assert manifest.size == len(data)
    found = check(data, manifest)
    assert found.streams == manifest.streams


def test_a_capture_of_everything_has_every_format_and_its_sessions_end():
    data, manifest = capture(size=300_000, symbols=5)
    found = check(data, manifest)
    assert set(manifest.frames) == set(wireloom.formats())
    assert set(manifest.nested) == {"tibmsg", "tibrv", "qform"}
    assert found.streams == manifest.streams
    assert 300_000 <= len(data) < 450_000
    kinds = manifest.frames["blaze"]
    assert kinds["CONREQ"] == kinds["CONRES"] == kinds["DSCOND"] == 4


def test_market_data_has_images_then_updates_and_about_twenty_fields():
    data, manifest = capture(["tibmsg"], messages=800, container="raw", symbols=10)
    seen: set[object] = set()
    count = 0
    for message in check(data, manifest).messages:
        fields = {field.name: field.value for field in message.fields}
        count += len(fields)
        if fields["SYMBOL"] not in seen:
            assert fields["MSG_TYPE"] == 8
            seen.add(fields["SYMBOL"])
        if "BID" in fields:
            assert fields["BID"] < fields["ASK"]
    assert len(seen) == 10
    assert 17 < count / 800 < 21


def test_every_request_of_a_blaze_session_is_answered():
    data, manifest = capture(["blaze"], size=60_000, container="raw")
    messages = check(data, manifest).messages
    asked = [m.txprid for m in messages if m.type_name == "TXRQST"]
    told = [m.txprid for m in messages if m.type_name == "TXRESP"]
    events = [m.sevtid for m in messages if m.type_name == "SBSEVT"]
    assert asked == told == list(range(1, len(asked) + 1))
    assert events == list(range(1, len(events) + 1))


@pytest.mark.parametrize("scenario", ["tibrv", "blaze", "nais", "nrep"])
def test_a_one_way_capture_has_what_servers_send(scenario):
    data, manifest = capture([scenario], messages=300, one_way=True)
    found = check(data, manifest)
    assert found.streams == manifest.streams
    for event in Capture(io.BytesIO(data)):
        assert event.stream.src_port in manifest.ports


@pytest.mark.parametrize("container", ["pcap", "pcapng"])
def test_the_same_seed_gives_the_same_bytes(container):
    options: dict[str, Any] = {
        "size": 100_000,
        "container": container,
        "faults": Faults(reorder=0.05, loss=0.01, duplicates=0.02, corruption=0.01),
        "symbols": 5,
    }
    assert capture(seed=3, **options) == capture(seed=3, **options)
    assert capture(seed=3, **options)[0] != capture(seed=4, **options)[0]


def test_checksums_are_right_unless_asked_for_otherwise():
    data, manifest = capture(["tibrv"], messages=300, container="pcap")
    bare, _ = capture(["tibrv"], messages=300, container="pcap", checksums=False)
    good, left = ([check_of(packet) for packet in packets_of(file)] for file in (data, bare))
    assert good == [True] * len(good)
    assert left == [False] * len(left)
    # Late segments with a wrong checksum would be dropped.
    late, _ = capture(["tibrv"], messages=300, container="pcap", faults=Faults(reorder=0.3))
    assert check(data, manifest).frames == check(late, manifest).frames


def packets_of(data: bytes) -> list[bytes]:
    """The packets of a little-endian pcap capture."""
    found, at = [], 24
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        found.append(data[at + 16 : at + 16 + size])
        at += 16 + size
    return found


def check_of(packet: bytes) -> bool:
    """Whether the TCP checksum of an IPv4 packet in an Ethernet frame is right."""
    segment = packet[34:]
    return checksum(packet[26:34], bytes([0, 6]), len(segment).to_bytes(2, "big"), segment) == 0


@pytest.mark.parametrize("kind", ["offload", "zero"])
def test_what_a_network_card_does_to_segments_loses_nothing(kind):
    faults = Faults(**{kind: 0.5}, reorder=0.1)
    options = {"messages": 3000, "symbols": 5, "container": "pcap"}
    data, manifest = capture(["tibrv"], faults=faults, **options)
    packets = packets_of(data)
    hit = [packet for packet in packets if not check_of(packet)]
    assert len(hit) == manifest.faults[kind] > 5
    assert all(
        len(packet) > 1514 if kind == "offload" else packet[50:52] == b"\0\0" for packet in hit
    )
    assert manifest.hit == {}
    check(data, manifest)


def test_reordered_and_repeated_packets_lose_nothing():
    faults = Faults(reorder=0.2, duplicates=0.2)
    data, manifest = capture(messages=1500, faults=faults, symbols=5)
    assert manifest.faults["reorder"] > 20
    assert manifest.faults["duplicates"] > 20
    assert manifest.hit == {}
    check(data, manifest)


@pytest.mark.parametrize("scenario", ["tibmsg", "tibrv", "qform", "nrep"])
@pytest.mark.parametrize("fault", ["loss", "corruption", "cut"])
def test_every_frame_that_no_fault_hit_is_found(scenario, fault):
    faults = Faults(**{fault: 0.03})
    data, manifest = capture([scenario], messages=1200, faults=faults, symbols=20)
    sent, hit = manifest.count(scenario), manifest.hit[scenario]
    count = sum(read(data, manifest).frames[scenario].values())
    assert manifest.faults[fault] > 0
    assert 0 < hit < sent / 2
    assert sent - hit <= count <= sent


def test_a_raw_capture_can_have_wrong_bits():
    data, manifest = capture(
        ["tibmsg"], messages=2000, container="raw", faults=Faults(corruption=0.02)
    )
    found = sum(read(data, manifest).frames["tibmsg"].values())
    assert manifest.hit == {"tibmsg": manifest.faults["corruption"]}
    assert 2000 - manifest.hit["tibmsg"] <= found <= 2000


@pytest.mark.parametrize(
    ("compression", "unpack"), [("gzip", gzip.decompress), ("zstd", zstd.decompress)]
)
def test_captures_can_be_packed(tmp_path, compression, unpack):
    path = tmp_path / "capture"
    manifest = generate(path, ["qform"], messages=200, compression=compression)
    plain, _ = capture(["qform"], messages=200)
    assert unpack(path.read_bytes()) == plain
    assert manifest.size == len(plain)


def test_progress_ends_at_the_size():
    told: list[int] = []
    _, manifest = capture(["tibmsg"], messages=100, progress=told.append)
    assert told[-1] <= manifest.size


def test_a_manifest_is_json():
    _, manifest = capture(["nais"], messages=50)
    found = manifest.to_dict()
    assert found["messages"] == 50
    assert found["ports"] == {"7700": "nais"}


@pytest.mark.parametrize(
    "options",
    [
        {"formats": ["morse"]},
        {"formats": []},
        {"formats": ["tibmsg", "tibrv"], "container": "raw"},
        {"container": "tape"},
        {"compression": "rar"},
        {"faults": Faults(loss=2)},
        {"formats": ["tibmsg"], "container": "raw", "faults": Faults(loss=0.1)},
        {"size": -1},
        {"connections": 0},
    ],
)
def test_what_cannot_be_is_refused(options):
    with pytest.raises(OptionError):
        generate(io.BytesIO(), **options)


def test_the_schemas_can_be_used_as_files(tmp_path):
    files = write_schemas(tmp_path / "schemas")
    data, _ = capture(["qform"], messages=1, container="raw")
    assert wireloom.decode(data, "qform", dictionary=str(files["dictionary"]))
    frames, _ = capture(["nais"], messages=5, container="raw")
    last = list(wireloom.scan(frames, "nais"))[-1]
    options: dict[str, Any] = {"proto": str(files["proto"]), "bind": BINDINGS}
    assert wireloom.decode(last.data, "nais", **options).type_name == "board.Reading"


def test_the_descriptor_set_is_that_of_the_text():
    if shutil.which("protoc") is None:
        pytest.importorskip("grpc_tools", reason="no protobuf compiler is installed")
    own = TypeRegistry()
    own.load_text(PROTO, name="board.proto")
    for name in BINDINGS.values():
        for types in (own, TYPES):
            assert name in types.messages
    own.bind(10, "board.Reading")
    fields = {"sensor": 1, "taken_us": 2, "value": 3.5, "unit": "V", "history": [1.0]}
    assert own.write(10, fields) == TYPES.write(10, fields)
