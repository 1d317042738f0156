"""A format together with its options, which are checked once and not for every message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wireloom.errors import DecodeError
from wireloom.format import COMMON_OPTIONS, Format
from wireloom.formats import get, names
from wireloom.framing import Frame, Framer, Problem, Record, scan
from wireloom.messages import Message
from wireloom.options import by_format
from wireloom.outline import Node
from wireloom.wire import Buffer, Limits

__all__ = ["Codec", "message_codecs", "options_of"]


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads messages of one format."""

    format: Format
    limits: Limits
    strict: bool
    options: Mapping[str, Any]
    """The format's own options."""

    @classmethod
    def make(cls, name: str, given: Mapping[str, Any]) -> Codec:
        """The codec of a format with these options.

        Raises:
            UnknownProtocolError: no such format.
            OptionError: an option that this format does not have, or a bad value of one.
            SourceError: a model, dictionary or schema that an option names cannot be read.
        """
        found = get(name)
        return cls(found, *found.check_options(given))

    def decode(self, data: bytes) -> Message:
        """The message at the start of `data`.

        Raises:
            DecodeError: the bytes are not such a message.
        """
        return self.format.decode(data, limits=self.limits, strict=self.strict, **self.options)

    def outline(self, data: bytes) -> Node:
        """The field tree of `data`, as far as it can be read."""
        return self.format.outline(data, limits=self.limits, strict=self.strict, **self.options)

    def framer(self) -> Framer:
        """A new framer for one stream."""
        return self.format.framer(limits=self.limits, strict=self.strict, **self.options)

    def scan(self, data: Buffer | Iterable[Buffer]) -> Iterator[Record]:
        """The frames of a stream, and what lies between them."""
        return scan(self.framer(), data)

    def messages(self, data: bytes, *, padded: bool = False) -> list[Message]:
        """The messages of `data`, which holds frames back to back; text between them is skipped.

        Args:
            data: the frames.
            padded: whether zeros may follow the last frame.

        Raises:
            DecodeError: some of the bytes are not a message; its offset counts from the start of
                `data`.
        """
        found: list[Message] = []
        for record in self.scan(data):
            if isinstance(record, Problem):
                if padded and found and not any(data[record.offset :]):
                    break
                raise DecodeError(
                    record.reason, offset=record.at, path=record.path, code=record.code
                )
            if isinstance(record, Frame):
                try:
                    found.append(self.decode(record.data))
                except DecodeError as error:
                    error.shifted(record.offset)
                    raise
        return found


def options_of(found: Format, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options that a format has, with their values as the format takes them.

    They are spelled as in `wireloom.options`; those of other formats are left out.

    Raises:
        OptionError: a value cannot be used.
    """
    own = {option.name: option for option in (*found.options, *COMMON_OPTIONS)}
    taken: dict[str, Any] = {}
    # The more exact spelling comes last, and wins.
    for spelling, value in sorted(given.items(), key=lambda item: "." in item[0]):
        owner, dot, name = spelling.rpartition(".")
        option = own.get(name)
        if option is None or (dot and owner != found.name):
            continue
        if dot or not option.choices or value in option.choices:
            taken[name] = option.read(value)
    return taken


def message_codecs(given: Mapping[str, Any]) -> list[Codec]:
    """The codecs of all message formats, each with the options that it has.

    Transports are not among them: they have no magic that can be trusted inside other data.

    Raises:
        OptionError: no message format has such an option, or a value is bad.
        SourceError: a dictionary among the options cannot be found or read.
    """
    formats = [each for each in map(get, names()) if each.kind == "message"]
    common = {option.name for option in COMMON_OPTIONS}
    by_format({name: value for name, value in given.items() if name not in common}, formats)
    return [Codec(each, *each.check_options(options_of(each, given))) for each in formats]
