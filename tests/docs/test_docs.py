"""The documentation says what the code does."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from wireloom import cli
from wireloom.formats import get, names
from wireloom.tables import table, table_names

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"
MADE = (
    "blaze-broker-reference.md",
    "cli.md",
    "nais-settings.md",
    "nrep-entry-point-reference.md",
    "tables.md",
)
PAGES = [README, *sorted(path for path in DOCS.glob("*.md") if path.name not in MADE)]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """docs/generate.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of that language on a page."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_python_examples_on_the_page_work(page: Path) -> None:
    # Together, as one session: a reader goes from top to bottom.
    text = "\n".join(blocks(page, "pycon"))
    session = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_on_the_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what one command writes, the next may read
    same = doctest.OutputChecker().check_output
    for block in blocks(page, "console"):
        for shown in re.split(r"^\$ ", block, flags=re.MULTILINE):
            line, _, expected = shown.partition("\n")
            program, *arguments = shlex.split(line, comments=True) or [""]
            if program == "wireloom":
                result = CliRunner().invoke(cli.main, arguments)
                assert result.exit_code in {0, 1}, result.output
                both = (f"{text.rstrip()}\n" for text in (expected, result.output))
                assert not expected or same(*both, doctest.ELLIPSIS), result.output


@pytest.mark.parametrize("name", names())
def test_page_of_a_format_has_its_specification_options_and_types(
    name: str, generate: ModuleType
) -> None:
    format_ = get(name)
    page = generate.format_page(format_)
    assert page.startswith("# ")
    assert all(f"`{option.name}`" in page for option in format_.options)
    assert all(info.name in page for info in format_.types())


def test_page_of_all_formats_names_each(generate: ModuleType) -> None:
    known = [get(name) for name in names()]
    page = generate.formats_page(known)
    assert all(f"[{f.title}]({f.name}.md)" in page and f.summary in page for f in known)


def test_command_page_names_every_command_and_option(generate: ModuleType) -> None:
    page = generate.cli_page()
    context = click.Context(cli.main, info_name="wireloom")
    commands = cli.main.list_commands(context)
    assert commands
    for name in commands:
        command = cli.main.get_command(context, name)
        assert command is not None
        assert f"## wireloom {name}\n" in page
        section = page.partition(f"## wireloom {name}\n")[2].partition("\n## ")[0]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert all(option in section for option in parameter.opts)


def test_page_of_tables_names_every_table_and_column(generate: ModuleType) -> None:
    page = generate.tables_page()
    for name in table_names():
        section = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert all(f"| `{column}` |" in section for column in table(name).names)


def test_page_of_an_entry_point_names_every_setting_metric_and_reason(generate: ModuleType) -> None:
    from wireloom.formats.nrep.extensions import Reason
    from wireloom.services._shell.settings import options
    from wireloom.services.nrep.metrics import METRICS
    from wireloom.services.nrep.settings import EntryPointSettings

    page = generate.entry_point_page()
    assert all(f"| `{option.path}` |" in page for option in options(EntryPointSettings))
    assert all(f"| `wireloom_nrep_{metric.name}" in page for metric in METRICS)
    assert all(f"| `{reason.name.lower()}` |" in page for reason in Reason)


def test_page_of_a_junction_names_every_setting_metric_and_reason(generate: ModuleType) -> None:
    from wireloom.formats.nais.counters import DROPS
    from wireloom.services._shell.settings import options
    from wireloom.services.nais.metrics import METRICS, PREFIX
    from wireloom.services.nais.settings import JunctionSettings, LineSettings

    page = generate.nais_settings_page()
    for cls in (JunctionSettings, LineSettings):
        assert all(f"| `{option.path}` |" in page for option in options(cls))
    assert all(f"| `{PREFIX}{info.name}" in page for info in METRICS)
    assert all(f"| `{reason}` |" in page for reason in DROPS)


def test_a_cell_of_a_table_stays_one_cell(generate: ModuleType) -> None:
    assert generate.cell("a | b\nc") == "a \\| b c"


def test_reference_of_the_broker_has_its_settings_metrics_and_codes(generate: ModuleType) -> None:
    from wireloom.services._shell.settings import options
    from wireloom.services.blaze.declared import METRICS
    from wireloom.services.blaze.settings import BrokerSettings

    page = generate.broker_page()
    assert all(f"`{option.path}`" in page for option in options(BrokerSettings))
    assert all(f"`wireloom_blaze_{name}" in page for name in METRICS)
    assert "| BLZCOD | 203 |" in page
