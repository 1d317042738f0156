"""The JSON of names and scalar data, with the keys that the vectors use.

``value`` is for reading and writing by hand; ``raw`` is added where the value alone would not give
the same bytes again (text after a NUL, a boolean of 2, the payload of a NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from wireloom.errors import EncodeError
from wireloom.formats._tib.decimals import Scaled
from wireloom.formats._tib.problems import MAX_DEPTH
from wireloom.formats._tib.scalars import (
    Kind,
    Scalar,
    from_json,
    get_text,
    padded,
    put_text,
    read,
    text_bytes,
    to_json,
    write,
)
from wireloom.formats._tib.values import Date, EnumNumber, Time

__all__ = [
    "check_depth",
    "check_keys",
    "check_message",
    "elements_from_json",
    "elements_to_json",
    "fields_from_json",
    "get_int",
    "get_list",
    "get_scalar",
    "get_type",
    "hex_bytes",
    "put_scalar",
    "typed_view",
]

T = TypeVar("T")


def check_keys(d: Any, known: frozenset[str]) -> None:
    """Check that `d` is an object with known keys only, so that a misspelt one does not pass.

    Raises:
        EncodeError: it is not.
    """
    if not isinstance(d, dict):
        raise EncodeError(f"expected an object, not {type(d).__name__}")
    unknown = d.keys() - known
    if unknown:
        raise EncodeError(f"unknown key {min(map(str, unknown))!r}")


def check_message(d: Any, format: str, known: frozenset[str]) -> None:
    """Check that `d` is a message of that format, with known keys only.

    Raises:
        EncodeError: it is not.
    """
    check_keys(d, known)
    if d.get("format") != format:
        raise EncodeError(f"expected a {format}, not {d.get('format')!r}")


def check_depth(depth: int) -> None:
    """Check that messages are not nested too deep to be written.

    Raises:
        EncodeError: they are.
    """
    if depth > MAX_DEPTH:
        raise EncodeError(f"messages nested deeper than {MAX_DEPTH}")


def fields_from_json(items: object, make: Callable[[Any], T]) -> tuple[T, ...]:
    """The fields that `make` makes of the objects in a list.

    Raises:
        EncodeError: it is not a list, or a field cannot be made; the path says which.
    """
    if not isinstance(items, list):
        raise EncodeError(f"fields must be a list, not {type(items).__name__}")
    fields = []
    for index, item in enumerate(items):
        try:
            fields.append(make(item))
        except EncodeError as error:
            error.within(f"fields[{index}]")
            raise
    return tuple(fields)


def get_type(d: Mapping[str, Any], key: str, types: Mapping[str, T]) -> T:
    """The type of that name.

    Raises:
        EncodeError: there is none.
    """
    name = d.get(key)
    kind = types.get(name) if isinstance(name, str) else None
    if kind is None:
        raise EncodeError(f"{key} {name!r} is not known")
    return kind


def hex_bytes(d: Mapping[str, Any], key: str) -> bytes | None:
    """The bytes that a hex value stands for; None if the key is missing.

    Raises:
        EncodeError: it is not hex.
    """
    text = d.get(key)
    if text is None:
        return None
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError) as error:
        raise EncodeError(f"{key} is not hex: {text!r}") from error


def get_int(d: Mapping[str, Any], key: str, default: int | None = None) -> int | None:
    """A number that is not negative.

    Raises:
        EncodeError: it is something else.
    """
    value = d.get(key, default)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise EncodeError(f"{key} must be a number from 0 up, not {value!r}")


def get_list(d: Mapping[str, Any], key: str) -> list[Any]:
    """A list; empty if the key is missing.

    Raises:
        EncodeError: it is something else.
    """
    value = d.get(key, [])
    if isinstance(value, list):
        return value
    raise EncodeError(f"{key} must be a list, not {type(value).__name__}")


def put_scalar(out: dict[str, Any], kind: int, data: bytes) -> None:
    """Put the value of scalar data into a JSON object, with its size, and ``raw`` if needed."""
    out["size"] = len(data)
    if kind == Kind.OPAQUE:
        out["value_hex"] = data.hex()
        return
    value = read(kind, data)
    if isinstance(value, str):
        put_text(out, "value", value)
    else:
        out["value"] = to_json(value)
    if get_scalar(out, kind) != data:
        out["raw"] = data.hex()


def get_scalar(d: Mapping[str, Any], kind: int) -> bytes:
    """The data that `put_scalar` put there.

    Raises:
        EncodeError: it is not a value of this kind, or does not fit its size.
    """
    raw = hex_bytes(d, "raw")
    if raw is not None:
        return raw
    size = get_int(d, "size")
    if kind == Kind.STRING:
        text = get_text(d, "value")
        if text is None:
            raise EncodeError("a string needs a value")
        data = text_bytes(text)
        # Without a size, or with room for it, there is a NUL. A size of its own length has none.
        return data if size == len(data) else data + b"\0"
    if kind == Kind.OPAQUE:
        data_or_none = hex_bytes(d, "value_hex")
        if data_or_none is None:
            raise EncodeError("an opaque needs a value_hex")
        return data_or_none
    return write(kind, from_json(kind, d.get("value")), size)


def elements_to_json(values: Iterable[Scalar]) -> list[Any]:
    """The elements of an array; text that is not UTF-8 becomes ``{"value_hex": …}``."""
    out: list[Any] = []
    for value in values:
        if isinstance(value, str):
            coded: dict[str, Any] = {}
            put_text(coded, "value", value)
            out.append(coded.get("value", coded))
        else:
            out.append(to_json(value))
    return out


def elements_from_json(kind: int, values: list[Any], size: int | None) -> list[bytes]:
    """The data of each element; a string is NUL-padded to `size`, or gets its NUL if that is None.

    Raises:
        EncodeError: an element is not a value of this kind, or does not fit.
    """
    out = []
    for value in values:
        if kind == Kind.STRING:
            text = get_text(value if isinstance(value, dict) else {"value": value}, "value")
            if text is None:
                raise EncodeError("a string element must be a text")
            out.append(text_bytes(text) + b"\0" if size is None else padded(text, size))
        else:
            out.append(write(kind, from_json(kind, value), size))
    return out


class _Typed(Protocol):
    @property
    def scaled(self) -> Scaled | None: ...

    @property
    def value(self) -> Any: ...

    @property
    def is_unparsed(self) -> bool: ...


def typed_view(field: _Typed) -> dict[str, Any] | None:
    """What the data means by its hint or dictionary, as in the vectors' ``md``; None if plain."""
    scaled = field.scaled
    if scaled is not None:
        return scaled.to_dict()
    value = field.value
    if isinstance(value, (Date, Time)):
        return value.to_dict()
    if isinstance(value, EnumNumber):
        return {"type": "enum", "val": int(value)}
    return {"type": "string", "unparsed": True} if field.is_unparsed else None
