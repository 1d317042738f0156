"""Objects from text: ``home.x=5``, ``temps[0]=3``, the cells of a CSV file, columns of Parquet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wireloom.errors import EncodeError

if TYPE_CHECKING:
    from wireloom.formats.blaze.nclass import ClassLayout, Slot

__all__ = ["Columns", "assigned", "from_pairs"]

_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_]*)((?:\[[0-9]{1,5}\])?)")
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}

Path = tuple[tuple["Slot", int | None], ...]
"""Fields from the outside in, each with the index of the element that is meant."""


def from_pairs(layout: ClassLayout, pairs: Iterable[str]) -> dict[str, Any]:
    """The values of an object from ``field=value`` texts.

    Raises:
        EncodeError: there is no such field, or the text is no value of it.
    """
    made: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise EncodeError(f"{pair!r} is not FIELD=VALUE")
        assigned(made, _path(layout, name), text, name)
    return made


def _path(layout: ClassLayout, name: str) -> Path:
    """``stops[1].label``, or as columns are often named ``stops_1_label``.

    Raises:
        EncodeError: there is no such field.
    """
    found = _dotted(layout, name) or _flattened(layout, name)
    if found is None:
        raise EncodeError(f"class {layout.nclass.name} has no such field", path=name)
    return found


def _dotted(layout: ClassLayout | None, name: str) -> Path | None:
    steps: list[tuple[Slot, int | None]] = []
    at = 0
    while at < len(name):
        match = _STEP.match(name, at)
        if match is None or layout is None or match[1] not in layout.by_name:
            return None
        if (name[at] == ".") != bool(at):
            return None
        slot = layout.by_name[match[1]]
        index = int(match[2][1:-1]) if match[2] else None
        if index is not None and not slot.is_array:
            return None
        if index is not None and index >= slot.decl.count:
            raise EncodeError(f"the array has {slot.decl.count} elements, from 0", path=name)
        steps.append((slot, index))
        layout = slot.layout if index is not None or not slot.is_array else None
        at = match.end()
    return tuple(steps) or None


def _flattened(layout: ClassLayout, name: str) -> Path | None:
    """Fields and indexes joined by underscores, as tables of a broker have them."""
    for slot in layout.slots:
        own = slot.decl.name
        if name == own:
            return ((slot, None),)
        if not name.startswith(f"{own}_"):
            continue
        rest, index = name[len(own) + 1 :], None
        if slot.is_array:
            digits, _, rest = rest.partition("_")
            if not (digits.isdecimal() and len(digits) < 6 and int(digits) < slot.decl.count):
                continue
            index = int(digits)
        if not rest and index is not None:
            return ((slot, index),)
        inner = None if slot.layout is None or not rest else _flattened(slot.layout, rest)
        if inner is not None:
            return ((slot, index), *inner)
    return None


def assigned(made: dict[str, Any], path: Path, text: Any, name: str) -> None:
    """Put a value into its place in `made`.

    Raises:
        EncodeError: the text is no value of the field, or it is given twice.
    """
    place: dict[Any, Any] = made
    for slot, index in path[:-1]:
        place = place.setdefault(slot.decl.name, {})
        if index is not None:
            place = place.setdefault(str(index), {})
    slot, index = path[-1]
    if index is not None:
        place = place.setdefault(slot.decl.name, {})
    key: Any = slot.decl.name if index is None else str(index)
    if key in place:
        raise EncodeError("given twice", path=name)
    is_whole = slot.is_array and index is None
    try:
        place[key] = _value(slot, text, is_whole) if isinstance(text, str) else text
    except ValueError:
        raise EncodeError(f"{text!r} is not a value of type {slot.decl.type}", path=name) from None


def _value(slot: Slot, text: str, is_whole: bool) -> Any:
    """What a text stands for; the field itself checks it afterwards."""
    if is_whole or slot.layout is not None:
        return json.loads(text)  # a list, or an object
    if slot.decl.type == "ascii":
        return text
    if slot.decl.type == "bool":
        word = text.lower()
        if word not in _TRUE | _FALSE:
            raise ValueError
        return word in _TRUE
    if slot.decl.type.startswith("float"):
        return float(text)
    if slot.enum is not None and not text.lstrip("+-").isdecimal():
        return text  # the name of a member
    return int(text, 0)


class Columns:
    """Rows of a file → values of objects; the columns are found once.

    Raises:
        EncodeError: a column is no field of the class.
    """

    def __init__(self, layout: ClassLayout, names: Iterable[str]) -> None:
        key = layout.nclass.primary_key
        self._key = () if key is None else key.fields
        self._paths: dict[str, Path] = {}
        taken: set[tuple[tuple[str, int | None], ...]] = set()
        for number, name in enumerate(names, 1):
            if not name:
                raise EncodeError(f"column {number} has no name")
            path = _path(layout, name)
            place = tuple((slot.decl.name, index) for slot, index in path)
            if place in taken:
                raise EncodeError("there are two columns for it", path=name)
            taken.add(place)
            self._paths[name] = path

    @property
    def missing(self) -> list[str]:
        """The fields of the primary key that have no column."""
        found = {path[0][0].decl.name for path in self._paths.values()}
        return [name for name in self._key if name not in found]

    def values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The values in a row; an empty cell, or a null, is absent.

        Raises:
            EncodeError: a cell is no value of its field, or it is empty and belongs to the key.
        """
        made: dict[str, Any] = {}
        for name, path in self._paths.items():
            cell = row.get(name)
            if cell is not None and cell != "":
                assigned(made, path, _present(cell), name)
            elif path[0][0].decl.name in self._key and (cell is None or not _is_text(path)):
                raise EncodeError("a part of the key is empty", path=name)
        return made


def _is_text(path: Path) -> bool:
    return path[-1][0].decl.type == "ascii"


def _present(cell: Any) -> Any:
    """Without the nulls inside structures."""
    if isinstance(cell, Mapping):
        return {key: _present(item) for key, item in cell.items() if item is not None}
    if isinstance(cell, list):
        return [None if item is None else _present(item) for item in cell]
    return cell
