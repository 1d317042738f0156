"""Messages in a column of any DataFrame → rows: for data from other sources."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from wireloom.captures import NO_TIME, Counts, Stream, StreamData, StreamEnd
from wireloom.errors import OptionError
from wireloom.spark.schema import spark_schema
from wireloom.tables import arrow_schema, wide_column
from wireloom.tabulate import Settings, Tabulator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

__all__ = ["FUNCTION", "PayloadDecoder", "decode_column", "register_functions"]

FUNCTION: Final = "wireloom_decode"
"""Name of the function in SQL."""

_SAMPLE: Final = 1000
"""Values from which the types of wide columns are inferred."""

_NOT_HERE: Final = ("gaps", "accounting")
"""Tables about streams of captures, which a column does not have."""


class PayloadDecoder:
    """Decodes values of a binary column, each by itself: one or more frames, back to back."""

    def __init__(self, settings: Settings, table: str, name: str = "") -> None:
        """A decoder.

        Args:
            settings: with one format and one table.
            table: the table.
            name: the rows' `source`.
        """
        self._name = name
        self._table = table
        self._schema = arrow_schema(settings.table(table), spark=True)
        # A row's offset among all values shows which one it comes from.
        if table in settings.select and "frame_offset" not in settings.select[table]:
            select = {**settings.select, table: (*settings.select[table], "frame_offset")}
            settings = dataclasses.replace(settings, select=select)
        self._settings = settings
        self._tabulator = Tabulator(settings)
        self._count = 0

    def decode(
        self, values: pa.Array, ts_ns: pa.Array | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Batches of rows, and for each row which of the values it comes from.

        Args:
            values: binary; null and empty ones have no rows.
            ts_ns: their times; null if not known.

        Raises:
            DecodeError: something cannot be read, in the mode ``failfast``.
        """
        import numpy as np

        from wireloom.spark.planning import spark_batches

        kept = np.flatnonzero(_numbers(pc.greater(pc.binary_length(values), 0)))
        if not len(kept):
            return
        values = values.take(pa.array(kept))
        lengths = pc.binary_length(values)
        starts = np.concatenate([[0], np.cumsum(_numbers(lengths), dtype=np.int64)])
        data = b"".join(values.to_pylist())
        times = np.full(len(kept), NO_TIME, np.int64)
        if ts_ns is not None:
            times = _numbers(pc.fill_null(ts_ns.take(pa.array(kept)), NO_TIME)).astype(np.int64)
        # As datagrams: a frame never continues from one to the next.
        self._count += 1
        stream = Stream(self._count, "", "udp", self._name)
        marks = (memoryview(each.tobytes()).cast("q") for each in (starts[:-1], times))
        event = StreamData(stream, 0, memoryview(data), *marks)
        counts = Counts(len(kept), len(data), len(data))
        feed = self._tabulator.feed
        batches = [*feed(event), *feed(StreamEnd(stream, len(data), "end", counts))]
        batches += self._tabulator.flush()
        for batch in spark_batches(batches, self._settings, self._table):
            column = batch.schema.get_field_index("frame_offset")
            offsets = _numbers(batch.column(column))
            index = np.searchsorted(starts, offsets, side="right") - 1
            own = pa.array(offsets - starts[index])
            batch = batch.set_column(column, batch.schema.field(column), own)
            yield batch.select(self._schema.names), pa.array(kept[index])


def _numbers(column: pa.Array) -> Any:
    """As a numpy array; null is 0 or false."""
    return pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0).to_numpy(
        zero_copy_only=False
    )


def _settings(
    format: str,
    table: str,
    options: Mapping[str, Any],
    sample: Callable[[], bytes] | None = None,
) -> Settings:
    """The settings; `sample` gives some values, for wide columns without a type."""
    if table in _NOT_HERE:
        raise OptionError(f"{table} is about the streams of captures; a column has none")
    select = options.get("select")
    chosen = {**options, "select": {table: tuple(select)}} if select else dict(options)
    settings = Settings(formats=(format,)).changed(tables=(table,), **chosen)
    known = settings.field_types()
    unknown = [
        name
        for name, type in map(wide_column, settings.columns or ())
        if type is None and name not in known
    ]
    if unknown and sample is None:
        raise OptionError(
            f"{unknown[0]} needs a type, such as {unknown[0]}:decimal(18,4): its columns must be "
            "known before anything is read"
        )
    return settings.resolved([io.BytesIO(sample())] if unknown and sample is not None else ())


def decode_column(
    frame: DataFrame,
    column: str,
    *,
    format: str,
    table: str = "fields",
    keep: Sequence[str] | None = None,
    ts: str | None = None,
    **options: Any,
) -> DataFrame:
    """The rows of a table for the messages in a binary column: Kafka, Delta, JDBC, anything.

    ``decode_column(kafka, "value", format="tibmsg", table="wide", columns=("BID:double",))``

    Args:
        frame: the DataFrame, of a batch or a stream.
        column: its binary column; each value is one or more messages, back to back.
        format: what the values hold.
        table: which table the rows are of.
        keep: other columns to repeat in front of each row; all if not given.
        ts: a timestamp column with the time of each value.
        options: those of `wireloom.tabulate.Settings`, and `select`: columns of the table. Wide
            columns without a type get that of the dictionary, or of the first values; a stream has
            none yet, so its columns need types.

    Raises:
        OptionError: an option has a bad value, a type is missing, or two columns would have the
            same name.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    def sample() -> bytes:
        value = sql.col(f"`{column}`").cast("binary")
        found = frame.select(value.alias("__value")).where("__value is not null").limit(_SAMPLE)
        return b"".join(bytes(row[0]) for row in found.collect())

    settings = _settings(format, table, options, None if frame.isStreaming else sample)
    others = [name for name in frame.columns if name != column] if keep is None else list(keep)
    names = settings.table(table).names
    if both := sorted(set(others) & set(names)):
        raise OptionError(f"{both[0]} is also a column of {table}: rename it, or choose with keep")
    own = spark_schema(settings.table(table)).fields
    schema = StructType([*(frame.schema[name] for name in others), *own])
    inputs = [sql.col(f"`{name}`") for name in others]
    times = sql.lit(None).cast("long") if ts is None else sql.unix_micros(sql.col(f"`{ts}`")) * 1000
    chosen = frame.select(
        *inputs, sql.col(f"`{column}`").cast("binary").alias("__value"), times.alias("__ts_ns")
    )

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = PayloadDecoder(settings, table, column)
        for batch in batches:
            for rows, index in decoder.decode(batch.column("__value"), batch.column("__ts_ns")):
                kept = [batch.column(name).take(index) for name in others]
                yield pa.RecordBatch.from_arrays(
                    [*kept, *rows.columns], names=[*others, *rows.schema.names]
                )

    return chosen.mapInArrow(decode, schema)


# --- SQL ------------------------------------------------------------------------------------------


@lru_cache(8)
def _decoder(format: str, table: str, columns: str | None) -> PayloadDecoder:
    more = {"columns": columns} if columns else {}
    return PayloadDecoder(_settings(format, table, more), table)


class _Decode:
    """``wireloom_decode(payload, 'tibmsg', 'fields')``: the rows of one value.

    The third argument is the table, ``fields`` if not given; the fourth has the columns of
    ``wide``.
    """

    @staticmethod
    def analyze(
        payload: AnalyzeArgument,
        format: AnalyzeArgument,
        table: AnalyzeArgument | None = None,
        columns: AnalyzeArgument | None = None,
    ) -> AnalyzeResult:
        """The columns, which depend on the table."""
        from pyspark.sql.udtf import AnalyzeResult

        name = "fields" if table is None else str(table.value)
        more = {} if columns is None else {"columns": str(columns.value)}
        settings = _settings(str(format.value), name, more)
        return AnalyzeResult(spark_schema(settings.table(name)))

    def eval(
        self, payload: bytes, format: str, table: str = "fields", columns: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of one value."""
        decoder = _decoder(format, table, columns)
        for batch, _ in decoder.decode(pa.array([payload], pa.binary())):
            for row in batch.to_pylist():
                yield tuple(row.values())


def register_functions(spark: SparkSession) -> None:
    """Let SQL use ``wireloom_decode`` as a table function.

    ``select t.* from messages, lateral wireloom_decode(payload, 'tibmsg', 'fields') t``. Spark
    calls it row by row, so `decode_column` is several times as fast.
    """
    from pyspark.sql.udtf import UserDefinedTableFunction

    function = UserDefinedTableFunction(_Decode, returnType=None, name=FUNCTION)
    spark.udtf.register(FUNCTION, function)
