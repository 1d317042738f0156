"""The declaration language: a packet's words, bit positions, enums and conditional parts are written down once.

From that one declaration come the codec (`PacketCodec`), the framing table (`forms`), the field tree (`outline`), the byte tables of
the docs (`describe`) and, later in the flow, the columnar program and the table schemas.

A packet class lists its Python attributes with their types, and `@packet` says which parts of the wire they come from; that the two
agree is checked when the class is made::

    CONNID = Word("connid", doc="server-assigned connection id")

    @packet(code=2, name="HRTBET", parts=(PKTHDR, TMSTMP, optional(CONNID)), sender="both")
    class Heartbeat(BlazePacket):
        tmstmp: int
        connid: int | None = None

Decoders and encoders are generated as Python source, like the standard library's dataclasses: one `struct` call and a few shifts
a packet, no interpretation of the declaration while bytes flow.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, dataclass_transform

from wireloom.errors import EncodeError, InvalidFieldError, TruncatedError
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import varint

__all__ = [
    "Bits",
    "Blob",
    "Items",
    "Optional",
    "Packet",
    "PacketCodec",
    "Part",
    "Rest",
    "Varint",
    "When",
    "Word",
    "describe",
    "optional",
    "packet",
]


@dataclass(frozen=True, slots=True)
class Bits:
    """A field inside a word: bits `low`..`high`, where 0 is the least significant."""

    name: str
    low: int
    high: int
    enum: type[IntEnum] | type[IntFlag] | None = None
    doc: str = ""
    least: int = 0
    """Smallest legal value; 1 where the document says "zero excluded"."""
    strict_least: int = 0
    """Smallest legal value in strict mode."""
    const: int | None = None
    """The only legal value. Such a field is no attribute of the packet."""
    derived: str = ""
    """A field that is computed when writing, and is no attribute either: ``code`` (the packet's type code), ``words`` (header length
    in words), ``frame`` (bytes of the whole frame), ``content`` (bytes after the header), ``len NAME`` or ``count NAME``."""

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.high - self.low + 1

    @property
    def mask(self) -> int:
        """The largest value that fits."""
        return (1 << self.width) - 1

    @property
    def is_attribute(self) -> bool:
        """Whether packets have an attribute of this name."""
        return self.const is None and not self.derived


@dataclass(frozen=True, slots=True, init=False)
class Word:
    """A fixed-width unsigned number, whole or made of bit fields."""

    name: str
    bits: tuple[Bits, ...]
    size: int
    order: Literal["big", "little"]
    doc: str

    def __init__(
        self,
        name: str,
        *bits: Bits,
        size: int = 4,
        order: Literal["big", "little"] = "big",
        doc: str = "",
        **whole: Any,
    ) -> None:
        """A word of the given bit fields; without any, one field of the word's own name fills it (`whole`: its `Bits` options)."""
        put = object.__setattr__
        put(self, "name", name)
        put(self, "bits", bits or (Bits(name, 0, 8 * size - 1, doc=doc, **whole),))
        put(self, "size", size)
        put(self, "order", order)
        put(self, "doc", doc)

    @property
    def unused(self) -> int:
        """Mask of the bits that no field covers; written as zero."""
        mask = (1 << 8 * self.size) - 1
        for bits in self.bits:
            mask &= ~(bits.mask << bits.low)
        return mask

    def named(self, name: str) -> Word:
        """The same single-field word under another name."""
        return Word(name, dataclasses.replace(self.bits[0], name=name), size=self.size, order=self.order, doc=self.doc)


@dataclass(frozen=True, slots=True)
class When:
    """A condition on an earlier field: present if any bit of `mask` is set there."""

    field: str
    mask: int


@dataclass(frozen=True, slots=True)
class Blob:
    """A byte string: of fixed length, or as long as an earlier field (``len NAME``) says."""

    name: str
    length: int | str
    """Number of bytes, or the name of the field that holds it."""
    text: bool = False
    """UTF-8 text: the attribute is a str."""
    when: When | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list of byte strings of one size, as many as an earlier field (``count NAME``) says."""

    name: str
    size: int
    count: str
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Varint:
    """The length of the next blob in base 128, least significant group first."""

    name: str
    derived: str
    max_bytes: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Rest:
    """Everything up to the end of the frame."""

    name: str
    doc: str = ""
    strict_empty: bool = False
    """Rejected in strict mode unless empty."""


@dataclass(frozen=True, slots=True)
class Optional:
    """Parts that are there together or not at all; the header's length tells (`forms`)."""

    parts: tuple[Part, ...]


Part = Word | Blob | Items | Varint | Rest | Optional
_Flat = Word | Blob | Items | Varint | Rest


def optional(*parts: Part) -> Optional:
    """Parts of the long form only."""
    return Optional(parts)


def _flatten(parts: tuple[Part, ...], long: bool) -> tuple[_Flat, ...]:
    flat: list[_Flat] = []
    for part in parts:
        if not isinstance(part, Optional):
            flat.append(part)
        elif long:
            flat.extend(_flatten(part.parts, long))
    return tuple(flat)


def attributes(parts: tuple[Part, ...]) -> Iterator[tuple[str, Bits | Blob | Items | Rest]]:
    """Every attribute that the parts give a packet, in wire order."""
    for part in _flatten(parts, long=True):
        if isinstance(part, Word):
            for bits in part.bits:
                if bits.is_attribute:
                    yield bits.name, bits
        elif not isinstance(part, Varint):
            yield part.name, part


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
        """A field and what is wrong with it, when the fields do not agree with each other."""
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
        """The packet as a JSON object: enums by name, bytes in hex; what is absent or at rest (empty, None) is left out."""
        out: Json = {"format": self.format, "packet": self.name}
        for field in dataclasses.fields(cast("Any", self)):
            value = getattr(self, field.name)
            if value is None or (field.name not in self.codec.required and value in (b"", ())):
                continue
            out[field.name] = _to_json(value)
        return out

    @classmethod
    def from_dict(cls, d: Json) -> Self:
        """The packet that `to_dict` described.

        Raises:
            EncodeError: a name is unknown, missing, or its value is not of the right kind.
        """
        known = {field.name: field for field in dataclasses.fields(cast("Any", cls))}
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


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, IntEnum):
        return value.name
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return int(value) if isinstance(value, IntFlag) else value


def _from_json(key: str, value: Any, part: Bits | Blob | Items | Rest | None) -> Any:
    try:
        if isinstance(part, Bits):
            if isinstance(value, str) and part.enum is not None:
                return part.enum[value]
            number = int(value)
            return _member(part.enum, number) if part.enum is not None else number
        if isinstance(part, Items):
            return tuple(bytes.fromhex(item) for item in value)
        if isinstance(part, Rest) or (isinstance(part, Blob) and not part.text):
            return bytes.fromhex(value)
    except (KeyError, TypeError, ValueError) as error:
        raise EncodeError(f"{value!r} is not a value of {key}", path=key) from error
    return tuple(value) if isinstance(value, list) else value


def _member(enum: type[IntEnum] | type[IntFlag], value: int) -> int:
    """The enum's member, or the plain number where the enum has none: an unknown code is not an error."""
    if issubclass(enum, IntFlag):
        return enum(value)
    return enum._value2member_map_.get(value, value)  # type: ignore[return-value]


_P = TypeVar("_P", bound=Packet)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def packet(
    *,
    code: int,
    name: str,
    parts: tuple[Part, ...],
    sender: str = "both",
    note: str = "",
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


_STRUCT_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_DecodeForm = Callable[[bytes, int, int, bool], Packet]


class PacketCodec:
    """What is derived from one packet's declaration."""

    def __init__(self, cls: type[Packet]) -> None:
        self.cls = cls
        self.attributes: Mapping[str, Bits | Blob | Items | Rest] = dict(attributes(cls.parts))
        fields = {f.name: f for f in dataclasses.fields(cast("Any", cls))}
        extra = set(fields) - set(self.attributes) - {"unused", "nclass"}
        if missing := (set(self.attributes) - set(fields)) | extra:
            raise TypeError(f"{cls.__name__}: attributes and parts differ in {sorted(missing)}")
        self.required = {
            f.name for f in fields.values() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        }
        self.keeps_unused = "unused" in fields
        self.has_long_form = any(isinstance(part, Optional) for part in cls.parts)
        self.forms: Mapping[int, tuple[_Flat, ...]] = {
            _words(flat): flat
            for flat in (_flatten(cls.parts, long) for long in ((False, True) if self.has_long_form else (False,)))
        }
        """Parts by header length in words, for formats whose headers are words."""
        self.decoders: Mapping[int, _DecodeForm] = {n: _make_decoder(self, flat) for n, flat in self.forms.items()}
        long_names = {name for name, _ in attributes(tuple(p for p in cls.parts if isinstance(p, Optional)))}
        self._long_names = sorted(long_names)
        self._encoders = {n: _make_encoder(self, flat) for n, flat in self.forms.items()}

    def decode(self, data: bytes, pos: int, end: int, strict: bool = False, words: int | None = None) -> Packet:
        """The packet that fills ``data[pos:end]``, in the form with that many header words.

        Raises:
            DecodeError: it is not such a packet.
        """
        decode = self.decoders[words] if words is not None else next(iter(self.decoders.values()))
        message = decode(data, pos, end, strict)
        if (flaw := message.flaw()) is not None:
            raise InvalidFieldError(flaw[1], offset=pos, path=flaw[0])
        return message

    def encode(self, message: Packet) -> bytes:
        """The bytes of the packet.

        Raises:
            EncodeError: a value does not fit its field, or the fields do not agree.
        """
        if (flaw := message.flaw()) is not None:
            raise EncodeError(flaw[1], path=flaw[0])
        return self._encoders[self._form_of(message)](message)

    def _form_of(self, message: Packet) -> int:
        if not self.has_long_form:
            return next(iter(self.forms))
        present = [name for name in self._long_names if getattr(message, name) not in (None, b"")]
        # A body may be empty in the long form, so it alone does not decide.
        needed = [name for name in self._long_names if not isinstance(self.attributes[name], Rest)]
        if not present and (needed or not self._long_names):
            return min(self.forms)
        if missing := [name for name in needed if name not in present]:
            raise EncodeError(f"{', '.join(missing)} must be given with {', '.join(present)}", path=missing[0])
        return max(self.forms)

    def outline(self, data: bytes, pos: int, end: int, words: int | None = None) -> Node:
        """A node for every field of ``data[pos:end]``, as far as it can be read."""
        flat = self.forms[words] if words is not None else self._form_in(data, pos)
        root = Node(self.cls.name, pos, end - pos, meaning=(self.cls.__doc__ or "").strip().split("\n")[0])
        values: dict[str, int] = {}
        at = pos
        for part in flat:
            size = _size_in(part, data, at, end, values)
            if size is None:
                continue
            if at + size > end:
                root.add(part.name, at, end - at, error=f"{size} bytes needed, {end - at} available")
                return root
            _outline_part(root, part, data, at, size, values)
            at += size
        return root

    def _form_in(self, data: bytes, pos: int) -> tuple[_Flat, ...]:
        if not self.has_long_form:
            return next(iter(self.forms.values()))
        first = next(iter(self.forms.values()))[0]
        if isinstance(first, Word) and len(data) >= pos + first.size:
            word = int.from_bytes(data[pos : pos + first.size], first.order)
            for bits in first.bits:
                if bits.derived == "words":
                    return self.forms.get(word >> bits.low & bits.mask, self.forms[min(self.forms)])
        return self.forms[min(self.forms)]


def _words(flat: tuple[_Flat, ...]) -> int:
    return sum(part.size for part in flat if isinstance(part, Word)) // 4


def _size_in(part: _Flat, data: bytes, at: int, end: int, values: dict[str, int]) -> int | None:
    match part:
        case Word():
            return part.size
        case Blob():
            if part.when is not None and not values.get(part.when.field, 0) & part.when.mask:
                return None
            return part.length if isinstance(part.length, int) else values.get(part.length, 0)
        case Items():
            return part.size * values.get(part.count, 0)
        case Varint():
            size = 1
            while size < part.max_bytes and at + size <= end and data[at + size - 1 : at + size] >= b"\x80":
                size += 1
            return size
        case Rest():
            return end - at


def _outline_part(root: Node, part: _Flat, data: bytes, at: int, size: int, values: dict[str, int]) -> None:
    raw = data[at : at + size]
    match part:
        case Word():
            word = int.from_bytes(raw, part.order)
            whole = len(part.bits) == 1 and part.bits[0].width == 8 * part.size
            node = root if whole else root.add(part.name.upper(), at, size, f"{word:#0{2 * size + 2}x}", part.doc)
            for bits in part.bits:
                value = values[bits.name] = word >> bits.low & bits.mask
                node.add(bits.name, at, size, value, _meaning(bits, value), _illegal(bits, value))
        case Varint():
            value = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(raw))
            values[part.name] = value
            root.add(part.name, at, size, value, part.doc)
        case Items():
            node = root.add(part.name, at, size, f"{size // part.size} items", part.doc)
            for i in range(0, size, part.size):
                node.add(f"[{i // part.size}]", at + i, part.size, raw[i : i + part.size].hex())
        case Blob(text=True):
            root.add(part.name, at, size, raw.decode("utf-8", "backslashreplace"), part.doc)
        case Blob() | Rest():
            if size:
                root.add(part.name, at, size, raw.hex() if size <= 32 else f"{size} bytes", part.doc)


def _meaning(bits: Bits, value: int) -> str:
    if bits.enum is None:
        return bits.doc
    if issubclass(bits.enum, IntFlag):
        return "|".join(flag.name or "" for flag in bits.enum if value & flag) or "none"
    member = _member(bits.enum, value)
    return member.name if isinstance(member, IntEnum) else "unknown"


def _illegal(bits: Bits, value: int) -> str:
    if bits.const is not None and value != bits.const:
        return f"must be {bits.const:#x}"
    return f"must be at least {bits.least}" if value < bits.least else ""


# --- generated code -------------------------------------------------------------------------------------------------


def _short(data_end: int, at: int, needed: int, path: str) -> TruncatedError:
    return TruncatedError(needed=needed, available=max(0, data_end - at), offset=at, path=path, code="payload_short")


def _inner(data_end: int, at: int, needed: int, path: str) -> InvalidFieldError:
    return InvalidFieldError(
        f"a length of {needed} runs past the end, {max(0, data_end - at)} bytes are left", offset=at, path=path, code="inner_length"
    )


def _wrong(at: int, path: str, reason: str, code: str = "") -> InvalidFieldError:
    return InvalidFieldError(reason, offset=at, path=path, code=code or path)


def _utf8(raw: bytes, at: int, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidFieldError("text is not UTF-8", offset=at + error.start, path=path, code="utf8") from None


def _varint(data: bytes, at: int, end: int, max_bytes: int, path: str) -> tuple[int, int]:
    value = 0
    for i in range(max_bytes):
        if at + i >= end:
            raise _short(end, at, i + 1, path)
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise InvalidFieldError(f"number longer than {max_bytes} bytes", offset=at, path=path, code="len_overflow")


class _Source:
    """Lines of a generated function and the objects they refer to."""

    def __init__(self, signature: str, **names: Any) -> None:
        self.lines = [f"def {signature}:"]
        self.names: dict[str, Any] = names
        self.serial = 0

    def put(self, line: str, indent: int = 1) -> None:
        self.lines.append("    " * indent + line)

    def name(self, value: Any) -> str:
        self.serial += 1
        self.names[f"_{self.serial}"] = value
        return f"_{self.serial}"

    def function(self, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.names)  # the text is made from declarations in this package, never from input
        return cast("Callable[..., Any]", self.names[self.lines[0][4:].split("(")[0]])


def _runs(flat: tuple[_Flat, ...]) -> Iterator[tuple[_Flat, ...]]:
    """Parts one by one, but neighbouring words of one byte order together: one struct call reads them."""
    run: list[Word] = []
    for part in flat:
        if isinstance(part, Word) and (not run or run[-1].order == part.order):
            run.append(part)
            continue
        if run:
            yield tuple(run)
        run = []
        if isinstance(part, Word):
            run.append(part)
        else:
            yield (part,)
    if run:
        yield tuple(run)


def _make_decoder(codec: PacketCodec, flat: tuple[_Flat, ...]) -> _DecodeForm:
    src = _Source(
        "decode(data, pos, end, strict)", cls=codec.cls, short=_short, inner=_inner, wrong=_wrong, utf8=_utf8, varint=_varint
    )
    src.put("at = pos")
    args: list[str] = []
    unused: list[str] = []
    serial = 0
    for run in _runs(flat):
        part = run[0]
        if isinstance(part, Word):
            words = cast("tuple[Word, ...]", run)
            size = sum(word.size for word in words)
            unpack = struct.Struct((">" if part.order == "big" else "<") + "".join(_STRUCT_CODES[w.size] for w in words)).unpack_from
            src.put(f"if at + {size} > end: raise short(end, at, {size}, {part.bits[0].name!r})")
            names = [f"w{serial + i}" for i in range(len(words))]
            serial += len(words)
            src.put(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {src.name(unpack)}(data, at)")
            offset = 0
            for word, name in zip(words, names, strict=True):
                for bits in word.bits:
                    args += _read_bits(src, word, bits, name, offset)
                if word.unused:
                    unused.append(f"{name} & {word.unused:#x}")
                    if not codec.keeps_unused:
                        src.put(f"if strict and {name} & {word.unused:#x}: raise wrong(at + {offset}, {word.name!r}, 'unused bits are set', 'unused')")
                offset += word.size
            src.put(f"at += {size}")
        else:
            args += _read_part(src, part)
    if not any(isinstance(part, Rest) for part in flat):
        src.put("if at != end: raise wrong(at, '', f'{end - at} bytes are left over', 'trailing')")
    if codec.keeps_unused and unused:
        src.put(f"unused = ({', '.join(unused)},)" + f" if {' or '.join(unused)} else ()")
        src.put("if strict and unused: raise wrong(pos, '', 'unused bits are set', 'unused')")
        args.append("unused=unused")
    src.put(f"return cls({', '.join(args)})")
    return cast("_DecodeForm", src.function(f"decode {codec.cls.__name__}"))


def _read_bits(src: _Source, word: Word, bits: Bits, name: str, offset: int) -> list[str]:
    full = bits.width == 8 * word.size
    value = name if full else f"{name} >> {bits.low} & {bits.mask:#x}" if bits.low else f"{name} & {bits.mask:#x}"
    if bits.const is not None:
        src.put(f"if {value} != {bits.const}: raise wrong(at + {offset}, {bits.name!r}, 'must be {bits.const:#04x}')")
        return []
    var = f"f_{bits.name}"
    if bits.derived == "frame":
        src.put(f"if {value} != end - pos: raise wrong(at + {offset}, {bits.name!r}, 'does not match the frame', 'inner_length')")
    elif bits.derived.startswith(("len ", "count ")):
        src.put(f"{var} = {value}")
    if not bits.is_attribute:
        return []
    src.put(f"{var} = {value}")
    if bits.least:
        src.put(f"if {var} < {bits.least}: raise wrong(at + {offset}, {bits.name!r}, f'{{{var}}} is not legal', 'illegal_value')")
    if bits.strict_least > bits.least:
        src.put(f"if strict and {var} < {bits.strict_least}: raise wrong(at + {offset}, {bits.name!r}, f'{{{var}}} is not legal', 'illegal_value')")
    if bits.enum is None:
        return [f"{bits.name}={var}"]
    if issubclass(bits.enum, IntFlag):
        return [f"{bits.name}={src.name(bits.enum)}({var})"]
    members = src.name(dict(bits.enum._value2member_map_))
    return [f"{bits.name}={members}.get({var}, {var})"]


def _read_part(src: _Source, part: _Flat) -> list[str]:
    match part:
        case Blob():
            indent = 1
            if part.when is not None:
                src.put(f"f_{part.name} = None")
                src.put(f"if f_{part.when.field} & {part.when.mask:#x}:")
                indent = 2
            size = str(part.length) if isinstance(part.length, int) else f"f_{part.length}"
            fail = "short" if isinstance(part.length, int) else "inner"
            src.put(f"if at + {size} > end: raise {fail}(end, at, {size}, {part.name!r})", indent)
            read = f"data[at:at + {size}]"
            src.put(f"f_{part.name} = " + (f"utf8({read}, at, {part.name!r})" if part.text else read), indent)
            src.put(f"at += {size}", indent)
        case Items():
            src.put(f"stop = at + {part.size} * f_{part.count}")
            src.put(f"if stop > end: raise inner(end, at, stop - at, {part.name!r})")
            src.put(f"f_{part.name} = tuple([data[i:i + {part.size}] for i in range(at, stop, {part.size})])")
            src.put("at = stop")
        case Varint():
            src.put(f"f_{part.name}, at = varint(data, at, end, {part.max_bytes}, {part.name!r})")
            return []
        case Rest():
            if part.strict_empty:
                src.put(f"if strict and at < end: raise wrong(at, {part.name!r}, f'{{end - at}} bytes are left over', 'trailing')")
            src.put(f"f_{part.name} = data[at:end]")
            src.put("at = end")
    return [f"{part.name}=f_{part.name}"]


def _unfit(name: str, value: object, most: int, least: int = 0) -> EncodeError:
    return EncodeError(f"{value!r} is not a number from {least} to {most}", path=name)


def _make_encoder(codec: PacketCodec, flat: tuple[_Flat, ...]) -> Callable[[Packet], bytes]:
    src = _Source("encode(m)", EncodeError=EncodeError, unfit=_unfit, varint=varint, fixed=_fixed, text=_text)
    chunks: list[str] = []
    header = sum(part.size for part in flat if isinstance(part, Word))
    blobs = [part for part in flat if not isinstance(part, (Word, Varint))]
    for part in blobs:
        _write_blob(src, part)
    body = " + ".join(f"len(b_{part.name})" for part in blobs) or "0"
    src.put(f"content = {body}")
    unused_at = 0
    serial = 0
    for run in _runs(flat):
        first = run[0]
        if isinstance(first, Varint):
            chunks.append(f"varint({_derive(first.derived, codec, flat, header)})")
        elif isinstance(first, Word):
            words = cast("tuple[Word, ...]", run)
            values = []
            for word in words:
                name = f"w{serial}"
                serial += 1
                _write_word(src, codec, word, name, flat, header)
                if codec.keeps_unused and word.unused:
                    src.put(f"if m.unused: {name} |= m.unused[{unused_at}] & {word.unused:#x}")
                    unused_at += 1
                values.append(name)
            pack = struct.Struct((">" if first.order == "big" else "<") + "".join(_STRUCT_CODES[w.size] for w in words)).pack
            chunks.append(f"{src.name(pack)}({', '.join(values)})")
        else:
            chunks.append(f"b_{first.name}")
    src.put(f"return {' + '.join(chunks)}")
    encode = src.function(f"encode {codec.cls.__name__}")

    def checked(message: Packet) -> bytes:
        try:
            return cast("bytes", encode(message))
        except (TypeError, ValueError, AttributeError, IndexError, struct.error) as error:
            raise EncodeError(f"{codec.cls.name}: {error}") from error

    return checked


def _derive(rule: str, codec: PacketCodec, flat: tuple[_Flat, ...], header: int) -> str:
    kind, _, name = rule.partition(" ")
    match kind:
        case "code":
            return str(codec.cls.code)
        case "words":
            return str(_words(flat))
        case "frame":
            return f"({header} + content)"
        case "content":
            # The header proper ends with the field that says how long the rest is; see the NREP declaration.
            return f"({_after(flat, rule)} + content)"
        case "len":
            return f"len(b_{name})"
        case "count":
            return f"len(m.{name})"
    raise TypeError(f"unknown derived rule {rule!r}")


def _after(flat: tuple[_Flat, ...], rule: str) -> int:
    """Bytes of the words that follow the one which holds the `rule` field."""
    seen = False
    size = 0
    for part in flat:
        if isinstance(part, Word):
            size += part.size if seen else 0
            seen = seen or any(bits.derived == rule for bits in part.bits)
    return size


def _write_word(src: _Source, codec: PacketCodec, word: Word, name: str, flat: tuple[_Flat, ...], header: int) -> None:
    terms = []
    for bits in word.bits:
        if bits.const is not None:
            value = str(bits.const)
        elif bits.derived:
            value = _derive(bits.derived, codec, flat, header)
            if not bits.derived.startswith(("code", "words")):
                src.put(f"if {value} > {bits.mask}: raise unfit({bits.name!r}, {value}, {bits.mask})")
        else:
            value = f"f_{bits.name}"
            src.put(f"{value} = m.{bits.name}")
            src.put(f"if not {bits.least} <= {value} <= {bits.mask}: raise unfit({bits.name!r}, {value}, {bits.mask}, {bits.least})")
        terms.append(f"{value} << {bits.low}" if bits.low else value)
    src.put(f"{name} = {' | '.join(terms)}")


def _write_blob(src: _Source, part: Blob | Items | Rest) -> None:
    var = f"b_{part.name}"
    match part:
        case Blob(when=None):
            if part.text:
                src.put(f"{var} = text({part.name!r}, m.{part.name})")
            else:
                src.put(f"{var} = fixed({part.name!r}, m.{part.name}, {part.length if isinstance(part.length, int) else None})")
        case Blob(when=When() as when):
            src.put(f"if bool(m.{when.field} & {when.mask:#x}) != (m.{part.name} is not None):")
            src.put(f"raise EncodeError('must be given exactly when {when.field} has {when.mask:#x}', path={part.name!r})", 2)
            src.put(f"{var} = b'' if m.{part.name} is None else fixed({part.name!r}, m.{part.name}, {part.length})")
        case Items():
            src.put(f"{var} = b''.join([fixed({part.name!r}, item, {part.size}) for item in m.{part.name}])")
        case Rest():
            src.put(f"{var} = fixed({part.name!r}, m.{part.name}, None)")


def _fixed(name: str, value: object, size: int | None) -> bytes:
    if not isinstance(value, bytes):
        raise EncodeError(f"expected bytes, not {type(value).__name__}", path=name)
    if size is not None and len(value) != size:
        raise EncodeError(f"{len(value)} bytes given, {size} needed", path=name)
    return value


def _text(name: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise EncodeError(f"expected text, not {type(value).__name__}", path=name)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise EncodeError("text cannot be written as UTF-8", path=name) from error


def describe(cls: type[Packet]) -> list[tuple[str, str, str, str]]:
    """Rows (offset, size, field, meaning) of a packet's byte table, for the docs."""
    rows: list[tuple[str, str, str, str]] = []
    _describe(cls.parts, 0, "", rows)
    return rows


def _describe(parts: tuple[Part, ...], at: int | None, mark: str, rows: list[tuple[str, str, str, str]]) -> int | None:
    for part in parts:
        if isinstance(part, Optional):
            at = _describe(part.parts, at, "long form; ", rows)
            continue
        offset = "…" if at is None else str(at)
        match part:
            case Word():
                for bits in part.bits:
                    whole = bits.width == 8 * part.size
                    size = str(part.size) if whole else f"bits {bits.low}..{bits.high}" if bits.width > 1 else f"bit {bits.low}"
                    rows.append((offset, size, bits.name, mark + _says(bits)))
            case Blob():
                size = str(part.length)
                condition = f"if {part.when.field} & {part.when.mask:#x}; " if part.when else ""
                rows.append((offset, size, part.name, mark + condition + part.doc))
            case Items():
                rows.append((offset, f"{part.size} × {part.count}", part.name, mark + part.doc))
            case Varint():
                rows.append((offset, f"1..{part.max_bytes}", part.name, mark + part.doc))
            case Rest():
                rows.append((offset, "rest", part.name, mark + part.doc))
        fixed = part.size if isinstance(part, Word) else part.length if isinstance(part, Blob) and part.when is None else None
        at = at + fixed if at is not None and isinstance(fixed, int) else None
    return at


def _says(bits: Bits) -> str:
    words = [bits.doc] if bits.doc else []
    if bits.const is not None:
        words.append(f"always {bits.const:#04x}")
    if bits.least:
        words.append("0 is illegal")
    if bits.enum is not None:
        words.append(", ".join(f"{int(member)} {member.name}" for member in bits.enum))
    return "; ".join(words)
