"""Checks of the NREP vectors: a packet, a stream, a recipe for a large packet, a transcript."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import wireloom
from wireloom.errors import DecodeError, WireloomError
from wireloom.formats import nrep
from wireloom.formats.nrep import NrepPacket, SocketFlags
from wireloom.framing import Frame, Problem, Record
from wireloom.testing.vectors import Case
from wireloom.testing.vectors._nrep_recipe import build
from wireloom.testing.vectors._nrep_transcript import play

__all__ = ["Verifier", "to_packet", "to_vector"]

_KINDS = ("valid", "tolerated", "malformed", "stream", "recipe")

_CUTS = (1, 2, 3, 7, 64)
_LARGE_CUTS = (1000, 65_536)

_MAX_RECIPE = 64 << 20
"""Bytes of the largest packet that is made from a recipe."""

_NAMES = {
    "x509": "x509_der",
    "success": "success_byte",
    "trailing": "ignored_trailing",
}
"""Fields that have other names in the vectors than in the packets."""


class _Differs(Exception):
    """A codec does not agree with a case; the text says how."""


class Verifier:
    """Checks the cases of one NREP vector file."""

    def accepts(self, case: Case) -> bool:
        """Whether it is a packet or a transcript with peers; other formats have no transport."""
        if "steps" in case:
            return "peers" in case and "kind" not in case
        return case.get("kind") in _KINDS and "transport" in case

    def check(self, case: Case) -> str | None:
        """None when the codec agrees with the case, else what differs, in one line."""
        try:
            if "steps" in case:
                return play(case)
            if case["kind"] == "recipe":
                _check_recipe(case)
            elif case["kind"] == "stream" or "segments" in case:
                _check_stream(case)
            elif case.get("error", "").startswith("E_"):
                _check_error(case, bytes.fromhex(case["hex"]))
            else:
                _check_good(case, bytes.fromhex(case["hex"]))
        except _Differs as difference:
            return str(difference)
        except WireloomError as error:
            return f"{type(error).__name__}: {error}"
        except (KeyError, TypeError, ValueError) as error:
            return f"the case is not of the known schema: {error!r}"
        return None


def to_vector(packet: NrepPacket, content_size: int) -> Case:
    """The packet as the vectors describe it."""
    payload: dict[str, Any] = {}
    for name, value in packet.to_dict().items():
        if name not in ("format", "packet", "nonce"):
            payload[_NAMES.get(name, name)] = value
    match packet:
        case nrep.DiscoverReply():
            payload["x509_length"] = len(packet.x509)
            payload["x509_der"] = packet.x509.hex() or None
            payload["secure"] = packet.is_secure
        case nrep.Publish():
            payload["description_length"] = len(packet.description.encode())
            payload["derived_app_id"] = packet.app_id.hex()
        case nrep.PublishReply():
            payload["success"] = packet.is_success
        case nrep.InstanceReply():
            payload["count"] = len(packet.instance_ids)
            payload["instance_ids"] = [item.hex() for item in packet.instance_ids]
        case nrep.SocketControl():
            payload["flags_hex"] = f"{int(packet.flags):02x}"
            payload["flag_names"] = list(packet.flag_names)
            if packet.unknown_bits:
                payload["unknown_bits"] = packet.unknown_bits
        case nrep.SocketData():
            payload["data_length"] = len(packet.data)
            payload["data"] = packet.data.hex()
    return {
        "reserved": 0,
        "type": packet.code,
        "type_name": packet.name,
        "nonce": packet.nonce,
        "content_size": content_size,
        "payload": payload,
    }


def to_packet(vector: Case) -> NrepPacket:
    """The packet that a vector describes, from its own words, not from its bytes.

    Raises:
        KeyError: it lacks a field, or its type is unknown.
        ValueError: a field is not hex.
    """
    cls = nrep.PACKETS[vector["type"]]
    payload = vector["payload"]
    values: dict[str, Any] = {"nonce": vector["nonce"]}
    for name in cls.codec.attributes:
        given = payload.get(_NAMES.get(name, name))
        if name == "nonce" or given is None:
            continue
        if name == "flags":
            given = SocketFlags(given)
        elif name == "instance_ids":
            given = tuple(bytes.fromhex(item) for item in given)
        elif isinstance(given, str) and name != "description":
            given = bytes.fromhex(given)
        values[name] = given
    return cls(**values)


def _equal(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise _Differs(f"{what}: expected {_brief(expected)}, got {_brief(found)}")


def _brief(value: object) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


def _options(case: Case, size: int = 0) -> dict[str, Any]:
    return {
        "transport": case["transport"],
        "max_content": max(nrep.DEFAULT_MAX_CONTENT, size),
    }


def _check_good(case: Case, data: bytes) -> None:
    """Decode, encode, build, JSON and framing all agree with the case."""
    packet = wireloom.decode(data, "nrep", **_options(case))
    assert isinstance(packet, NrepPacket)
    size = len(packet.encode())
    extra = data[size:]
    if extra and case["transport"] != "udp" and case["kind"] != "malformed":
        raise _Differs(f"{len(extra)} bytes after the packet on {case['transport']}")
    _equal("encode(decode)", packet.encode(), data[:size])
    _check_json(packet)
    if "packet" in case:
        _check_vector(packet, case["packet"], size, extra)
    if any(node.error for _, node in wireloom.outline(data, "nrep", **_options(case)).walk()):
        raise _Differs("the outline shows an error")
    _check_framing(data[:size])


def _check_vector(packet: NrepPacket, vector: Case, size: int, extra: bytes = b"") -> None:
    found = to_vector(packet, size - nrep.HEADER_LEN)
    expected_payload = dict(vector["payload"])
    if extra and expected_payload.get("ignored_trailing") == extra.hex():
        # Bytes after the content of a datagram are not part of the packet.
        del expected_payload["ignored_trailing"]
    for key in sorted({*found["payload"], *expected_payload}):
        if (key in found["payload"]) != (key in expected_payload):
            missing = "the packet" if key in expected_payload else "the vector"
            raise _Differs(f"payload.{key} is not in {missing}")
        _equal(f"payload.{key}", found["payload"][key], expected_payload[key])
    for key in sorted(set(vector) - {"payload"}):
        _equal(key, found.get(key), vector[key])
    if "ignored_trailing" in vector["payload"] and not packet.trailing:
        return
    _equal("encode(packet)", to_packet(vector).encode(), packet.encode())


def _check_json(packet: NrepPacket) -> None:
    again = wireloom.from_dict(json.loads(json.dumps(packet.to_dict())))
    _equal("from_dict(to_dict)", again, packet)


def _check_error(case: Case, data: bytes) -> None:
    code = case["error"].removeprefix("E_").lower()
    try:
        packet = wireloom.decode(data, "nrep", **_options(case))
    except DecodeError as error:
        _equal("error code", error.code, code)
    else:
        raise _Differs(f"accepted as {packet.type_name}, expected {case['error']}")
    if not any(node.error for _, node in wireloom.outline(data, "nrep").walk()):
        raise _Differs("the outline shows no error")
    records = _scan_all_cuts(data)
    if case["transport"] == "tcp" and records:
        # Text is not looked at to find the frames, only when a frame is decoded.
        found = records[0].code if isinstance(records[0], Problem) else "utf8"
        _equal("framing error code", found, code)


def _check_stream(case: Case) -> None:
    segments = [bytes.fromhex(segment) for segment in case.get("segments") or [case["hex"]]]
    records = list(wireloom.scan(segments, "nrep"))
    _equal("records of the whole stream", _scan_all_cuts(b"".join(segments)), records)
    frames = [record for record in records if isinstance(record, Frame)]
    problems = [record for record in records if isinstance(record, Problem)]
    error = case.get("error", "OK")
    expected = [error.removeprefix("E_").lower()] if error.startswith("E_") else []
    _equal("problems", [problem.code for problem in problems], expected)
    _equal("number of packets", len(frames), len(case["packets"]))
    for frame, vector in zip(frames, case["packets"], strict=True):
        packet = wireloom.decode(frame.data, "nrep")
        assert isinstance(packet, NrepPacket)
        _equal("encode(decode)", packet.encode(), frame.data)
        _check_vector(packet, vector, frame.length)
        _check_json(packet)


def _check_recipe(case: Case) -> None:
    """Build the bytes as the text says; if it is not understood, check the part that is given."""
    head = bytes.fromhex(case.get("head_hex", ""))
    data = build(case["recipe"], head)
    if data is None:
        _check_head(case, head)
        return
    _equal("head", data[: len(head)], head)
    _equal("length", len(data), case["length"])
    _equal("sha256", hashlib.sha256(data).hexdigest(), case["sha256"])
    if case.get("error", "OK").startswith("E_"):
        _check_error(case, data)
        return
    packet = wireloom.decode(data, "nrep", **_options(case, len(data)))
    assert isinstance(packet, NrepPacket)
    _equal("encode(decode)", packet.encode(), data)
    _check_json(packet)
    _check_framing(data)


def _check_head(case: Case, head: bytes) -> None:
    """What a recipe that is not understood still gives: type, length and the first bytes."""
    if len(head) < nrep.HEADER_LEN:
        raise _Differs("the recipe is not understood and there is no header to check")
    _equal("length of the sha256", len(case["sha256"]), 64)
    size = nrep.Rules(_MAX_RECIPE).measure(head, 0, len(head))
    _equal("length", size, case["length"])
    text = case["recipe"].upper().replace(" ", "_")
    named = [cls.name for cls in nrep.PACKETS.values() if cls.name in text]
    if named and nrep.PACKETS[head[1]].name not in named:
        raise _Differs(f"type: the recipe names {', '.join(named)}, the header another")
    # With zeros for the unknown rest, the inner lengths must be consistent.
    data = head.ljust(size, b"\0")
    packet = wireloom.decode(data, "nrep", **_options(case, size))
    _equal("encode(decode)", packet.encode(), data)


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def _scan_all_cuts(data: bytes, max_content: int = nrep.DEFAULT_MAX_CONTENT) -> list[Record]:
    """The records of a stream; the way it is cut must not matter."""
    options = {"max_content": max_content}
    whole = list(wireloom.scan(data, "nrep", **options))
    for cut in _CUTS if len(data) < 10_000 else _LARGE_CUTS:
        records = list(wireloom.scan(_pieces(data, cut), "nrep", **options))
        _equal(f"records of pieces of {cut} bytes", records, whole)
    return whole


def _check_framing(data: bytes) -> None:
    """The packet alone on a stream is one frame."""
    records = _scan_all_cuts(data, max(nrep.DEFAULT_MAX_CONTENT, len(data)))
    _equal("frames", records, [Frame("nrep", 0, data)])
