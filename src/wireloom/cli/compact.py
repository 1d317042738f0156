"""``wireloom compact``: many small files of a lake → few large ones."""

from __future__ import annotations

import click

from wireloom.cli._help import Command, examples
from wireloom.cli._lake import bar, size_text

__all__ = ["command"]


@click.command(
    cls=Command,
    epilog=examples("wireloom compact lake", "wireloom compact lake --target-bytes 512000000"),
)
@click.argument("lake", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--target-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of files; those below half of it are merged.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress bar and no summary.")
def command(lake: str, target_bytes: int | None, quiet: bool) -> None:
    """Merge small files into larger ones; no row changes.

    Every folder is one commit, so it can be stopped at any time. Readers see either the old
    files of a folder or the new ones.
    """
    from wireloom.lake import Compaction, Lake, WriteOptions, compact
    from wireloom.lake.rewriting import small_files

    opened = Lake(lake)
    options = WriteOptions() if target_bytes is None else WriteOptions(target_bytes=target_bytes)
    with bar("compacting", quiet) as shown, opened.write() as writing:
        groups = small_files(opened, options.target_bytes)
        shown.total(sum(file.bytes for group in groups for file in group))
        done: list[Compaction] = []

        def told(report: Compaction) -> None:
            done.append(report)
            shown.done(sum(one.bytes_before for one in done))

        compact(writing, options, done=told)
    if not quiet:
        before = sum(report.files_before for report in done)
        after = sum(report.files_after for report in done)
        size = sum(report.bytes_before for report in done)
        smaller = sum(report.bytes_after for report in done)
        click.echo(
            f"{before} files of {size_text(size)} are now {after} of {size_text(smaller)}", err=True
        )
