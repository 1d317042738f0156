"""What the commands that make derived tables share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from wireloom.cli._lake import plain_table, size_text
from wireloom.cli._output import make_console, show

if TYPE_CHECKING:
    from wireloom.spark.derived.store import StoredTable

__all__ = ["derived_tables", "summarise_derived"]


def derived_tables(text: str | None) -> tuple[str, ...]:
    """The names in a list with commas; none of them means all tables.

    >>> derived_tables("bars, last_values"), derived_tables("all")
    (('bars', 'last_values'), ())
    """
    names = [name.strip() for name in (text or "all").split(",")]
    return () if names == ["all"] else tuple(name for name in names if name)


def summarise_derived(stored: Sequence[StoredTable]) -> None:
    """Show derived tables on stderr, and whether they are new."""
    if not stored:
        return
    made = plain_table("derived table", "rows", "files", "size", "made of", "")
    for each in stored:
        made.add_row(
            each.name,
            f"{each.rows:,}",
            f"{each.files:,}",
            size_text(each.bytes),
            f"commit {each.made_of}",
            "new" if each.is_new else "unchanged",
        )
    show(make_console(sys.stderr), made)
    if not any(each.is_new for each in stored):
        click.echo("nothing has changed since these were made", err=True)
