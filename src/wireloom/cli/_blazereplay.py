"""What a replay has found, for people or as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wireloom.cli._flat import json_line
from wireloom.view import clip, escape

if TYPE_CHECKING:
    from wireloom.services.blaze.replay import Replayed

__all__ = ["show_report"]

_KINDS = ("equal", "different", "missing", "extra")
_MAX_TOLD = 200


def show_report(report: Replayed, most: int, is_json: bool) -> None:
    """Write how many answers of each type were as they were, and the first that were not."""
    counters = {kind: getattr(report, kind) for kind in _KINDS}
    packets = sorted({packet for counter in counters.values() for packet in counter})
    if is_json:
        by_type = {packet: {kind: counters[kind][packet] for kind in _KINDS} for packet in packets}
        row = {
            "connections": report.connections,
            "sent": report.sent,
            "skipped": report.skipped,
            "equal": report.is_equal,
            "packets": by_type,
            "differences": [asdict(each) for each in report.differences[:most]],
        }
        click.echo(json_line(row))
        return
    click.echo(f"{'packet':8}" + "".join(f"{kind:>11}" for kind in _KINDS))
    for packet in packets:
        click.echo(f"{packet:8}" + "".join(f"{counters[kind][packet]:11}" for kind in _KINDS))
    for each in report.differences[:most]:
        click.echo(escape(f"{each.connection}: {each.packet} {each.key}"))
        click.echo(escape(f"  recorded: {clip(each.recorded or 'nothing', _MAX_TOLD)}"))
        click.echo(escape(f"  live:     {clip(each.live or 'nothing', _MAX_TOLD)}"))
    told = f"{report.sent} packets sent over {report.connections} connections"
    if report.skipped:
        told += f", {report.skipped} could not be sent"
    click.echo(told, err=True)
