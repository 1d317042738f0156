"""A Blaze model → numbers: what the kernel must know about its classes, as flat tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal

from wireloom.formats.blaze.declarations import PRIMITIVES, EnumDecl
from wireloom.formats.blaze.dialects import Dialect
from wireloom.formats.blaze.frames import FORMS
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import Slot, layout_of
from wireloom.formats.blaze.packets import (
    SubscriptionEvent,
    SubscriptionRequest,
    SubscriptionResponse,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.kernel.rows import nclass
from wireloom.wire import Limits

__all__ = ["Tables", "array_type_name", "item_type_name", "type_names"]

_KINDS = {
    "?": nclass.NC_BOOL,
    "h": nclass.NC_I16,
    "H": nclass.NC_U16,
    "i": nclass.NC_I32,
    "I": nclass.NC_U32,
    "q": nclass.NC_I64,
    "Q": nclass.NC_U64,
    "f": nclass.NC_F32,
    "d": nclass.NC_F64,
    "c": nclass.NC_CHAR,
    "B": nclass.NC_BYTE,
}
_OBJECT, _ENUM = "nclass", "enum"


def item_type_name(slot: Slot) -> str:
    """The type of a field that is not an array, or of an array's element."""
    if slot.layout is not None:
        return _OBJECT
    return _ENUM if slot.enum is not None else slot.decl.type


def array_type_name(slot: Slot) -> str:
    """The type of a field that is an array."""
    return f"array_{item_type_name(slot)}"


def type_names() -> list[str]:
    """All types, by their numbers in the type column."""
    items = [*PRIMITIVES, _OBJECT, _ENUM]
    return items + [f"array_{name}" for name in items]


def _array(values: Sequence[int], code: Literal["i", "q"]) -> memoryview:
    made = memoryview(bytearray((8 if code == "q" else 4) * max(len(values), 1))).cast(code)
    for index, value in enumerate(values):
        made[index] = value
    return made


def _roles() -> memoryview:
    """What each form of a packet says about classes and subscriptions, and where."""
    row = nclass.ROLE_ROW
    roles = [0] * (row * 1024)

    def put(key: int, *values: int) -> None:
        roles[row * key : row * key + len(values)] = values

    for key, form in FORMS.items():
        cls, at = form.codec.cls, {name: place[0] for name, place in form.fields.items()}
        has_body = form.pktlen_at > 0
        if cls in (TransactionRequest, TransactionResponse) and has_body:
            put(key, nclass.ROLE_CLASS, form.header_len, at["nclsid"])
        elif cls is SubscriptionEvent and has_body:
            carrying = sum(1 << kind for kind in (1, 2))  # DATALIVE and DATADWNL
            put(key, nclass.ROLE_EVENT, form.header_len, at["sbsrid"], at["sevttp"], carrying)
        elif cls is SubscriptionRequest:
            put(key, nclass.ROLE_REQUEST, 0, at["rqstid"], at["nclsid"])
        elif cls is SubscriptionResponse and "sbsrid" in at:
            put(key, nclass.ROLE_RESPONSE, 0, at["rqstid"], at["sbsrid"])
        # The kernel relies on these bits.
        for name, low, mask in (("nclsid", 0, 0xFFFFF), ("enctyp", 28, 15), ("sevttp", 28, 15)):
            assert name not in form.fields or form.fields[name][1:] == (low, mask)
    return _array(roles, "q")


def _key(name: str) -> bytes:
    """What precedes a value in JSON."""
    return f"{json.dumps(name)}: ".encode()


class Tables:
    """The tables of one model in one dialect."""

    def __init__(self, model: Model, dialect: Dialect) -> None:
        self.names: list[str] = []
        """Field names, by their numbers in the name column."""
        self._types = {name: number for number, name in enumerate(type_names())}
        self._numbers: dict[str, int] = {}
        self._hex_names: dict[str, set[str]] = {}
        self._members: list[int] = []
        self._member_ends: list[int] = []
        self._member_text = bytearray()
        self._enums: dict[str, tuple[int, int]] = {}
        self._slots: list[int] = []
        self._starts = [0]
        self._first_index = dialect.first_index_of(model)
        self._encodings = sum(
            1 << number for number in range(16) if dialect.encoding(number) is not None
        )
        classes = model.nclasses
        self._places = {found.name: place for place, found in enumerate(classes)}
        self._classes = sorted((found.id, place) for place, found in enumerate(classes))
        for found in classes:
            for slot in layout_of(model, found.name).slots:
                self._slots += self._slot(slot)
            self._starts.append(len(self._slots) // nclass.SLOT_ROW)

    def _slot(self, slot: Slot) -> list[int]:
        decl = slot.decl
        number = self._numbers.setdefault(decl.name, len(self.names))
        if number == len(self.names):
            self.names.append(decl.name)
        self._hex_names.setdefault(decl.name, set()).add(slot.hex_name)
        owner = members = 0
        if slot.layout is not None:
            kind, owner = nclass.NC_OBJECT, self._places[slot.layout.nclass.name]
        elif slot.enum is not None:
            kind, (owner, members) = nclass.NC_ENUM, self._enum(slot.enum)
        else:
            kind = nclass.NC_TEXT if slot.is_string else _KINDS[PRIMITIVES[decl.type][0]]
        item = self._types[item_type_name(slot)]
        array = self._types[array_type_name(slot)]
        return [kind, decl.count, int(slot.is_array), owner, number, item, array, members]

    def _enum(self, enum: EnumDecl) -> tuple[int, int]:
        """Where an enum's members start, and their number; sorted, with one name per value."""
        if enum.name not in self._enums:
            names: dict[int, str] = {}
            for member in enum.members:
                names.setdefault(member.value, member.name)
            self._enums[enum.name] = len(self._members), len(names)
            for value in sorted(names):
                self._members.append(value)
                self._member_text += names[value].encode()
                self._member_ends.append(len(self._member_text))
        return self._enums[enum.name]

    def writer(self, kernel: Any) -> Any:
        """What writes bodies as JSON; None if a field's name alone does not determine its hex key.

        That happens if one class has a field with the name of another class's hex key.
        """
        if any(len(found) > 1 for found in self._hex_names.values()):
            return None
        keys = [_key(name) for name in self.names]
        hex_keys = [_key(*self._hex_names[name]) for name in self.names]
        return kernel.BodyTexts(
            b"".join(keys),
            _array([*accumulate(map(len, keys))], "i"),
            b"".join(hex_keys),
            _array([*accumulate(map(len, hex_keys))], "i"),
            self._types["bool"],
        )

    def made(self, kernel: Any, limits: Limits, asks: bool) -> Any:
        """The tables as the kernel takes them."""
        return kernel.Bodies(
            _roles(),
            _array([number for pair in self._classes for number in pair], "i")[
                : 2 * len(self._classes)
            ],
            _array(self._starts, "i"),
            _array(self._slots, "q"),
            _array(self._members, "q"),
            _array(self._member_ends, "i"),
            memoryview(bytes(self._member_text) or b"\0"),
            self._encodings,
            self._first_index,
            limits.max_fields,
            limits.max_depth,
            asks,
        )
