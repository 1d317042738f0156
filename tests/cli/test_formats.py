from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

import wireloom
from wireloom.cli import formats
from wireloom.format import COMMON_OPTIONS, Option
from wireloom.formats import get


def test_every_format_is_listed(run: Any) -> None:
    shown = run("formats").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["name", *wireloom.formats()]
    rows = [json.loads(line) for line in run("formats", "--json").stdout.splitlines()]
    assert [row["name"] for row in rows] == list(wireloom.formats())
    assert all(row["kind"] in ("transport", "message") and row["summary"] for row in rows)


@pytest.mark.parametrize("name", wireloom.formats())
def test_one_format_is_described_from_its_declarations(run: Any, name: str) -> None:
    found = get(name)
    shown = run("formats", name).stdout
    assert found.title in shown
    for option in (*found.options, *COMMON_OPTIONS):
        assert option.name in shown
    for info in found.types():
        assert info.name in shown
    made = json.loads(run("formats", name, "--json").stdout)
    assert [t["name"] for t in made["types"]] == [t.name for t in found.types()]
    assert [o["name"] for o in made["options"]][-4:] == [o.name for o in COMMON_OPTIONS]


def test_the_bytes_of_a_packet(run: Any) -> None:
    made = json.loads(run("formats", "nrep", "--type", "hello", "--json").stdout)
    (hello,) = made["types"]
    assert hello["fields"][2] == {
        "offset": "2",
        "size": "4",
        "field": "nonce",
        "meaning": "chosen by the asking side, echoed in the answer",
    }
    for code in ("3", "0x3"):
        assert "HELLO" in run("formats", "nrep", "--type", code).stdout
    rows = list(csv.DictReader(io.StringIO(run("formats", "nrep", "--csv").stdout)))
    assert rows[0].keys() == {"code", "type", "offset", "size", "field", "meaning"}
    assert len({row["type"] for row in rows}) == len(get("nrep").types())


def test_types_without_a_byte_table_have_a_row_each(run: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(run("formats", "tibmsg", "--csv").stdout)))
    assert {row["type"] for row in rows} == {info.name for info in get("tibmsg").types()}


def test_wrong_names_are_usage(run: Any) -> None:
    assert "is not one of" in run("formats", "nosuch", code=2).stderr
    assert "it has DISCOVER," in run("formats", "nrep", "--type", "nosuch", code=2).stderr
    assert "needs the NAME" in run("formats", "--type", "HELLO", code=2).stderr


def test_a_default_that_json_has_no_word_for_is_text() -> None:
    assert formats._default(Option("x", "", default=b"a")) == "b'a'"
    assert formats._default(Option("x", "", default=7)) == 7
