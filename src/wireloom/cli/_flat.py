"""Rows as text: a line of JSON, or a cell for each column."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from wireloom.view import escape

__all__ = ["Row", "flatten", "json_line", "plain"]

Row = Mapping[str, Any]

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def json_line(value: object) -> str:
    """One line of JSON. ASCII only, so that nothing in it can control a terminal."""
    return _encode(value)


def plain(value: Any) -> Any:
    """A table's value for JSON: bytes in hex; decimals, dates and times as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat().replace("+00:00", "Z")  # as in CSV
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def flatten(row: Row, prefix: str = "") -> dict[str, str]:
    """A row with text in every cell: objects become columns with dots, lists become JSON."""
    flat: dict[str, str] = {}
    for key, value in row.items():
        name = escape(f"{prefix}{key}")
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{name}.")
        elif key == "fields" and _are_fields(value):
            _add_fields(flat, value, prefix)
        else:
            flat[name] = _cell(value)
    return flat


def _are_fields(value: Any) -> bool:
    """Whether these are the fields of a self-describing message: objects with a name and a type."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and "name" in item and "type" in item for item in value
    )


def _add_fields(flat: dict[str, str], fields: list[Row], prefix: str) -> None:
    """A column for each field, by its name; a name that is taken gets a number."""
    for position, item in enumerate(fields):
        name = base = escape(f"{prefix}{item['name'] or f'[{position}]'}")
        count = 1
        while name in flat:
            count += 1
            name = f"{base}[{count}]"
        if "fields" in item and _are_fields(item["fields"]):
            _add_fields(flat, item["fields"], f"{name}.")
        else:
            flat[name] = _field_cell(item)


def _field_cell(item: Row) -> str:
    """What a person takes for the field's value: the typed view where there is one."""
    typed = item.get("md")
    if isinstance(typed, Mapping) and "text" in typed:
        return _cell(typed["text"])
    for key in ("value", "value_hex", "values", "messages"):
        if key in item:
            return _cell(item[key])
    rest = {key: value for key, value in item.items() if key not in ("name", "type")}
    return _cell(next(iter(rest.values())) if len(rest) == 1 else rest) if rest else ""


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return escape(value)
    if value is None:
        return ""
    if isinstance(value, (list, tuple, Mapping, bool)):
        return json_line(value)
    return escape(str(value))
