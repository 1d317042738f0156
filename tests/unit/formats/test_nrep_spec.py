from __future__ import annotations

import inspect
import re
from pathlib import Path

from wireloom.formats import nrep
from wireloom.layout import describe

SPEC = Path(inspect.getfile(nrep)).with_name("SPEC.md")


def render(rows: list[tuple[str, str, str, str]]) -> str:
    lines = [("offset", "size", "field", "meaning"), ("---",) * 4, *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def expected_tables() -> dict[str, str]:
    """The header once, then what each packet has behind it."""
    tables = {"HEADER": render(describe(nrep.Hello)[:4])}
    return tables | {cls.name: render(describe(cls)[4:]) for cls in nrep.PACKETS.values()}


def test_the_byte_tables_are_those_of_the_declaration() -> None:
    text = SPEC.read_text("utf-8")
    found = dict(re.findall(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL))
    assert found == expected_tables()


def test_every_erratum_and_every_error_code_is_listed() -> None:
    text = SPEC.read_text("utf-8")
    assert re.findall(r"^\| (E\d+) \|", text, re.MULTILINE) == [f"E{i}" for i in range(1, 26)]
    documented = re.findall(r"``(\w+)``", nrep.Nrep.decode.__doc__ or "")
    assert documented
    assert all(f"`{code}`" in text for code in documented)
