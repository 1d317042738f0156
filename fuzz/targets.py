"""What is fuzzed: where inputs start from, how they are read, and patterns made to be slow.

A target is a format. Everything here is found from the registry; only the hostile patterns below
know formats by name, and a format without any gets the general ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from wireloom.format import Format
from wireloom.formats import REGISTRY, get
from wireloom.testing.conformance import examine
from wireloom.wire import varint

MAX_SEED = 4096
"""Bytes of a seed; longer vectors would make every mutant slow without reaching more code."""

Pattern = Callable[[int], bytes]
"""About that many hostile bytes."""


def seeds(name: str) -> list[bytes]:
    """Where mutants start: the format's samples and all bytes in its golden vectors."""
    found = dict.fromkeys(get(name).samples().values())
    folder = Path(import_module(REGISTRY[name]).__file__ or "").parent / "vectors"
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            case = json.loads(line) if line.strip() else {}
            # The three TIB formats share a file; a case says whose it is.
            if case.get("format", name).removesuffix("msg") == name.removesuffix("msg"):
                found.update(dict.fromkeys(_hex_in(case)))
    return [data for data in found if 0 < len(data) <= MAX_SEED]


def _hex_in(case: Any) -> Iterator[bytes]:
    for key, value in case.items() if isinstance(case, dict) else ():
        if key == "hex" and isinstance(value, str):
            yield bytes.fromhex(value)
        elif key in ("chunks", "segments") and isinstance(value, list):
            chunks = [part for part in value if isinstance(part, str) and part != "idle"]
            yield bytes.fromhex("".join(chunks))


def option_sets(format: Format) -> list[dict[str, Any]]:
    """Ways to read: the default, every choice of every option, and low limits."""
    sets: list[dict[str, Any]] = [{}, {"strict": True}]
    for option in format.options:
        others = [choice for choice in option.choices if choice != option.default]
        if isinstance(option.default, bool):
            others.append(not option.default)  # type: ignore[arg-type]
        sets += [{option.name: value} for value in others]
    sets += [{"max_depth": 1, "max_fields": 3}, {"max_frame": 64}]
    return sets


class Target:
    """One format, ready to be given bytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.format = get(name)
        self.options = option_sets(self.format)

    def run(self, data: bytes, index: int = 0) -> bool:
        """Try the bytes; whether they were a message. Of `index` depends how, and how much."""
        random = Random(index)
        options = self.options[0] if index % 2 else random.choice(self.options)
        return examine(self.format, data, random, thorough=index % 16 == 0, **options)


# --- hostile patterns -----------------------------------------------------------------------------


def patterns(name: str) -> dict[str, Pattern]:
    """Inputs made to be slow: false starts, lengths that reach far, deep and wide nesting."""
    found: dict[str, Pattern] = {"zeros": bytes, "ones": lambda size: b"\xff" * size}
    for title, sample in get(name).samples().items():
        for length in (1, 2, 4, 8, 12, 16):
            if length < len(sample):
                found[f"{title}[:{length}] repeated"] = _repeated(sample[:length])
        found[f"{title} repeated"] = _repeated(sample)
        found[f"{title}[:-1] repeated"] = _repeated(sample[:-1])
    return found | PATTERNS.get(name, {})


def _repeated(piece: bytes) -> Pattern:
    return lambda size: piece * (size // len(piece) + 1)


def _enclosed(header: Callable[[int], bytes], end: bytes = b"") -> Pattern:
    """Headers one after the other, each announcing all the bytes that are left."""

    def make(size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            out += header(size - len(out))
        return bytes(out) + end

    return make


def _u32(value: int, order: Any = "big") -> bytes:
    return (value & 0xFFFF_FFFF).to_bytes(4, order)


def _nais(size: int) -> bytes:
    return b"\x1e\x07\0\0\0" + varint(max(0, min(size - 8, (1 << 20) - 1)))


def _blaze(packet: int, words: int, after: int) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        head = _u32(1 << 26 | words << 22 | packet << 16)
        return head + b"\x11\1\1\1" * 5 + _u32(max(size, 4 * words)) + b"\x20\0\0\1" * after

    return make


def _nested(open_one: Callable[[bytes], bytes], close: Callable[[bytes], bytes]) -> Pattern:
    """Messages inside messages, as deep as the size allows; each level copies, so at most 4 KiB."""

    def make(size: int) -> bytes:
        inside = b""
        while len(inside) < min(size, 4096):
            inside = open_one(inside)
        return close(inside) * (size // 4096 + 1)

    return make


def _tibmsg(body: bytes) -> bytes:
    return b"\xce\x13\xaa\x1f\1" + _u32(len(body)) + body


def _tibrv(body: bytes) -> bytes:
    return _u32(len(body) + 8) + b"\x99\x55\xee\xaa" + body


PATTERNS: Mapping[str, Mapping[str, Pattern]] = {
    "nrep": {
        "data in data": _enclosed(
            lambda left: b"\0\x0a\0\0\0\0" + _u32(left - 10, "little") + b"s" * 10
        ),
        "hello in hello": _enclosed(lambda left: b"\0\3\0\0\0\0" + _u32(left - 10, "little")),
        "count in count": _enclosed(
            lambda left: b"\0\7\0\0\0\0" + _u32(left - 10, "little") + b"\xff"
        ),
    },
    "nais": {
        "start bytes": _repeated(b"\x1e"),
        "frame in frame": _enclosed(_nais),
        "frame in frame, ended": _enclosed(_nais, b"\x17"),
        "frame of 127 in frame": _repeated(b"\x1e\x07\0\0\0\x7f"),
        "length without end": _repeated(b"\x1e\x07\0\0\0\xff\xff\xff\xff"),
        "longest length": _repeated(b"\x1e\x07\0\0\0\xff\xff\xff\x7f"),
        "text": _repeated(b"no newline "),
        "lines": _repeated(b"\n"),
    },
    "blaze": {
        "request in request": _enclosed(_blaze(6, 9, 2)),
        "response in response": _enclosed(_blaze(7, 8, 1)),
        "event in event": _enclosed(_blaze(10, 7, 0)),
    },
    "tibmsg": {
        "message in message": _enclosed(lambda left: b"\xce\x13\xaa\x1f\1" + _u32(left - 9)),
        "message in field": _nested(
            lambda body: b"\x02A\0\x81" + _u32(len(body)) + body + b"\0", _tibmsg
        ),
        "tiny fields": lambda size: _tibmsg(b"\0\x03\0" * (size // 3)),
        "field behind field": lambda size: _tibmsg(b"\1\0\x83\0\0\0\1 " * (size // 8)) + b"\1",
        "string to the end in string": lambda size: (
            b"\xce\x13\xaa\x1f\1"
            + _u32(size)
            + _enclosed(lambda left: b"\1\0\x82" + _u32(left - 7))(size)
        ),
        "elements": lambda size: _tibmsg(b"\2A\0\x88" + _u32(size) + bytes(size) + b"\5\1"),
    },
    "tibrv": {
        "message in message": _enclosed(lambda left: _u32(left) + b"\x99\x55\xee\xaa"),
        "message in field": _nested(lambda body: b"\2A\0\1\x7a" + _tibrv(body), _tibrv),
        "tiny fields": lambda size: _tibrv(b"\0\x07\0" * (size // 3)),
        "strings": lambda size: _tibrv(b"\0\x30\x7a" + _u32(size + 8) + _u32(size) + bytes(size)),
        "messages": lambda size: _tibrv(
            b"\0\x31\x7a"
            + _u32(size // 8 * 8 + 8)
            + _u32(size // 8)
            + b"\0\0\0\x08\x99\x55\xee\xaa" * (size // 8)
        ),
        "subject": lambda size: _tibrv(
            (b"\0\2\x79" + (257 * 3 + 2).to_bytes(2, "big") + b"\xff" + b"\x03A\0" * 256)
            * (size // 800 + 1)
        ),
    },
    "qform": {
        "message in message": _enclosed(lambda left: b"\x11\x11\x11\x12" + _u32(left - 8)),
        "no fields": _repeated(b"\x11\x11\x11\x12\0\0\0\0"),
    },
}
