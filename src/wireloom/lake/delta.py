"""A Delta log beside each table of a lake: the same files, for readers of Delta.

The lake's own log remains authoritative. Each of its commits is repeated in the Delta log of every
table that it touches, as one Delta commit with the application's name and the version, so that it
is there once however often it is carried out. Readers of Delta see a table's commits as a whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wireloom.errors import StateError
from wireloom.lake.durable import create
from wireloom.lake.layout import CONTROL, TIME_COLUMNS

if TYPE_CHECKING:
    from wireloom.lake.lake import Lake
    from wireloom.lake.log import Commit, DataFile

__all__ = ["APPLICATION", "enable", "is_enabled", "tell"]

APPLICATION: Final = "wireloom"
"""What commits are signed with."""

_MARK: Final = f"{CONTROL}/delta"


def is_enabled(root: Path) -> bool:
    """Whether the tables of a lake have Delta logs."""
    return (root / _MARK).exists()


def enable(lake: Lake) -> None:
    """Give the tables of a lake Delta logs; those that have rows get them now.

    Raises:
        StateError: deltalake is not installed.
    """
    _deltalake()
    if not is_enabled(lake.path):
        create(lake.path / _MARK, b"")
    for table in lake.tables:
        _tell(lake, table, lake.files(table), [])


def tell(lake: Lake, commit: Commit) -> None:
    """Add a commit that was carried out to the Delta logs, once.

    Raises:
        StateError: deltalake is not installed.
    """
    removed = {path.partition("/")[0] for path in commit.remove}
    for table in sorted(removed | {file.table for file in commit.add}):
        added = [file for file in commit.add if file.table == table]
        gone = [_remove(path, commit) for path in commit.remove if path.partition("/")[0] == table]
        _tell(lake, table, added, gone)


def _tell(lake: Lake, table: str, added: Iterable[DataFile], gone: list[Any]) -> None:
    delta = _deltalake()
    folder = lake.path / table
    signed = delta.CommitProperties(
        app_transactions=[delta.Transaction(APPLICATION, lake.version)],
        custom_metadata={"wireloom": str(lake.version)},
    )
    has_days = TIME_COLUMNS.get(table, "ts_ns") is not None
    partition_by = ["date"] if has_days else None
    if not delta.DeltaTable.is_deltatable(str(folder)):
        files = lake.files(table)
        if files:
            # The whole table, including what was there before it had a Delta log.
            delta.transaction.create_table_with_add_actions(
                str(folder),
                _schema(lake, table),
                [_add(lake, file) for file in files],
                partition_by=partition_by,
                name=table,
                commit_properties=signed,
            )
        return
    opened = delta.DeltaTable(str(folder))
    told = opened.transaction_version(APPLICATION)
    if told is not None and told >= lake.version:
        return
    actions = [*(_add(lake, file) for file in added), *gone]
    opened.create_write_transaction(
        actions, "append", _schema(lake, table), partition_by, commit_properties=signed
    )


def _schema(lake: Lake, table: str) -> Any:
    from wireloom.lake.datasets import schema_of

    if not lake.files(table):
        return _deltalake().DeltaTable(str(lake.path / table)).schema()
    return _deltalake().Schema.from_arrow(schema_of(lake, table))


def _add(lake: Lake, file: DataFile) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path.partition("/")[2],
        size=file.bytes,
        partition_values=_partition(file.day),
        modification_time=os.stat(lake.place(file)).st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps({"numRecords": file.rows}),
    )


def _remove(path: str, commit: Commit) -> Any:
    from deltalake.transaction import RemoveAction

    day = path.split("/")[-2].removeprefix("date=") if path.count("/") > 1 else None
    return RemoveAction(
        path=path.partition("/")[2],
        data_change=True,
        deletion_timestamp=commit.time_ns // 1_000_000,
        partition_values=_partition(day),
    )


def _partition(day: str | None) -> dict[str, str | None]:
    return {} if day is None else {"date": day}


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.transaction
    except ImportError as error:
        raise StateError("deltalake is not installed: pip install 'wireloom[delta]'") from error
    return deltalake
