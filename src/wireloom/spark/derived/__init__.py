"""Tables derived from tables: dialogues, sockets, images and bars, in plain Spark.

Each is a function of the base tables and a declaration of its columns, one module each. `derive`
returns one as a data frame; `wireloom.spark.derived.store` keeps them in a lake.

>>> derived_names()[0]
'blaze_transactions'
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from wireloom.errors import OptionError, StateError
from wireloom.lake import Lake
from wireloom.spark.derived import (
    bars,
    blaze_objects,
    blaze_subscriptions,
    blaze_transactions,
    last_values,
    nais_exchanges,
    nrep_sockets,
)
from wireloom.spark.derived.common import Tables
from wireloom.spark.lake import read_table
from wireloom.spelling import missing
from wireloom.tables import Table, spark_ddl
from wireloom.tables import table as base_table

__all__ = ["Recipe", "derive", "derived_names", "derived_table", "recipe", "tables_of"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a derived table is made."""

    table: Table
    make: Callable[..., DataFrame]
    needs: str
    """The base table without which there is nothing to make."""
    uses: tuple[str, ...] = ()
    """Base tables that it also uses, if they exist."""

    @property
    def options(self) -> dict[str, Any]:
        """Its options with their defaults; `Parameter.empty` for one that must be given."""
        known = list(signature(self.make).parameters.values())[1:]
        return {each.name: each.default for each in known}

    @property
    def required(self) -> tuple[str, ...]:
        """The options that must be given."""
        return tuple(name for name, value in self.options.items() if value is Parameter.empty)


_RECIPES: Final = {
    each.table.name: each
    for each in (
        Recipe(blaze_transactions.TABLE, blaze_transactions.blaze_transactions, "blaze", ("gaps",)),
        Recipe(
            blaze_subscriptions.TABLE, blaze_subscriptions.blaze_subscriptions, "blaze", ("gaps",)
        ),
        Recipe(blaze_objects.TABLE, blaze_objects.blaze_objects, "blaze", ("gaps", "errors")),
        Recipe(nais_exchanges.TABLE, nais_exchanges.nais_exchanges, "nais", ("gaps",)),
        Recipe(nrep_sockets.TABLE, nrep_sockets.nrep_sockets, "nrep", ("gaps",)),
        Recipe(last_values.TABLE, last_values.last_values, "fields", ("gaps", "errors")),
        Recipe(bars.TABLE, bars.bars, "fields"),
    )
}


def derived_names() -> tuple[str, ...]:
    """The names of the derived tables."""
    return tuple(_RECIPES)


def recipe(name: str) -> Recipe:
    """How a derived table is made.

    Raises:
        OptionError: there is no such table.
    """
    if name not in _RECIPES:
        raise OptionError(missing("derived table", name, tuple(_RECIPES)))
    return _RECIPES[name]


def derived_table(name: str) -> Table:
    """The columns of a derived table.

    Raises:
        OptionError: there is no such table.
    """
    return recipe(name).table


def derive(name: str, tables: Tables | Lake | str | os.PathLike[str], **options: Any) -> DataFrame:
    """A derived table.

    Args:
        name: one of `derived_names`.
        tables: a lake or its folder, which the active session reads; or the base tables: a mapping
            by name, or a function that returns the table of a name. `gaps` and `errors` may be
            missing in a mapping; then nothing is doubtful or stale.
        options: those of the table's own function.

    Raises:
        OptionError: there is no such table or option, or a base table is missing.
        LakeError: there is no such lake.
        StateError: a lake was given, but Spark is not running.
    """
    found = recipe(name)
    known = found.options
    if unknown := sorted(set(options) - set(known)):
        raise OptionError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known)}")
    if missing := [each for each in found.required if each not in options]:
        raise OptionError(f"{name} needs the option {missing[0]!r}")
    if isinstance(tables, (str, os.PathLike, Lake)):
        spark = SparkSession.getActiveSession()
        if spark is None:
            raise StateError("Spark is not running; wireloom.spark.session() starts it")
        tables = tables_of(spark, tables)
    return found.make(tables, **options)


def tables_of(spark: SparkSession, lake: Lake | str | os.PathLike[str]) -> Tables:
    """The tables of a lake; one that it was never to write is empty.

    Raises:
        LakeError: there is no such lake.
    """
    opened = lake if isinstance(lake, Lake) else Lake(lake)

    def give(name: str) -> DataFrame:
        if name in opened.tables:
            return read_table(spark, opened, name)
        return spark.createDataFrame([], spark_ddl(base_table(name)))

    return give
