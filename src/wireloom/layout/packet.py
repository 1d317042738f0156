"""Packet classes and their codecs, made from declarations."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

from wireloom.errors import EncodeError, InvalidFieldError
from wireloom.layout.generate import make_decoder, make_encoder
from wireloom.layout.parts import (
    Attribute,
    Bits,
    Blob,
    Flat,
    Items,
    Optional,
    Part,
    Rest,
    Word,
    attributes,
    flatten,
    member,
    words_in,
)
from wireloom.layout.show import byte_table, fill_outline
from wireloom.messages import Json, Message
from wireloom.outline import Node

__all__ = ["Packet", "PacketCodec", "describe", "packet"]

UNUSED = "unused"
"""The attribute that keeps unused bits that are set."""


class Packet(Message):
    """Base of the packets of a declared format."""

    __slots__ = ()

    code: ClassVar[int]
    """Type code on the wire."""
    name: ClassVar[str]
    """The document's name for it."""
    parts: ClassVar[tuple[Part, ...]]
    sender: ClassVar[str]
    """Who sends it: client, server or both."""
    note: ClassVar[str]
    """When the long form is used."""
    codec: ClassVar[PacketCodec]

    def flaw(self) -> tuple[str, str] | None:
        """A field and what is wrong with it, when the fields contradict each other."""
        return None

    @property
    def type_name(self) -> str:
        """The document's name for the packet."""
        return self.name

    def encode(self) -> bytes:
        """The bytes of the packet.

        Raises:
            EncodeError: a value does not fit its field, or the fields do not agree.
        """
        return self.codec.encode(self)

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        data = self.encode()
        return self.codec.outline(data, 0, len(data))

    def to_dict(self) -> Json:
        """The packet as a JSON object: enums by name, bytes in hex; what is absent is left out."""
        out: Json = {"format": self.format, "packet": self.name}
        for field in dataclasses.fields(cast("Any", self)):
            value = getattr(self, field.name)
            # An empty body is written out when its absence (None) would mean something else.
            is_empty = value is None or (
                isinstance(value, (bytes, tuple)) and not value and field.default is not None
            )
            if not is_empty or field.name in self.codec.required:
                out[field.name] = _to_json(value)
        return out

    @classmethod
    def from_dict(cls, d: Json) -> Self:
        """The packet that `to_dict` described.

        Raises:
            EncodeError: a name is unknown or missing, or its value is not of the right kind.
        """
        known = {field.name for field in dataclasses.fields(cast("Any", cls))}
        values: dict[str, Any] = {}
        for key, value in d.items():
            if key in ("format", "packet"):
                continue
            if key not in known:
                raise EncodeError(f"{cls.name} has no field {key!r}", path=key)
            values[key] = _from_json(key, value, cls.codec.attributes.get(key))
        try:
            return cls(**values)
        except TypeError as error:
            raise EncodeError(f"{cls.name}: {error}") from error


_RESERVED = {name for name in (*dir(Packet), *Packet.__annotations__) if name[0] != "_"} | {
    "format"
}


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return int(value) if isinstance(value, IntFlag) else value


def _from_json(key: str, value: Any, part: Attribute | None) -> Any:
    try:
        if isinstance(part, Bits):
            if isinstance(value, str) and part.enum is not None:
                return part.enum[value]
            number = operator.index(value)
            return member(part.enum, number) if part.enum is not None else number
        if isinstance(part, Items):
            return tuple(bytes.fromhex(item) for item in value)
        if isinstance(part, Blob) and part.text:
            return str.__str__(value)
        if isinstance(part, (Blob, Rest)):
            return bytes.fromhex(value)
    except (KeyError, TypeError, ValueError) as error:
        raise EncodeError(f"{value!r} is not a value of {key}", path=key) from error
    return tuple(value) if isinstance(value, list) else value


_P = TypeVar("_P", bound=Packet)


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,)
)
def packet(
    *, code: int, name: str, parts: tuple[Part, ...], sender: str = "both", note: str = ""
) -> Callable[[type[_P]], type[_P]]:
    """Make a class a packet: a frozen, keyword-only dataclass with a codec made from `parts`.

    Raises:
        TypeError: the class's attributes are not those of its parts.
    """

    def decorate(cls: type[_P]) -> type[_P]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.code, made.name, made.parts, made.sender, made.note = code, name, parts, sender, note
        made.codec = PacketCodec(made)
        return made

    return decorate


class PacketCodec:
    """What is derived from one packet's declaration."""

    def __init__(self, cls: type[Packet]) -> None:
        self.cls = cls
        self.attributes: Mapping[str, Attribute] = dict(attributes(cls.parts))
        fields = {field.name: field for field in dataclasses.fields(cast("Any", cls))}
        if taken := set(self.attributes) & _RESERVED:
            raise TypeError(f"{cls.__name__}: every packet has {sorted(taken)}; name the part else")
        # Attributes that no part describes and comparison ignores are not data: caches, schemas.
        beside = {name for name, field in fields.items() if not field.compare}
        beside = (beside | {UNUSED}) - set(self.attributes)
        if differ := set(self.attributes) ^ (set(fields) - beside):
            raise TypeError(f"{cls.__name__}: attributes and parts differ in {sorted(differ)}")
        self.required = {
            name
            for name, field in fields.items()
            if field.default is MISSING and field.default_factory is MISSING
        }
        self.keeps_unused = UNUSED in fields
        self.has_long_form = any(isinstance(part, Optional) for part in cls.parts)
        kinds = (False, True) if self.has_long_form else (False,)
        flats = [flatten(cls.parts, long=long) for long in kinds]
        self.forms: Mapping[int, tuple[Flat, ...]] = {words_in(flat): flat for flat in flats}
        """Parts of each form, by header length in words: short form first."""
        headers = {tuple(part for part in flat if isinstance(part, Word)) for flat in flats}
        if len(self.forms) < len(headers):
            raise TypeError(f"{cls.__name__}: optional parts must be words of four bytes in total")
        self._make_decoders = {
            n: make_decoder(cls, f, self.keeps_unused) for n, f in self.forms.items()
        }
        self._make_encoders = {
            n: make_encoder(cls, cls.code, f, self.keeps_unused) for n, f in self.forms.items()
        }
        long_parts = tuple(part for part in cls.parts if isinstance(part, Optional))
        # A body may be empty in the long form, so it alone does not determine the form, unless
        # the class uses None for an absent body.
        self._long_names = [n for n, part in attributes(long_parts) if not isinstance(part, Rest)]
        self._bodies = {
            n: fields[n].default for n, part in attributes(long_parts) if isinstance(part, Rest)
        }

    @cached_property
    def _decoders(self) -> Mapping[int, Callable[..., Any]]:
        return {words: make() for words, make in self._make_decoders.items()}

    @cached_property
    def _encoders(self) -> Mapping[int, Callable[[Any], bytes]]:
        return {words: make() for words, make in self._make_encoders.items()}

    def decode(
        self, data: bytes, pos: int, end: int, strict: bool = False, words: int | None = None
    ) -> Packet:
        """The packet that fills ``data[pos:end]``, in the form with so many header words.

        Raises:
            DecodeError: it is not such a packet.
        """
        decode = self._decoders[min(self.forms) if words is None else words]
        message = cast("Packet", decode(data, pos, end, strict))
        if (flaw := message.flaw()) is not None:
            raise InvalidFieldError(flaw[1], offset=pos, path=flaw[0])
        return message

    def encode(self, message: Packet, *, with_flaw: bool = False) -> bytes:
        """The bytes of the packet.

        Args:
            message: the packet.
            with_flaw: whether its `flaw` does not matter: to compute a checksum over its bytes.

        Raises:
            EncodeError: a value does not fit its field, or the fields do not agree.
        """
        if not with_flaw and (flaw := message.flaw()) is not None:
            raise EncodeError(flaw[1], path=flaw[0])
        return self._encoders[self._form_of(message)](message)

    def _form_of(self, message: Packet) -> int:
        """Header length in words: the long form is used when its attributes are given."""
        if not self.has_long_form:
            return min(self.forms)
        missing = [name for name in self._long_names if getattr(message, name) is None]
        given = [
            name
            for name, absent in self._bodies.items()
            if getattr(message, name) or (absent is None and getattr(message, name) is not None)
        ]
        if self._long_names and len(missing) == len(self._long_names) and not given:
            return min(self.forms)
        if not self._long_names and not given:
            return min(self.forms)
        if missing:
            raise EncodeError(f"{missing[0]} is needed in the long form", path=missing[0])
        return max(self.forms)

    def outline(self, data: bytes, pos: int, end: int, words: int | None = None) -> Node:
        """A node for every field of ``data[pos:end]``, as far as it can be read."""
        meaning = (self.cls.__doc__ or "").strip().split("\n")[0]
        root = Node(self.cls.name, pos, end - pos, meaning=meaning)
        flat = self.forms[self._words_at(data, pos) if words is None else words]
        fill_outline(root, flat, data, pos, end)
        return root

    def _words_at(self, data: bytes, pos: int) -> int:
        """Header length that the first word states, when that is one of the forms."""
        first = self.forms[min(self.forms)][0]
        if isinstance(first, Word):
            word = int.from_bytes(data[pos : pos + first.size], first.order)
            for bits in first.bits:
                if bits.derived == "words" and word >> bits.low & bits.mask in self.forms:
                    return word >> bits.low & bits.mask
        return min(self.forms)


def describe(cls: type[Packet]) -> list[tuple[str, str, str, str]]:
    """Rows (offset, size, field, meaning) of a packet's byte table, for the docs."""
    return byte_table(cls.parts)
