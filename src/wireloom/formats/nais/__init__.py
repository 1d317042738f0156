"""NAIS: framed protobuf packets mixed with lines of text, between boards and their clients.

`packets` declares the frame, `stream` cuts a line into frames and text, `schema` knows which
message each TYPE carries. SPEC.md has the byte tables, the decisions and the errata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from wireloom.columns import Columns
from wireloom.format import Format, TypeInfo
from wireloom.formats.nais.descriptors import field_table
from wireloom.formats.nais.options import OPTIONS, decoder_from, rules_from, types_from
from wireloom.formats.nais.packets import NaisPacket, outline_frame, read_packet
from wireloom.formats.nais.rules import DEFAULT_RULES, SYNC_END, SYNC_START, LineRules
from wireloom.formats.nais.schema import (
    BUILT_IN,
    FIRST_CUSTOM,
    CommandId,
    NaisType,
    TypeRegistry,
)
from wireloom.formats.nais.stream import StreamDecoder
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import Limits

__all__ = [
    "FORMAT",
    "CommandId",
    "LineRules",
    "Nais",
    "NaisPacket",
    "NaisType",
    "StreamDecoder",
    "TypeRegistry",
]

_SUMMARIES = {
    NaisType.PROFILE: "client to board: name and password of a WLAN",
    NaisType.CONFIG: "client to board, and back after GET_CONFIG: where the board reports to",
    NaisType.ACK: "board to client: answer to a packet; id is the TYPE of that packet",
    NaisType.SECRET: "client to board: password of the board's own access point",
    NaisType.COMMAND: "client to board: "
    + ", ".join(f"{command.value} {command.name}" for command in CommandId),
    NaisType.EVENT: "board to client: something happened, with its values",
}
_SAMPLES: Mapping[str, tuple[int, Mapping[str, object]]] = {
    "profile": (NaisType.PROFILE, {"uid": "workshop", "pwd": "correct horse"}),
    "config": (
        NaisType.CONFIG,
        {"network": "local", "board": "board", "host": "broker.example", "port": 1883},
    ),
    "ack": (NaisType.ACK, {"id": 10, "seq": 7, "status": -1}),
    "secret": (NaisType.SECRET, {"key": "battery staple"}),
    "command": (NaisType.COMMAND, {"id": CommandId.GET_CONFIG, "seq": 42}),
    "event": (
        NaisType.EVENT,
        {"id": 12, "svals": ["hall"], "fvals": [21.5, -0.25], "ivals": [-1, 1, -64]},
    ),
    "custom": (10, {"id": 1, "ivals": [7, 5]}),
    "payload_128": (NaisType.SECRET, {"key": "k" * 126}),
}


_SCHEMAS = frozenset({"proto", "bind", "include", "types"})


class Nais(Format):
    """The NAIS packet format."""

    name: ClassVar[str] = "nais"
    title: ClassVar[str] = "NAIS"
    kind: ClassVar[Literal["transport", "message"]] = "transport"
    rank: ClassVar[int] = 20
    has_text: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "Framed protobuf packets between boards and clients, on serial, TCP, WebSocket and MQTT"
        " lines that also carry plain text."
    )
    options = OPTIONS

    def load_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options with the schemas that they name.

        Raises:
            OptionError: one has a bad value, or a message to bind does not exist.
            SourceError: a schema file is wrong.
        """
        if given.keys().isdisjoint(_SCHEMAS):
            return given
        others = {name: value for name, value in given.items() if name not in _SCHEMAS}
        return {**others, "types": types_from(given)}

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> NaisPacket:
        """The packet at the start of `data`; bytes after it are ignored unless `strict`.

        A payload that is not a protobuf message is not an error, unless `strict`: then `message` is
        None, and `message_error` says why.

        Raises:
            DecodeError: the bytes are not a frame.
            OptionError: an option has an unusable value.
            SourceError: a schema file is wrong.
        """
        rules = rules_from(limits, strict, options)
        return read_packet(data, rules, strict=strict, types=types_from(options))

    def framer(
        self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any
    ) -> StreamDecoder:
        """A decoder for one stream of frames and text.

        Raises:
            OptionError: an option has an unusable value.
        """
        return decoder_from(limits, strict, offset, options)

    def detect(self, data: bytes) -> int:
        """95 for a frame with the message that its TYPE asks for, 60 for a custom one, else 0."""
        if not data.startswith(bytes([SYNC_START])):
            return 0
        size = DEFAULT_RULES.measure(data, 0, len(data))
        if not isinstance(size, int) or size > len(data) or data[size - 1] != SYNC_END:
            return 0
        packet = read_packet(data)
        if packet.message is not None:
            return 95 if packet.type < FIRST_CUSTOM else 60
        # Two bytes of magic are weak proof; that no bytes are left over makes up for it.
        return 60 if packet.type and size == len(data) else 0

    def from_dict(self, d: Json, *, types: TypeRegistry = BUILT_IN) -> NaisPacket:
        """The packet that `to_dict` described; ``message`` alone, without ``payload``, is enough.

        Args:
            d: ``type`` or ``message_name``, ``payload`` or ``message`` or both, and the other
                fields where they are not 0.
            types: the schemas to write ``message`` with.

        Raises:
            EncodeError: the object is not such a packet, or payload and message differ.
        """
        return NaisPacket.from_dict(d, types=types)

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        """The field tree of the frame at the start of `data`, with the fields of its message.

        Raises:
            OptionError: an option has an unusable value.
            SourceError: a schema file is wrong.
        """
        rules = rules_from(limits, strict, options)
        known = types_from(options)
        return outline_frame(data, rules, types=known, limits=limits, strict=strict)

    def types(self) -> Sequence[TypeInfo]:
        """The built-in messages with their fields, from the bundled schema."""
        found = []
        for code, summary in _SUMMARIES.items():
            schema = BUILT_IN.schema(code)
            assert schema is not None
            found.append(TypeInfo(code, schema.full_name, summary, field_table(schema)))
        return found

    def packets(self) -> Sequence[type[NaisPacket]]:
        """The declared packets."""
        return (NaisPacket,)

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.nais.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """A canonical frame for each built-in message, a custom one, and two sizes of payload."""
        messages = {
            name: NaisPacket.from_message(code, message)
            for name, (code, message) in _SAMPLES.items()
        }
        empty = NaisPacket(type=60, payload=b"")
        return {name: made.encode() for name, made in messages.items()} | {
            "empty_payload": empty.encode()
        }


FORMAT = Nais()
