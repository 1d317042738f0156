"""Golden vectors of NAIS: frames, LEN codes, streams under any chunking, and junction scenarios.

What an implementation once did (``reference…``) is information, not an expectation. Everything else
in a case is checked, and a case with a key that is not understood fails.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Set
from hashlib import sha256
from typing import Any

from wireloom.errors import WireloomError
from wireloom.formats.nais import FORMAT, LineRules, NaisPacket, StreamDecoder
from wireloom.formats.nais.router import Router
from wireloom.formats.nais.rules import HEADER_LEN, read_len, write_len
from wireloom.framing import Frame, Record, Text
from wireloom.testing.vectors import Case
from wireloom.wire import Limits

__all__ = ["Verifier"]

_INFORMATION = {"id", "kind", "note", "source", "checked"}
_LARGE = 1 << 30
"""Limit where a case sets none of its own."""
_IDLE = "idle"
_CUTS = (1, 2, 3, 7, 64, 4096)
_RANDOM_CUTS = 8
_BYTEWISE = 1 << 16


class _Wrong(Exception):
    """Carries a finding to `check`."""


def _require(is_true: bool, finding: str) -> None:
    if not is_true:
        raise _Wrong(finding)


def _compare(what: str, expected: object, actual: object) -> None:
    if not _same(expected, actual):
        raise _Wrong(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _same(expected: Any, actual: Any) -> bool:
    """Equality of JSON values: true is not 1, and NaN or infinity may be written as text."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            _same(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_same, expected, actual))
    if isinstance(expected, float) and not math.isfinite(expected):
        expected = "NaN" if math.isnan(expected) else "Infinity" if expected > 0 else "-Infinity"
    return isinstance(expected, bool) == isinstance(actual, bool) and bool(expected == actual)


def _known(case: Mapping[str, Any], required: Set[str], optional: Set[str]) -> None:
    """Refuse a case that lacks something, or says something that is not checked."""
    keys = {key for key in case if not key.startswith("reference")}
    _require(required <= keys, f"{', '.join(sorted(required - keys))} missing")
    unknown = keys - required - optional
    _require(not unknown, f"not understood: {', '.join(sorted(unknown))}")


class Verifier:
    """Checks the cases of one NAIS vector file."""

    def accepts(self, case: Case) -> bool:
        """Whether it is a frame, LEN or stream case of NAIS, or a scenario of its junction."""
        match case.get("kind"):
            case "frame":
                return "decoded" in case
            case "len":
                return "value" in case
            case "stream":
                return "chunks" in case
            case None:
                return "routes" in case and "expect_after_step" in case
        return False

    def check(self, case: Case) -> str | None:
        """None when codec and stream decoder agree with the case, else what differs."""
        checks: dict[str, Callable[[Case], None]] = {
            "frame": _check_frame,
            "len": _check_len,
            "stream": _check_stream,
            "route": _check_route,
        }
        try:
            checks[case.get("kind", "route")](case)
        except _Wrong as wrong:
            return str(wrong)
        except WireloomError as error:
            return f"{type(error).__name__}: {error}"
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return f"the case cannot be read: {type(error).__name__}: {error}"
        return None


def _read(data: bytes, **options: int) -> NaisPacket:
    limits = Limits(max_frame=_LARGE)
    return FORMAT.decode(data, limits=limits, strict=False, max_payload=_LARGE, **options)


# --- LEN ----------------------------------------------------------------------------------------


def _check_len(case: Case) -> None:
    _known(case, {"value", "hex"}, _INFORMATION | {"reencode_identical"})
    data, value = bytes.fromhex(case["hex"]), case["value"]
    _compare("decoded", [value, len(data)], list(read_len(data)))
    # The header that a stream decoder measures must say the same.
    rules = LineRules(max_payload=_LARGE, max_frame=_LARGE)
    header = bytes(HEADER_LEN) + data
    _compare("measured", len(header) + value + 1, rules.measure(header, 0, len(header)))
    is_minimal = case.get("reencode_identical", True)
    encoded = write_len(value)
    _compare("encoded is the same", is_minimal, encoded == data)
    _require(is_minimal or len(encoded) < len(data), f"{encoded.hex()} is not shorter")


# --- frames -------------------------------------------------------------------------------------

_DECODED = {"type", "sline", "dline", "rsv", "len", "message_name", "message"}
_DECODED_TOO = {"len_hex", "payload_hex", "payload_sha256"}


def _check_frame(case: Case) -> None:
    _known(case, {"hex", "decoded", "reencode_identical"}, _INFORMATION | {"frame_len"})
    expected = case["decoded"]
    _known(expected, _DECODED, _DECODED_TOO)
    _require(bool(expected.keys() & {"payload_hex", "payload_sha256"}), "no payload to compare")
    data = bytes.fromhex(case["hex"])
    _compare("frame_len", case.get("frame_len", len(data)), len(data))
    _compare("decoded", expected, _decoded(data, expected))
    packet = _read(data)
    _check_encoding(packet, data, case["reencode_identical"])
    _check_json(packet, expected)


def _decoded(data: bytes, expected: Mapping[str, Any]) -> dict[str, Any]:
    packet = _read(data)
    length, count = read_len(data[HEADER_LEN:])
    found = {
        "type": packet.type,
        "sline": packet.sline,
        "dline": packet.dline,
        "rsv": packet.rsv,
        "len": length,
        "len_hex": data[HEADER_LEN : HEADER_LEN + count].hex(),
        "payload_hex": packet.payload.hex(),
        "payload_sha256": sha256(packet.payload).hexdigest(),
        "message_name": packet.message_name,
        "message": packet.message,
    }
    _compare("LEN", length, len(packet.payload))
    return {key: found[key] for key in expected}


def _check_encoding(packet: NaisPacket, data: bytes, is_identical: bool) -> None:
    encoded = packet.encode()
    _compare("encoding is the same", is_identical, encoded == data)
    if not is_identical:
        _require(len(encoded) < len(data), "the new encoding is not shorter")
        again = _read(encoded)
        _require(again == packet, "the new encoding is another packet")
        _compare("the newest encoding", encoded.hex(), again.encode().hex())


def _check_json(packet: NaisPacket, expected: Mapping[str, Any]) -> None:
    """From what the case says of the packet, back to its bytes."""
    _require(FORMAT.from_dict(packet.to_dict()) == packet, "to_dict and from_dict lose something")
    header = {key: expected[key] for key in ("type", "sline", "dline", "rsv")}
    if "payload_hex" in expected:
        made = FORMAT.from_dict(header | {"payload": expected["payload_hex"]})
        _compare("encoded from fields", packet.encode().hex(), made.encode().hex())
    if expected["message"] is None:
        return
    made = FORMAT.from_dict(
        header | {"message": expected["message"], "message_name": expected["message_name"]}
    )
    _compare("message written and read again", expected["message"], made.message)
    proto = packet.proto
    # Packed numbers, unknown fields or another order of fields are legal, but not what is written.
    is_canonical = (
        proto is not None and proto.SerializeToString(deterministic=True) == packet.payload
    )
    if is_canonical:
        _compare("payload written from the message", packet.payload.hex(), made.payload.hex())


# --- streams ------------------------------------------------------------------------------------

_RULES = {"max_payload", "max_len_bytes", "strict_rsv"}


def _check_stream(case: Case) -> None:
    _known(case, {"chunks", "eof", "expect"}, _INFORMATION | {"opts"})
    options = case.get("opts") or {}
    _known(options, set(), _RULES | {"max_text"})
    segments: list[bytes] = [b""]
    for chunk in case["chunks"]:
        if chunk == _IDLE:
            segments.append(b"")
        else:
            segments[-1] += bytes.fromhex(chunk)
    given = [chunk if chunk == _IDLE else bytes.fromhex(chunk) for chunk in case["chunks"]]
    records = _decode(given, options, case["eof"])
    _check_records(case["expect"], records)
    _check_cover(b"".join(segments), records, case["eof"])
    for name, chunks in _chunkings(segments, case.get("id")):
        _require(_decode(chunks, options, case["eof"]) == records, f"differs when cut {name}")


def _decode(chunks: list[bytes | str], options: Mapping[str, Any], has_eof: bool) -> list[Record]:
    rules = LineRules(**{key: value for key, value in options.items() if key in _RULES})
    text = {key: value for key, value in options.items() if key not in _RULES}
    decoder = StreamDecoder(rules, **text)
    records: list[Record] = []
    for chunk in chunks:
        records += decoder.feed(chunk) if isinstance(chunk, bytes) else decoder.idle()
    return records + (decoder.close() if has_eof else [])


def _chunkings(segments: list[bytes], seed: object) -> Iterator[tuple[str, list[bytes | str]]]:
    """The same stream cut in many other ways; the idle marks stay where they are."""
    yield "nowhere", _join([[segment] for segment in segments])
    for size in _CUTS:
        # Byte by byte costs one call each: affordable for streams of some ten kilobytes.
        if size > 1 or sum(map(len, segments)) <= _BYTEWISE:
            yield f"every {size} bytes", _join([_every(segment, size) for segment in segments])
    chance = random.Random(str(seed))
    for number in range(_RANDOM_CUTS):
        cuts = [_at_random(segment, chance) for segment in segments]
        yield f"at random ({number})", _join(cuts)


def _join(segments: list[list[bytes]]) -> list[bytes | str]:
    chunks: list[bytes | str] = list(segments[0])
    for segment in segments[1:]:
        chunks += [_IDLE, *segment]
    return chunks


def _every(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


def _at_random(data: bytes, chance: random.Random) -> list[bytes]:
    marks = sorted(chance.choices(range(len(data) + 1), k=chance.randint(1, 12)))
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)]


def _check_records(expected: list[dict[str, Any]], records: list[Record]) -> None:
    for index, (want, record) in enumerate(zip(expected, records, strict=False)):
        found = _record(record)
        required, optional = _RECORD_KEYS[want["kind"]]
        _known(want, required, optional)
        some = {key: found.get(key) for key in want if not key.startswith("reference")}
        _compare(f"record {index}", {key: want[key] for key in some}, some)
    names = [_record(record)["kind"] for record in records]
    _compare("records", [want["kind"] for want in expected], names)


_RECORD_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "frame": ({"kind", "offset", "type", "sline", "dline", "rsv", "len"}, {"payload_hex"}),
    "text": ({"kind", "offset", "hex", "eol"}, set()),
    "error": ({"kind", "offset", "code"}, set()),
    "junk": ({"kind", "offset", "hex"}, set()),
}


def _record(record: Record) -> dict[str, Any]:
    if isinstance(record, Frame):
        packet = _read(record.data, max_len_bytes=10)
        return {
            "kind": "frame",
            "offset": record.offset,
            "type": packet.type,
            "sline": packet.sline,
            "dline": packet.dline,
            "rsv": packet.rsv,
            "len": len(packet.payload),
            "payload_hex": packet.payload.hex(),
        }
    if isinstance(record, Text):
        return {
            "kind": "text",
            "offset": record.offset,
            "hex": record.data.hex(),
            "eol": record.eol,
        }
    if record.code == "junk":
        return {"kind": "junk", "offset": record.offset, "hex": record.data.hex()}
    return {"kind": "error", "offset": record.offset, "code": record.code}


def _check_cover(stream: bytes, records: list[Record], has_eof: bool) -> None:
    """Every byte is in exactly one record, in order; at the end no byte is left."""
    at = 0
    for record in records:
        _compare("offset", at, record.offset)
        at += record.length
        _require(record.data == stream[record.offset : at], f"wrong bytes at {record.offset}")
    _require(not has_eof or at == len(stream), f"the records end at {at} of {len(stream)}")


# --- junctions ----------------------------------------------------------------------------------

_STEP_KEYS: dict[str, set[str]] = {
    "connect": {"op", "line", "as"},
    "send": {"op", "who", "chunks"},
    "close": {"op", "who"},
}


def _check_route(case: Case) -> None:
    """Play a scenario as it is written, and with what is sent cut into single bytes."""
    _known(case, {"routes", "steps", "expect_after_step"}, _INFORMATION)
    _compare("steps", len(case["expect_after_step"]), len(case["steps"]))
    for size in (None, 1, 2, 3, 7):
        found = _play(case, size)
        how = "" if size is None else f" when cut every {size} bytes"
        for index, (expected, received) in enumerate(
            zip(case["expect_after_step"], found, strict=True)
        ):
            _compare(f"received after step {index}{how}", expected, received)


def _play(case: Case, size: int | None) -> list[dict[str, str]]:
    """What each session received, as hex, after each step."""
    router = Router()
    for line in dict.fromkeys(name for route in case["routes"] for name in route):
        router.add_line(line)
    for a, b in case["routes"]:
        router.add_route(a, b)
    sessions: dict[str, int] = {}
    found = []
    for now, step in enumerate(case["steps"]):
        _known(step, _STEP_KEYS[step["op"]], set())
        if step["op"] == "connect":
            sessions[step["as"]] = router.connect(step["line"], now)
        elif step["op"] == "close":
            router.disconnect(sessions.pop(step["who"]), now)
        else:
            chunks = [bytes.fromhex(chunk) for chunk in step["chunks"]]
            for chunk in chunks if size is None else _every(b"".join(chunks), size):
                router.receive(sessions[step["who"]], chunk, now)
        sent = {name: router.data_to_send(number, now) for name, number in sessions.items()}
        found.append({name: data.hex() for name, data in sent.items() if data})
    return found
