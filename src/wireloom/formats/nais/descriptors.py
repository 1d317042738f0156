"""Descriptor sets → message schemas, and what can be told from a schema about its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message import Message

from wireloom.errors import SourceError
from wireloom.formats.nais.fields import is_repeated, type_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from wireloom.messages import Json

__all__ = ["build", "field_table", "not_text", "redact"]

_WELL_KNOWN = "google/protobuf/"
_REDACTED = "***"


def build(data: bytes, name: str) -> dict[str, Descriptor]:
    """The messages of a serialized FileDescriptorSet, by full name, in a pool of their own.

    The well-known types can be imported, but are none of the messages: most of them are a number
    or a text in JSON, not an object.

    Raises:
        SourceError: it is no such set, or imports of it are missing.
    """
    try:
        files = {file.name: file for file in FileDescriptorSet.FromString(data).file}
    except ProtobufDecodeError as error:
        raise SourceError("not a descriptor set", file=name) from error
    if not files:
        raise SourceError("a descriptor set without files", file=name)
    pool = DescriptorPool()
    found: dict[str, Descriptor] = {}
    for file in _in_order(files, name):
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise SourceError(f"{file.name}: {error}", file=name) from error
        if not file.name.startswith(_WELL_KNOWN):
            messages = pool.FindFileByName(file.name).message_types_by_name.values()
            found |= {message.full_name: message for message in _nested(messages)}
    return found


def _in_order(files: dict[str, FileDescriptorProto], name: str) -> Iterator[FileDescriptorProto]:
    """The files, each after the ones that it imports."""
    done: set[str] = set()
    todo = list(reversed(files))
    opened: set[str] = set()
    while todo:
        current = todo[-1]
        if current in done:
            todo.pop()
            continue
        if current not in files:
            files[current] = _well_known(current, name)
        waiting = [other for other in files[current].dependency if other not in done]
        if not waiting:
            done.add(todo.pop())
            yield files[current]
        elif current in opened:
            raise SourceError(f"{current} imports itself", file=name)
        else:
            opened.add(current)
            todo += waiting


def _well_known(path: str, name: str) -> FileDescriptorProto:
    """A file of the protobuf library itself, which a set may leave out."""
    try:
        if not path.startswith(_WELL_KNOWN):
            raise ImportError(path)
        module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        raise SourceError(
            f"{path} is imported but missing; make the set with protoc --include_imports", file=name
        ) from None
    found = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(found)
    return found


def _nested(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        if not message.GetOptions().map_entry:
            yield message
            yield from _nested(message.nested_types)


def field_table(schema: Descriptor) -> list[tuple[str, str, str, str]]:
    """Rows (field number, type, field, rule) of a message, for the docs."""
    # The library's own view of labels differs between its releases; the descriptor's does not.
    proto = DescriptorProto()
    schema.CopyToProto(proto)
    rows = []
    for field, raw in zip(schema.fields, proto.field, strict=True):
        rule = FieldDescriptorProto.Label.Name(raw.label).removeprefix("LABEL_").lower()
        if raw.default_value:
            rule += f", default {raw.default_value}"
        rows.append((f"#{field.number}", type_name(field), field.name, rule))
    return rows


def not_text(message: Message) -> str | None:
    """The first string field that is not UTF-8, if there is one.

    The library lets such strings of proto2 pass, hands them out as bytes, and would write the
    Python form of those into JSON.
    """
    for field, value in message.ListFields():
        for name, of, items in _contents(field, value):
            for item in items:
                if isinstance(item, Message):
                    if (inner := not_text(item)) is not None:
                        return f"{name}.{inner}"
                elif of.type == of.TYPE_STRING and isinstance(item, bytes):
                    return name
    return None


def _contents(
    field: FieldDescriptor, value: Any
) -> Iterator[tuple[str, FieldDescriptor, Iterable[Any]]]:
    """What can hold text in a field: its value or values, or the keys and the values of a map."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        yield f"{field.name}.key", entry.fields_by_name["key"], value
        yield f"{field.name}.value", entry.fields_by_name["value"], value.values()
    elif entry is not None or field.type == field.TYPE_STRING:
        yield field.name, field, value if is_repeated(field) else (value,)


def redact(schema: Descriptor, value: Json) -> Json:
    """A copy of a message's JSON form without what the schema marks ``debug_redact``."""
    out: Json = {}
    for name, content in value.items():
        field = schema.fields_by_name.get(name)
        if field is None:
            out[name] = content
        elif field.GetOptions().debug_redact:
            out[name] = _REDACTED
        else:
            out[name] = _redact_field(field, content)
    return out


def _redact_field(field: FieldDescriptor, content: Any) -> Any:
    inner = field.message_type
    if inner is None:
        return content
    if inner.GetOptions().map_entry:
        of = inner.fields_by_name["value"]
        return {key: _redact_field(of, item) for key, item in content.items()}
    if isinstance(content, list):
        return [_redact_field(field, item) for item in content]
    # A well-known type may be a text or a number.
    return redact(inner, content) if isinstance(content, dict) else content
