"""What a conversion loses, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from wireloom.formats._tib.lookup import NamedField
from wireloom.formats._tib.scalars import text_bytes

__all__ = ["MAX_NAME", "Loss", "LossKind", "Losses", "cut_text", "fit_name", "steps"]

MAX_NAME: Final = 254
"""Bytes of a name in TibMsg and TibrvMsg, without its NUL."""


class LossKind(StrEnum):
    """What kind of thing got lost."""

    FIELD = "field"
    """The whole field was left out."""
    NAME = "name"
    """The name was cut."""
    FID = "fid"
    """The field id of a TibrvMsg name."""
    HINT = "hint"
    """What a hint says: decimal places, date, time, enum."""
    PARTIAL = "partial"
    """Where a partial's data goes, or that it is one."""
    TYPE = "type"
    """The value is of another type now."""
    VALUE = "value"
    """A number was rounded, a time is coarser."""
    TEXT = "text"
    """A text was cut."""
    BYTES = "bytes"
    """Bytes that are no part of the value, or zeros that now are."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that the target cannot carry."""

    path: str
    """The field: names from the outside in, ``INFO.BID``; ``fields[3]`` where there is no name, or
    an earlier field has it."""
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
    for index, field in enumerate(fields):
        name = field.name
        step = name if name and name not in seen else f"fields[{index}]"
        seen.add(step)
        yield (f"{outer}.{step}" if outer else step), field


def cut_text(data: bytes, size: int) -> bytes:
    """At most `size` bytes of a text, without half a character at the end."""
    if len(data) <= size:
        return data
    end = size
    # Three continuation bytes are the most that UTF-8 has; more of them are no UTF-8.
    while end > max(0, size - 3) and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[: size if data[end] & 0xC0 == 0x80 else end]


def fit_name(name: str | None, path: str, losses: Losses) -> str | None:
    """The name as a TibMsg and a TibrvMsg can both carry it."""
    if name is None:
        return None
    data = text_bytes(name)
    fit = cut_text(data.split(b"\0", 1)[0], MAX_NAME)
    if fit == data:
        return name
    losses.add(path, LossKind.NAME, f"the name was cut to {len(fit)} bytes")
    return fit.decode("utf-8", "surrogateescape")
