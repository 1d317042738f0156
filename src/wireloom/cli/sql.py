"""``wireloom sql``: a question to a lake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._lake import spark_session
from wireloom.cli._options import OutputOptions, output_options
from wireloom.cli._sinks import open_sink
from wireloom.errors import OptionError, StateError, WireloomError

if TYPE_CHECKING:
    from wireloom.lake import Lake

__all__ = ["command"]

_SMALL = 2 << 30
"""Bytes of the tables that are asked, up to which DuckDB answers before Spark has started."""
_BATCH = 1024


@click.command(
    cls=Command,
    epilog=examples(
        'wireloom sql lake "select type_name, count(*) from frames group by 1 order by 2 desc"',
        'wireloom sql lake "select * from errors limit 10" --json',
        'wireloom sql lake "select date, count(*) from fields group by date" --engine spark',
    ),
)
@click.argument("lake", type=click.Path(exists=True, file_okay=False))
@click.argument("query")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "duckdb"]),
    default="auto",
    show_default=True,
    help="auto: DuckDB for small tables, if it is installed, else Spark.",
)
@click.option("--master", metavar="URL", help="Where Spark runs; this machine if left out.")
@output_options("table")
def command(lake: str, query: str, engine: str, master: str | None, writing: OutputOptions) -> None:
    """Ask a lake in SQL.

    Its tables have the names that `wireloom tables` lists.
    """
    from wireloom.lake import Lake

    opened = Lake(lake)
    if engine == "auto":
        engine = "duckdb" if _is_small(opened, query) and find_spec("duckdb") else "spark"
    rows = _duckdb(opened, query) if engine == "duckdb" else _spark(opened, query, master)
    names = next(rows)
    with open_sink(writing, list(names)) as sink:
        for row in rows:
            sink.write(row)


def _is_small(lake: Lake, query: str) -> bool:
    words = set(re.findall(r"\w+", query.lower()))
    return sum(file.bytes for file in lake.state.files.values() if file.table in words) < _SMALL


def _duckdb(lake: Lake, query: str) -> Iterator[Any]:
    """The names of the columns, then the rows.

    Raises:
        StateError: DuckDB is not installed.
        WireloomError: it does not understand the query.
    """
    try:
        import duckdb
    except ImportError as error:
        raise StateError("duckdb is not installed: pip install 'wireloom[duckdb]'") from error

    from wireloom.lake import dataset

    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for name in lake.tables:
            database.register(name, dataset(lake, name))
        try:
            found = database.sql(query).to_arrow_reader(_BATCH)
        except duckdb.Error as error:
            raise WireloomError(str(error)) from error
        yield found.schema.names
        for batch in found:
            yield from (_plain(row) for row in batch.to_pylist())


def _spark(lake: Lake, query: str, master: str | None) -> Iterator[Any]:
    """The names of the columns, then the rows.

    Raises:
        OptionError: the master is ``none``.
        WireloomError: Spark does not understand the query.
    """
    from pyspark.errors import PySparkException

    from wireloom.spark.lake import register_tables

    with spark_session(master or "local[*]", "wireloom sql") as spark:
        if spark is None:
            raise OptionError("this needs Spark, or DuckDB: --engine duckdb")
        register_tables(spark, lake)
        try:
            found = spark.sql(query)
        except PySparkException as error:
            raise WireloomError(str(error).partition("\n\nJVM")[0]) from error
        yield found.columns
        for row in found.toLocalIterator():
            yield _plain(row.asDict(recursive=True))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with values that all sinks write."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return value
    return value.isoformat(" ") if hasattr(value, "hour") else str(value)
