"""What a conversion loses, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from wireloom.formats._tib.lookup import NamedField
from wireloom.formats._tib.scalars import text_bytes

__all__ = ["MAX_NAME", "MAX_PATH", "Loss", "LossKind", "Losses", "cut_text", "fit_name", "steps"]

MAX_NAME: Final = 254
"""Bytes of a name in TibMsg and TibrvMsg, without its NUL."""

MAX_PATH: Final = 500
"""Characters of the path to a nested message; only the end of a longer one is kept. Every loss has
a path: with long names at every level, a message could otherwise demand a gigabyte of them."""


class LossKind(StrEnum):
    """What kind of thing was lost."""

    FIELD = "field"
    """The whole field was left out."""
    NAME = "name"
    """The name was cut."""
    FID = "fid"
    """The field id of a TibrvMsg name."""
    HINT = "hint"
    """What a hint says: decimal places, date, time, enum."""
    PARTIAL = "partial"
    """The offset of a partial, or that it is a partial at all."""
    TYPE = "type"
    """The value now has another type."""
    VALUE = "value"
    """A number was rounded, a time is coarser."""
    TEXT = "text"
    """A text was cut."""
    BYTES = "bytes"
    """Bytes that are not part of the value, or zeros that have become part of it."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the target cannot carry."""

    path: str
    """The field: names from the outside in, ``INFO.BID``; ``fields[3]`` for a field without a name,
    or with the name of an earlier one."""
    kind: LossKind
    text: str
    """What happened, in words."""

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class Losses(list[Loss]):
    """A report in the making."""

    def add(self, path: str, kind: LossKind, text: str) -> None:
        """Note a loss."""
        self.append(Loss(path, kind, text))


F = TypeVar("F", bound=NamedField)


def steps(fields: Iterable[F], outer: str = "") -> Iterator[tuple[str, F]]:
    """Each field with its path."""
    seen: set[str] = set()
    if len(outer) > MAX_PATH:
        outer = f"…{outer[-MAX_PATH:]}"
    for index, field in enumerate(fields):
        name = field.name
        step = name if name and name not in seen else f"fields[{index}]"
        seen.add(step)
        yield (f"{outer}.{step}" if outer else step), field


def cut_text(data: bytes, size: int) -> bytes:
    """At most `size` bytes of a text, never cut inside a character."""
    if len(data) <= size:
        return data
    end = size
    # UTF-8 has at most three continuation bytes in a row; more of them are not UTF-8.
    while end > max(0, size - 3) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[: size if data[end] & 0xC0 == 0x80 else end]


def fit_name(name: str | None, path: str, losses: Losses) -> str | None:
    """The name as both TibMsg and TibrvMsg can carry it."""
    if name is None:
        return None
    data = text_bytes(name)
    fit = cut_text(data.split(b"\0", 1)[0], MAX_NAME)
    if fit == data:
        return name
    losses.add(path, LossKind.NAME, f"the name was cut to {len(fit)} bytes")
    return fit.decode("utf-8", "surrogateescape")
