"""QForm: one message, read and written (SPEC §1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from wireloom.errors import DecodeError, EncodeError
from wireloom.formats._tib.lookup import Lookup
from wireloom.formats._tib.problems import check_end, not_canonical
from wireloom.formats.qform.dictionary.model import Dictionary, Entry, TssType
from wireloom.formats.qform.fields import Field, encode_field, quick_field
from wireloom.formats.qform.walk import FID_MASK, HEADER, HEADER_LEN, MAGIC, Slot, walk
from wireloom.messages import Json
from wireloom.messages import Message as BaseMessage
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["Message", "decode", "field_at", "slots"]


@dataclass(frozen=True, slots=True)
class Message(Lookup[Field], BaseMessage):
    """A QForm: fields by name or position, each with its dictionary entry.

    It needs no dictionary to be written, copied or sent elsewhere.
    """

    format: ClassVar[str] = "qform"

    fields: tuple[Field, ...] = ()
    trailer: bytes = b""
    """A fid 0 at the very end, which readers ignore and writers do not emit."""

    @property
    def type_name(self) -> str:
        """Always ``QFORM``: the format has one kind of message."""
        return "QFORM"

    def encode(self) -> bytes:
        """The bytes of the message.

        Raises:
            EncodeError: a field cannot be written; its path says which.
        """
        parts = [MAGIC, b""]
        entries: dict[int, Entry] = {}
        for index, field in enumerate(self.fields):
            try:
                parts.append(encode_field(field))
                if entries.setdefault(field.fid, field.entry) != field.entry:
                    raise EncodeError(f"fid {field.fid} has another entry in an earlier field")
            except EncodeError as error:
                error.within(f"fields[{index}]")
                raise
        self._check_trailer(entries)
        parts.append(self.trailer)
        size = sum(map(len, parts)) - len(MAGIC)
        if size > 0xFFFF_FFFF:
            raise EncodeError(f"a body of {size} bytes is too long")
        parts[1] = size.to_bytes(4, "big")
        return b"".join(parts)

    def _check_trailer(self, entries: dict[int, Entry]) -> None:
        trailer = self.trailer
        null = len(trailer) == 2 and not int.from_bytes(trailer, "big") & FID_MASK
        if trailer and (not null or 0 in entries):
            raise EncodeError(f"{trailer.hex()} is no fid 0 at the end", path="trailer")

    def to_dict(self) -> Json:
        """The message as a JSON object that `wireloom.from_dict` turns back into an equal one."""
        from wireloom.formats.qform.jsonform import message_to_dict

        return message_to_dict(self)

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        from wireloom.formats.qform.show import message_outline

        return message_outline(self)

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """The opaque fields, which may hold a message of another format, with their names.

        A field with the name of an earlier one is named by its position: ``fields[3]``.
        """
        seen: set[str] = set()
        for index, field in enumerate(self.fields):
            entry = field.entry
            if entry.tss_type is TssType.OPAQUE and not entry.is_partial and field.data:
                yield (f"fields[{index}]" if entry.name in seen else entry.name), field.data
            seen.add(entry.name)


def slots(data: bytes, end: int, dictionary: Dictionary | None, limits: Limits) -> Iterator[Slot]:
    """The slots of the message in ``data[:end]``.

    Raises:
        DecodeError: there is no dictionary, or it is empty (code ``no_dictionary``); or a field
            cannot be read.
    """
    if not dictionary:
        raise DecodeError(
            "no dictionary: a QForm says neither the names nor the sizes of its fields",
            offset=HEADER_LEN,
            code="no_dictionary",
        )
    return walk(data, HEADER_LEN, end, dictionary.by_fid, limits)


def field_at(data: bytes, slot: Slot) -> Field:
    """The field in a slot."""
    _, wire_fid, entry, data_at, data_end, offset, end = slot
    return quick_field(
        entry,
        data[data_at:data_end],
        None if offset < 0 else offset,
        wire_fid,
        data[data_end] if end > data_end else 0,
    )


def decode(
    data: bytes,
    dictionary: Dictionary | None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = False,
) -> Message:
    """The QForm at the start of `data`; bytes after it are ignored unless `strict`.

    Raises:
        DecodeError: it cannot be read; the path is that of the failing field. Codes: ``magic``,
            ``truncated``, ``too_large``, ``no_dictionary``, ``unknown_fid``, ``null_fid``,
            ``form``, ``bounds``, ``limit``, and in strict mode ``trailing`` and
            ``not_canonical``.
    """
    end = HEADER.body_end(data, limits)
    fields = []
    last = HEADER_LEN
    for slot in slots(data, end, dictionary, limits):
        fields.append(field_at(data, slot))
        last = slot[-1]
    message = Message(tuple(fields), data[last:end])
    if strict:
        check_end(data, end)
        _see_that_it_is_canonical(message)
    return message


def _see_that_it_is_canonical(message: Message) -> None:
    at = HEADER_LEN
    for index, field in enumerate(message.fields):
        reason = field.why_not_canonical()
        if reason is not None:
            raise not_canonical(reason, at, f"fields[{index}]")
        at += field.wire_len
    if message.trailer:
        raise not_canonical("fid 0 at the end", at, "trailer")
