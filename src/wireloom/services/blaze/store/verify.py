"""Proof that the columns of a table say what its encoded objects say."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import Connection, select

from wireloom.errors import DecodeError
from wireloom.formats.blaze.body import decode_nclass
from wireloom.formats.blaze.model import Model
from wireloom.services.blaze.store.api import STORED_FIRST_INDEX
from wireloom.services.blaze.store.flat import BODY
from wireloom.services.blaze.store.tables import StoredClass

__all__ = ["verify"]


def verify(
    connection: Connection, model: Model, classes: dict[int, StoredClass], most: int = 100
) -> list[str]:
    """What does not agree, one line each, and no more than `most` of them."""
    complaints: list[str] = []
    for stored in classes.values():
        if stored.table is None:
            continue
        names = [column.name for column in stored.flat.columns]
        columns = [stored.table.c[name] for name in (*names, BODY)]
        found = connection.execution_options(yield_per=500).execute(select(*columns))
        for *given, body in found:
            where = f"{stored.nclass.name} {given[:3]}"
            try:
                value = decode_nclass(
                    model, stored.nclass, bytes(body), first_index=STORED_FIRST_INDEX
                )
            except DecodeError as error:
                complaints.append(f"{where}: {error}")
                continue
            complaints += [
                f"{where}: {name} is {has!r}, the object says {wanted!r}"
                for name, has, wanted in zip(names, given, stored.flat.row(value), strict=True)
                if not _agrees(has, wanted)
            ]
            if len(complaints) >= most:
                return complaints[:most]
    return complaints


def _agrees(has: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return has is None or math.isnan(has)
    return bool(has == wanted)
