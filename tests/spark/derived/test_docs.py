"""The page on derived tables has the columns that the code declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "derived.md"


def test_the_page_lists_every_table_and_column() -> None:
    pytest.importorskip("pyspark")
    from wireloom.spark.derived import derived_names, derived_table
    from wireloom.tables import docs_rows

    shown = dict(
        re.findall(
            r"^<!-- table: (\w+) -->\n(.*?)^<!-- end -->$",
            PAGE.read_text("utf-8"),
            re.DOTALL | re.MULTILINE,
        )
    )
    assert set(shown) == set(derived_names())
    for name, text in shown.items():
        rows = docs_rows(derived_table(name))
        lines = ["| column | type | meaning |", "| --- | --- | --- |"]
        lines += [f"| `{column}` | {type} | {doc} |" for column, _, type, doc in rows]
        assert text == "\n".join(lines) + "\n", f"{name} should be:\n" + "\n".join(lines)
