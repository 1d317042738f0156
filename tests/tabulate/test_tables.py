"""Captures as tables: the rows of the object path, whatever the chunks, batches and workers."""

from __future__ import annotations

import io
from random import Random

import pytest
from oracles.captured import (
    captured_rows,
    check_accounts,
    collect,
    differences,
    made_capture,
)

from wireloom import kernel as kernels
from wireloom.captures import Capture
from wireloom.formats import get, names
from wireloom.generate.traffic import Faults
from wireloom.tabulate import Settings, Tabulator, tabulate

FAULTS = (
    None,
    Faults(reorder=0.1, duplicates=0.05),
    Faults(loss=0.08),
    Faults(reorder=0.1, loss=0.05, duplicates=0.05, corruption=0.03),
)


def _samples(name):
    return list(get(name).samples().values())


def _capture(name, seed, **more):
    random = Random(seed)
    faults = FAULTS[seed % len(FAULTS)]
    more = {"faults": faults, "is_pcapng": bool(seed % 2), "snap": 70 if seed % 3 else None} | more
    return made_capture(_samples(name), random, **more)


def _rows(data, settings, *, chunk=1 << 16, packets=1 << 14, kernel=None, workers=1):
    tabulator = Tabulator(settings, workers=workers, kernel=kernel)

    def run():
        events = Capture(io.BytesIO(data), chunk_bytes=chunk, batch_packets=packets, kernel=kernel)
        for event in events:
            yield from tabulator.feed(event)
        yield from tabulator.close()

    found = collect(run(), settings)
    return found, tabulator.totals


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", names())
def test_rows_are_those_of_the_object_path(name, seed):
    data = _capture(name, seed)
    settings = Settings(formats=(name,), include_raw=bool(seed % 2))
    expected = captured_rows(Capture(io.BytesIO(data)), name, include_raw=settings.include_raw)
    found, totals = _rows(data, settings)
    assert differences(expected, found) == []
    check_accounts(found, totals.captured)
    assert totals.frames == len(found["frames"])
    assert totals.errors == len(found.get("errors", []))
    assert totals.rows == {table: len(rows) for table, rows in found.items()}


@pytest.mark.parametrize("name", names())
def test_rows_do_not_depend_on_chunks_batches_and_workers(name):
    data = _capture(name, 3)
    settings = Settings(formats=(name,))
    expected = captured_rows(Capture(io.BytesIO(data)), name)
    for how in (
        {"chunk": 1000, "packets": 7},
        {"chunk": 100_000, "packets": 1},
        {"workers": 2, "packets": 20},
        {"workers": 3},
    ):
        for rows in (1 << 16, 7):
            few = Settings(formats=(name,), batch_rows=rows)
            found, _ = _rows(data, few, **how)
            assert differences(expected, found) == [], (how, rows)
            check_accounts(found)
    assert settings.batch_rows == 1 << 16


@pytest.mark.parametrize("name", names())
def test_the_interpreted_kernel_gives_the_same(name):
    random = Random(5)
    data = made_capture(_samples(name), random, connections=1, faults=FAULTS[3])
    settings = Settings(formats=(name,), include_raw=True)
    slow, _ = _rows(data, settings, kernel=kernels.interpreted())
    expected = captured_rows(Capture(io.BytesIO(data)), name, include_raw=True)
    assert differences(expected, slow) == []


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", names())
def test_raw_captures(name, workers, tmp_path):
    random = Random(6)
    frames = random.choices(_samples(name), k=400)
    frames[100] = random.randbytes(77)
    data = frames[3][-5:] + b"".join(frames) + frames[4][:-2]
    path = tmp_path / "frames.bin"
    path.write_bytes(data)
    settings = Settings(formats=(name,), include_raw=True)
    expected = captured_rows(Capture(path), name, include_raw=True)
    seen = []
    found = collect(tabulate(path, settings, workers=workers, progress=seen.append), settings)
    assert differences(expected, found) == []
    check_accounts(found, len(data))
    assert seen
    assert seen[-1].done <= len(data)


def test_several_sources_of_both_kinds(tmp_path):
    raw, packets = tmp_path / "raw.bin", tmp_path / "packets.pcap"
    raw.write_bytes(b"".join(_samples("tibrv")) * 5)
    packets.write_bytes(_capture("tibrv", 1))
    settings = Settings()
    for workers in (1, 2):
        found = collect(tabulate([raw, packets], settings, workers=workers), settings)
        expected = captured_rows(Capture([raw, packets]), "tibrv")
        assert differences(expected, found) == []


def test_only_tables_and_columns_that_are_asked_for():
    data = _capture("blaze", 2)
    whole, totals = _rows(data, Settings(formats=("blaze",)))
    for tables, select in (
        (("frames",), {"frames": ("type_name", "frame_offset")}),
        (("blaze",), {"blaze": ("body",)}),
        (("accounting",), {}),
        (("errors", "gaps"), {"errors": ("code", "raw"), "gaps": ("length",)}),
    ):
        settings = Settings(formats=("blaze",), tables=tables, select=select)
        found, few = _rows(data, settings)
        assert set(found) <= set(tables)
        assert (few.captured, few.frames, few.errors) == (
            totals.captured,
            totals.frames,
            totals.errors,
        )
        for table, rows in found.items():
            wanted = select.get(table, settings.table(table).names)
            kept = [
                {name: row[name] for name in settings.table(table).names} for row in whole[table]
            ]
            assert set(rows[0]) == set(wanted)
            assert sorted(map(repr, rows)) == sorted(map(repr, kept))


def test_wide_columns():
    data = _capture("tibmsg", 0)
    settings = Settings(
        formats=("tibmsg",), tables=("wide", "messages"), columns=("BID:decimal(18,4)",)
    )
    found, _ = _rows(data, settings)
    assert len(found["wide"]) == len(found["messages"])
    assert set(found["wide"][0]) == {*settings.table("wide").names}
