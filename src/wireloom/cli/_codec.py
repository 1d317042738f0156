"""Bytes of a command → records and messages, with the account of what became of every byte."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

import wireloom
from wireloom.cli._options import DecodeOptions
from wireloom.errors import DecodeError
from wireloom.formats import get, names
from wireloom.framing import Frame, Problem, Record, Text, scan
from wireloom.messages import Message
from wireloom.outline import Node
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from wireloom.nesting import Nested, Unreadable

__all__ = ["Account", "Codec", "Found", "count"]

FIRST_BYTES = 64
"""Bytes looked at first: the start of a header can look like that of another format."""

DETECT_BYTES = 1 << 16
"""Bytes waited for before saying that the format cannot be told."""

MAX_CODES = 5
"""Kinds of problems that a summary lists, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Found:
    """A record of the stream; a frame comes with its message."""

    record: Record
    message: Message | None = None


class Codec:
    """One format with its options checked once, not for every frame."""

    def __init__(self, name: str, options: DecodeOptions, with_nested: bool = False) -> None:
        self.format = get(name)
        own = options
        self._inner: dict[str, Any] = {}
        if with_nested:
            own, self._inner = options.split(self.format)
        given = own.for_format(self.format)
        self._limits, self._strict, self._own = self.format.check_options(given)

    @classmethod
    def for_stream(
        cls, data: Iterator[bytes], options: DecodeOptions, with_nested: bool = False
    ) -> tuple[Codec, Iterator[bytes]]:
        """The codec for a stream, and the whole stream: detecting reads its first bytes."""
        if options.format:
            return cls(options.format, options, with_nested), data
        head = bytearray()
        enough = FIRST_BYTES
        for chunk in data:
            head += chunk
            if len(head) < enough:
                continue
            if (name := wireloom.detect(head)) or len(head) >= DETECT_BYTES:
                break
            enough = 2 * len(head)  # not at every chunk: they may be tiny
        else:
            name = wireloom.detect(head)
        name = name or _by_frames(bytes(head))
        if name:
            return cls(name, options, with_nested), chain([bytes(head)], data)
        known = ", ".join(names())
        what = "cannot tell the format of these bytes" if head else "the input is empty"
        raise click.ClickException(f"{what}; name it with --format ({known})")

    def decode(self, data: bytes) -> Message:
        """The message in `data`.

        Raises:
            DecodeError: it is not such a message.
        """
        return self.format.decode(data, limits=self._limits, strict=self._strict, **self._own)

    def outline(self, data: bytes) -> Node:
        """The field tree of `data`, as far as it can be read."""
        return self.format.outline(data, limits=self._limits, strict=self._strict, **self._own)

    def records(self, data: Iterable[bytes], offset: int = 0) -> Iterator[Record]:
        """The frames of a stream whose first byte has that offset, and what is between them."""
        framer = self.format.framer(
            limits=self._limits, strict=self._strict, offset=offset, **self._own
        )
        return scan(framer, data)

    def nested(self, message: Message) -> Iterator[Nested | Unreadable]:
        """The messages of other formats inside, and the payloads that look like one but are not."""
        from wireloom.nesting import nested

        # Collected beside the generator: it calls back in the middle of finding the next one.
        failed: list[Nested | Unreadable] = []
        for inner in nested(message, on_unreadable=failed.append, **self._inner):
            yield from failed
            failed.clear()
            yield inner
        yield from failed

    def read(self, data: Iterable[bytes]) -> Iterator[Found]:
        """The records of a stream; a frame whose content cannot be read becomes a problem."""
        for record in self.records(data):
            if not isinstance(record, Frame):
                yield Found(record)
                continue
            try:
                yield Found(record, self.decode(record.data))
            except DecodeError as error:
                yield Found(
                    Problem(
                        record.format,
                        record.offset,
                        record.data,
                        error.code,
                        error.reason,
                        error.path,
                        record.offset + error.offset,
                    )
                )


def _by_frames(head: bytes) -> str | None:
    """The format as captures are told apart: damage at the start must not give another answer."""
    try:
        from wireloom.tabulate.detection import stream_format
    except ImportError:  # tables need Arrow, which is an extra
        return None
    return stream_format(head)


@dataclass(slots=True)
class Account:
    """How many bytes were decoded and how many set aside; together they are the input."""

    format: str = ""
    messages: int = 0
    texts: int = 0
    problems: int = 0
    decoded: int = 0
    quarantined: int = 0
    given: int = 0
    """Bytes that were read."""
    stopped: bool = False
    """Whether a limit ended it before the input did."""
    codes: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Number of problems by code, and the first one."""
    started: float = field(default_factory=time.monotonic)

    def counted(self, data: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, counted."""
        for chunk in data:
            self.given += len(chunk)
            yield chunk

    def add(self, found: Found) -> None:
        """Count one record."""
        record = found.record
        if isinstance(record, Problem):
            self.quarantined += record.length
            self.note(record.code, f"at byte {record.at:,}: {record.reason}")
            return
        self.decoded += record.length
        if isinstance(record, Text):
            self.texts += 1
        else:
            self.messages += 1

    def note(self, code: str, first: str) -> None:
        """Count one problem."""
        self.problems += 1
        # By code: there are few of them, while reasons may be endless on hostile input.
        number, first = self.codes.get(code, (0, first))
        self.codes[code] = (number + 1, first)

    @property
    def total(self) -> int:
        """Bytes of the records so far."""
        return self.decoded + self.quarantined

    def summary(self) -> str:
        """A few lines for stderr."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        texts = f", {count(self.texts, 'text')}" if self.texts else ""
        line = (
            f"{self.format}: {count(self.messages, 'message')}{texts}, "
            f"{count(self.problems, 'problem')}; {self.total:,} bytes = {self.decoded:,} decoded"
            f" + {self.quarantined:,} quarantined; {self.total / seconds / 1e6:.1f} MB/s"
        )
        if self.stopped:
            line += "; stopped at --limit"
        elif self.total != self.given:
            # A framer that loses bytes breaks its contract; better said than hidden.
            line += f"\nwarning: {self.given:,} bytes were read, {self.total:,} are accounted for"
        worst = sorted(self.codes.items(), key=lambda item: (-item[1][0], item[0]))
        for code, (number, first) in worst[:MAX_CODES]:
            line += f"\n{number:,} × {escape(code)}, first {clip(first, 200)}"
        return line


def count(number: int, noun: str) -> str:
    """A number with its noun: 1 message, 2 messages."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
