"""Descriptor sets → message schemas, and what a schema says about its messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from wireloom.formats.nais.fields import is_repeated
from wireloom.formats.nais.tree import type_name

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from wireloom.messages import Json

__all__ = ["build", "field_table", "not_text", "redact", "round_floats"]

_WELL_KNOWN = "google/protobuf/"
_REDACTED = "***"


def build(data: bytes, name: str) -> dict[str, Descriptor]:
    """The messages of a serialized FileDescriptorSet, by full name, in a pool of their own.

    The well-known types can be imported, but are not among the messages: most of them are a number
    or a text in JSON, not an object.

    Raises:
        SourceError: it is not such a set, or its imports are missing.
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

    The library lets such strings of proto2 pass, returns them as bytes, and would write the Python
    form of those into JSON.
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


# --- JSON forms ---------------------------------------------------------------------------------


def redact(schema: Descriptor, value: Json) -> Json:
    """A copy of a message's JSON form without what the schema marks ``debug_redact``."""
    return _rewrite(schema, value, _redact_field)


def _redact_field(field: FieldDescriptor, content: Any) -> Any:
    return _REDACTED if field.GetOptions().debug_redact else content


def round_floats(schema: Descriptor, value: Mapping[str, Any]) -> Json:
    """A copy of a message's JSON form that the library, which wrote it, can also read.

    It writes the largest float as 3.4028235e+38, which is the shortest text that rounds to it, and
    then refuses that text as too large.
    """
    return _rewrite(schema, value, _round_field)


def _round_field(field: FieldDescriptor, content: Any) -> Any:
    if field.type != field.TYPE_FLOAT:
        return content
    return [_round(item) for item in content] if isinstance(content, list) else _round(content)


def _round(item: Any) -> Any:
    if not isinstance(item, float):
        return item
    try:
        return struct.unpack("<f", struct.pack("<f", item))[0]
    except OverflowError:
        return item  # really too large, as the library will say


def _rewrite(
    schema: Descriptor, value: Mapping[str, Any], change: Callable[[FieldDescriptor, Any], Any]
) -> Json:
    """A copy of a message's JSON form with `change` made to every field, outermost first."""
    return {
        name: content if field is None else _rewrite_field(field, content, change)
        for name, content in value.items()
        for field in (_field(schema, name),)
    }


def _field(schema: Descriptor, name: object) -> FieldDescriptor | None:
    """The field of that name, also as JSON spells it: ``alivePeriod``."""
    return next((field for field in schema.fields if name in (field.name, field.json_name)), None)


def _rewrite_field(
    field: FieldDescriptor, content: Any, change: Callable[[FieldDescriptor, Any], Any]
) -> Any:
    changed = change(field, content)
    inner = field.message_type
    if inner is None or changed is not content:
        return changed
    if isinstance(content, list):
        return [_rewrite_field(field, item, change) for item in content]
    if not isinstance(content, Mapping):
        return content  # a well-known type may be a text or a number
    if inner.GetOptions().map_entry:
        of = inner.fields_by_name["value"]
        return {key: _rewrite_field(of, item, change) for key, item in content.items()}
    return _rewrite(inner, content, change)
