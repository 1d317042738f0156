"""Wireloom: read, write, capture and tabulate six binary wire formats.

>>> import wireloom
>>> wireloom.formats()
('blaze', 'nais', 'nrep', 'qform', 'tibmsg', 'tibrv')
>>> message = wireloom.decode(bytes.fromhex("0003000000000000 0000"))
>>> message.format, message.type_name
('nrep', 'HELLO')
>>> wireloom.from_dict(message.to_dict()) == message
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wireloom import formats as _formats  # callable: wireloom.formats()
from wireloom.codec import Codec
from wireloom.detection import surest
from wireloom.errors import EncodeError, UnknownProtocolError, WireloomError
from wireloom.framing import Frame, Problem, Record, Text
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Buffer, as_bytes

if TYPE_CHECKING:

    def formats() -> tuple[str, ...]:
        """The names of all formats."""

    from wireloom.conversion import Loss, convert
    from wireloom.nesting import Nested, nested
    from wireloom.tabulate.opening import open_capture

__all__ = [
    "Frame",
    "Loss",
    "Message",
    "Nested",
    "Problem",
    "Text",
    "WireloomError",
    "convert",
    "decode",
    "decode_all",
    "detect",
    "encode",
    "formats",
    "from_dict",
    "nested",
    "open_capture",
    "outline",
    "scan",
]

_LAZY = {
    "Loss": "wireloom.conversion",
    "Nested": "wireloom.nesting",
    "convert": "wireloom.conversion",
    "nested": "wireloom.nesting",
    "open_capture": "wireloom.tabulate.opening",
}


def __getattr__(name: str) -> Any:
    # Submodules that most programs do not need are imported on first use.
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'wireloom' has no attribute {name!r}")


def detect(data: Buffer) -> str | None:
    """The format that `data` starts with, by magic and plausibility; None when not certain."""
    found = surest(as_bytes(data), map(_formats.get, _formats.names()))
    return None if found is None else found.name


def _resolve(data: bytes, format: str | None) -> str:
    name = format or detect(data)
    if name is None:
        raise UnknownProtocolError("cannot tell the format of these bytes; pass format=…")
    return name


def decode(data: Buffer, format: str | None = None, **options: Any) -> Message:
    """The message at the start of `data`.

    Args:
        data: one whole frame or message. Bytes after it are ignored, unless ``strict=True``;
            `decode_all` reads them, too.
        format: its name; detected when left out.
        options: ``strict``, ``max_frame``, ``max_depth``, ``max_fields``, and the format's own,
            which ``wireloom formats NAME`` lists.

    Raises:
        DecodeError: the bytes are not a message of this format; the error has the offset, the
            field's path and the reason.
        UnknownProtocolError: no such format, or none detected.
        OptionError: an option that this format does not have, or a bad value of one.
        SourceError: a model, dictionary or schema that an option names cannot be found or read.
    """
    raw = as_bytes(data)
    found = _formats.get(_resolve(raw, format))
    if not options:  # the usual case, and the quickest
        return found.decode(raw, limits=DEFAULT_LIMITS, strict=False)
    return Codec(found, *found.check_options(options)).decode(raw)


def decode_all(data: Buffer, format: str | None = None, **options: Any) -> list[Message]:
    """All messages of `data`, which holds frames back to back: a whole file, say.

    Only the text between NAIS frames is left out; `scan` gives it. Use `scan` as well for streams
    that do not fit in memory, and for damaged ones.

    Args:
        data: the frames. Without any bytes there are no messages.
        format: its name; detected when left out.
        options: as for `decode`.

    Raises:
        DecodeError: some of the bytes are not a message of this format; the offset counts from the
            start of `data`.
        UnknownProtocolError: no such format, or none detected.
        OptionError: an option that this format does not have, or a bad value of one.
        SourceError: a model, dictionary or schema that an option names cannot be found or read.
    """
    raw = as_bytes(data)
    if not raw and format is None:
        return []
    return Codec.make(_resolve(raw, format), options).messages(raw)


def encode(message: Message) -> bytes:
    """The bytes of a message.

    Raises:
        EncodeError: a value cannot be written in the message's format.
    """
    return message.encode()


def scan(data: Buffer | Iterable[Buffer], format: str, **options: Any) -> Iterator[Record]:
    """Cut a byte stream into frames, resynchronising after damage.

    Gives `Frame`, `Problem` and (NAIS only) `Text` records in stream order. Their lengths add up to
    the stream's, and they do not depend on how the stream is cut into chunks.

    Args:
        data: the stream in one piece, or an iterable of chunks.
        format: what the stream holds.
        options: as for `decode`.

    Raises:
        UnknownProtocolError: no such format.
        OptionError: an option that this format does not have, or a bad value of one.
        SourceError: a model, dictionary or schema that an option names cannot be found or read.
    """
    return Codec.make(format, options).scan(data)


def outline(data: Buffer, format: str | None = None, **options: Any) -> Node:
    """The field tree of the message at the start of `data`; where reading fails, a node says why.

    Raises:
        UnknownProtocolError: no such format, or none detected.
        OptionError: an option that this format does not have, or a bad value of one.
        SourceError: a model, dictionary or schema that an option names cannot be found or read.
    """
    raw = as_bytes(data)
    return Codec.make(_resolve(raw, format), options).outline(raw)


def from_dict(d: Json) -> Message:
    """The message that ``message.to_dict()`` described.

    Raises:
        EncodeError: the object is not a message.
        UnknownProtocolError: its ``format`` is not known.
    """
    name = d.get("format") if isinstance(d, dict) else None
    if not isinstance(name, str):
        raise EncodeError("a message object needs a 'format'")
    return _formats.get(name).from_dict(d)
