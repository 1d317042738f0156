"""Columns of a kept dictionary → entries, each made when it is first asked for.

A program that decodes a few messages uses some dozens of the sixteen thousand fields of a full
dictionary, and seldom the problems of its text.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

from wireloom.formats.qform.dictionary.model import Entry, Member, Problem, TssType, made_of_columns

__all__ = ["FORM", "EntryTable"]

FORM: Final = -1
"""The number of no type: a record class."""
_TYPES: Final = {FORM: None, **{tss_type.value: tss_type for tss_type in TssType}}

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class EntryTable:
    """The columns of a dictionary; they are right, and nobody changes them."""

    fids: Sequence[int]
    names: Sequence[str]
    kinds: Sequence[tuple[int, int, int]]
    """Type, size and flags, as they occur together."""
    kind: Sequence[int]
    """For each entry, which of them."""
    members: Mapping[int, Sequence[tuple[str, int]]]
    """Names and ids of the members of those entries that have some."""
    notes: Sequence[Sequence[Any]]
    """The problems: reasons, files, lines, and whether they are errors."""
    _made: list[Entry | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", [None] * len(self.fids))

    def __len__(self) -> int:
        return len(self.fids)

    def entry(self, row: int) -> Entry:
        """One entry; the same one each time."""
        found = self._made[row]
        if found is None:
            number, size, flags = self.kinds[self.kind[row]]
            found = self._made[row] = Entry(
                self.fids[row],
                self.names[row],
                _TYPES[number],
                size,
                bool(flags & 1),
                bool(flags & 2),
                bool(flags & 4),
                self._members(row),
            )
        return found

    def entries(self) -> tuple[Entry, ...]:
        """All of them."""
        made = self._made
        if made.count(None) < len(made):
            return tuple(map(self.entry, range(len(made))))
        kinds = list(map(self.kinds.__getitem__, self.kind))
        columns: tuple[Iterable[object], ...] = (
            self.fids,
            self.names,
            [_TYPES[number] for number, _, _ in kinds],
            [size for _, size, _ in kinds],
            [bool(flags & 1) for _, _, flags in kinds],
            [bool(flags & 2) for _, _, flags in kinds],
            [bool(flags & 4) for _, _, flags in kinds],
            map(self._members, range(len(made))) if self.members else repeat(()),
        )
        entries = made_of_columns(Entry, len(made), columns)
        made[:] = entries
        return entries

    def problems(self) -> tuple[Problem, ...]:
        """What was odd in the text."""
        return tuple(map(Problem, *self.notes))

    def by_fid(self) -> Mapping[int, Entry]:
        """The first entry of each id."""
        return _Found(self, self.fids)

    def by_name(self) -> Mapping[str, Entry]:
        """The first entry of each name."""
        return _Found(self, self.names)

    def _members(self, row: int) -> tuple[Member, ...]:
        return tuple(Member(name, fid) for name, fid in self.members.get(row, ()))


class _Found(Mapping[_Key, Entry], Generic[_Key]):
    """The first entry of each key, in the order in which a dictionary's plain mappings are."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: EntryTable, keys: Sequence[_Key]) -> None:
        self._table = table
        # Backwards, so that the first one stays.
        self._rows = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))

    def __getitem__(self, key: _Key) -> Entry:
        return self._table.entry(self._rows[key])

    def get(self, key: Any, default: Any = None) -> Any:
        """The entry of a key; `default` if there is none."""
        row = self._rows.get(key)
        return default if row is None else self._table.entry(row)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def values(self) -> ValuesView[Entry]:
        """All entries."""
        self._table.entries()  # at once: who asks for all wants all
        return super().values()

    def items(self) -> ItemsView[_Key, Entry]:
        """All keys and their entries."""
        self._table.entries()
        return super().items()
