from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODEL = """@model_name "fleet"
enum GAUGE
{
    GAUGE_Off = 0 "not lit"
}
@namespace "base"
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label
    @persistent
}
@namespace_end
nclass TRUCK
{
    @id 302
    uint_32 truck_id "the number"
    POINT at
    GAUGE g
    @key primary
    @id 1
    @fldset {truck_id}
    @key_end
    @key
    @id 2
    @fldset {truck_id, g}
    @key_end
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.blz"
    path.write_text(MODEL)
    return path


def test_check_is_quiet_about_a_good_model(run: Any, model: Path) -> None:
    result = run("model", "check", model)
    assert result.stdout == ""
    assert result.stderr == f"{model}: 2 classes, 1 enums, nothing wrong\n"


def test_check_names_file_and_line(run: Any, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.blz"
    bad.write_text(model.read_text("utf-8") + "\nnonsense\x1b\n", encoding="utf-8")
    number = len(bad.read_text("utf-8").splitlines())
    result = run("model", "check", bad, model, code=1)
    assert result.stdout.startswith(f"{bad}:{number}: ")
    assert "\x1b" not in result.stdout
    assert str(model) in result.stderr
    assert f"{bad}:{number}: " in run("model", "show", bad, code=1).stderr


def test_show_has_a_row_for_each_field(run: Any, model: Path) -> None:
    shown = run("model", "show", model).stdout.splitlines()
    assert shown[0].split() == ["kind", "name", "id", "member", "type", "count", "key", "text"]
    assert shown[1].startswith("enum    GAUGE  0    GAUGE_Off")
    rows = list(csv.DictReader(io.StringIO(run("model", "show", "--csv", model).stdout)))
    assert [row["member"] for row in rows if row["name"] == "TRUCK"] == ["truck_id", "at", "g"]
    assert [row["key"] for row in rows if row["name"] == "TRUCK"] == ["primary 2", "", "2"]


def test_show_as_json_has_an_object_for_each_class(run: Any, model: Path) -> None:
    rows = [json.loads(line) for line in run("model", "show", "--json", model).stdout.splitlines()]
    assert rows[1] == {
        "kind": "nclass",
        "name": "POINT",
        "namespace": "base",
        "id": 301,
        "persistent": True,
        "fields": [
            {"name": "x", "type": "int_32"},
            {"name": "y", "type": "int_32"},
            {"name": "label", "type": "ascii[6]"},
        ],
    }
    assert rows[0]["members"][0]["value"] == 0
    assert rows[2]["keys"][0] == {"id": 1, "primary": True, "fields": ["truck_id"]}


def test_show_one_entity(run: Any, model: Path) -> None:
    shown = run("model", "show", model, "--name", "GAUGE").stdout
    assert len(shown.splitlines()) == 2
    assert "it has GAUGE, POINT, TRUCK" in run("model", "show", model, "--name=x", code=2).stderr


def test_a_stub_and_a_module_beside_it(run: Callable[..., Any], tmp_path: Path) -> None:
    model = tmp_path / "models" / "fleet.blz"
    model.parent.mkdir()
    model.write_text("nclass POINT\n{\n@id 1\nint_32 x\n}\n")
    shown = run("model", "stub", model).stdout
    assert "class POINT(ModelObject):\n    x: int\n" in shown
    out = tmp_path / "fleet.pyi"
    run("model", "stub", model, "-o", out, "--module")
    assert out.read_text() == shown
    assert "install(__name__, 'models/fleet.blz')" in out.with_suffix(".py").read_text()
    assert "exists" in run("model", "stub", model, "-o", out, code=2).stderr
    assert ".pyi" in run("model", "stub", model, "-o", tmp_path / "fleet.txt", code=2).stderr
    assert "--output" in run("model", "stub", model, "--module", code=2).stderr
