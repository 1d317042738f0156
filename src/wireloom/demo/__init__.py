"""``python -m wireloom.demo``: what Wireloom does, with real services and real output.

Every part is one function that prints. The last one needs Spark, and is left out with
``--without-spark``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import wireloom
from wireloom.cli._draw import draw
from wireloom.cli._flat import json_line
from wireloom.cli._lake import accounting_table, plain_table, size_text
from wireloom.formats import get
from wireloom.framing import Frame, Problem
from wireloom.generate import Faults, Manifest, generate
from wireloom.generate.schemas import write_schemas
from wireloom.messages import Message
from wireloom.tabulate import Settings
from wireloom.view import escape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from wireloom.pipeline import Report

__all__ = ["PARTS", "main", "show_lake"]

QUOTE = {
    "format": "tibmsg",
    "fields": [
        {"name": "SYMBOL", "type": "string", "value": "ABC.N"},
        {"name": "BID", "type": "real", "size": 8, "value": 175.92},
        {"name": "ASK", "type": "real", "size": 8, "value": 175.95},
        {"name": "SIZE", "type": "int", "size": 4, "value": 300},
    ],
}


COUNT = 300
"""Quotes in the damaged stream."""
MESSAGES = 20_000
"""Frames in the captures."""
FAULTS = Faults(loss=0.002, duplicates=0.005, reorder=0.02, corruption=0.0005)
"""What their packets suffer."""


def quote() -> Message:
    """A small market-data message."""
    return wireloom.from_dict(QUOTE)


def nested_frame() -> bytes:
    """An NREP packet that relays a Rendezvous message that carries a TibMsg."""
    opaque = {"name": "_data_", "type": "opaque", "value_hex": quote().encode().hex()}
    rendezvous = wireloom.from_dict({"format": "tibrv", "fields": [opaque]})
    data = {"socket_id": "a0a1a2a3a4a5a6a7a8a9", "data": rendezvous.encode().hex()}
    return wireloom.from_dict({"format": "nrep", "packet": "SOCKET_DATA", **data}).encode()


def damaged_stream(count: int = COUNT) -> bytes:
    """Many quotes: one with a wrong length, one cut short, and noise in front of a third."""
    one = quote().encode()
    parts = [one] * count
    parts[count // 4] = one[:7] + b"\xff" + one[8:]
    parts[count // 2] = b"noise on the line" + one
    parts[count * 3 // 4] = one[:20]
    return b"".join(parts)


def show_live(console: Console, folder: Path) -> None:
    """Live services, the traffic that crossed them, and the tables that their taps became."""
    from wireloom.demo.live import run_live
    from wireloom.lake import Lake, totals

    console.print("a broker, a junction with two boards and an entry point with TLS, on loopback …")
    crossed, report = run_live(folder)
    for line in (
        f"Blaze: {crossed.transactions} transactions, each durable before it was answered; "
        f"{crossed.events} events to a subscriber",
        f"NAIS: {crossed.commands} commands to a board, {crossed.board_events} events from two",
        f"NREP: {crossed.quotes:,} quotes ({size_text(crossed.quote_bytes)}) relayed over TLS",
    ):
        console.print(line)
    console.print(
        f"all of it in {crossed.seconds:.1f} seconds; meanwhile the taps became tables:\n"
    )
    _show_rows(console, report)
    console.print()
    console.print(accounting_table(totals(Lake(folder / "lake"))))


def _show_rows(console: Console, report: Report) -> None:
    table = plain_table("table", "rows")
    for name, rows in sorted(report.rows.items()):
        table.add_row(name, f"{rows:,}")
    console.print(table)


def show_samples(console: Console) -> None:
    """Sample messages of all formats, decoded and written again."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("format", "samples", "bytes", "same bytes when written again", "kinds"):
        table.add_column(name, no_wrap=name != "kinds", overflow="ellipsis")
    for name in wireloom.formats():
        samples = get(name).samples()
        messages = [wireloom.decode(data) for data in samples.values()]
        same = sum(m.encode() == data for m, data in zip(messages, samples.values(), strict=True))
        kinds = ", ".join(dict.fromkeys(message.type_name for message in messages))
        size = sum(map(len, samples.values()))
        table.add_row(name, str(len(samples)), str(size), f"{same} of {len(samples)}", Text(kinds))
    console.print(table)


def show_nesting(console: Console) -> None:
    """A message in a message in a packet, each as hex beside its fields."""
    frame = nested_frame()
    packet = wireloom.decode(frame)
    console.print(Text(f"{packet.type_name}, {len(frame)} bytes", "bold"))
    console.print(draw(console, frame, packet.outline()))
    for inner in wireloom.nested(packet):
        console.print()
        console.print(Text(f"{inner.format} in {inner.path}", "bold"))
        console.print(draw(console, inner.message.encode(), inner.message.outline()))


def show_recovery(console: Console) -> None:
    """A damaged stream: every message after the damage is found, every byte accounted for."""
    stream = damaged_stream()
    decoded = quarantined = messages = 0
    # In pieces of any size: the records are the same.
    pieces = (stream[i : i + 1000] for i in range(0, len(stream), 1000))
    for record in wireloom.scan(pieces, "tibmsg"):
        if isinstance(record, Frame):
            messages += 1
            decoded += record.length
        else:
            assert isinstance(record, Problem)  # TibMsg streams hold nothing else
            quarantined += record.length
            where = f"bytes {record.offset:,} to {record.offset + record.length:,}"
            console.print(Text(f"{where}: {escape(record.reason)}", "red"))
    console.print(f"{messages} of {COUNT - 2} undamaged messages found")
    console.print(f"{len(stream):,} bytes = {decoded:,} decoded + {quarantined:,} quarantined")


def show_conversion(console: Console) -> None:
    """One message, from TibMsg to Rendezvous, and what that loses."""
    message = quote()
    made, losses = wireloom.convert(message, to="tibrv")
    for each in (message, made):
        console.print(
            Text(f"{each.format:7} {each.encode().hex()}"), overflow="ellipsis", no_wrap=True
        )
    console.print(Text(json_line(made.to_dict())))
    console.print(f"lost: {', '.join(map(str, losses)) or 'nothing'}")


def show_lake(
    console: Console, spark: SparkSession | None = None, live: Path | None = None
) -> None:
    """Captures of all formats, with faults, into a lake of tables, and what these tell.

    Args:
        console: where to.
        spark: a session that is running already.
        live: the lake of the live part, which is asked, too.
    """
    from wireloom.lake import Lake, totals
    from wireloom.pipeline import run_pipeline
    from wireloom.spark.executor import SparkExecutor

    with tempfile.TemporaryDirectory(prefix="wireloom-") as folder:
        place = Path(folder)
        schemas = write_schemas(place / "schemas")
        capture = place / "captures" / "monday.pcapng"
        capture.parent.mkdir()
        console.print(_made(generate(capture, messages=MESSAGES, faults=FAULTS)))
        with _spark(spark) as running:
            settings = Settings().changed(
                dictionary=str(schemas["dictionary"]),
                model=str(schemas["model"]),
                proto=(str(schemas["proto"]),),
                bind=("10=board.Reading", "11=board.LedCommand"),
            )
            executor = SparkExecutor(running)
            report = run_pipeline(capture.parent, place / "lake", settings, executor=executor)
            size = size_text(report.bytes_read)
            console.print(f"{size} became tables in {report.seconds:.1f} seconds:\n")
            _show_rows(console, report)
            console.print()
            console.print(accounting_table(totals(Lake(place / "lake"))))
            answers = _answers(place / "lake")
            if live is not None:
                answers = _live_answers(live) | answers
            for question, answer in answers.items():
                console.print()
                console.print(Text(question, "bold"))
                console.print(_grid(answer.collect(), answer.columns))


def _made(manifest: Manifest) -> str:
    """What was generated, in words."""
    formats = ", ".join(f"{manifest.count(name):,} {name}" for name in sorted(manifest.frames))
    faults = ", ".join(f"{count:,} of {name}" for name, count in sorted(manifest.faults.items()))
    return (
        f"{manifest.messages:,} frames in {manifest.packets:,} packets: {formats}; faults: {faults}"
    )


def _latencies(lake: Path) -> DataFrame:
    from pyspark.sql import functions as sf

    from wireloom.spark.derived import derive

    middle = sf.round(sf.percentile("latency_ns", 0.5) / 1e6, 3).alias("median ms")
    late = sf.round(sf.percentile("latency_ns", 0.99) / 1e6, 3).alias("99 % ms")
    return (
        derive("blaze_transactions", lake)
        .groupBy("outcome")
        .agg(sf.count("*").alias("transactions"), middle, late)
        .orderBy(sf.desc("transactions"))
    )


def _live_answers(lake: Path) -> dict[str, DataFrame]:
    """The same of what crossed the live services."""
    from pyspark.sql import functions as sf

    from wireloom.spark.derived import derive

    return {
        "How long did the live transactions take, seen on the wire?": _latencies(lake),
        "What did the entry point relay?": derive("nrep_sockets", lake)
        .groupBy("role", "outcome")
        .agg(sf.count("*").alias("sockets"), sf.sum("data_bytes").alias("bytes"))
        .orderBy("role", "outcome"),
    }


def _answers(lake: Path) -> dict[str, DataFrame]:
    """Questions, and the rows that answer them."""
    from pyspark.sql import functions as sf

    from wireloom.spark.derived import derive

    bars = derive("bars", lake, interval="1 second")
    prices = [f"double({name}) {name}" for name in ("open", "high", "low", "close")]
    return {
        "How long do transactions take?": _latencies(lake),
        "What was traded most?": bars.orderBy(sf.desc("volume"))
        .limit(5)
        .selectExpr("subject", "ts", *prices, "bigint(volume) volume", "trades"),
        "Which images can be trusted?": derive("last_values", lake)
        .groupBy("state", "stale_reason")
        .agg(sf.countDistinct("stream", "subject").alias("images"), sf.count("*").alias("fields"))
        .orderBy("state", "stale_reason"),
        "Which sockets were relayed?": derive("nrep_sockets", lake)
        .groupBy("role", "outcome")
        .agg(sf.count("*").alias("sockets"), sf.sum("data_bytes").alias("bytes"))
        .orderBy("role", "outcome"),
    }


def _grid(rows: Sequence[Any], columns: Sequence[str]) -> Table:
    table = plain_table(*columns)
    for row in rows:
        cells = (
            "" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in row
        )
        table.add_row(*(escape(str(cell)) for cell in cells))
    return table


@contextmanager
def _spark(running: SparkSession | None) -> Iterator[SparkSession]:
    """The given session, or one of our own that says nothing while it starts."""
    if running is not None:
        yield running
        return
    from wireloom.spark import session

    warnings.filterwarnings("ignore", ".*pandas", FutureWarning)
    # A short life is not worth the second compiler: a third of the time of all this.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    sys.stderr.flush()
    # Java writes to the file itself, and so must be kept from that.
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        spark = session()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    try:
        yield spark
    finally:
        spark.stop()


PARTS: tuple[tuple[str, Callable[[Console], None]], ...] = (
    ("Six formats, read and written", show_samples),
    ("A TibMsg in a Rendezvous message in an NREP packet", show_nesting),
    ("A damaged stream", show_recovery),
    ("From one format to another", show_conversion),
)
"""Headings and what is shown under them, in order."""

LIVE = "Live services, and the tables of what crossed them"
"""Heading of the first part."""

LAKE = "From captures to a lake of tables, on Spark"
"""Heading of the part that needs Spark."""


def main(
    console: Console | None = None,
    *,
    has_spark: bool = True,
    spark: SparkSession | None = None,
) -> None:
    """Show everything.

    Args:
        console: where to.
        has_spark: whether to show the part that needs Spark.
        spark: a session for it that is running already.
    """
    console = console or Console(highlight=False, markup=False, emoji=False)
    with tempfile.TemporaryDirectory(prefix="wireloom-") as folder:
        live = Path(folder)
        parts: list[tuple[str, Callable[[Console], None]]]
        parts = [(LIVE, partial(show_live, folder=live)), *PARTS]
        if has_spark:
            parts.append((LAKE, partial(show_lake, spark=spark, live=live / "lake")))
        _show(console, parts)


def _show(console: Console, parts: Sequence[tuple[str, Callable[[Console], None]]]) -> None:
    for number, (heading, show) in enumerate(parts, 1):
        console.rule(Text(f"{number}. {heading}", "bold"), align="left", style="dim")
        show(console)
        console.print()
