"""``wireloom stat``: what is in a capture."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from wireloom.cli._accounts import LEFT_OUT, UNKNOWN, left_out_lines, problem_lines
from wireloom.cli._capture import (
    CaptureOptions,
    capture_options,
    captures_argument,
    make_settings,
    opened,
)
from wireloom.cli._formatoptions import ReadingCommand
from wireloom.cli._help import examples
from wireloom.cli._options import DecodeOptions, decode_options
from wireloom.cli._progress import total_size
from wireloom.cli._sizes import count, show_size, show_time
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from wireloom.cli._statistics import Histogram, Statistics
    from wireloom.tabulate.accounting import Totals

__all__ = ["command"]

_TABLES = ("frames", "gaps", "accounting")
_BAR = 40
"""Characters of the longest bar."""
_BINS = 24
"""Bars of the plot over time."""
_MAX_TYPES = 40
"""Types that are listed."""
_MAX_NAME = 60


@click.command(
    cls=ReadingCommand,
    epilog=examples(
        "wireloom stat day1.pcapng.zst",
        "wireloom stat day1-*.pcap --ports 7000=blaze --top 20",
        "wireloom stat capture.bin --json | jq .accounting.total",
    ),
)
@captures_argument
@decode_options
@capture_options
@click.option(
    "--top",
    type=click.IntRange(1, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="How many flows and gaps to list, the largest first.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def command(
    sources: tuple[str, ...],
    reading: DecodeOptions,
    capturing: CaptureOptions,
    top: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show what is in captures, and where every byte went.

    Lists formats, types, flows, rates and gaps. FILE is as for decode. The sums are checked:
    captured bytes = decoded + quarantined + gap + duplicate + left out, which is packets of other
    protocols. The exit status is 1 when something could not be read.
    """
    from wireloom.cli._statistics import SELECT, Statistics, exchange_columns
    from wireloom.cli._tablewriting import batches

    names = sources or ("-",)
    packets = exchange_columns()
    settings = make_settings(
        reading, capturing, (*_TABLES, *packets), select={**SELECT, **packets}, nested=False
    )
    found = Statistics(top=top)
    for table, batch in batches(
        names, opened(names), settings, capturing.workers, quiet, totals=found.totals
    ):
        found.add(table, batch)
    found.close()
    if as_json:
        click.echo(json.dumps({"files": list(names), **found.to_dict()}))
    else:
        for line in _report(found, names):
            click.echo(line)
    if found.totals.errors or not found.totals.is_balanced:
        raise click.exceptions.Exit(1)


def _report(found: Statistics, names: Sequence[str]) -> Iterator[str]:
    yield _headline(found, names)
    yield ""
    yield from _formats(found.totals)
    if found.totals.left_out or found.totals.tunnels:
        yield ""
    yield from left_out_lines(found.totals)
    if found.types:
        yield ""
        yield from _types(found)
    if found.flows:
        yield ""
        yield from _flows(found)
    width, bins = found.rates.merged(_BINS)
    if bins:
        yield ""
        yield f"frames over time, {show_duration(width)} each"
        yield from _bars(
            [
                (_clock(start, width), frames, f"{frames:,}  {show_size(size * 1e9 / width)}/s")
                for start, frames, size in bins
            ]
        )
    histograms: list[tuple[str, Histogram, Callable[[int], str]]] = [
        ("frame sizes in bytes", found.sizes, str),
        ("time between frames of a stream", found.arrivals, show_duration),
    ]
    for format, each in found.latencies.items():
        histograms.append((f"{format}: request → response", each.histogram, show_duration))
    for title, histogram, show in histograms:
        if histogram.number:
            yield ""
            yield from _histogram(title, histogram, show)
    if found.gaps:
        yield ""
        missing = found.totals.missing
        yield f"{count(found.gaps, 'gap')}, {missing:,} bytes missing; the largest:"
        for length, offset, stream in found.largest_gaps:
            yield f"  {length:,} bytes at byte {offset:,} of {clip(stream, 100)}"
    if found.totals.errors:
        yield ""
        yield f"{count(found.totals.errors, 'error')}:"
        yield from (f"  {line}" for line in problem_lines(found.totals))


def _headline(found: Statistics, names: Sequence[str]) -> str:
    what = escape(names[0]) if len(names) == 1 else count(len(names), "file")
    size = total_size(names)
    total = found.totals
    line = f"{what}{'' if size is None else f', {show_size(size)}'}: "
    line += f"{count(total.frames, 'frame')} in {count(total.streams, 'stream')}"
    if found.first_ns is not None and found.last_ns is not None:
        took = show_duration(found.last_ns - found.first_ns)
        line += f", {took} from {show_time(found.first_ns)}"
    return line


def _formats(totals: Totals) -> Iterator[str]:
    has_left_out = totals.left_out > 0
    parts = ["captured", "= decoded", "+ quarantined", "+ gap", "+ duplicate"]
    if has_left_out:
        parts.append("+ left out")
    parts += ["sum", "missing"]
    has_conflicts, has_bad = totals.conflict > 0, totals.bad_checksums > 0
    rows: list[tuple[str, ...]] = [("format", "streams", "frames", *parts)]
    if has_conflicts:
        rows[0] += ("conflict",)
    if has_bad:
        rows[0] += ("bad checksums",)
    # Without bytes, the account of no format only has damage of the capture: it is listed below.
    named = {
        format or UNKNOWN: account
        for format, account in totals.formats.items()
        if format is not None or account.captured
    }
    others = {f"no stream: {LEFT_OUT[kind]}": each for kind, each in totals.no_stream.items()}
    listed = [*sorted(named.items()), *others.items(), ("all", totals)]
    for name, sums in listed:
        numbers = (sums.streams, sums.frames, sums.captured, sums.decoded, sums.quarantined)
        more = (sums.gap, sums.duplicate, *((sums.left_out,) if has_left_out else ()))
        cells = [f"{number:,}" for number in (*numbers, *more)]
        checked = "ok" if sums.is_balanced else "WRONG"
        last = [f"{sums.conflict:,}"] if has_conflicts else []
        if has_bad:
            last.append(f"{sums.bad_checksums:,}")
        rows.append((name, *cells, checked, f"{sums.missing:,}", *last))
    yield from _grid(rows)


def _types(found: Statistics) -> Iterator[str]:
    total = sum(frames for frames, _ in found.types.values())
    ordered = sorted(found.types.items(), key=lambda item: (item[0][0], -item[1][0], item[0][1]))
    rows = [("format", "type", "frames", "share", "bytes", "mean size")]
    for (format, type), (frames, size) in ordered[:_MAX_TYPES]:
        share = f"{100 * frames / total:.1f} %"
        name = clip(type, _MAX_NAME)
        rows.append((format, name, f"{frames:,}", share, f"{size:,}", f"{size / frames:,.0f}"))
    yield from _grid(rows, left=2)
    if len(ordered) > _MAX_TYPES:
        yield f"… and {count(len(ordered) - _MAX_TYPES, 'type')} more; --json has all"


def _flows(found: Statistics) -> Iterator[str]:
    flows = found.flows
    rows = [("flow", "format", "bytes", "frames", "missing", "lasts", "rate")]
    for flow in flows:
        seconds = flow.seconds
        lasts = "" if seconds is None else show_duration(round(seconds * 1e9))
        rate = f"{show_size(flow.captured / seconds)}/s" if seconds else ""
        numbers = (f"{flow.captured:,}", f"{flow.frames:,}", f"{flow.missing:,}")
        rows.append((clip(flow.stream, _MAX_NAME), flow.format or "?", *numbers, lasts, rate))
    yield from _grid(rows, left=2)
    rest = found.totals.streams - len(flows)
    if rest > 0:
        yield f"… and {count(rest, 'smaller flow')}; --top shows more"


def _histogram(title: str, histogram: Histogram, show: Callable[[int], str]) -> Iterator[str]:
    assert histogram.least is not None
    assert histogram.greatest is not None
    mean = histogram.total // histogram.number
    yield (
        f"{title}: min {show(histogram.least)}, mean {show(mean)}, max {show(histogram.greatest)}"
        f"{_below(histogram, show)}"
    )
    yield from _bars(
        [
            (f"{show(first)} … {show(last) if last is not None else ''}", number, f"{number:,}")
            for first, last, number in histogram.ranges()
        ]
    )


def _below(histogram: Histogram, show: Callable[[int], str]) -> str:
    half, most = histogram.most(0.5), histogram.most(0.99)
    if half is None or most is None:
        return ""
    return f"; half below {show(half)}, 99 % below {show(most)}"


def _bars(rows: Sequence[tuple[str, int, str]]) -> Iterator[str]:
    """Labels, bars and numbers."""
    width = max(len(label) for label, _, _ in rows)
    most = max(max(number for _, number, _ in rows), 1)
    for label, number, text in rows:
        eighths = round(number / most * _BAR * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        if number and not bar:
            bar = "▏"
        if not _has_blocks():
            bar = "#" * max(round(number / most * _BAR), int(number > 0))
        yield f"  {label:>{width}}  {bar} {text}" if bar else f"  {label:>{width}}  {text}"


def _has_blocks() -> bool:
    """Whether the output can show block characters."""
    try:
        "█▏".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _grid(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Columns: the first `left` aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def show_duration(ns: int) -> str:
    """A time span for people.

    >>> show_duration(1500), show_duration(2_000_000_000), show_duration(7_200_000_000_000)
    ('1.5 µs', '2 s', '2 h')
    """
    for unit, size in (("d", 86_400e9), ("h", 3600e9), ("min", 60e9), ("s", 1e9)):
        if ns >= 2 * size or (unit == "s" and ns >= size):
            return f"{ns / size:.3g} {unit}"
    for unit, size in (("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def _clock(ns: int, width: int) -> str:
    """When a bar starts, with the precision of its width."""
    text = show_time(ns).removesuffix("Z").replace("T", " ")
    if width >= 86_400 * 10**9:
        return text[:10]
    if width >= 10**9:
        return text[:19]
    digits = 9 - min(9, len(str(width)) - 1)
    return text[: 20 + digits]
