"""Rewriting files of a lake: small ones are compacted, rows of some captures removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wireloom.lake.lake import Lake, Writing
from wireloom.lake.layout import folder_of
from wireloom.lake.log import DataFile
from wireloom.lake.writing import StagedWriter, WriteOptions

__all__ = ["Compaction", "compact", "small_files", "without_sources"]

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Compaction:
    """What compacting a folder did."""

    folder: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int


def read_batches(lake: Lake, file: DataFile) -> Iterator[pa.RecordBatch]:
    """The rows of a file, with dictionaries for text, a row group at a time."""
    place = lake.place(file)
    schema = pq.read_schema(place)
    texts = [each.name for each in schema if pa.types.is_string(each.type)]
    with pq.ParquetFile(place, read_dictionary=texts) as opened:
        yield from opened.iter_batches(_BATCH_ROWS)


def small_files(lake: Lake, target_bytes: int) -> list[list[DataFile]]:
    """Files worth compacting: each list is of one folder and one schema."""
    groups: dict[tuple[str, str], list[DataFile]] = {}
    for table in lake.tables:
        for file in lake.files(table):
            if file.bytes < target_bytes // 2:
                key = (folder_of(file.table, file.day), file.schema)
                groups.setdefault(key, []).append(file)
    return [files for files in groups.values() if len(files) > 1]


def compact(
    writing: Writing,
    options: WriteOptions | None = None,
    *,
    done: Callable[[Compaction], None] | None = None,
) -> list[Compaction]:
    """Compact small files, one commit per folder: whenever it stops, what is done stays done.

    Args:
        writing: the writer of the lake.
        options: `target_bytes` says what is small: files of less than half of it.
        done: called after each folder.

    Raises:
        LakeError: a file is lost.
    """
    how = options or WriteOptions()
    reports = []
    for files in small_files(writing.lake, how.target_bytes):
        with StagedWriter(writing.root, writing.run, how) as writer:
            for file in files:
                for batch in read_batches(writing.lake, file):
                    writer.put(file.table, file.day, batch)
            made = writer.close()
        made = [replace(one, schema=files[0].schema) for one in made]
        writing.commit(made, remove=[file.path for file in files], kind="compact")
        report = Compaction(
            folder_of(files[0].table, files[0].day),
            len(files),
            len(made),
            sum(file.bytes for file in files),
            sum(file.bytes for file in made),
        )
        reports.append(report)
        if done is not None:
            done(report)
    return reports


def without_sources(
    writing: Writing, sources: Collection[str], options: WriteOptions | None = None
) -> tuple[list[DataFile], list[str]]:
    """Remove the rows of some captures from a lake, for a commit.

    Returns:
        New files with the rows that stay, and the paths of the files that they replace. Files
        without rows of these captures are in neither, nor are those of derived tables: these are
        made again as a whole.

    Raises:
        LakeError: a file is lost.
    """
    gone = []
    unwanted = pa.array(sorted(sources), pa.string())
    with StagedWriter(writing.root, writing.run, options) as writer:
        for file in list(writing.lake.state.files.values()):
            if file.table in writing.lake.state.derived:
                continue
            if file.sources is not None and not set(file.sources) & set(sources):
                continue
            gone.append(file.path)
            if file.sources is not None and set(file.sources) <= set(sources):
                continue
            for batch in read_batches(writing.lake, file):
                taken = pc.is_in(batch.column("source").cast(pa.string()), unwanted)
                writer.put(file.table, file.day, batch.filter(pc.invert(taken)))
        return writer.close(), gone
