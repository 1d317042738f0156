"""Nothing outside a format's folder names a format: what others must know, it says itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import wireloom
from wireloom.formats import REGISTRY

SOURCE = Path(wireloom.__file__).parent
NAMES = {*REGISTRY, "nclass"}

# What may name formats, and why.
ALLOWED = {
    "formats/": "the formats themselves",
    "kernel/": "compiled walkers and frame rules, which formats ask for by number",
    "conversion/": "converts one given format into another",
    "generate/": "makes traffic of given formats",
    "services/": "live services speak one protocol each",
    "testing/": "vectors and strategies of given formats",
    "spark/derived/": "derived tables are about what one format's packets mean",
    "lake/layout.py": "says which derived tables have no days",
    "cli/dict.py": "a command about the dictionaries of one format",
    "cli/model.py": "a command about the models of one format",
    "cli/serve.py": "a group of commands, one for each live service",
    "cli/_serve_blaze.py": "one of these",
    "cli/_serve_nais.py": "one of these",
    "cli/_serve_nrep.py": "one of these",
    "cli/blaze.py": "commands about a live service",
    "cli/_blaze": "what these share",
    "cli/nais.py": "commands about a live service",
    "cli/_nais_board.py": "one of these",
    "cli/nrep.py": "commands about a live service",
    "demo/": "shows some of the formats at work",
}


def _code(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names, attributes, imports, and texts that are one word; not docstrings and prose."""
    prose = {
        id(item.value)
        for node in ast.walk(tree)
        if isinstance(body := getattr(node, "body", None), list)
        for item in body
        if isinstance(item, ast.Expr)
    }
    for node in ast.walk(tree):
        found: str | None = None
        if isinstance(node, ast.Name):
            found = node.id
        elif isinstance(node, ast.Attribute):
            found = node.attr
        elif isinstance(node, ast.alias):
            found = node.name
        elif isinstance(node, ast.ImportFrom):
            found = node.module
        elif isinstance(node, (ast.arg, ast.keyword)):
            found = node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found = node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_word = id(node) not in prose and not set(node.value) & set(" ,=")
            found = node.value if is_word else None
        if found:
            yield getattr(node, "lineno", 0), found


def _words(name: str) -> set[str]:
    """The words of a name: of ``Format_ofToyThing`` four, and ``toys`` is not ``toy``."""
    return {word.lower() for word in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z0-9]+", name)}


def _named(text: str) -> list[tuple[int, str]]:
    return [(line, found) for line, found in _code(ast.parse(text)) if _words(found) & NAMES]


def _files() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize(
    "line",
    [
        "from wireloom.formats import blaze",
        "from wireloom.formats.nais.schema import Reading",
        "x = settings.blaze_dialect",
        "if format == 'qform': pass",
        "class NrepThing: pass",
        "f(nclass=1)",
        "TIBRV_DIALECTS = ()",
        "ofNais = 1",
    ],
)
def test_a_name_in_code_is_found(line: str) -> None:
    assert _named(line)


def test_prose_may_name_formats() -> None:
    assert not _named('"""blaze"""\nhelp = "Formats of ports: 7001=blaze."  # nais\n')


def test_only_the_stated_places_name_a_format() -> None:
    found = {
        path: names
        for path in _files()
        if not path.startswith(tuple(ALLOWED))
        and (names := _named((SOURCE / path).read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize("place", ALLOWED)
def test_every_stated_place_needs_to_be_one(place: str) -> None:
    files = [path for path in _files() if path.startswith(place)]
    assert any(_named((SOURCE / path).read_text("utf-8")) for path in files)
