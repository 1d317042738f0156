"""From one model to a larger one: what may change, and the statements that do it.

A model may grow: fields and classes are added, numbers and texts become wider, arrays longer, keys
other than the primary one come and go, fields change places. Everything else is refused, with the
name of the field. Where encoded objects stay readable as they are, columns are added;
otherwise the table is written anew. All of it happens in one transaction.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, delete, func, insert, select, tuple_, update
from sqlalchemy.schema import CreateColumn, CreateTable, DropTable

from wireloom.errors import SourceError, StoreError
from wireloom.formats.blaze.blz import from_blz, to_blz
from wireloom.formats.blaze.body import decode_nclass, encode_nclass
from wireloom.formats.blaze.declarations import PRIMITIVES, EnumDecl, NClass
from wireloom.formats.blaze.model import Model
from wireloom.formats.blaze.nclass import (
    ClassLayout,
    NClassValue,
    Slot,
    Sparse,
    Value,
    layout_of,
)
from wireloom.formats.blaze.session.events import Stamp
from wireloom.services.blaze.store.api import STORED_FIRST_INDEX
from wireloom.services.blaze.store.flat import BODY
from wireloom.services.blaze.store.numbers import CONNID, sevtid
from wireloom.services.blaze.store.tables import (
    BOOKS,
    CHANGES,
    CLASSES,
    COUNTERS,
    MODELS,
    StoredClass,
    define_table,
    stored_classes,
)

__all__ = ["check_growth", "is_same_wire", "prepare"]

_LOCK: Final = 0x626C617A65
"""Number of the lock that is held while tables are made or changed; the letters of "blaze"."""
_NEW: Final = "blaze$new"
_BATCH: Final = 1000
"""Rows that are rewritten at once."""


def prepare(connection: Connection, model: Model, classes: dict[int, StoredClass]) -> int:
    """Make the tables, or change them to what the model wants; gives the model's generation.

    Raises:
        SourceError: the model cannot hold what is stored; with the name of the field.
        StoreError: the database cannot hold every text.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise StoreError(f"the database's encoding is {encoding}, UTF8 is needed")
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    BOOKS.create_all(connection)
    # Nobody commits meanwhile, and whoever waits will see the new generation.
    connection.execute(select(CLASSES.c.nclsid).order_by(CLASSES.c.nclsid).with_for_update())
    row = connection.execute(
        select(MODELS).order_by(MODELS.c.generation.desc()).limit(1)
    ).one_or_none()
    stored = to_blz(_bare(model))
    if row is None:
        generation = 1
        for each in classes.values():
            if each.table is not None:
                each.table.create(connection)
    elif row.model == stored:
        return int(row.generation)
    else:
        generation = row.generation + 1
        old = from_blz(row.model)
        check_growth(old, model)
        _migrate(connection, old, model, classes)
        # Objects in the log may not be readable any more, nor would their readers know the model.
        connection.execute(delete(CHANGES))
    connection.execute(
        insert(MODELS).values(generation=generation, model=stored, at=int(time.time()))
    )
    known = set(connection.execute(select(CLASSES.c.nclsid)).scalars())
    connection.execute(
        update(CLASSES).values(generation=generation, low0=CLASSES.c.ts0, low1=CLASSES.c.ts1)
    )
    for nclsid, each in classes.items():
        if nclsid not in known:
            connection.execute(
                insert(CLASSES).values(
                    nclsid=nclsid,
                    name=each.nclass.name,
                    generation=generation,
                    ts0=0,
                    ts1=0,
                    low0=0,
                    low1=0,
                )
            )
    names = {CONNID, *map(sevtid, classes)}
    names.difference_update(connection.execute(select(COUNTERS.c.name)).scalars())
    for name in names:
        connection.execute(insert(COUNTERS).values(name=name, value=0))
    return generation


def _bare(model: Model) -> Model:
    """The model without what is only for people: a new description is no new model."""
    entities = tuple(
        replace(entity, namespace=(), members=tuple(replace(m, text="") for m in entity.members))
        if isinstance(entity, EnumDecl)
        else replace(entity, namespace=(), fields=tuple(replace(f, text="") for f in entity.fields))
        for entity in model.entities
    )
    return Model(entities=entities)


def check_growth(old: Model, new: Model) -> None:
    """See that everything stored with one model can be kept with another.

    Raises:
        SourceError: it cannot; with the name of the class or field.
    """
    for before in old.nclasses:
        after = new.nclass(before.name)
        if not before.persistent:
            continue
        if after is None or not after.persistent:
            raise SourceError(f"class {before.name} is stored, but the model does not store it")
        if after.id != before.id:
            raise SourceError(f"class {before.name} is stored with the id {before.id}")
        _check_primary(before, after)
        _check_class(layout_of(old, before.name), layout_of(new, after.name), before.name)
    for after in new.nclasses:
        clash = old.nclass(after.id)
        if clash is not None and clash.persistent and clash.name != after.name:
            raise SourceError(f"class {clash.name} is stored with the id {after.id}")


def _check_primary(before: NClass, after: NClass) -> None:
    old, new = before.primary_key, after.primary_key
    if old is None or new is None or old.fields != new.fields:
        names = ", ".join(() if old is None else old.fields)
        raise SourceError(f"class {before.name} is stored with the primary key {names}")


def _check_class(old: ClassLayout, new: ClassLayout, path: str) -> None:
    for slot in old.slots:
        here = f"{path}.{slot.decl.name}"
        grown = new.by_name.get(slot.decl.name)
        if grown is None:
            raise SourceError(f"{here} is stored, but the model does not have it")
        if slot.is_array != grown.is_array or (slot.layout is None) != (grown.layout is None):
            raise SourceError(f"{here} is stored as {_declared(slot)}, not {_declared(grown)}")
        if slot.layout is not None and grown.layout is not None:
            _check_class(slot.layout, grown.layout, here)
        elif not _holds(grown, slot):
            raise SourceError(f"{here} is stored as {_declared(slot)}, not {_declared(grown)}")
        if grown.decl.count < slot.decl.count:
            raise SourceError(f"{here} is stored as {_declared(slot)}, not {_declared(grown)}")


def _declared(slot: Slot) -> str:
    decl = slot.decl
    return decl.type if decl.count == 1 else f"{decl.type}[{decl.count}]"


def _code(slot: Slot) -> str:
    return "i" if slot.enum is not None else PRIMITIVES[slot.decl.type][0]


def _holds(new: Slot, old: Slot) -> bool:
    """Whether every value of the one type is one of the other."""
    wide, narrow = _code(new), _code(old)
    if wide == narrow or (wide, narrow) == ("d", "f"):
        return True
    least_wide, least_narrow = _RANGES.get(wide), _RANGES.get(narrow)
    if least_wide is None or least_narrow is None:
        return False
    return least_wide[0] <= least_narrow[0] and least_wide[1] >= least_narrow[1]


_RANGES: Final = {
    code: (-(1 << 8 * width - 1), (1 << 8 * width - 1) - 1)
    if code.islower()
    else (0, (1 << 8 * width) - 1)
    for code, width in PRIMITIVES.values()
    if code in "hHiIqQB"
}


def is_same_wire(old: ClassLayout, new: ClassLayout) -> bool:
    """Whether an object that was encoded with one class reads the same with the other."""
    if len(new.slots) < len(old.slots):
        return False
    for before, after in zip(old.slots, new.slots, strict=False):
        if before.decl.name != after.decl.name or before.is_string != after.is_string:
            return False
        if before.layout is not None and after.layout is not None:
            if not is_same_wire(before.layout, after.layout):
                return False
        elif _code(before) != _code(after):
            return False
    return True


def _migrate(
    connection: Connection, old: Model, new: Model, classes: dict[int, StoredClass]
) -> None:
    is_sqlite = connection.dialect.name == "sqlite"
    before = stored_classes(old, is_sqlite)
    for nclsid, now in classes.items():
        if now.table is None:
            continue
        was = before.get(nclsid)
        if was is None or was.table is None:
            now.table.create(connection)
            continue
        if was.table.name != now.table.name:
            raise SourceError(
                f"class {now.nclass.name} is stored in the table {was.table.name}; another class of"
                f" that name must be declared behind it"
            )
        for index in was.table.indexes:
            index.drop(connection)
        names = {column.path: (column.name, column.kind) for column in now.flat.columns}
        is_kept = all(names.get(c.path) == (c.name, c.kind) for c in was.flat.columns)
        if is_kept and is_same_wire(
            layout_of(old, was.nclass.name), layout_of(new, now.nclass.name)
        ):
            _add_columns(connection, was.table, now.table)
        else:
            _rewrite(connection, old, new, was, now)
        for index in now.table.indexes:
            index.create(connection)


def _add_columns(connection: Connection, was: Table, now: Table) -> None:
    compiler = connection.dialect.ddl_compiler(connection.dialect, None)  # type: ignore[arg-type]
    table = compiler.preparer.format_table(now)
    for column in now.columns:
        if column.name not in was.columns:
            spec = compiler.process(CreateColumn(column))
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {spec}")


def _rewrite(
    connection: Connection, old: Model, new: Model, was: StoredClass, now: StoredClass
) -> None:
    """Write a table anew, object by object."""
    assert was.table is not None
    assert now.table is not None
    made = define_table(now.flat, _NEW, MetaData(), connection.dialect.name == "sqlite")
    connection.execute(CreateTable(made))
    layout = layout_of(new, now.nclass.name)
    target = insert(made)
    names = [column.name for column in now.flat.columns]
    source = was.table.c
    last: Stamp = (-1, -1)
    while True:
        rows = connection.execute(
            select(source.ts0, source.ts1, source["del"], source[BODY])
            .where(tuple_(source.ts0, source.ts1) > last)
            .order_by(source.ts0, source.ts1)
            .limit(_BATCH)
        ).all()
        if not rows:
            break
        last = (rows[-1][0], rows[-1][1])
        values: list[dict[str, Any]] = []
        for ts0, ts1, deleted, body in rows:
            value = decode_nclass(old, was.nclass, body, first_index=STORED_FIRST_INDEX)
            grown = _grown(value, layout)
            values.append(
                {
                    "ts0": ts0,
                    "ts1": ts1,
                    "del": deleted,
                    **dict(zip(names, now.flat.row(grown), strict=True)),
                    BODY: encode_nclass(grown, first_index=STORED_FIRST_INDEX),
                }
            )
        connection.execute(target, values)
    connection.execute(DropTable(was.table))
    quote = connection.dialect.identifier_preparer.quote
    connection.exec_driver_sql(f"ALTER TABLE {quote(_NEW)} RENAME TO {quote(now.table.name)}")


def _grown(value: NClassValue, layout: ClassLayout) -> NClassValue:
    """The same object of a larger class."""
    items = {name: _grown_item(item, layout.by_name[name]) for name, item in value.items()}
    return NClassValue(layout, items, value.encoding)


def _grown_item(item: Value, slot: Slot) -> Value:
    if isinstance(item, Sparse):
        return Sparse({index: _grown_item(each, slot) for index, each in item.items()})
    if isinstance(item, NClassValue):
        assert slot.layout is not None
        return _grown(item, slot.layout)
    return item
