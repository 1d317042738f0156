from __future__ import annotations

from datetime import UTC, date, datetime

from wireloom.cli._flat import flatten, json_line, plain


def test_json_has_no_character_that_steers_a_terminal() -> None:
    assert json_line({"a": "\x1b\x7f\x9b\u202eé"}) == '{"a":"\\u001b\\u007f\\u009b\\u202e\\u00e9"}'


def test_objects_become_columns_and_lists_become_json() -> None:
    row = {
        "a": 1,
        "b": {"c": "x\n", "d": {}},
        "e": [1, {"f": None}],
        "g": None,
        "h": True,
    }
    assert flatten(row) == {
        "a": "1",
        "b.c": "x\\n",
        "b.d": "{}",
        "e": '[1,{"f":null}]',
        "g": "",
        "h": "true",
    }


def test_names_are_escaped_too() -> None:
    assert flatten({"\x1b": {"\n": 1}}) == {"\\x1b.\\n": "1"}


def test_a_field_shows_its_typed_view_or_whatever_it_has() -> None:
    fields = [
        {"name": "A", "type": "t", "value": 1, "md": {"type": "enum", "val": 1}},
        {"name": "B", "type": "t", "value": 1.5, "md": {"type": "decimal", "text": "1.50"}},
        {"name": "C", "type": "t", "values": [1, 2]},
        {"name": "D", "type": "t"},
        {"name": "E", "type": "t", "data": "00ff"},
        {"name": "F", "type": "t", "low": 1, "high": 2},
    ]
    assert flatten({"fields": fields}) == {
        "A": "1",
        "B": "1.50",
        "C": "[1,2]",
        "D": "",
        "E": "00ff",
        "F": '{"low":1,"high":2}',
    }


def test_fields_of_another_shape_stay_json() -> None:
    assert flatten({"fields": [1]}) == {"fields": "[1]"}
    assert flatten({"fields": [{"name": "x"}]}) == {"fields": '[{"name":"x"}]'}


def test_times_end_as_in_csv() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    assert plain([moment, date(2026, 1, 2)]) == ["2026-01-02T03:04:05.000006Z", "2026-01-02"]
