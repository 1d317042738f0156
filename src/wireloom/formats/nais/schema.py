"""TYPE numbers → protobuf messages: the six built-in ones, and the user's own.

Schemas live in private descriptor pools, never in the library's default one, where two programs'
messages of the same name would clash. A registry pickles as descriptors and bindings, so that a
worker reads with exactly the schema of the one that sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.message import Message as ProtobufMessage

from wireloom.errors import EncodeError, OptionError, SourceError
from wireloom.formats.nais.descriptors import build, not_text, redact, round_floats
from wireloom.formats.nais.printing import Convert, NotText, converter
from wireloom.messages import Json

__all__ = ["BUILT_IN", "FIRST_CUSTOM", "CommandId", "NaisType", "Reading", "TypeRegistry"]

FIRST_CUSTOM = 7
"""TYPE numbers from here to 255 are custom commands (SPEC §3)."""
_MAX_TYPE = 255
_UNSAFE_TYPE = 0x1E
"""An old Python peer mistakes this TYPE for the start of a frame (SPEC, E6)."""


class NaisType(IntEnum):
    """TYPE numbers with a fixed meaning."""

    PROFILE = 1
    CONFIG = 2
    ACK = 3
    SECRET = 4
    COMMAND = 5
    EVENT = 6


class CommandId(IntEnum):
    """``Command.id`` of the built-in commands (TYPE 5)."""

    REBOOT = 1
    TOGGLE_WIFI_MODE = 2
    FACTORY_RESET = 3
    OTA = 4
    GET_CONFIG = 5


class Reading(NamedTuple):
    """A payload read with its schema."""

    name: str | None
    """Full name of the message; None when it could not be read."""
    value: Json | None
    error: str
    """Why it could not be read; empty when it could."""


class _Binding(NamedTuple):
    source: int
    """Which of the loaded descriptor sets the message is from; -1 for a built-in one."""
    name: str
    schema: Descriptor
    made: type[ProtobufMessage]
    convert: Convert | None
    """Gives the JSON form quickly, where that is possible."""

    @property
    def pool(self) -> DescriptorPool:
        """Where the types of an Any are looked for."""
        return self.schema.file.pool


@cache
def _built_in_set() -> bytes:
    from importlib.resources import files  # late: it brings archives with it

    return files(__package__).joinpath("nais.binpb").read_bytes()


class TypeRegistry:
    """Which protobuf message each TYPE number carries.

    A new registry knows the six built-in messages. Load more, then bind them:

    >>> registry = TypeRegistry()
    >>> registry.bind(10, "Event")
    >>> registry.bindings[10]
    'Event'

    A custom TYPE (7 to 255) without a binding is read as a Command if its payload is one.
    """

    def __init__(self) -> None:
        self._sets: list[bytes] = []
        self._messages: dict[str, tuple[int, Descriptor]] = {}
        self._bound: dict[int, _Binding] = {}
        self._index(-1, _built_in_set(), "nais.binpb")
        for code in NaisType:
            self._bound[int(code)] = self._bind(code.name.capitalize())
        self._command = self._bound[NaisType.COMMAND]

    # --- filling it

    def load(self, path: str | Path, *, include: Iterable[str | Path] = ()) -> None:
        """Add the messages of a ``.proto`` file, or of a descriptor set (any other suffix).

        Args:
            path: the file.
            include: where to look for imports of a ``.proto`` file, besides its own directory.

        Raises:
            SourceError: the file cannot be read; its `file` and `line` say where it is wrong.
        """
        path = Path(path)
        if path.suffix == ".proto":
            from wireloom.formats.nais.protoc import compile_file  # late: it starts processes

            data = compile_file(path, map(Path, include))
        else:
            try:
                data = path.read_bytes()
            except OSError as error:
                raise SourceError(error.strerror or str(error), file=str(path)) from error
        self.load_descriptor_set(data, name=str(path))

    def load_text(
        self, text: str, *, name: str = "schema.proto", include: Iterable[str | Path] = ()
    ) -> None:
        """Add the messages of a text in the protobuf language.

        Raises:
            SourceError: it cannot be compiled; its `line` says where it is wrong.
        """
        from wireloom.formats.nais.protoc import compile_text

        self.load_descriptor_set(compile_text(text, name, map(Path, include)), name=name)

    def load_descriptor_set(self, data: bytes, *, name: str = "<descriptor set>") -> None:
        """Add the messages of a serialized FileDescriptorSet.

        A message whose name is already known replaces the earlier one in later calls of `bind`.

        Raises:
            SourceError: it is not such a set, or its imports are missing.
        """
        self._refuse_if_built_in()
        self._index(len(self._sets), data, name)
        self._sets.append(data)

    def bind(self, type: int, message: str, *, force: bool = False) -> None:
        """Set which message a TYPE number carries.

        Args:
            type: 7 to 255.
            message: its full name, or the last part of it where that is unambiguous.
            force: also bind a TYPE that is taken already, or that no peer should use.

        Raises:
            OptionError: no such message, or the TYPE number cannot be bound.
        """
        self._refuse_if_built_in()
        if isinstance(type, bool) or not isinstance(type, int) or not 0 < type <= _MAX_TYPE:
            raise OptionError(f"TYPE must be a number from 1 to {_MAX_TYPE}, not {type!r}")
        if type in self._bound and not force:
            raise OptionError(f"TYPE {type} is taken by {self._bound[type].name}")
        if type == _UNSAFE_TYPE and not force:
            raise OptionError(
                f"TYPE {type} is the byte that starts a frame; some peers break on it"
            )
        self._bound[type] = self._bind(self._resolve(message))

    # --- asking it

    @property
    def messages(self) -> tuple[str, ...]:
        """Full names of all messages that can be bound."""
        return tuple(sorted(self._messages))

    @property
    def bindings(self) -> Mapping[int, str]:
        """TYPE number → full name of its message."""
        return {code: self._bound[code].name for code in sorted(self._bound)}

    def name_of(self, type: int) -> str | None:
        """Full name of the message bound to the TYPE; None when the TYPE has none of its own."""
        found = self._bound.get(type)
        return None if found is None else found.name

    def schema(self, type: int) -> Descriptor | None:
        """The schema that payloads of this TYPE are read with; None when there is none."""
        found = self._binding(type)
        return None if found is None else found.schema

    def type_of(self, message: str) -> int:
        """The lowest TYPE number that carries the message of this name.

        Raises:
            EncodeError: no TYPE does.
        """
        for code, name in self.bindings.items():
            if message in (name, name.rpartition(".")[2]):
                return code
        raise EncodeError(f"no TYPE carries a {message!r}", path="message_name")

    # --- payloads

    def parse(self, type: int, payload: bytes) -> tuple[ProtobufMessage | None, str]:
        """The payload as a protobuf message; or None, and why it is not one."""
        found = self._binding(type)
        if found is None:
            return None, f"TYPE {type} has no message"
        message, error = self._parse(found, payload)
        if message is None:
            return None, error
        # Most payloads are entirely ASCII, and then so is each text in them.
        if not payload.isascii() and (path := not_text(message)) is not None:
            return None, f"not a {found.name}: {path} is not UTF-8"
        return message, ""

    def _parse(self, found: _Binding, payload: bytes) -> tuple[ProtobufMessage | None, str]:
        """The same with a schema; strings are not checked to be text."""
        try:
            message = found.made.FromString(payload)
        except (ProtobufDecodeError, ValueError):  # ValueError: a proto3 string is not UTF-8
            return None, f"not a {found.name}: the wire form is wrong"
        if not message.IsInitialized():
            missing = cast("Any", message).FindInitializationErrors()
            return None, f"not a {found.name}: no {', '.join(missing)}"
        return message, ""

    def read(self, type: int, payload: bytes) -> Reading:
        """The payload as JSON: field names as in the schema, and only the fields present."""
        found = self._binding(type)
        if found is not None and found.convert is not None:
            message, error = self._parse(found, payload)
            if message is None:
                return Reading(None, None, error)
            try:
                return Reading(found.name, found.convert(message), "")
            except NotText:
                pass  # `parse` says where
        message, error = self.parse(type, payload)
        if message is None or found is None:
            return Reading(None, None, error)
        try:
            value = json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=found.pool
            )
        except (json_format.Error, ProtobufDecodeError, ValueError, TypeError) as failure:
            # A Timestamp of the year 10000, say, or an Any of a type that is not loaded.
            return Reading(None, None, f"{found.name} without a JSON form: {failure}")
        return Reading(found.name, value, "")

    def write(self, type: int, message: object, name: str | None = None) -> bytes:
        """The payload for a message given as JSON, or as a protobuf message of the right kind.

        Args:
            type: the TYPE number.
            message: a mapping in the JSON form of protobuf, or a protobuf message.
            name: the message's name, if it is not the one bound to the TYPE.

        Raises:
            EncodeError: there is no such schema, or the message does not fit it.
        """
        found = self._binding_to_write(type, name)
        if isinstance(message, ProtobufMessage):
            given = message.DESCRIPTOR.full_name
            if given != found.name:
                raise EncodeError(f"{given} given, {found.name} needed", path="message")
        elif not isinstance(message, Mapping):
            raise EncodeError(f"a {found.name} is an object of fields", path="message")
        try:
            if not isinstance(message, ProtobufMessage):
                fields = round_floats(found.schema, message)
                message = json_format.ParseDict(fields, found.made(), descriptor_pool=found.pool)
            return message.SerializeToString(deterministic=True)
        except (json_format.Error, ProtobufEncodeError, ValueError, TypeError) as error:
            raise EncodeError(" ".join(str(error).split()), path="message") from error

    def redacted(self, type: int, value: Json) -> Json:
        """A copy of a message's JSON form without what its schema marks ``debug_redact``."""
        schema = self.schema(type)
        return value if schema is None else redact(schema, value)

    # --- inside

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self is BUILT_IN:
            return "BUILT_IN"
        own = [(code, b.source, b.name) for code, b in self._bound.items()]
        return _rebuild, (self._sets, own)

    def _index(self, source: int, data: bytes, name: str) -> None:
        self._messages |= {full: (source, schema) for full, schema in build(data, name).items()}

    def _bind(self, name: str) -> _Binding:
        source, schema = self._messages[name]
        made = message_factory.GetMessageClass(schema)
        return _Binding(source, name, schema, made, converter(schema))

    def _binding(self, type: int) -> _Binding | None:
        found = self._bound.get(type)
        return self._command if found is None and type >= FIRST_CUSTOM else found

    def _resolve(self, name: str) -> str:
        if name in self._messages:
            return name
        found = [full for full in self.messages if full.rpartition(".")[2] == name]
        if len(found) > 1:
            raise OptionError(f"{name!r} may be {' or '.join(found)}")
        if not found:
            raise OptionError(f"no message {name!r}; there are {', '.join(self.messages)}")
        return found[0]

    def _binding_to_write(self, type: int, name: str | None) -> _Binding:
        found = self._binding(type)
        if found is not None and name in (None, found.name):
            return found
        if name is None:
            raise EncodeError(f"TYPE {type} has no message", path="type")
        try:
            return self._bind(self._resolve(name))
        except OptionError as error:
            raise EncodeError(error.reason, path="message_name") from None

    def _refuse_if_built_in(self) -> None:
        # Packets decoded without a registry of their own all share this one.
        if self is BUILT_IN:
            raise OptionError("the built-in registry is fixed; make a TypeRegistry() and pass it")


def _rebuild(sets: list[bytes], bound: list[tuple[int, int, str]]) -> TypeRegistry:
    made = TypeRegistry()
    # Each binding right after its own set: a later set may hold a message of the same name.
    for source in range(-1, len(sets)):
        if source >= 0:
            made.load_descriptor_set(sets[source])
        for code, origin, name in bound:
            if origin == source:
                made._bound[code] = made._bind(name)
    return made


BUILT_IN = TypeRegistry()
"""The six built-in messages; what packets are read with unless another registry is given."""
