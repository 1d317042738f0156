"""Raw captures read in ranges: the rows of one pass, for any number of splits."""

from __future__ import annotations

import os
import pickle
from itertools import pairwise
from random import Random

import pytest
from oracles.captured import check_accounts, collect, differences

import wireloom
from wireloom.errors import OptionError, SourceError
from wireloom.formats import get, names
from wireloom.formats.nrep import SocketData
from wireloom.generate.traffic import Conversation, pcap
from wireloom.tabulate import Settings, splittable, tabulate, tabulate_range

SUMS = ("captured", "decoded", "quarantined", "gap", "duplicate", "missing", "frames", "packets")


def _samples(name):
    return list(get(name).samples().values())


def _in_ranges(path, settings, count):
    """What a driver does: read the parts, and repair the seams that do not hold."""
    size = path.stat().st_size
    bounds = sorted({size * part // count for part in range(count + 1)})
    found, at = {}, 0

    def take(first, last, is_seam):
        reader = tabulate_range(path, first, last, settings, is_seam=is_seam)
        rows = collect(reader.batches(), settings)
        return reader, rows

    def add(rows):
        for table, more in rows.items():
            found.setdefault(table, []).extend(more)

    for first, last in pairwise(bounds):
        reader, rows = take(first, last, first == 0)
        if reader.start != at:
            if last <= at:
                continue
            reader, rows = take(at, last, True)
            assert reader.start == at
        add(rows)
        at = reader.end
    assert at == size
    return found


def _merged(rows):
    """Accounts are told for every range."""
    accounts = rows.get("accounting", [])
    if accounts:
        total = dict(accounts[0])
        for name in SUMS:
            total[name] = sum(row[name] for row in accounts)
        rows["accounting"] = [total]
    return rows


def check(path, data, settings, counts=(1, 2, 3, 7, 16, 64)):
    path.write_bytes(data)
    one = collect(tabulate(path, settings), settings)
    check_accounts(one, len(data))
    for count in counts:
        many = _merged(_in_ranges(path, settings, count))
        assert differences(one, many) == [], count
        check_accounts(many, len(data))
    return one


@pytest.mark.parametrize("name", names())
def test_every_format(name, tmp_path):
    random = Random(1)
    frames = random.choices(_samples(name), k=300)
    frames[50] = random.randbytes(99)
    data = frames[7][3:] + b"".join(frames) + frames[8][:-1]
    check(tmp_path / "x", data, Settings(formats=(name,), include_raw=True))


@pytest.mark.parametrize("name", ["nrep", "tibmsg", "tibrv"])
def test_payloads_full_of_frames_that_are_none(name, tmp_path):
    fake = b"".join(_samples(name))

    def opaque(payload):
        if name == "nrep":
            return SocketData(socket_id=bytes(10), data=payload).encode()
        if name == "tibmsg":
            field = b"\0\x83" + len(payload).to_bytes(4, "big") + payload
            return b"\xce\x13\xaa\x1f\0" + len(field).to_bytes(4, "big") + field
        field = b"\0\x07\x7a" + (len(payload) + 4).to_bytes(4, "big") + payload
        return (8 + len(field)).to_bytes(4, "big") + b"\x99\x55\xee\xaa" + field

    once, odd = opaque(fake * 3), opaque((b"x" + fake) * 2)
    twice = opaque(once + odd + fake[:-3])
    data = b"".join([fake, once, fake, odd, once, twice, odd, fake])
    check(tmp_path / "x", data, Settings(formats=(name,), nested=False))


def test_bytes_of_no_known_format(tmp_path):
    data = Random(2).randbytes(500_000).replace(b"\x1e", b"x")
    rows = check(tmp_path / "x", data, Settings(), (1, 3, 5, 64))
    assert len(rows["errors"]) == -(-len(data) // 65536)


def test_an_empty_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"")
    settings = Settings()
    reader = tabulate_range(path, 0, 0, settings, is_seam=True)
    rows = collect(reader.batches(), settings)
    assert [row["captured"] for row in rows["accounting"]] == [0]
    assert (reader.start, reader.end) == (0, 0)
    assert differences(collect(tabulate(path, settings), settings), rows) == []


def test_what_cannot_be_split(tmp_path):
    talk = Conversation("10.0.0.1:1", "10.0.0.2:2")
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([*talk.open()]))
    assert not splittable(path, Settings())
    with pytest.raises(OptionError, match="cannot be read in parts"):
        list(tabulate_range(path, 0, 10, Settings()).batches())
    raw = tmp_path / "raw"
    raw.write_bytes(b"".join(_samples("blaze")))
    assert splittable(raw, Settings())


def test_totals_of_a_range_and_its_settings_can_be_sent(tmp_path):
    path = tmp_path / "x"
    data = b"".join(_samples("tibmsg")) * 10
    path.write_bytes(data)
    settings = pickle.loads(pickle.dumps(Settings(formats=("tibmsg",)).resolved([path])))
    reader = tabulate_range(path, 0, len(data), settings, is_seam=True)
    list(reader.batches())
    assert reader.totals.captured == reader.totals.decoded == len(data)
    assert reader.totals.frames == len(list(wireloom.scan(data, "tibmsg")))


@pytest.fixture
def long_file(tmp_path):
    """A capture of several segments, of which a few are read ahead."""
    path = tmp_path / "raw"
    path.write_bytes(b"".join(_samples("tibmsg")) * 30_000)
    assert path.stat().st_size > 20 << 20
    return path


SMALL = Settings(formats=("tibmsg",), tables=("frames", "accounting"))


def test_a_file_that_is_cut_while_workers_read_it_is_an_error(long_file):
    batches = tabulate(long_file, SMALL, workers=2)
    next(batches)
    os.truncate(long_file, 4096)
    with pytest.raises(SourceError, match="cut while it was read"):
        list(batches)


def test_a_file_that_is_cut_while_a_range_of_it_is_read_is_an_error(long_file):
    size = long_file.stat().st_size
    batches = tabulate_range(long_file, size // 4, size, SMALL).batches()
    next(batches)
    os.truncate(long_file, 4096)
    with pytest.raises(SourceError, match="cut while it was read"):
        list(batches)
    # Another reader sees the file as it is now.
    later = tabulate_range(long_file, size // 2, size, SMALL)
    assert collect(later.batches(), SMALL).get("frames", []) == []
    assert (later.start, later.end) == (4096, 4096)
