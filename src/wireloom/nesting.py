"""Messages inside messages: a TibMsg in a Rendezvous opaque in an NREP socket data packet.

A message names its payloads (`Message.payloads`); one is taken for a message only by a strong sign:
a format of self-describing messages recognises its magic, and one message, or several back to back,
fill the payload exactly. Anything else is data, not an error. A payload that has the magic but
cannot be read is reported to `on_unreadable`, so that no damage is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wireloom.codec import Codec, message_codecs
from wireloom.detection import MAGIC, surest
from wireloom.errors import DecodeError, LimitError
from wireloom.messages import Message

__all__ = ["MAX_BYTES", "MAX_DEPTH", "Nested", "Unreadable", "nested", "nested_with"]

MAX_DEPTH = 16
"""Levels of messages in messages. Real traffic has two or three."""

MAX_BYTES = 64 << 20
"""Bytes of payloads read for one outer message, all levels together: four of the largest frames."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A message that was found inside another."""

    path: str
    """Where: the payloads' paths from the outside in, as ``data.fields[0]``.

    Where several messages fill one payload, each has its place there: ``data[1]``.
    """
    format: str
    message: Message


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A payload with the magic of a format that could not be read."""

    path: str
    format: str
    data: bytes
    error: DecodeError
    """Why; its offset counts from the start of the payload."""


def nested(
    message: Message,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    on_unreadable: Callable[[Unreadable], object] | None = None,
    **options: Any,
) -> Iterator[Nested]:
    """Every message inside `message`, at any depth, outer ones first, in the order of the bytes.

    Args:
        message: where to look.
        max_depth: levels to go down; what lies deeper is reported as unreadable.
        max_bytes: payload bytes to read in total; what goes beyond is reported as unreadable.
        on_unreadable: called with each payload that has a magic but does not read. Without it,
            such a payload gives nothing.
        options: passed to the formats that have them, such as ``strict`` or a dictionary; see
            `wireloom.options`.

    Raises:
        OptionError: no message format has such an option, or a value is bad.
        SourceError: a dictionary among the options cannot be found or read.
    """
    return nested_with(
        message_codecs(options),
        message,
        max_depth=max_depth,
        max_bytes=max_bytes,
        on_unreadable=on_unreadable,
    )


def nested_with(
    codecs: Sequence[Codec],
    message: Message,
    *,
    max_depth: int = MAX_DEPTH,
    max_bytes: int = MAX_BYTES,
    on_unreadable: Callable[[Unreadable], object] | None = None,
) -> Iterator[Nested]:
    """The same as `nested`, for many messages: options are checked once, when codecs are made."""
    walk = _Walk(codecs, max_depth, max_bytes, on_unreadable or (lambda _: None))
    return walk.run(message)


class _Walk:
    """One search through a message."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        max_depth: int,
        max_bytes: int,
        report: Callable[[Unreadable], object],
    ) -> None:
        self.codecs = {codec.format.name: codec for codec in codecs}
        self.max_depth = max_depth
        self.max_bytes = max_bytes
        self.report = report
        self.work = 0

    def run(self, message: Message) -> Iterator[Nested]:
        # A stack instead of recursion: hostile nesting must not reach Python's stack limit.
        stack = [(1, found) for found in self.inside(message, "", 1)][::-1]
        while stack:
            depth, found = stack.pop()
            yield found
            inner = self.inside(found.message, found.path, depth + 1)
            stack.extend([(depth + 1, each) for each in inner][::-1])

    def inside(self, message: Message, outer: str, depth: int) -> Iterator[Nested]:
        """The messages in the payloads of one message."""
        for name, data in message.payloads():
            codec = self.recognise(data)
            if codec is None:
                continue
            path = f"{outer}.{name}" if outer and not name.startswith("[") else outer + name
            try:
                messages = self.read(codec, data, depth)
            except DecodeError as error:
                self.report(Unreadable(path, codec.format.name, data, error))
                continue
            for index, inner in enumerate(messages):
                place = path if len(messages) == 1 else f"{path}[{index}]"
                yield Nested(place, codec.format.name, inner)

    def recognise(self, data: bytes) -> Codec | None:
        """The codec of the format that is sure of its magic."""
        found = surest(data, [codec.format for codec in self.codecs.values()], MAGIC)
        return None if found is None else self.codecs[found.name]

    def read(self, codec: Codec, data: bytes, depth: int) -> list[Message]:
        if depth > self.max_depth:
            raise LimitError("nesting depth", depth, self.max_depth, code="depth")
        if self.work + len(data) > self.max_bytes:
            raise LimitError("nested bytes", self.work + len(data), self.max_bytes)
        self.work += len(data)
        # A payload of fixed size, such as a Blaze ``byte[N]``, is padded with zeros; no message of
        # these formats starts with one and is all zeros.
        return codec.messages(data, padded=True)
