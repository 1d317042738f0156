"""``wireloom sql``: queries on a lake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._input import PathOrDash, open_binary
from wireloom.cli._lake import spark_session
from wireloom.cli._options import OutputOptions, output_options, suffix_of
from wireloom.cli._output import binary_output
from wireloom.cli._sinks import open_sink
from wireloom.errors import OptionError, StateError
from wireloom.view import escape

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from wireloom.lake import Lake

__all__ = ["command"]

_BATCH = 1024


@click.command(
    cls=Command,
    epilog=examples(
        'wireloom sql lake "select type_name, count(*) from frames group by 1 order by 2 desc"',
        'wireloom sql lake "select * from errors limit 10" --json',
        'wireloom sql lake "select date, count(*) from fields group by date" --engine spark',
        "wireloom sql lake - < report.sql",
        "wireloom sql lake --file report.sql --csv -o report.csv",
        'wireloom sql lake "select stream, gaps.offset, length from gaps" -o gaps.parquet',
    ),
)
@click.argument("lake", type=click.Path(exists=True, file_okay=False))
@click.argument("query", required=False)
@click.option(
    "--file",
    "file",
    type=PathOrDash(exists=True, dir_okay=False),
    help="Read the query from this file; - is stdin.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "duckdb"]),
    default="auto",
    show_default=True,
    help="auto: DuckDB where it is installed, else Spark.",
)
@click.option("--master", metavar="URL", help="Where Spark runs; this machine if left out.")
@click.option("-q", "--quiet", is_flag=True, help="Do not say which engine answered.")
@output_options("table", files=True)
def command(
    lake: str,
    query: str | None,
    file: str | None,
    engine: str,
    master: str | None,
    quiet: bool,
    writing: OutputOptions,
) -> None:
    """Query a lake with SQL.

    Its tables have the names that `wireloom tables` lists. A QUERY of - is read from stdin. Several
    statements are divided by semicolons, and the last one answers. The dialect is that of the
    engine, which is named on stderr; --engine makes sure of it.

    Two columns have names that DuckDB takes for words of its own: write gaps.offset and
    nrep.trailing, with the table before them, or put them in double quotes.
    """
    from wireloom.lake import Lake

    text = _text(query, file)
    _statements(text)  # an empty one needs no engine to be refused
    opened = Lake(lake)
    if engine == "auto":
        engine = "duckdb" if find_spec("duckdb") else "spark"
    ask = _duckdb if engine == "duckdb" else _spark
    if writing.is_binary:
        _write_file(writing, ask(opened, text, master, True))
    else:
        rows = ask(opened, text, master, False)
        names = next(rows)
        with open_sink(writing, list(names)) as sink:
            for row in rows:
                sink.write(row)
    if not quiet:
        click.echo(f"answered by {'DuckDB' if engine == 'duckdb' else 'Spark'}", err=True)


def _write_file(writing: OutputOptions, found: Iterator[Any]) -> None:
    """Write the answer as a Parquet or Arrow file, with the types that it has.

    Raises:
        ClickException: there are no columns, or they have types that such a file cannot hold.
    """
    import pyarrow as pa

    from wireloom.cli._parquet import write_batches

    schema = next(found)
    if not schema:
        raise click.ClickException("the last statement has no answer to write")
    with binary_output(writing.path, writing.force) as stream:
        try:
            write_batches(stream, suffix_of(writing.path), schema, found)
        except pa.ArrowException as error:
            raise _refused(f"{writing.path}: {error}") from error


def _text(query: str | None, file: str | None) -> str:
    """The query, from the argument, a file or stdin.

    Raises:
        UsageError: it is given twice or not at all, or is not text.
    """
    if (query is None) == (file is None):
        raise click.UsageError("give one QUERY, or --file with one")
    if query is not None and query != "-":
        return query
    with open_binary(file or "-") as stream:
        try:
            return stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"the query is not UTF-8 text: {error.reason}") from None


_PART = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*'? | "(?:[^"\\]|\\.|"")*"? | `[^`]*`?    # texts and names in quotes
    | --[^\n]* | /\*.*?(?:\*/|\Z)                              # remarks
    | ; | [^;'"`/-]+ | [/-]
    """,
    re.VERBOSE | re.DOTALL,
)


def _statements(text: str) -> list[str]:
    """The statements of a text, split at semicolons outside of quotes and comments.

    Quotes are those of Spark, which takes one statement at a time. DuckDB splits them itself.

    Raises:
        UsageError: there are none.
    """
    found, parts, is_empty = [], [], True
    for part in [*_PART.findall(text), ";"]:
        if part != ";":
            parts.append(part)
            is_empty = is_empty and (not part.strip() or part.startswith(("--", "/*")))
            continue
        if not is_empty:
            found.append("".join(parts).strip())
        parts, is_empty = [], True
    if not found:
        raise click.UsageError("the query is empty")
    return found


def _refused(text: str) -> click.ClickException:
    """An engine's complaint about a query, in its own lines: it points at places in them."""
    return click.ClickException("\n".join(map(escape, text.splitlines())))


def _duckdb(lake: Lake, text: str, _: str | None, is_arrow: bool) -> Iterator[Any]:
    """The names of the columns, then the rows; or the schema, then record batches.

    Raises:
        StateError: DuckDB is not installed.
        ClickException: it does not understand the query.
    """
    import pyarrow as pa

    try:
        import duckdb
    except ImportError as error:
        raise StateError("duckdb is not installed: pip install 'wireloom[duckdb]'") from error

    from wireloom.lake import dataset

    # In a thread: while this one waits in compiled code, it does not hear Ctrl-C.
    with duckdb.connect() as database, ThreadPoolExecutor(1) as pool:

        def wait_for(work: Callable[..., Any], *given: Any) -> Any:
            try:
                return pool.submit(work, *given).result()
            except KeyboardInterrupt:
                database.interrupt()
                raise

        database.execute("set timezone = 'UTC'")
        for name in lake.tables:
            database.register(name, dataset(lake, name))
        try:
            *first, last = (each.query for each in database.extract_statements(text))
            for statement in first:
                wait_for(database.execute, statement)
                while database.description and wait_for(database.fetchmany, _BATCH):
                    pass  # a result must be taken before the next statement
            try:
                found: DuckDBPyRelation | None = wait_for(database.sql, last)
            except (duckdb.BinderException, duckdb.CatalogException):
                wait_for(database.execute, last)  # fails, too, but says where
                raise
            if found is None:  # such as "create table": nothing to show
                yield []
                return
            reader = wait_for(found.to_arrow_reader, _BATCH)
            names = _unlike(reader.schema.names)
            fields = zip(reader.schema, names, strict=True)
            schema = pa.schema([field.with_name(name) for field, name in fields])
            yield schema if is_arrow else names
            while (raw := wait_for(next, reader, None)) is not None:
                batch = raw.rename_columns(names)
                yield from [batch] if is_arrow else (_plain(row) for row in batch.to_pylist())
        except (duckdb.Error, pa.ArrowException) as error:
            # Also while rows come: a value that cannot be cast is only found then.
            raise _refused(str(error)) from error


def _spark(lake: Lake, text: str, master: str | None, is_arrow: bool) -> Iterator[Any]:
    """The names of the columns, then the rows; or the schema, then record batches.

    Raises:
        OptionError: the master is ``none``.
        ClickException: Spark does not understand the query.
    """
    from pyspark.errors import PySparkException

    from wireloom.spark.lake import register_tables

    with spark_session(master or "local[*]", "wireloom sql") as spark:
        if spark is None:
            raise OptionError("this needs Spark, or DuckDB: --engine duckdb")
        register_tables(spark, lake)
        try:
            *first, last = _statements(text)
            for statement in first:
                spark.sql(statement)
            found = spark.sql(last)
            found = found.toDF(*_unlike(found.columns))
            if is_arrow:
                table = found.toArrow()
                yield table.schema
                yield from table.to_batches()
                return
            yield found.columns
            for row in found.toLocalIterator():
                yield _plain(row.asDict(recursive=True))
        except PySparkException as error:
            raise _refused(str(error).partition("\n\nJVM")[0]) from error


def _unlike(names: list[str]) -> list[str]:
    """The names, with a number behind each that was there before: a row is kept by its names."""
    found: dict[str, None] = {}
    for name in names:
        new, number = name, 0
        while new in found or (number and new in names):
            number += 1
            new = f"{name}_{number}"
        found[new] = None
    return list(found)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with values that all sinks write."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float, str, list, dict)):
        return value
    return value.isoformat(" ") if hasattr(value, "hour") else str(value)
