"""The byte strings in a message that may hold a message of another format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["payloads"]


class _Field(Protocol):
    @property
    def name(self) -> str | None: ...

    @property
    def type(self) -> int: ...

    @property
    def data(self) -> bytes: ...

    @property
    def fields(self) -> tuple[Any, ...]: ...


def payloads(fields: tuple[_Field, ...], opaque: int) -> Iterator[tuple[str, bytes]]:
    """Path and data of every opaque field that is not empty, nested messages included.

    A path is made of names: ``_data_``, ``body.image``. A field without a name, or with one that an
    earlier field of the message has, is named by its position instead: ``fields[3]``.
    """
    stack = [("", iter(enumerate(fields)), set[str]())]
    while stack:
        prefix, walker, seen = stack[-1]
        for index, field in walker:
            name = field.name
            step = name if name and name not in seen else f"fields[{index}]"
            seen.add(step)
            nested = [(f"{prefix}{step}.", field.fields)] if field.fields else []
            nested += [
                (f"{prefix}{step}.messages[{i}].", message.fields)
                for i, message in enumerate(getattr(field, "messages", ()))
            ]
            if nested:
                stack += [(path, iter(enumerate(inner)), set()) for path, inner in nested[::-1]]
                break
            if field.type == opaque and field.data:
                yield prefix + step, field.data
        else:
            stack.pop()
