"""What is fuzzed: how bytes are read, and patterns designed to be slow.

A target is a format. Everything here is found from the registry; only the hostile patterns below
know formats by name, and a format without any gets the general ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from resources import known

from wireloom.format import Format
from wireloom.formats import get
from wireloom.testing.conformance import examine
from wireloom.wire import varint

Pattern = Callable[[int], bytes]
"""Gives about that many hostile bytes."""


def option_sets(format: Format) -> list[dict[str, Any]]:
    """Ways to read: the default, every choice of every option, and low limits."""
    sets: list[dict[str, Any]] = [{}, {"strict": True}]
    for option in format.options:
        others: list[Any] = [choice for choice in option.choices if choice != option.default]
        if isinstance(option.default, bool):
            others.append(not option.default)
        sets += [{option.name: value} for value in others]
    sets += [{"max_depth": 1, "max_fields": 3}, {"max_frame": 64}]
    return sets


class Target:
    """One format, ready to be given bytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.format = get(name)
        self.known = known(name)
        self.options = option_sets(self.format)

    def run(self, data: bytes, index: int = 0) -> bool:
        """Try the bytes; returns whether they were a message. `index` decides how they are read."""
        random = Random(index)
        options = {} if index % 3 == 0 else dict(self.known)
        if index % 2:
            options |= random.choice(self.options)
        return examine(self.format, data, random, thorough=index % 16 == 0, **options)


# --- hostile patterns -----------------------------------------------------------------------------


def patterns(name: str) -> dict[str, Pattern]:
    """Inputs designed to be slow: false starts, far-reaching lengths, deep and wide nesting."""
    found: dict[str, Pattern] = {"zeros": bytes, "ones": lambda size: b"\xff" * size}
    for title, sample in get(name).samples().items():
        for length in (1, 4, 8, 16):
            if length < len(sample):
                found[f"{title}[:{length}] repeated"] = repeated(sample[:length])
        found[f"{title} repeated"] = repeated(sample)
        found[f"{title}[:-1] repeated"] = repeated(sample[:-1])
    return found | PATTERNS.get(name, {})


def repeated(piece: bytes) -> Pattern:
    """The piece repeated."""
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


def _qform(body: bytes) -> bytes:
    return b"\x11\x11\x11\x12" + _u32(len(body)) + body


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
        "start bytes": repeated(b"\x1e"),
        "frame in frame": _enclosed(_nais),
        "frame in frame, ended": _enclosed(_nais, b"\x17"),
        "frame of 127 in frame": repeated(b"\x1e\x07\0\0\0\x7f"),
        "length without end": repeated(b"\x1e\x07\0\0\0\xff\xff\xff\xff"),
        "longest length": repeated(b"\x1e\x07\0\0\0\xff\xff\xff\x7f"),
        "text": repeated(b"no newline "),
        "lines": repeated(b"\n"),
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
        "empty messages": lambda size: _tibmsg(b"\0\x81\0\0\0\0" * (size // 6)),
        "empty arrays": lambda size: _tibmsg(b"\0\x48\0\5\1" * (size // 5)),
        "empty names": lambda size: _tibmsg(b"\1\0\5\0" * (size // 4)),
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
        "empty messages": lambda size: _tibrv(b"\0\1\x7a\0\0\0\x08\x99\x55\xee\xaa" * (size // 11)),
        "empty message arrays": lambda size: _tibrv(b"\0\x31\4\0\0\0\0" * (size // 7)),
    },
    "qform": {
        "message in message": _enclosed(lambda left: b"\x11\x11\x11\x12" + _u32(left - 8)),
        "no fields": repeated(b"\x11\x11\x11\x12\0\0\0\0"),
        "system fields": lambda size: _qform(b"\xcf\xa1\0\1" * (size // 4)),
        "one byte and its padding": lambda size: _qform(b"\xc0\x67\1\0" * (size // 4)),
        "empty variable fields": lambda size: _qform(b"\x41\x2c\0\0" * (size // 4)),
        "empty partials": lambda size: _qform(b"\xc0\xca\0\0\0\0" * (size // 6)),
    },
}
