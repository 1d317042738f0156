"""Frames → messages: the NAIS frame, declared once, and the packet made from it.

The payload's bytes are the truth; the protobuf message in them is read when it is asked for.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Self, cast

from wireloom.errors import DecodeError, EncodeError, InvalidFieldError, TruncatedError
from wireloom.formats.nais.fields import byte_fields
from wireloom.formats.nais.rules import (
    DEFAULT_RULES,
    HEADER_LEN,
    MAX_LEN_BYTES,
    MIN_FRAME_LEN,
    SYNC_END,
    SYNC_START,
    LineRules,
    Refusal,
)
from wireloom.formats.nais.schema import BUILT_IN, FIRST_CUSTOM, Reading, TypeRegistry
from wireloom.formats.nais.tree import add_fields
from wireloom.layout import Blob, Flat, Packet, Varint, Word, packet
from wireloom.layout.generate import make_decoder
from wireloom.layout.show import fill_outline
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits, varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message as ProtobufMessage

__all__ = ["PARTS", "NaisPacket", "outline_frame", "read_packet"]

PARTS: tuple[Flat, ...] = (
    Word("sync_start", size=1, const=SYNC_START, doc="start of a frame"),
    Word("type", size=1, strict_least=1, doc="which message the payload is; 0 is never sent"),
    Word("sline", size=1, doc="session it came from; the junction writes it, senders write 0"),
    Word("dline", size=1, doc="session it goes to; 0 is everyone"),
    Word("rsv", size=1, doc="reserved, 0; bit 0 asks a board for its console"),
    Varint(
        "len",
        derived="len payload",
        max_bytes=MAX_LEN_BYTES,
        doc="payload length: 7 bits a byte, least significant first, bit 7 says that one follows",
    ),
    Blob("payload", length="len", doc="one protobuf message"),
    Word("sync_end", size=1, const=SYNC_END, doc="end of the frame"),
)
_WIRE_FIELDS = ("type", "sline", "dline", "rsv", "payload")
_JSON_FIELDS = {"format", "packet", "message", "message_name", "message_error", *_WIRE_FIELDS}


@packet(code=0, name="NAIS", parts=PARTS)
class NaisPacket(Packet):
    """A NAIS frame: a protobuf message, from one session to another or to all."""

    format: ClassVar[str] = "nais"

    type: int
    """Which message the payload is (SPEC §3)."""
    sline: int = 0
    """Session it came from; written by the junction."""
    dline: int = 0
    """Session it goes to; 0 is everyone."""
    rsv: int = 0
    """Reserved; kept as it came."""
    payload: bytes = b""
    types: TypeRegistry = field(default=BUILT_IN, compare=False)
    """What the payload is read with; not part of the packet's value."""
    _reading: Reading | None = field(default=None, init=False, compare=False)

    @classmethod
    def from_message(
        cls,
        type: int | str,
        message: Mapping[str, object] | ProtobufMessage,
        *,
        sline: int = 0,
        dline: int = 0,
        rsv: int = 0,
        types: TypeRegistry = BUILT_IN,
    ) -> Self:
        """A packet that carries a message.

        >>> NaisPacket.from_message("Ack", {"id": 10, "status": 5}, dline=3).encode().hex()
        '1e0300030004080a180517'

        Args:
            type: TYPE number, or the name of the message bound to it.
            message: in the JSON form of protobuf, or as a protobuf message.
            sline: session it came from.
            dline: session it goes to.
            rsv: reserved.
            types: the schemas.

        Raises:
            EncodeError: there is no such schema, or the message does not fit it.
        """
        code = types.type_of(type) if isinstance(type, str) else type
        payload = types.write(code, message)
        return cls(type=code, sline=sline, dline=dline, rsv=rsv, payload=payload, types=types)

    @classmethod
    def from_dict(cls, d: Json, *, types: TypeRegistry = BUILT_IN) -> Self:
        """The packet that `to_dict` described; ``message`` alone, without ``payload``, is enough.

        Raises:
            EncodeError: the object is not such a packet, or payload and message differ.
        """
        if unknown := sorted(set(d) - _JSON_FIELDS):
            raise EncodeError(f"NAIS has no field {unknown[0]!r}", path=unknown[0])
        name, message = d.get("message_name"), d.get("message")
        if name is not None and not isinstance(name, str):
            raise EncodeError("a name is a text", path="message_name")
        if name is not None and d.get("type") is None:
            d = d | {"type": types.type_of(name)}
        numbers = {key: _byte(d, key) for key in ("type", "sline", "dline", "rsv")}
        if d.get("payload") is not None:
            payload = _from_hex(d["payload"])
        elif message is not None:
            payload = types.write(numbers["type"], message, name)
        else:
            raise EncodeError("payload or message is needed", path="payload")
        made = cls(**numbers, payload=payload, types=types)
        # The payload counts. A message that was edited next to it must not be dropped silently; one
        # whose schema is not known here cannot be compared.
        if message not in (None, made.message) and name in (None, made.message_name):
            raise EncodeError("payload and message differ; leave one of them out", path="message")
        return made

    # --- the message in the payload

    @property
    def reading(self) -> Reading:
        """The payload read with its schema; done once, when first asked for."""
        if self._reading is None:
            # Frozen for users; what is kept here follows from the other attributes.
            object.__setattr__(self, "_reading", self.types.read(self.type, self.payload))
        return cast("Reading", self._reading)

    @property
    def message(self) -> Json | None:
        """The message in protobuf's JSON form; if None, `message_error` says why."""
        return self.reading.value

    @property
    def message_name(self) -> str | None:
        """Full name of the message that was read; None when there is none."""
        return self.reading.name

    @property
    def message_error(self) -> str:
        """Why the payload could not be read; empty when it could."""
        return self.reading.error

    @property
    def is_bad_payload(self) -> bool:
        """Whether the TYPE has a message of its own, and the payload is not one."""
        return self.types.name_of(self.type) is not None and self.reading.name is None

    @property
    def proto(self) -> ProtobufMessage | None:
        """The payload as a new protobuf message; None when it is not one."""
        return self.types.parse(self.type, self.payload)[0]

    # --- what every message has

    @property
    def type_name(self) -> str:
        """Name of the message bound to the TYPE; ``Custom`` or ``Reserved`` if none is."""
        return _type_name(self.type, self.types)

    def to_dict(self) -> Json:
        """The packet as a JSON object: the payload in hex, and the message where it can be read."""
        out: Json = {"format": self.format, "packet": self.type_name}
        out |= {name: getattr(self, name) for name in _WIRE_FIELDS}
        out["payload"] = self.payload.hex()
        if self.message is None:
            return out | {"message_error": self.message_error}
        # A copy: editing the object must not edit the packet.
        return out | {"message_name": self.message_name, "message": copy.deepcopy(self.message)}

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Strings and bytes of the message; the whole payload if it is not a message."""
        schema = self.types.schema(self.type)
        if schema is None or self.message is None:
            if self.payload:
                yield "payload", self.payload
            return
        for path, data in byte_fields(self.payload, schema):
            if data:
                yield f"message.{path}", data

    def outline(self) -> Node:
        """Where each field lies in `encode()`, down to the fields of the message."""
        return outline_frame(self.encode(), types=self.types)

    def __repr__(self) -> str:
        # Passwords travel in payloads, and a repr ends up in logs.
        if self.message is None:
            content = f"payload=<{len(self.payload)} bytes>"
        else:
            content = f"{self.message_name}={self.types.redacted(self.type, self.message)}"
        head = f"type={self.type}, sline={self.sline}, dline={self.dline}, rsv={self.rsv}"
        return f"NaisPacket({head}, {content})"


def _byte(d: Json, key: str) -> int:
    value = d.get(key, None if key == "type" else 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 0xFF:
        raise EncodeError(f"{value!r} is not a number from 0 to 255", path=key)
    return value


def _from_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(cast("str", value))
    except (TypeError, ValueError) as error:
        raise EncodeError("the payload is not a text in hex", path="payload") from error


def _type_name(type: int, types: TypeRegistry) -> str:
    return types.name_of(type) or ("Custom" if type >= FIRST_CUSTOM else "Reserved")


# --- reading ------------------------------------------------------------------------------------


def _parts(max_len_bytes: int) -> tuple[Flat, ...]:
    """The declared parts for a line with another limit on LEN."""
    return tuple(
        dataclasses.replace(part, max_bytes=max_len_bytes) if isinstance(part, Varint) else part
        for part in PARTS
    )


@cache
def _decoder(max_len_bytes: int) -> Callable[[bytes, int, int, bool], NaisPacket]:
    return make_decoder(NaisPacket, _parts(max_len_bytes), False)()


def read_packet(
    data: bytes,
    rules: LineRules = DEFAULT_RULES,
    *,
    strict: bool = False,
    exact: bool = False,
    types: TypeRegistry = BUILT_IN,
) -> NaisPacket:
    """The packet at the start of `data`.

    Args:
        data: a frame, and perhaps more.
        rules: what the line lets pass.
        strict: refuse TYPE 0, a LEN longer than needed, a payload that is not what its TYPE says,
            and what `exact` refuses.
        exact: refuse bytes after the frame, as on lines where a message is a unit: WebSocket, MQTT.
        types: what to read the payload with.

    Raises:
        DecodeError: the bytes are not such a packet.
    """
    end = len(data)
    if end and data[0] != SYNC_START:
        raise InvalidFieldError("must be 0x1e", path="sync_start", code="bad_start")
    size = rules.measure(data, 0, end)
    if not isinstance(size, int):
        if size is None:
            raise TruncatedError(needed=max(MIN_FRAME_LEN, end + 1), available=end)
        raise size.error
    if size > end:
        raise TruncatedError(needed=size, available=end)
    if data[size - 1] != SYNC_END:
        raise InvalidFieldError("must be 0x17", offset=size - 1, path="sync_end", code="bad_end")
    if size < end and (strict or exact):
        raise InvalidFieldError(f"{end - size} bytes are left over", offset=size, code="trailing")
    if not strict:
        return _quick_packet(data, size, types)
    made = _decoder(rules.max_len_bytes)(data, 0, size, strict)
    if types is not BUILT_IN:
        object.__setattr__(made, "types", types)
    _check(data, size, made)
    return made


# A frozen dataclass assigns its attributes by name, which is half the cost of reading a frame.
_new = object.__new__
_set_type, _set_sline, _set_dline, _set_rsv, _set_payload, _set_types, _set_reading = (
    getattr(NaisPacket, slot).__set__ for slot in (*_WIRE_FIELDS, "types", "_reading")
)


def _quick_packet(data: bytes, size: int, types: TypeRegistry) -> NaisPacket:
    """What the declared decoder makes of a frame, without its checks, which were already made."""
    at = HEADER_LEN
    while data[at] >= 0x80:
        at += 1
    made = _new(NaisPacket)
    _set_type(made, data[1])
    _set_sline(made, data[2])
    _set_dline(made, data[3])
    _set_rsv(made, data[4])
    _set_payload(made, data[at + 1 : size - 1])
    _set_types(made, types)
    _set_reading(made, None)
    return made


def _check(data: bytes, size: int, made: NaisPacket) -> None:
    """Refuse what strict readers refuse and the declaration does not cover.

    Raises:
        InvalidFieldError: there is such a thing.
    """
    if size != HEADER_LEN + len(varint(len(made.payload))) + len(made.payload) + 1:
        raise InvalidFieldError(
            "longer than needed", offset=HEADER_LEN, path="len", code="len_not_minimal"
        )
    if made.is_bad_payload:
        at = size - 1 - len(made.payload)
        raise InvalidFieldError(made.message_error, offset=at, path="payload", code="bad_payload")


# --- the field tree -----------------------------------------------------------------------------


def outline_frame(
    data: bytes,
    rules: LineRules = DEFAULT_RULES,
    *,
    types: TypeRegistry = BUILT_IN,
    limits: Limits = DEFAULT_LIMITS,
    strict: bool = False,
) -> Node:
    """The field tree of the frame at the start of `data`, as far as it can be read."""
    size = rules.measure(data, 0, len(data))
    end = min(size, len(data)) if isinstance(size, int) else len(data)
    root = Node("NAIS", 0, end)
    fill_outline(root, _parts(rules.max_len_bytes), data, 0, end)
    nodes = {node.name: node for node in root.children}
    if isinstance(size, Refusal) and (wrong := nodes.get(size.error.path)) is not None:
        wrong.error = size.error.reason
    if len(data) > 1:
        _outline_payload(root, nodes, data, types, limits)
    if strict and not any(node.error for _, node in root.walk()):
        _outline_strict(root, nodes, data, rules, types)
    return root


def _outline_strict(
    root: Node, nodes: dict[str, Node], data: bytes, rules: LineRules, types: TypeRegistry
) -> None:
    """Mark what only a strict reader refuses: TYPE 0, a long LEN, bytes after the frame."""
    try:
        read_packet(data, rules, strict=True, types=types)
    except DecodeError as error:
        nodes.get(error.path, root).error = error.reason


def _outline_payload(
    root: Node, nodes: dict[str, Node], data: bytes, types: TypeRegistry, limits: Limits
) -> None:
    code = data[1]
    root.meaning = nodes["type"].meaning = _type_name(code, types)
    is_bound = types.name_of(code) is not None
    node = nodes.get("payload")
    if "sync_end" in nodes:  # then the payload is whole, but it may be empty and have no node
        start, stop = (node.offset, node.end) if node is not None else (0, 0)
        reading = types.read(code, data[start:stop])
        if reading.name is None and is_bound:
            (node or nodes["len"]).error = reading.error
        if node is not None and reading.name is not None:
            node.meaning = reading.name
        is_bound = is_bound or reading.name is not None
    # Without a schema, a payload need not be a protobuf message at all.
    if node is not None and is_bound:
        node.value = f"{node.length} bytes"
        add_fields(node, data, node.offset, node.end, types.schema(code), limits)
