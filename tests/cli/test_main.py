"""The command as a whole: help, snapshots, exit status."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest

from wireloom import cli
from wireloom.errors import DecodeError, OptionError

SNAPSHOTS = Path(__file__).parent / "snapshots"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its words: `dict show`."""
    todo: list[tuple[str, click.Command, click.Context]] = []
    todo.append(("", cli.main, click.Context(cli.main, info_name="wireloom")))
    while todo:
        words, command, context = todo.pop()
        yield words.strip(), command
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                inner = click.Context(child, parent=context, info_name=name)
                todo.append((f"{words} {name}", child, inner))


COMMANDS = dict(commands())


def test_every_file_is_a_command() -> None:
    files = Path(cli.__file__).parent.glob("[!_]*.py")
    assert sorted(path.stem for path in files) == cli.main.list_commands(click.Context(cli.main))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("decod", "no command 'decod' (is it decode?); there are blaze, "),
        ("blaze sbu", "no command 'sbu' (is it sub?); there are "),
        ("serve blaez", "no command 'blaez' (is it blaze?); there are blaze, nais, nrep"),
        ("zzz", "no command 'zzz'; there are blaze, "),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(
    words: str, says: str, run: Callable[..., Any]
) -> None:
    assert says in run(*words.split(), code=2).stderr


@pytest.mark.parametrize("words", COMMANDS)
def test_help_is_as_recorded(words: str, run: Callable[..., Any]) -> None:
    # To renew a snapshot after reading the difference: SNAPSHOTS=write ./run test tests/cli
    shown = run(*words.split(), "--help").stdout
    path = SNAPSHOTS / f"{words.replace(' ', '-') or 'wireloom'}.txt"
    if os.environ.get("SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text("utf-8")


def test_no_snapshot_is_left_over() -> None:
    names = {words.replace(" ", "-") or "wireloom" for words in COMMANDS}
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == names


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_has_help_and_an_example(words: str) -> None:
    command = COMMANDS[words]
    assert command.help
    assert re.search(rf"^ *.*wireloom {words}", command.epilog or "", re.MULTILINE)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_version(run: Callable[..., Any]) -> None:
    assert run("--version").stdout == f"wireloom {version('wireloom')}\n"


def test_short_help_option(run: Callable[..., Any]) -> None:
    assert run("-h").stdout == run("--help").stdout


def test_it_runs_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["x", "--version"])
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "")  # it is set for the program, and undone here
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("wireloom.cli", run_name="__main__")
    assert exit_.value.code == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    assert capsys.readouterr().out.startswith("wireloom ")


def test_stdout_may_be_any_text_stream() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        cli.main.main(["formats", "nrep", "--json"], standalone_mode=False)
    assert out.getvalue().startswith("{")


@pytest.mark.parametrize("words", [["nosuch"], ["decode", "--nosuch"], ["verify"]])
def test_wrong_usage_exits_with_2(words: list[str], run: Callable[..., Any]) -> None:
    assert "Usage: wireloom" in run(*words, code=2).stderr


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OptionError("no such \x1boption"), 2, "no such \\x1boption"),
        (DecodeError("bad \x1bbyte", offset=3), 1, "Error: bad \\x1bbyte (at byte 3)"),
        (
            PermissionError(13, "Permission denied", "some\nfile"),
            1,
            "some\\nfile: Permission denied",
        ),
        (OSError("strange"), 1, "Error: strange"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_errors_become_a_line_and_an_exit_status(
    error: BaseException,
    code: int,
    says: str,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(COMMANDS["formats"], "callback", fail)
    result = run("formats", code=code)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr
    assert says in result.stderr
    assert says or not result.stderr


@pytest.mark.parametrize(
    ("words", "option", "incomplete", "found"),
    [
        ("decode", "tables", "fields,g", ["fields,gaps"]),
        ("decode", "tables", "wid", ["wide"]),
        ("decode", "formats", "nrep,n", ["nrep,nais"]),
        ("stat", "formats", "ti", ["tibmsg", "tibrv"]),
        ("generate", "formats", "blaze,q", ["blaze,qform", "blaze,qform-in-blaze"]),
    ],
)
def test_lists_are_completed(words: str, option: str, incomplete: str, found: list[str]) -> None:
    command = COMMANDS[words]
    context = click.Context(command)
    (parameter,) = (each for each in command.params if each.name == option)
    items = parameter.type.shell_complete(context, parameter, incomplete)
    assert [item.value for item in items] == found


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [("pipeline", "--out", "--output"), ("generate", "--format", "--formats")],
)
def test_older_spellings_work_but_are_not_shown(
    run: Callable[..., Any], tmp_path: Path, words: str, old: str, new: str
) -> None:
    assert not re.search(rf"{old}\b(?!s)", run(words, "--help").stdout)
    assert new in run(words, "--help").stdout
    made = tmp_path / "made.bin"
    run(
        "generate", "-o", made, old if words == "generate" else "--formats", "nrep", "--messages", 5
    )
    lake = old if words == "pipeline" else "--output"
    run("pipeline", made, lake, tmp_path / "lake", "--master", "none")


def test_one_thing_has_one_spelling_in_all_commands() -> None:
    kinds: dict[str, set[str]] = {}
    for words, command in commands():
        for each in command.params:
            if isinstance(each, click.Option):
                for name in each.opts:
                    kinds.setdefault(name, set()).add(f"{each.name}{each.multiple}")
                    assert name != "--out", words
    # A short name stands for one long name only.
    assert len(kinds["-f"]) == len(kinds["-n"]) == len(kinds["-q"]) == 1
