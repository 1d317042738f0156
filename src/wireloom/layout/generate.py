"""Declarations → Python source: one decoder and one encoder for each form of a packet.

As the standard library does for dataclasses, the functions are written as text, when the packet
class is made, and compiled once, when the first packet is read or written: many programs need few
of them. What runs for each packet is one `struct` call and a few shifts.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from enum import IntFlag
from typing import Any, cast

from wireloom.errors import EncodeError, InvalidFieldError, TruncatedError
from wireloom.layout.parts import Bits, Blob, Flat, Items, Rest, Varint, Word, words_in
from wireloom.wire import varint

__all__ = ["make_decoder", "make_encoder"]

_STRUCT_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class _Source:
    """Lines of a generated function, and the objects they refer to by name."""

    def __init__(self, signature: str, **names: Any) -> None:
        self.lines = [f"def {signature}:"]
        self.names: dict[str, Any] = names
        self.serial = 0

    def put(self, line: str, indent: int = 1) -> None:
        self.lines.append("    " * indent + line)

    def refuse(self, condition: str, raising: str, indent: int = 1) -> None:
        self.put(f"if {condition}: raise {raising}", indent)

    def name(self, value: Any) -> str:
        self.serial += 1
        self.names[f"_{self.serial}"] = value
        return f"_{self.serial}"

    def function(self, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.names)  # made from declarations in this package, never from input
        return cast("Callable[..., Any]", self.names[self.lines[0][4:].split("(")[0]])


def _runs(flat: tuple[Flat, ...]) -> Iterator[tuple[Word, ...] | Flat]:
    """Parts one by one, but adjacent words of one byte order grouped for a single struct call."""
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
            yield part
    if run:
        yield tuple(run)


def _struct(words: tuple[Word, ...]) -> struct.Struct:
    order = ">" if words[0].order == "big" else "<"
    return struct.Struct(order + "".join(_STRUCT_CODES[word.size] for word in words))


# --- decoders -----------------------------------------------------------------------------------


def _short(end: int, at: int, needed: int, path: str) -> TruncatedError:
    return TruncatedError(
        needed=needed, available=end - at, offset=at, path=path, code="payload_short"
    )


def _short_words(end: int, at: int, words: tuple[tuple[str, int], ...]) -> TruncatedError:
    """The error for the first of adjacent words that does not fit."""
    index = 0
    while at + words[index][1] <= end:
        at += words[index][1]
        index += 1
    name, size = words[index]
    return _short(end, at, size, name)


def _inner(end: int, at: int, needed: int, path: str) -> InvalidFieldError:
    reason = f"a length of {needed} runs past the end, {end - at} bytes are left"
    return InvalidFieldError(reason, offset=at, path=path, code="inner_length")


def _wrong(at: int, path: str, reason: str, code: str) -> InvalidFieldError:
    return InvalidFieldError(reason, offset=at, path=path, code=code)


def _illegal(at: int, path: str, value: int) -> InvalidFieldError:
    return InvalidFieldError(f"{value} is not legal", offset=at, path=path, code="illegal_value")


def _utf8(raw: bytes, at: int, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidFieldError(
            "text is not UTF-8", offset=at + error.start, path=path, code="utf8"
        ) from None


def _varint(data: bytes, at: int, end: int, max_bytes: int, path: str) -> tuple[int, int]:
    value = 0
    for i in range(max_bytes):
        if at + i >= end:
            raise _short(end, at, i + 1, path)
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise InvalidFieldError(
        f"number longer than {max_bytes} bytes", offset=at, path=path, code="len_overflow"
    )


def make_decoder(
    cls: type, flat: tuple[Flat, ...], keeps_unused: bool
) -> Callable[[], Callable[..., Any]]:
    """Compiles ``decode(data, pos, end, strict) -> cls``, for what fills ``data[pos:end]``."""
    src = _Source(
        "decode(data, pos, end, strict)",
        cls=cls,
        new=object.__new__,
        short=_short,
        short_words=_short_words,
        inner=_inner,
        wrong=_wrong,
        illegal=_illegal,
        utf8=_utf8,
        varint=_varint,
    )
    src.put("at = pos")
    args: list[str] = []
    unused: list[str] = []
    for run in _runs(flat):
        if isinstance(run, tuple):
            args += _read_words(src, run, unused)
        else:
            args += _read_part(src, run)
    if not any(isinstance(part, Rest) for part in flat):
        left = "f'{end - at} bytes are left over'"
        src.refuse("at != end", f"wrong(at, '', {left}, 'trailing')")
    if unused:
        some = " or ".join(unused)
        if keeps_unused:
            src.put(f"unused = ({', '.join(unused)},) if {some} else ()")
            args.append("unused=unused")
        src.refuse(f"strict and ({some})", "wrong(pos, '', 'unused bits are set', 'unused')")
    _make_object(src, cls, args)
    return lambda: src.function(f"decode {cls.__name__}")


def _make_object(src: _Source, cls: type, args: list[str]) -> None:
    """Return an object of a frozen dataclass by setting its slots.

    Its own constructor assigns every attribute by name, which is half the cost of decoding.
    """
    values = dict(arg.split("=", 1) for arg in args)
    src.put("made = new(cls)")
    for field in dataclasses.fields(cls):
        # An attribute that this form does not have must have a default.
        assert field.name in values or field.default is not dataclasses.MISSING
        value = values.get(field.name) or src.name(field.default)
        src.put(f"{src.name(getattr(cls, field.name).__set__)}(made, {value})")
    src.put("return made")


def _read_words(src: _Source, words: tuple[Word, ...], unused: list[str]) -> list[str]:
    size = sum(word.size for word in words)
    sizes = src.name(tuple((word.name, word.size) for word in words))
    src.refuse(f"at + {size} > end", f"short_words(end, at, {sizes})")
    names = [f"w_{word.name}" for word in words]
    unpack = src.name(_struct(words).unpack_from)
    src.put(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {unpack}(data, at)")
    args: list[str] = []
    offset = 0
    for word, name in zip(words, names, strict=True):
        for bits in word.bits:
            args += _read_bits(src, word, bits, name, offset)
        if word.unused:
            unused.append(f"{name} & {word.unused:#x}")
        offset += word.size
    src.put(f"at += {size}")
    return args


def _read_bits(src: _Source, word: Word, bits: Bits, name: str, offset: int) -> list[str]:
    is_whole = bits.width == 8 * word.size
    value = name if is_whole else f"({name} >> {bits.low} & {bits.mask:#x})"
    where = f"at + {offset}, {bits.name!r}"
    if bits.const is not None:
        reason = f"'must be {bits.const:#04x}'"
        src.refuse(f"{value} != {bits.const}", f"wrong({where}, {reason}, {bits.name!r})")
        return []
    if bits.derived == "frame":
        reason = "'does not match the frame'"
        src.refuse(f"{value} != end - pos", f"wrong({where}, {reason}, 'inner_length')")
        return []
    var = f"f_{bits.name}"
    if bits.derived:
        if bits.derived.startswith(("len ", "count ")):
            src.put(f"{var} = {value}")
        return []
    src.put(f"{var} = {value}")
    if bits.least:
        src.refuse(f"{var} < {bits.least}", f"illegal({where}, {var})")
    if bits.strict_least > bits.least:
        src.refuse(f"strict and {var} < {bits.strict_least}", f"illegal({where}, {var})")
    if bits.enum is None:
        return [f"{bits.name}={var}"]
    if issubclass(bits.enum, IntFlag):
        return [f"{bits.name}={src.name(bits.enum)}({var})"]
    members = src.name(dict(bits.enum._value2member_map_))
    return [f"{bits.name}={members}.get({var}, {var})"]


def _read_part(src: _Source, part: Flat) -> list[str]:
    name = f"f_{part.name}"
    match part:
        case Blob():
            indent = 1
            if part.when is not None:
                src.put(f"{name} = None")
                src.put(f"if f_{part.when.field} & {part.when.mask:#x}:")
                indent = 2
            is_fixed = isinstance(part.length, int)
            size = str(part.length) if is_fixed else f"f_{part.length}"
            fail = "short" if is_fixed else "inner"
            src.refuse(f"at + {size} > end", f"{fail}(end, at, {size}, {part.name!r})", indent)
            read = f"data[at:at + {size}]"
            read = f"utf8({read}, at, {part.name!r})" if part.text else read
            src.put(f"{name} = {read}", indent)
            src.put(f"at += {size}", indent)
        case Items():
            src.put(f"stop = at + {part.size} * f_{part.count}")
            src.refuse("stop > end", f"inner(end, at, stop - at, {part.name!r})")
            steps = f"range(at, stop, {part.size})"
            src.put(f"{name} = tuple([data[i:i + {part.size}] for i in {steps}])")
            src.put("at = stop")
        case Varint():
            src.put(f"{name}, at = varint(data, at, end, {part.max_bytes}, {part.name!r})")
            return []
        case _:
            assert isinstance(part, Rest)
            if part.strict_empty:
                left = "f'{end - at} bytes are left over'"
                src.refuse("strict and at < end", f"wrong(at, {part.name!r}, {left}, 'trailing')")
            src.put(f"{name} = data[at:end]")
            src.put("at = end")
    return [f"{part.name}={name}"]


# --- encoders -----------------------------------------------------------------------------------


def _unfit(name: str, value: object, least: int, most: int) -> EncodeError:
    return EncodeError(f"{value!r} is not a number from {least} to {most}", path=name)


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


def _rule(name: str, field: str, mask: int) -> EncodeError:
    return EncodeError(f"must be given exactly when {field} has {mask:#x}", path=name)


def make_encoder(
    cls: type, code: int, flat: tuple[Flat, ...], keeps_unused: bool
) -> Callable[[], Callable[[Any], bytes]]:
    """Compiles ``encode(packet) -> bytes``; every value is checked against its field."""
    src = _Source("encode(m)", unfit=_unfit, varint=varint, fixed=_fixed, text=_text, rule=_rule)
    for part in flat:
        if isinstance(part, (Blob, Items, Rest)):
            _write_blob(src, part)
    for number, part in enumerate(flat):
        rules = {bits.derived for bits in part.bits} if isinstance(part, Word) else set()
        if "frame" in rules:
            src.put(f"frame = {_length(flat, code, flat)}")
        if "content" in rules:
            src.put(f"content = {_length(flat[number + 1 :], code, flat)}")
    chunks: list[str] = []
    unused_at = 0
    for run in _runs(flat):
        if isinstance(run, Varint):
            value, most = _derive(run.derived, code, flat), (1 << 7 * run.max_bytes) - 1
            src.refuse(f"{value} > {most}", f"unfit({run.name!r}, {value}, 0, {most})")
            chunks.append(f"varint({value})")
        elif isinstance(run, tuple):
            for word in run:
                _write_word(src, word, code, flat)
                if keeps_unused and word.unused:
                    kept = f"m.unused[{unused_at}] & {word.unused:#x}"
                    src.put(f"if m.unused: w_{word.name} |= {kept}")
                    unused_at += 1
            names = ", ".join(f"w_{word.name}" for word in run)
            chunks.append(f"{src.name(_struct(run).pack)}({names})")
        else:
            chunks.append(f"b_{run.name}")
    src.put(f"return {' + '.join(chunks)}")

    def make() -> Callable[[Any], bytes]:
        encode = src.function(f"encode {cls.__name__}")

        def checked(message: Any) -> bytes:
            try:
                return cast("bytes", encode(message))
            except (TypeError, ValueError, AttributeError, IndexError, struct.error) as error:
                raise EncodeError(f"{cls.__name__}: {error}") from error

        return checked

    return make


def _derive(rule: str, code: int, flat: tuple[Flat, ...]) -> str:
    kind, _, name = rule.partition(" ")
    match kind:
        case "code":
            return str(code)
        case "words":
            return str(words_in(flat))
        case "frame" | "content":
            return kind  # a variable, see `make_encoder`
        case "len":
            return f"len(b_{name})"
        case "count":
            return f"len(m.{name})"
    raise TypeError(f"unknown rule {rule!r}")


def _length(parts: tuple[Flat, ...], code: int, flat: tuple[Flat, ...]) -> str:
    """Bytes of some parts of a form."""
    terms = [str(sum(part.size for part in parts if isinstance(part, Word)))]
    for part in parts:
        if isinstance(part, Varint):
            terms.append(f"len(varint({_derive(part.derived, code, flat)}))")
        elif not isinstance(part, Word):
            terms.append(f"len(b_{part.name})")
    return " + ".join(terms)


def _write_word(src: _Source, word: Word, code: int, flat: tuple[Flat, ...]) -> None:
    terms = []
    for bits in word.bits:
        if bits.const is not None:
            value = str(bits.const)
        elif bits.derived:
            value = _derive(bits.derived, code, flat)
            if not value.isdigit():
                src.refuse(
                    f"{value} > {bits.mask}", f"unfit({bits.name!r}, {value}, 0, {bits.mask})"
                )
        else:
            value = f"m.{bits.name}"
            src.refuse(
                f"not {bits.least} <= {value} <= {bits.mask}",
                f"unfit({bits.name!r}, {value}, {bits.least}, {bits.mask})",
            )
        terms.append(f"{value} << {bits.low}" if bits.low else value)
    src.put(f"w_{word.name} = {' | '.join(terms)}")


def _write_blob(src: _Source, part: Blob | Items | Rest) -> None:
    var, value, name = f"b_{part.name}", f"m.{part.name}", repr(part.name)
    match part:
        case Blob(when=when):
            size = part.length if isinstance(part.length, int) else None
            raw = f"text({name}, {value})" if part.text else value
            written = f"fixed({name}, {raw}, {size})"
            if when is not None:
                src.refuse(
                    f"bool(m.{when.field} & {when.mask:#x}) != ({value} is not None)",
                    f"rule({name}, {when.field!r}, {when.mask:#x})",
                )
                written = f"b'' if {value} is None else {written}"
            src.put(f"{var} = {written}")
        case Items():
            src.put(f"{var} = b''.join([fixed({name}, i, {part.size}) for i in {value}])")
        case _:  # the rest
            src.put(f"{var} = fixed({name}, {value}, None)")
