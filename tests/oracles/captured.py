"""The tables of captures by the object path: slow, plain, and what `wireloom.tabulate` must equal.

Only the reading of packets and their reassembly are shared; frames, packets, messages, nested
messages, times and accounts are made here from `wireloom.scan` and `wireloom.decode`.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, IntFlag
from itertools import pairwise
from random import Random
from typing import Any

import wireloom
from oracles.tabled import plain_rows
from wireloom.captures import (
    NO_TIME,
    Damage,
    Dropped,
    Event,
    Gap,
    LeftOut,
    StreamData,
    StreamEnd,
    Suspect,
)
from wireloom.errors import DecodeError
from wireloom.formats import get
from wireloom.framing import Frame, Problem
from wireloom.generate.traffic import (
    START_NS,
    Conversation,
    Faults,
    Packet,
    disturb,
    ethernet,
    ip,
    pcap,
    pcapng,
    udp,
)
from wireloom.rows import frame_rows, message_formats, payload_rows
from wireloom.tables import arrow_schema, table
from wireloom.tabulate import Batches, Settings

__all__ = [
    "Rows",
    "captured_rows",
    "check_accounts",
    "collect",
    "differences",
    "made_capture",
]

Rows = dict[str, list[dict[str, Any]]]

_CUT = ("truncated", "short_header")


@dataclass
class _Segment:
    """Bytes of a stream without a hole."""

    offset: int
    data: bytearray = field(default_factory=bytearray)
    marks: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    is_cut: bool = False
    """Whether a hole follows."""
    is_tail: bool = False
    """Whether a hole is before."""


def made_capture(
    frames: Sequence[bytes],
    random: Random,
    *,
    faults: Faults | None = None,
    is_pcapng: bool = False,
    connections: int = 3,
    snap: int | None = None,
) -> bytes:
    """A capture of TCP connections and a stream of datagrams that carry these frames."""
    packets: list[Packet] = []
    for number in range(connections):
        talk = Conversation(
            f"10.0.0.1:{1000 + number}",
            "10.0.0.2:80",
            first_seq=(random.randrange(1 << 32), random.randrange(1 << 32)),
            mss=random.choice((50, 536, 1460)),
            start_ns=START_NS + 777 * number,
        )
        packets += talk.open()
        packets += talk.send(b"".join(random.choices(frames, k=60)))
        packets += talk.answer(b"".join(random.choices(frames, k=40)))
        packets += talk.close()
    ends = ("10.0.0.3", "10.0.0.4")
    for number in range(30):
        payload = b"".join(random.choices(frames, k=random.randint(1, 4)))
        data = ethernet(ip(*ends, 17, udp(*ends, 5, 6, payload)))
        packet = Packet(START_NS + 1_000_000_000 + number, data)
        packets.append(packet if snap is None or number % 7 else packet.cut(snap))
    if faults is not None:
        packets = list(disturb(packets, faults, random))
    return (pcapng if is_pcapng else pcap)(packets)


def collect(batches: Batches, settings: Settings) -> Rows:
    """The rows of batches; each batch is checked against the settings."""
    found: Rows = {}
    for name, batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(settings.table(name))), name
        assert name in settings.tables
        found.setdefault(name, []).extend(plain_rows(batch))
    return found


def captured_rows(events: Iterable[Event], format: str, *, include_raw: bool = False) -> Rows:
    """The rows of all tables, for streams that are all of one format."""
    found: Rows = {}
    streams: dict[int, list[_Segment]] = {}
    dropped: dict[int, list[dict[str, Any]]] = {}
    suspects: dict[int, list[tuple[int, int]]] = {}
    damaged: dict[str, int] = {}
    for event in events:
        if isinstance(event, Damage):
            _add(found, "errors", _damage(event))
            damaged[event.source] = damaged.get(event.source, 0) + event.length
            continue
        if isinstance(event, LeftOut):
            sums = {"left_out": event.length, "packets": event.packets}
            _in_no_stream(found, event.source, event.kind, event.length, **sums)
            continue
        segments = streams.setdefault(event.stream.number, [])
        if isinstance(event, StreamData):
            if not segments or segments[-1].is_cut:
                segments.append(_Segment(event.offset, is_tail=bool(segments)))
            segments[-1].data += event.data
            segments[-1].marks += event.mark_offsets.tolist()
            segments[-1].times += event.mark_times.tolist()
        elif isinstance(event, Gap):
            if not segments:
                segments.append(_Segment(event.offset))
            segments[-1].is_cut = True
            _add(
                found,
                "gaps",
                {
                    "source": event.stream.source,
                    "stream": event.stream.name,
                    "offset": event.offset,
                    "length": event.length,
                    "ts_before_ns": _known(event.ts_before_ns),
                    "ts_after_ns": _known(event.ts_after_ns),
                },
            )
        elif isinstance(event, Suspect):
            if not segments or event.offset >= segments[-1].offset + len(segments[-1].data):
                place = event.offset, event.offset + event.length
                suspects.setdefault(event.stream.number, []).append(place)
            key = _key(event.stream, event.offset, event.length, _known(event.ts_ns))
            row = {
                "layer": "stream",
                "format": format,
                "code": "suspect",
                "failed_at": event.offset,
            }
            dropped.setdefault(event.stream.number, []).append(
                key | row | {"field": "", "raw": b""}
            )
        elif isinstance(event, Dropped):
            key = _key(event.stream, event.offset, len(event.data), _known(event.ts_ns))
            row = {
                "layer": "stream",
                "format": format,
                "code": event.code,
                "failed_at": event.offset,
            }
            dropped.setdefault(event.stream.number, []).append(
                key | row | {"field": "", "raw": event.data}
            )
        else:
            number = event.stream.number
            noted = dropped.get(number, []), suspects.get(number, [])
            _stream(found, event, segments, *noted, format)
    for source, size in damaged.items():
        if size:
            _in_no_stream(found, source, "damaged", size, quarantined=size)
    if not include_raw:
        for row in found.get("frames", []):
            row["raw"] = None
    return found


def _add(found: Rows, name: str, *rows: dict[str, Any]) -> None:
    found.setdefault(name, []).extend(rows)


def _known(ts_ns: int) -> int | None:
    return None if ts_ns == NO_TIME else ts_ns


def _key(stream: Any, offset: int, length: int, ts_ns: int | None) -> dict[str, Any]:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return {
        "source": stream.source,
        "stream": stream.name,
        "frame_offset": offset,
        "frame_length": length,
        "ts_ns": ts_ns,
        "ts": None if ts_ns is None else epoch + dt.timedelta(microseconds=ts_ns // 1000),
        "path": "",
    }


def _in_no_stream(found: Rows, source: str, kind: str, captured: int, **sums: int) -> None:
    """The row of `accounting` for what is in no stream."""
    row = dict.fromkeys(table("accounting").names, 0)
    where = {"source": source, "stream": f"no stream: {kind}", "format": None}
    _add(found, "accounting", row | where | {"captured": captured} | sums)


def _damage(event: Damage) -> dict[str, Any]:
    class _Nowhere:
        source, name = event.source, ""

    return _key(_Nowhere, event.offset, event.length, _known(event.ts_ns)) | {
        "layer": "capture",
        "format": None,
        "code": event.code,
        "reason": event.reason,
        "failed_at": event.offset,
        "field": event.layer,
        "raw": event.data,
    }


def _records(segment: _Segment, format: str, is_udp: bool) -> Iterator[tuple[Any, int]]:
    """Every record, with its stream offset."""
    if not is_udp:
        for record in wireloom.scan(bytes(segment.data), format):
            yield record, segment.offset + record.offset
        return
    bounds = [*segment.marks, segment.offset + len(segment.data)]
    for first, last in pairwise(bounds):
        part = bytes(segment.data[first - segment.offset : last - segment.offset])
        for record in wireloom.scan(part, format):
            yield record, first + record.offset


def _stream(
    found: Rows,
    end: StreamEnd,
    segments: list[_Segment],
    dropped: list[Any],
    suspects: list[tuple[int, int]],
    format: str,
) -> None:
    stream = end.stream
    sums = {"decoded": 0, "quarantined": sum(len(row["raw"]) for row in dropped), "gap": 0}
    frames = 0
    errors: list[dict[str, Any]] = list(dropped)
    for segment in segments:
        for record, offset in _records(segment, format, stream.protocol == "udp"):
            index = bisect_right(segment.marks, offset) - 1
            ts_ns = _known(segment.times[index]) if index >= 0 else None
            key = _key(stream, offset, len(record.data), ts_ns)
            if isinstance(record, Problem):
                stop = offset + len(record.data)
                is_head = segment.is_cut and stop == segment.offset + len(segment.data)
                is_head = is_head and record.code in _CUT
                is_tail = segment.is_tail and offset == segment.offset
                kind = "gap" if is_head or is_tail else "quarantined"
                sums[kind] += len(record.data)
                row: dict[str, Any] = {"format": format, "raw": record.data}
                if kind == "gap":
                    row |= {
                        "layer": "stream",
                        "code": "gap",
                        "failed_at": offset if is_tail else stop,
                    }
                    row["field"] = ""
                else:
                    at = offset - record.offset + record.at
                    row |= {"layer": "frame", "code": record.code, "reason": record.reason}
                    row |= {"failed_at": at, "field": record.path}
                errors.append(key | row)
            elif isinstance(record, Frame):
                stop = offset + len(record.data)
                is_suspect = any(first < stop and offset < last for first, last in suspects)
                error = _frame(found, key, record.data, format, is_suspect)
                frames += error is None
                sums["quarantined" if error else "decoded"] += len(record.data)
                if error is not None:
                    errors.append(error)
            else:
                sums["decoded"] += len(record.data)
    _add(found, "errors", *errors)
    counts = end.counts
    _add(
        found,
        "accounting",
        {
            "source": stream.source,
            "stream": stream.name,
            "format": format,
            "captured": counts.captured,
            **sums,
            "duplicate": counts.duplicate,
            "left_out": 0,
            "missing": counts.missing,
            "frames": frames,
            "packets": counts.packets,
            "conflict": counts.conflict,
            "bad_checksums": counts.bad_checksums,
        },
    )


def _frame(
    found: Rows, key: dict[str, Any], data: bytes, format: str, is_suspect: bool
) -> dict[str, Any] | None:
    """The rows of a frame; if it cannot be read, the row of `errors` instead."""
    is_message = format in message_formats()
    frame = key | {"format": format, "type_code": None, "type_name": None}
    frame |= {"is_suspect": is_suspect, "raw": data}
    try:
        if is_message:
            made = [frame_rows(data, format)]
        else:
            packet = wireloom.decode(data, format)
            row = get(format).columns().row(packet)
            frame |= {"type_code": row["type_code"], "type_name": row["type_name"]}
            _add(found, format, key | row)
            made = [payload_rows(inner, path=path) for path, inner in packet.payloads()]
    except DecodeError as error:
        return key | {
            "layer": "message" if is_message else "packet",
            "format": format,
            "code": error.code,
            "reason": error.reason,
            "failed_at": key["frame_offset"] + error.offset,
            "field": error.path,
            "raw": data,
        }
    _add(found, "frames", frame)
    for rows in made:
        _add(found, "messages", *(key | row for row in rows.messages))
        _add(found, "fields", *(key | row for row in rows.fields))
        _add(found, "errors", *(key | row for row in rows.errors))
    return None


def differences(expected: Rows, found: Rows, *, is_ordered: bool = True) -> list[str]:
    """The differences; rows of a stream must also be in the same order."""
    problems = []
    for name in sorted({*expected, *found} - {"wide"}):
        wanted, given = _by_stream(expected.get(name, [])), _by_stream(found.get(name, []))
        for stream in sorted({*wanted, *given}, key=repr):
            one = [_comparable(row) for row in wanted.get(stream, [])]
            other = [_comparable(row) for row in given.get(stream, [])]
            if name == "errors" or not is_ordered:
                one, other = sorted(one, key=repr), sorted(other, key=repr)
            if one == other:
                continue
            at = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
            count = f"{len(one)} rows, not {len(other)}"
            problems.append(f"{name} of {stream}, {count}; row {at}: {_first(one, other, at)}")
    return problems


def _first(one: list[Any], other: list[Any], at: int) -> str:
    """The first columns that differ."""
    if at >= min(len(one), len(other)):
        return f"only in one: {(one[at:] or other[at:])[0]}"
    a, b = one[at], other[at]
    return str({key: (a.get(key), b.get(key)) for key in {*a, *b} if a.get(key) != b.get(key)})


def _by_stream(rows: list[dict[str, Any]]) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["source"], row["stream"]), []).append(row)
    return found


def _comparable(row: dict[str, Any]) -> dict[str, str]:
    """Without empty columns and words; as texts, since NaN is not equal to itself."""
    return {
        name: _shown(value)
        for name, value in sorted(row.items())
        if value is not None and name != "reason"
    }


def _shown(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    return repr(int(value)) if isinstance(value, IntEnum | IntFlag) else repr(value)


def check_accounts(found: Rows, captured: int | None = None) -> None:
    """Every row of `accounting` adds up and agrees with the rows of the other tables.

    Raises:
        AssertionError: a byte is missing.
    """
    total = 0
    for row in found.get("accounting", []):
        parts = row["decoded"] + row["quarantined"] + row["gap"] + row["duplicate"]
        assert row["captured"] == parts + row["left_out"], row
        total += row["captured"]
        is_damage = row["stream"] == "no stream: damaged"
        here = (row["source"], "" if is_damage else row["stream"])
        errors = [
            each
            for each in found.get("errors", [])
            if (each["source"], each["stream"]) == here
            and not each["path"]
            and each["code"] != "suspect"  # a note about bytes that were read
        ]
        cut = sum(each["frame_length"] for each in errors if each["code"] == "gap")
        bad = sum(each["frame_length"] for each in errors if each["code"] != "gap")
        assert (cut, bad) == (row["gap"], row["quarantined"]), row
        for each in errors:
            assert len(each["raw"]) == each["frame_length"], each
        frames = [
            each for each in found.get("frames", []) if (each["source"], each["stream"]) == here
        ]
        assert len(frames) == row["frames"], row
        if row["format"] != "nais":
            assert sum(each["frame_length"] for each in frames) == row["decoded"], row
    assert captured is None or total == captured
