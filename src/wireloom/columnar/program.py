"""Declarations → the word kernel's program: what each form of a packet puts into which column.

Nothing here knows a particular format. A form's words, conditions, lengths and legal values come
from its parts (`wireloom.layout`). Which combinations of fields a packet refuses is found by asking
its class (`Packet.flaw`) about every combination of the fields that it looks at.

A form that the kernel cannot read (a number of 64 bits, a large table of names) is left out of the
program. The kernel refuses its frames, so the object path reads them: slower, with the same rows.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import lru_cache
from itertools import product
from typing import Any, Literal, cast

from wireloom.columns import Shape, column_name
from wireloom.kernel.words import wordops as words
from wireloom.layout import Bits, Blob, Flat, Items, Packet, Rest, Varint, Word, member
from wireloom.tables import Table

__all__ = ["Output", "Program", "build_program"]

NO_FORM = 255
_MANY = -1
_MAX_KEY_BITS = 12
"""Bits of the fields that a packet's flaws depend on; real ones need up to eight."""

_MAX_NAME_BITS = 16
"""Bits of a field with names: its map has an entry for every value."""
_MAX_SELECTOR_BITS = 16
_MAX_KERNEL_BITS = 63
"""Bits of a number in the kernel's columns and operations, which are signed."""


class _UnreadableError(Exception):
    """The kernel cannot read a form."""


@dataclass(slots=True)
class Output:
    """A column that the kernel fills."""

    index: int
    name: str
    kind: str
    """``i32``, ``i64``, ``name``, or for blobs ``hex``, ``text``, ``binary``, ``items``."""
    forms: set[int] = field(default_factory=set)
    """Which forms have it."""
    names: list[str] = field(default_factory=list)
    """For a ``name``: its texts by number."""
    width: int = 0
    place: int = 0
    """For a ``name``: bits of its values, and where its map starts."""
    table: Mapping[int, str] = field(default_factory=dict)
    """For a ``name``: the declared names."""
    unit: int = 1
    """Bytes of an item."""

    @property
    def is_blob(self) -> bool:
        """Whether its values have lengths of their own."""
        return self.kind in ("hex", "text", "binary", "items")


class Program:
    """A program with its columns. It learns numbers without a name, so each worker has its own."""

    def __init__(self, kernel: Any, outputs: Sequence[Output], arrays: dict[str, Any]) -> None:
        self.outputs = outputs
        self.name_outputs = [output for output in outputs if output.kind == "name"]
        self._maps = arrays["maps"]
        self._lists = arrays["lists"]
        self.made = kernel.WordProgram(
            arrays["selector"],
            arrays["forms"],
            arrays["ops"],
            arrays["firsts"],
            self._maps,
            self._lists,
        )

    def learn(self) -> list[Output]:
        """Name the numbers that are new to the kernel; return the columns they are in."""
        grown = []
        for place, output in enumerate(self.name_outputs):
            known = len(output.names)
            size = self._lists[2 * place + 1]
            if size > known:
                grown.append(output)
                values = self._maps[output.place : output.place + (1 << output.width)].tolist()
                output.names += [str(values.index(number)) for number in range(known, size)]
        return grown


class _Builder:
    def __init__(self, table: Table, enums: Mapping[str, type[IntEnum] | None]) -> None:
        self.table = table
        self.enums = enums
        self.outputs: dict[str, Output] = {}
        self.name_outputs: list[str] = []
        self.maps: list[int] = []
        self.ops: list[tuple[int, ...]] = []
        self.firsts = [0]

    # --- columns

    def output(self, name: str, kind: str) -> Output | None:
        """The column of that name; None if it is not wanted."""
        if name not in self.table.names:
            return None
        found = self.outputs.get(name)
        if found is None:
            found = self.outputs[name] = Output(len(self.outputs), name, kind)
            if kind == "name":
                self.name_outputs.append(name)
        found.forms.add(len(self.firsts) - 1)
        return found

    def kind(self, name: str) -> str:
        """The type of a wanted column; empty if it is not wanted."""
        return self.table[name].type if name in self.table.names else ""

    def name_map(self, output: Output, width: int, names: Mapping[int, str]) -> None:
        """Give a column of names its map, once."""
        if width > _MAX_NAME_BITS:
            raise _UnreadableError(output.name)
        if output.width:
            if (output.width, output.table) != (width, names):
                raise _UnreadableError(output.name)
            return
        output.table = names
        output.width, output.place = width, len(self.maps)
        output.names = list(dict.fromkeys(names.values()))
        numbers = {name: number for number, name in enumerate(output.names)}
        self.maps += [
            numbers[names[value]] if value in names else -1 for value in range(1 << width)
        ]

    def names_of(self, bits: Bits) -> Mapping[int, str]:
        enum: type[IntEnum] | type[IntFlag] | None = self.enums.get(bits.name, bits.enum)
        if enum is None:
            return {}
        return {int(value): name for name, value in enum.__members__.items() if value <= bits.mask}

    # --- operations

    def put(
        self, code: int, one: int = 0, two: int = 0, three: int = 0, four: int = -1, five: int = -1
    ) -> None:
        self.ops.append((code, one, two, three, four, five))

    def form(self, shape: Shape) -> bool:
        """Add the operations of one form; False, adding none, if the kernel cannot read it."""
        ops, maps = len(self.ops), len(self.maps)
        names = list(self.name_outputs)
        outputs = {
            name: dataclasses.replace(each, forms=set(each.forms), names=list(each.names))
            for name, each in self.outputs.items()
        }
        try:
            self.operations(shape)
        except _UnreadableError:
            del self.ops[ops:], self.maps[maps:]
            self.name_outputs, self.outputs = names, outputs
        self.firsts.append(len(self.ops))
        return len(self.ops) > ops

    def operations(self, shape: Shape) -> None:
        code = self.output("type_code", "i32")
        if code is not None and not shape.type_field:
            self.put(words.OP_FILL, three=shape.codes[0], four=code.index)
        name = self.output("type_name", "name")
        if name is not None and not shape.type_names:
            if shape.name not in name.names:
                name.names.append(shape.name)
            self.put(words.OP_FILL, three=name.names.index(shape.name), four=name.index)
        _Form(self, shape).build()


class _Form:
    """The operations of one form, part by part."""

    def __init__(self, builder: _Builder, shape: Shape) -> None:
        self.builder = builder
        self.shape = shape
        self.at = 0  # bytes from the kernel's cursor
        self.registers: dict[str, int] = {}
        flats = shape.parts
        # Fields that later parts refer to go to registers, whether or not they are columns.
        self.needed = {part.length for part in flats if isinstance(part, Blob)}
        self.needed |= {part.count for part in flats if isinstance(part, Items)}
        self.needed |= {part.when.field for part in flats if isinstance(part, Blob) and part.when}
        self.key, self.flaws = _flaws(shape)

    def build(self) -> None:
        self.fit()
        for index, part in enumerate(self.shape.parts):
            match part:
                case Word():
                    self.word(part)
                case Varint():
                    self.step()
                    self.put(words.OP_VARINT, two=part.max_bytes, three=self.register(part.name))
                case _:
                    self.step()
                    self.blob(part)
                    self.fit(index + 1)
        self.step()
        if not any(isinstance(part, Rest) for part in self.shape.parts):
            self.put(words.OP_END)
        if self.flaws:
            self.put(words.OP_FLAW, three=len(self.builder.maps))
            self.builder.maps += self.flaws

    def put(self, code: int, *args: int, **more: int) -> None:
        self.builder.put(code, *args, **more)

    def fit(self, index: int = 0) -> None:
        """Check that the words up to the next part of variable length are there."""
        size = 0
        for part in self.shape.parts[index:]:
            if not isinstance(part, Word):
                break
            size += part.size
        if size:
            self.put(words.OP_FIT, size)

    def step(self) -> None:
        if self.at:
            self.put(words.OP_STEP, self.at)
        self.at = 0

    def register(self, name: str) -> int:
        found = self.registers.setdefault(name, len(self.registers))
        if found >= words.REGISTERS:
            raise _UnreadableError(name)
        return found

    def word(self, word: Word) -> None:
        """Load a word and take it apart, unless nothing in it is wanted."""
        if word.size > 8:
            raise _UnreadableError(word.name)
        start = len(self.builder.ops)
        self.put(words.OP_LOAD, self.at, word.size, int(word.order == "little"))
        self.at += word.size
        for bits in word.bits:
            self.bits(bits)
        if len(self.builder.ops) == start + 1:
            self.builder.ops.pop()

    def bits(self, bits: Bits) -> None:
        low, mask = bits.low, bits.mask
        if bits.const is not None:
            half = 0xFFFFFFFF  # in two halves: a magic of eight bytes is not a signed number
            self.put(words.OP_CONST, low, mask & half, bits.const & half)
            if mask > half:
                self.put(words.OP_CONST, low + 32, mask >> 32, bits.const >> 32)
            return
        if bits.width > _MAX_KERNEL_BITS:
            raise _UnreadableError(bits.name)
        if bits.derived == "frame":
            self.put(words.OP_CONTENT, low, mask, -1)
        elif bits.derived == "content":
            self.put(words.OP_CONTENT, low, mask, self.at)
        if bits.name in self.needed:
            self.put(words.OP_KEEP, low, mask, self.register(bits.name))
        if bits.name in self.key:
            self.put(words.OP_KEY, low, mask, self.key[bits.name])
        if bits.name == self.shape.type_field:
            self.number("type_code", bits)
            if self.shape.type_names:
                self.name("type_name", bits, self.shape.type_names)
        elif bits.is_attribute:
            if bits.enum is not None and not issubclass(bits.enum, IntFlag):
                self.name(column_name(bits.name), bits, self.builder.names_of(bits))
            else:
                self.number(column_name(bits.name), bits)

    def number(self, name: str, bits: Bits) -> None:
        kind = self.builder.kind(name) or "i64"
        if kind not in ("i32", "i64"):
            raise _UnreadableError(name)  # another packet has 64 bits or a name there
        output = self.builder.output(name, kind)
        if output is not None:
            code = words.OP_INT32 if kind == "i32" else words.OP_INT64
            self.put(code, bits.low, bits.mask, bits.least, output.index)
        elif bits.least:
            self.put(words.OP_LEAST, bits.low, bits.mask, bits.least)

    def name(self, name: str, bits: Bits, names: Mapping[int, str]) -> None:
        output = self.builder.output(name, "name")
        if output is not None:
            self.builder.name_map(output, bits.width, names)
            number = self.builder.name_outputs.index(name)
            self.put(words.OP_NAME, bits.low, bits.mask, bits.least, output.index, number)
        elif bits.least:
            self.put(words.OP_LEAST, bits.low, bits.mask, bits.least)

    def blob(self, part: Flat) -> None:
        assert isinstance(part, (Blob, Items, Rest))
        if part.name in self.key:
            if not isinstance(part, Rest):
                raise _UnreadableError(part.name)  # only what is left tells by its size
            self.put(words.OP_KEY_SIZE, three=self.key[part.name])
        output = self.builder.output(column_name(part.name), _blob_kind(part))
        index = -1 if output is None else output.index
        match part:
            case Rest():
                self.put(words.OP_REST, four=index)
            case Items():
                if output is not None:
                    output.unit = part.size
                self.put(words.OP_ITEMS, part.size, self.registers[part.count], four=index)
            case Blob(length=length, when=when):
                size, source = (length, 0) if isinstance(length, int) else (-1, -1)
                if isinstance(length, str):
                    source = self.registers[length]
                condition = -1
                if when is not None:
                    condition = when.mask << 8 | self.registers[when.field]
                self.put(words.OP_BLOB, size, source, int(part.text), index, condition)


def _blob_kind(part: Blob | Items | Rest) -> str:
    if isinstance(part, Items):
        return "items"
    if isinstance(part, Blob) and part.text:
        return "text"
    return "hex" if isinstance(part, Blob) and isinstance(part.length, int) else "binary"


# --- flaws ----------------------------------------------------------------------------------------


class _Probe:
    """Stands in for a packet, and notes which of its attributes are looked at."""

    def __init__(self, values: Mapping[str, Any], seen: set[str]) -> None:
        self.values = values
        self.seen = seen

    def __getattr__(self, name: str) -> Any:
        if name not in self.values:
            raise AttributeError(name)
        self.seen.add(name)
        return self.values[name]


class _Opaque:
    """Stands in for a value of which the kernel cannot tell a flaw more than whether it is there.

    What else is asked of it raises: a comparison, its length, its content.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError("its value is not known")

    def __bool__(self) -> bool:
        raise TypeError("its value is not known")


class _Filled(_Opaque):
    """Also known not to be empty."""

    def __bool__(self) -> bool:
        return True


class _Empty(_Opaque):
    """Also known to be empty."""

    def __bool__(self) -> bool:
        return False


def _choices(part: Flat) -> Iterator[tuple[str, int, Sequence[Any]]]:
    """Name, bits and values of each attribute of a part, as far as a flaw may depend on them.

    A number of many bits has no bits in the table: its presence may matter, but not its value. Of
    bytes and texts it matters whether they are empty.
    """
    if isinstance(part, Word):
        for bits in part.bits:
            if bits.is_attribute and bits.width <= _MAX_KEY_BITS:
                numbers: Sequence[int] = range(1 << bits.width)
                if bits.enum is not None:
                    numbers = [member(bits.enum, number) for number in numbers]
                yield bits.name, bits.width, numbers
            elif bits.is_attribute:
                yield bits.name, 0, (_Opaque(),)
    elif isinstance(part, Blob) and isinstance(part.length, int):
        yield part.name, 0, (_Filled(),)
    elif isinstance(part, (Blob, Items, Rest)):
        yield part.name, 1, (_Empty(), _Filled())


def _flaws(shape: Shape) -> tuple[dict[str, int], list[int]]:
    """Where each field that matters is in the index of the flaw table, and that table.

    Both are empty for a form that refuses no values.
    """
    values: dict[str, Any] = {}
    for made in dataclasses.fields(cast("Any", shape.cls)):
        values[made.name] = None if made.default is dataclasses.MISSING else made.default
    choices: dict[str, tuple[int, Sequence[Any]]] = {}
    for part in shape.parts:
        for name, width, each in _choices(part):
            choices[name] = width, each
            values[name] = each[0]
    conditional = {part.name for part in shape.parts if isinstance(part, Blob) and part.when}
    seen: set[str] = set()
    names: list[str] = []
    table: list[int] = []
    while not table or sorted(seen & choices.keys()) != names:
        names = sorted(seen & choices.keys())
        if seen & conditional:
            raise _UnreadableError(f"{shape.name}: its flaws depend on parts that may be absent")
        if sum(choices[name][0] for name in names) > _MAX_KEY_BITS:
            raise _UnreadableError(f"{shape.name}: its flaws depend on too many bits")
        found: dict[int, int] = {}
        for places in product(*(range(len(choices[name][1])) for name in names)):
            index = low = 0
            chosen = dict(values)
            for name, place in zip(names, places, strict=True):
                width, each = choices[name]
                index |= place << low
                low += width
                chosen[name] = each[place]
            try:
                flaw = shape.cls.flaw(cast("Packet", _Probe(chosen, seen)))
            except Exception as error:  # whatever it does with a value that is not known
                raise _UnreadableError(f"{shape.name}: only a packet can tell its flaws") from error
            found[index] = int(flaw is not None)
        table = [found[index] for index in range(len(found))]
    if not any(table):
        return {}, []
    key, low = {}, 0
    for name in names:
        if choices[name][0]:
            key[name] = low
            low += choices[name][0]
    return key, table


# --- the program ----------------------------------------------------------------------------------


def _selector(shapes: Sequence[Shape], readable: set[int]) -> tuple[list[int], list[int]]:
    """Where code and header length are in a frame; the shape for each of their values.

    The first are a word's place, size and order, and the lowest bit and mask of both in it. Only
    readable shapes are chosen, and none by a code of so many bits that the table would be huge.
    """
    at = 0
    parts = shapes[0].parts if shapes else ()
    for part in parts:
        if not isinstance(part, Word):
            break
        chosen = {bits.derived: bits for bits in part.bits if bits.derived in ("code", "words")}
        if chosen:
            low = min(bits.low for bits in chosen.values())
            high = max(bits.high for bits in chosen.values())
            if high - low >= _MAX_SELECTOR_BITS:
                break
            forms = [NO_FORM] * (1 << (high - low + 1))
            for number, shape in enumerate(shapes):
                if number not in readable:
                    continue
                words = chosen["words"].low - low if "words" in chosen else None
                for code in shape.codes:
                    index = code << chosen["code"].low - low
                    index |= 0 if words is None else shape.words << words
                    # Where neither distinguishes two forms, only the object path can.
                    forms[index] = _MANY if forms[index] != NO_FORM else number
            forms = [NO_FORM if form == _MANY else form for form in forms]
            order = int(part.order == "little")
            return [at, part.size, order, low, len(forms) - 1], forms
        at += part.size
    # Without a code that distinguishes forms, there can only be one.
    has_code = any(
        bits.derived == "code" for part in parts if isinstance(part, Word) for bits in part.bits
    )
    is_known = len(shapes) == 1 and 0 in readable and not has_code
    return [0, 1, 0, 0, 0], [0 if is_known else NO_FORM]


def _array(values: Sequence[int], code: Literal["B", "i", "q"]) -> memoryview:
    return memoryview(array.array(code, values or [0])).cast("B").cast(code)


def build_program(
    kernel: Any,
    table: Table,
    shapes: Sequence[Shape],
    enums: Mapping[str, type[IntEnum] | None] | None = None,
) -> Program:
    """The program that fills the columns of a packet table that come from packets.

    Args:
        kernel: the compiled or the interpreted one.
        table: the columns that are wanted.
        shapes: every form.
        enums: enums that replace declared ones, by field; None: the numbers have no names.
    """
    plan = _plan(table, tuple(_Same(shape) for shape in shapes), tuple((enums or {}).items()))
    # A program adds to its names and their maps.
    outputs = [dataclasses.replace(each, names=list(each.names)) for each in plan.outputs]
    arrays = {name: _array(values, code) for name, code, values in plan.arrays}
    return Program(kernel, outputs, arrays)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a program is made from."""

    outputs: Sequence[Output]
    arrays: Sequence[tuple[str, Literal["B", "i", "q"], Sequence[int]]]
    """Name, type and values of each."""


class _Same:
    """A shape that is equal to one with the same content."""

    __slots__ = ("key", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        names = tuple(shape.type_names.items())
        parts = shape.cls, shape.words, shape.parts, tuple(shape.codes)
        self.key = *parts, shape.name, shape.type_field, names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=64)  # finding the flaws of every packet takes longer than reading a small file
def _plan(
    table: Table, shapes: tuple[_Same, ...], enums: tuple[tuple[str, type[IntEnum] | None], ...]
) -> _Plan:
    builder = _Builder(table, dict(enums))
    readable = {number for number, each in enumerate(shapes) if builder.form(each.shape)}
    selector, forms = _selector([each.shape for each in shapes], readable)
    outputs = list(builder.outputs.values())
    flat = [number for op in builder.ops for number in op]
    named = [builder.outputs[name] for name in builder.name_outputs]
    firsts = [words.OP_ROW * first for first in builder.firsts]
    lists = [number for each in named for number in (each.place, len(each.names))]
    return _Plan(
        outputs,
        (
            ("selector", "q", array.array("q", selector)),
            ("forms", "B", array.array("B", forms)),
            ("ops", "q", array.array("q", flat)),
            ("firsts", "i", array.array("i", firsts)),
            ("maps", "i", array.array("i", builder.maps)),
            ("lists", "i", array.array("i", lists)),
        ),
    )
