"""A new format is one folder and one line in the registry; all the rest follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import wireloom
from wireloom.cli import main
from wireloom.formats import REGISTRY, _load, get
from wireloom.testing import conformance
from wireloom.testing.strategies.declared import packet_classes

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(HERE))  # where the folder is
    monkeypatch.setitem(REGISTRY, "toy", "toy_format")  # the line
    yield
    _load.cache_clear()


def test_it_is_one_of_the_formats() -> None:
    assert "toy" in wireloom.formats()


def test_the_public_functions_know_it() -> None:
    for data in get("toy").samples().values():
        assert wireloom.detect(data) == "toy"
        message = wireloom.decode(data)
        assert wireloom.encode(message) == data
        assert wireloom.from_dict(message.to_dict()) == message
        assert [frame.data for frame in wireloom.scan(data * 3, "toy")] == [data] * 3
        assert wireloom.outline(data).name == message.type_name


@pytest.mark.parametrize("check", conformance.SAMPLE_CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_samples_run_on_it(check: conformance.SampleCheck) -> None:
    toy = get("toy")
    for name, data in toy.samples().items():
        check(toy, name, data)


@pytest.mark.parametrize("check", conformance.FORMAT_CHECKS, ids=lambda check: check.__name__)
def test_the_checks_of_formats_run_on_it(check: conformance.FormatCheck) -> None:
    check(get("toy"))


def test_strategies_know_its_packets() -> None:
    get("toy")
    assert [cls.name for cls in packet_classes("toy")] == ["SAY", "MOVE", "HOP", "MARK"]


def test_the_command_line_knows_it() -> None:
    listed = CliRunner().invoke(main, ["formats"])
    assert listed.exit_code == 0, listed.output
    assert "toy" in listed.output
    described = CliRunner().invoke(main, ["formats", "toy"])
    assert described.exit_code == 0, described.output
    assert "MOVE" in described.output
    data = get("toy").samples()["move"]
    decoded = CliRunner().invoke(main, ["decode", "--json", "-"], input=data)
    assert decoded.exit_code == 0, decoded.output
    assert '"colour"' in decoded.output


def test_the_documentation_has_a_page_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(HERE.parent.parent / "docs"))
    import generate  # type: ignore[import-not-found]

    generate.write_pages(tmp_path)
    page = (tmp_path / "formats" / "toy.md").read_text("utf-8")
    assert page.startswith("# Toy")
    assert "### MOVE" in page
    assert "| 5 | 2 | x | to the right |" in page
    assert "toy.md" in (tmp_path / "formats" / "index.md").read_text("utf-8")
