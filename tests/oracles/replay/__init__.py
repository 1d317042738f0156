"""The derived tables by going through the rows one by one: slow, plain, and what Spark must equal.

Nothing here is shared with `wireloom.spark.derived`, so that a mistake cannot hide on both sides.
Tables are lists of rows, rows are dicts of all columns. One module per table, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oracles.replay.bars import bars
from oracles.replay.blaze_objects import blaze_objects
from oracles.replay.blaze_subscriptions import blaze_subscriptions
from oracles.replay.blaze_transactions import blaze_transactions
from oracles.replay.common import Row, Rows, connection_of
from oracles.replay.last_values import last_values
from oracles.replay.nais_exchanges import nais_exchanges
from oracles.replay.nrep_sockets import nrep_sockets

__all__ = ["REPLAYS", "connection_of", "replay"]

REPLAYS: dict[str, Callable[..., list[Row]]] = {
    "blaze_transactions": blaze_transactions,
    "blaze_subscriptions": blaze_subscriptions,
    "blaze_objects": blaze_objects,
    "nais_exchanges": nais_exchanges,
    "nrep_sockets": nrep_sockets,
    "last_values": last_values,
    "bars": bars,
}
"""The derived tables by name."""


def replay(name: str, tables: Rows, **options: Any) -> list[Row]:
    """A derived table.

    Args:
        name: which.
        tables: the base tables; `gaps` and `errors` may be missing.
        options: as for `wireloom.spark.derived.derive`.

    Raises:
        KeyError: there is none of that name.
    """
    return REPLAYS[name](tables, **options)
