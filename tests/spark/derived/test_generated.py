"""Every derived table, against the replay, on captures with all kinds of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from oracles.derivations import BLAZE_MODEL, KEYS, captured, check, disturbed, timeless

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLAZE_IDS = {"txprid": 5, "rqstid": 2, "sbsrid": 2, "sevtid": 40}
CASES = {
    "blaze_transactions": (("blaze",), {"txprid": 5}),
    "blaze_subscriptions": (("blaze", "qform-in-blaze"), BLAZE_IDS),
    "blaze_objects": (("blaze",), {"rqstid": 2, "sbsrid": 2}),
    "nais_exchanges": (("nais",), {}),
    "nrep_sockets": (("nrep",), {"nonce": 4}),
    "last_values": (("tibmsg", "qform", "tibmsg-in-tibrv", "tibrv-in-nrep"), {}),
    "bars": (("tibmsg", "qform", "tibmsg-in-tibrv"), {}),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "blaze_objects": {"model": BLAZE_MODEL, "plainly": {"keys": KEYS}},
    "bars": {"interval": "1 second", "plainly": {"seconds": 1}},
}


@pytest.mark.parametrize("name", CASES)
def test_derived_tables_are_those_of_the_replay(spark: SparkSession, name: str) -> None:
    formats, _ = CASES[name]
    rows = captured(*formats, messages=600)
    assert check(spark, name, rows, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", CASES)
def test_lost_and_repeated_rows_and_reused_ids_make_no_difference(
    spark: SparkSession, name: str
) -> None:
    formats, few_ids = CASES[name]
    rows = disturbed(captured(*formats, messages=600, seed=1), 1, few_ids=few_ids)
    assert check(spark, name, rows, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", ["blaze_transactions", "nrep_sockets", "last_values"])
def test_rows_without_times_are_in_the_order_of_their_stream(
    spark: SparkSession, name: str
) -> None:
    formats, few_ids = CASES[name]
    rows = timeless(disturbed(captured(*formats, messages=300, seed=2), 2, few_ids=few_ids))
    found = check(spark, name, rows, **OPTIONS.get(name, {}))
    assert found
    assert all(row["ts_ns"] is None for row in found if "ts_ns" in row)
