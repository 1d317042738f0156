"""Tables made of tables: dialogues, sockets, images and bars, in plain Spark.

Each is a function of the base tables and a declaration of its columns, one module each.

>>> derived_names()[0]
'blaze_transactions'
"""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import signature
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
from wireloom.tables import Table, spark_ddl
from wireloom.tables import table as base_table

__all__ = ["derive", "derived_names", "derived_table"]

_DERIVED: Final[dict[str, tuple[Table, Callable[..., DataFrame]]]] = {
    "blaze_transactions": (blaze_transactions.TABLE, blaze_transactions.blaze_transactions),
    "blaze_subscriptions": (blaze_subscriptions.TABLE, blaze_subscriptions.blaze_subscriptions),
    "blaze_objects": (blaze_objects.TABLE, blaze_objects.blaze_objects),
    "nais_exchanges": (nais_exchanges.TABLE, nais_exchanges.nais_exchanges),
    "nrep_sockets": (nrep_sockets.TABLE, nrep_sockets.nrep_sockets),
    "last_values": (last_values.TABLE, last_values.last_values),
    "bars": (bars.TABLE, bars.bars),
}


def derived_names() -> tuple[str, ...]:
    """The names of the derived tables."""
    return tuple(_DERIVED)


def derived_table(name: str) -> Table:
    """The columns of a derived table.

    Raises:
        OptionError: there is no such table.
    """
    return _found(name)[0]


def derive(name: str, tables: Tables | Lake | str | os.PathLike[str], **options: Any) -> DataFrame:
    """A derived table.

    Args:
        name: one of `derived_names`.
        tables: a lake or its folder, which the active session reads; or the base tables: a mapping
            of names, or a function that gives the table of a name. `gaps` and `errors` may be
            missing in a mapping; then nothing is doubtful or stale.
        options: those of the table's own function.

    Raises:
        OptionError: there is no such table or option, or a base table is missing.
        LakeError: there is no such lake.
        StateError: Spark is not running, and so cannot read a lake.
    """
    make = _found(name)[1]
    known = list(signature(make).parameters)[1:]
    if unknown := sorted(set(options) - set(known)):
        raise OptionError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known)}")
    if isinstance(tables, (str, os.PathLike, Lake)):
        tables = _of_lake(tables)
    return make(tables, **options)


def _of_lake(lake: Lake | str | os.PathLike[str]) -> Tables:
    """The tables of a lake; those that it does not have, because nothing was in them, are empty."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise StateError("Spark is not running; wireloom.spark.session() starts it")
    opened = lake if isinstance(lake, Lake) else Lake(lake)

    def give(name: str) -> DataFrame:
        if name in opened.tables:
            return read_table(spark, opened, name)
        return spark.createDataFrame([], spark_ddl(base_table(name)))

    return give


def _found(name: str) -> tuple[Table, Callable[..., DataFrame]]:
    if name not in _DERIVED:
        raise OptionError(f"no derived table {name!r}; there are {', '.join(_DERIVED)}")
    return _DERIVED[name]
