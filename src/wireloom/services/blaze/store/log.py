"""Reading back: rows for downloads, the log of changes for other brokers, and what is removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from wireloom.formats.blaze.body import encode_nclass
from wireloom.formats.blaze.codes import Action, Encoding
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.session.events import Stamp
from wireloom.formats.blaze.session.subscriptions import Change
from wireloom.services.blaze.store.api import STORED_FIRST_INDEX, Portion, StoredChange
from wireloom.services.blaze.store.flat import BODY, Flat, Key
from wireloom.services.blaze.store.group import logged_key
from wireloom.services.blaze.store.statements import ClassState
from wireloom.services.blaze.store.tables import (
    CHANGES,
    CLASSES,
    FORGOTTEN,
    TRANSACTIONS,
    StoredClass,
)

__all__ = [
    "Reader",
    "class_states",
    "count_rows",
    "prune_changes",
    "prune_deleted",
    "prune_transactions",
]

_DELETED: Final = ("none", "newer", "all")
"""Which deleted rows a query gives: those newer than another stamp, for instance."""

_PORTION: Final = 5000
"""Entries that are removed at once, so that commits need not wait long."""


class Reader:
    """Makes changes of what is stored."""

    def __init__(
        self,
        model: Model,
        classes: dict[int, StoredClass],
        first_index: int,
        *,
        has_log: bool,
    ) -> None:
        self.model = model
        self._has_log = has_log
        self.classes = classes
        self.first_index = first_index
        self._queries = {
            nclsid: {kind: _query(stored, kind) for kind in _DELETED}
            for nclsid, stored in classes.items()
            if stored.table is not None
        }
        self._key_of = {nclsid: _key_reader(stored.flat) for nclsid, stored in classes.items()}
        after = tuple_(bindparam("ts0", type_=BigInteger), bindparam("ts1", type_=BigInteger))
        until = tuple_(bindparam("end0", type_=BigInteger), bindparam("end1", type_=BigInteger))
        stamp = tuple_(CHANGES.c.ts0, CHANGES.c.ts1)
        self._logged = (
            select(CHANGES)
            .where(CHANGES.c.nclsid == bindparam("id"), stamp > after, stamp <= until)
            .order_by(CHANGES.c.ts0, CHANGES.c.ts1)
            .limit(bindparam("count"))
        )

    def portion(
        self,
        connection: Connection,
        nclsid: int,
        after: Stamp,
        count: int,
        deleted_after: Stamp | None,
    ) -> Portion:
        """Rows that are newer than a stamp.

        The class's stamp is read before them, and what is forgotten after them: a row that is
        not there was written, or removed, in between at worst.
        """
        last = _stamp_in(connection, CLASSES, nclsid)
        given = {"ts0": after[0], "ts1": after[1], "count": count}
        if deleted_after is None:
            query = self._queries[nclsid]["none"]
        elif deleted_after <= after:
            query = self._queries[nclsid]["all"]
        else:
            query = self._queries[nclsid]["newer"]
            given |= {"del0": deleted_after[0], "del1": deleted_after[1]}
        found = connection.execute(query, given)
        key_of = self._key_of[nclsid]
        rows = [
            self._change(
                nclsid,
                Action.DEL if deleted else Action.INS,
                (ts0, ts1),
                logged_key(key_of(key)) if self._has_log else key_of(key),
                bytes(body),
            )
            for ts0, ts1, deleted, body, *key in found
        ]
        return Portion(rows, last, _stamp_in(connection, FORGOTTEN, nclsid))

    def logged(
        self, connection: Connection, nclsid: int, after: Stamp, until: Stamp, count: int
    ) -> tuple[list[Change], Stamp]:
        """Changes of all brokers between two stamps; and the last stamp that is not in the log.

        The latter is read last: when it is below `after`, nothing is missing.
        """
        found = connection.execute(
            self._logged,
            {
                "id": nclsid,
                "ts0": after[0],
                "ts1": after[1],
                "end0": until[0],
                "end1": until[1],
                "count": count,
            },
        ).all()
        low = connection.execute(
            select(CLASSES.c.low0, CLASSES.c.low1).where(CLASSES.c.nclsid == nclsid)
        ).one()
        changes = [
            self._change(
                nclsid,
                Action(row.action),
                (row.ts0, row.ts1),
                row.key,
                bytes(row.body),
                None if row.delta is None else bytes(row.delta),
            )
            for row in found
        ]
        return changes, (low[0], low[1])

    def _change(
        self,
        nclsid: int,
        action: Action,
        stamp: Stamp,
        key: Hashable,
        body: bytes,
        delta: bytes | None = None,
    ) -> Change:
        first = self.first_index
        bodies: dict[Encoding, bytes] = {}
        if first == STORED_FIRST_INDEX:
            bodies[Encoding.INDEXNOTZERO] = body
        change = StoredChange(nclsid, action, stamp, key, bodies, 0, None, first, body, self.model)
        if delta is not None:
            if first != STORED_FIRST_INDEX:
                value = change.read_delta(delta)
                delta = encode_nclass(value, Encoding.INDEXDELTA, first_index=first)
            bodies[Encoding.INDEXDELTA] = delta
        return change


def _stamp_in(connection: Connection, table: Table, nclsid: int) -> Stamp:
    """The stamp that a table has for a class; (0, 0) when it has none."""
    column = table.c
    query = select(column.ts0, column.ts1).where(column.nclsid == nclsid)
    found = connection.execute(query).one_or_none()
    return (0, 0) if found is None else (found[0], found[1])


def _query(stored: StoredClass, deleted: str) -> Select[Any]:
    assert stored.table is not None
    column = stored.table.c
    after = tuple_(bindparam("ts0", type_=BigInteger), bindparam("ts1", type_=BigInteger))
    keys = [column[key.name] for key in stored.flat.key]
    query = (
        select(column.ts0, column.ts1, column["del"], column[BODY], *keys)
        .where(tuple_(column.ts0, column.ts1) > after)
        .order_by(column.ts0, column.ts1)
        .limit(bindparam("count"))
    )
    if deleted == "all":
        return query
    is_there = column["del"] == 0
    if deleted == "none":
        return query.where(is_there)
    since = tuple_(bindparam("del0", type_=BigInteger), bindparam("del1", type_=BigInteger))
    return query.where(or_(is_there, tuple_(column.ts0, column.ts1) > since))


def _key_reader(flat: Flat) -> Callable[[list[Any]], Key]:
    """The key as an object's own is, from what a driver makes of its columns."""
    makers: dict[str, Callable[[Any], Any]] = {"bool": bool, "uint_64": _uint64, "bytes": bytes}
    odd = [(i, makers[c.kind]) for i, c in enumerate(flat.key) if c.kind in makers]
    if not odd:
        return tuple

    def read(values: list[Any]) -> Key:
        for place, make in odd:
            values[place] = make(values[place])
        return tuple(values)

    return read


def _uint64(value: Any) -> int | str:
    return value if isinstance(value, str) else int(value)


def class_states(connection: Connection) -> dict[int, ClassState]:
    """Generation and stamps of all classes."""
    return {
        row.nclsid: ClassState(row.generation, (row.ts0, row.ts1), (row.low0, row.low1))
        for row in connection.execute(select(CLASSES))
    }


def count_rows(
    connection: Connection, classes: dict[int, StoredClass]
) -> tuple[Counter[str], Counter[str]]:
    """How many objects each stored class has, and how many deleted ones."""
    live: Counter[str] = Counter()
    deleted: Counter[str] = Counter()
    for stored in classes.values():
        if stored.table is not None:
            mark = stored.table.c["del"]
            query = select(mark, func.count()).group_by(mark)
            counts = {row[0]: row[1] for row in connection.execute(query)}
            live[stored.nclass.name] = counts.get(0, 0)
            deleted[stored.nclass.name] = counts.get(1, 0)
    return live, deleted


def prune_transactions(connection: Connection, before: int, most: int) -> bool:
    """Forget some ids of transactions; False when there are no more to forget."""
    at = TRANSACTIONS.c.at
    run = tuple_(TRANSACTIONS.c.origin, TRANSACTIONS.c.last)
    count = connection.execute(select(func.count()).select_from(TRANSACTIONS)).scalar_one()
    if count > most:
        query = select(at).order_by(at).limit(1).offset(count - most - 1)
        before = max(before, connection.execute(query).scalar_one() + 1)
    old = select(TRANSACTIONS.c.origin, TRANSACTIONS.c.last).where(at < before).limit(_PORTION)
    gone = connection.execute(delete(TRANSACTIONS).where(run.in_(old)))
    return gone.rowcount >= _PORTION


def prune_changes(connection: Connection, before: int, most: int) -> bool:
    """Remove some of the log of changes; False when there is no more to remove."""
    ts0, ts1 = CHANGES.c.ts0, CHANGES.c.ts1
    count = connection.execute(select(func.count()).select_from(CHANGES)).scalar_one()
    if count > most:
        query = select(ts0).order_by(ts0).limit(1).offset(count - most - 1)
        before = max(before, connection.execute(query).scalar_one() + 1)
    is_more = False
    classes = select(CLASSES.c.nclsid).order_by(CLASSES.c.nclsid).with_for_update()
    for nclsid in connection.execute(classes).scalars().all():
        old = (
            select(ts0, ts1)
            .where(CHANGES.c.nclsid == nclsid, ts0 < before)
            .order_by(ts0, ts1)
            .limit(_PORTION)
        )
        found = connection.execute(old).all()
        if found:
            last = found[-1]
            here = tuple_(ts0, ts1) <= tuple_(*last)
            connection.execute(delete(CHANGES).where(CHANGES.c.nclsid == nclsid, here))
            low = update(CLASSES).where(CLASSES.c.nclsid == nclsid)
            connection.execute(low.values(low0=last[0], low1=last[1]))
            is_more = is_more or len(found) >= _PORTION
    return is_more


def prune_deleted(
    connection: Connection, classes: dict[int, StoredClass], before: int
) -> tuple[dict[int, int], bool]:
    """Remove some objects that were deleted long ago: how many by class, and whether to go on.

    What is newer than every object of its class stays: a client that gets all objects is then
    always behind what is forgotten, and need not get them again when it comes back.
    """
    removed: dict[int, int] = {}
    is_more = False
    for nclsid, stored in sorted(classes.items()):
        if stored.table is None:
            continue
        # Whoever commits waits, so that no stamp appears below the one that is noted here.
        connection.execute(
            select(CLASSES.c.nclsid).where(CLASSES.c.nclsid == nclsid).with_for_update()
        )
        column = stored.table.c
        stamp, is_deleted = tuple_(column.ts0, column.ts1), column["del"] == 1
        rising = select(column.ts0, column.ts1).order_by(column.ts0, column.ts1)
        falling = select(column.ts0, column.ts1).order_by(column.ts0.desc(), column.ts1.desc())
        newest = connection.execute(falling.where(column["del"] == 0).limit(1)).one_or_none()
        if newest is None:
            continue
        old = rising.where(is_deleted, column.ts0 < before, stamp < tuple_(*newest))
        found = connection.execute(old.limit(_PORTION)).all()
        if not found:
            continue
        last = found[-1]
        gone = connection.execute(delete(stored.table).where(is_deleted, stamp <= tuple_(*last)))
        connection.execute(delete(FORGOTTEN).where(FORGOTTEN.c.nclsid == nclsid))
        connection.execute(insert(FORGOTTEN).values(nclsid=nclsid, ts0=last[0], ts1=last[1]))
        removed[nclsid] = gone.rowcount
        is_more = is_more or len(found) >= _PORTION
    return removed, is_more
