"""A dictionary out of the cache: the same as the one that was kept, made piece by piece."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from wireloom.formats.qform.dictionary import Dictionary, Entry, model, parse_cfile
from wireloom.formats.qform.dictionary.cache import fetch, store

TEXT = (
    "A { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 3; IS_FIXED false; }\n"
    "B { CLASS_ID 2; DATA_TYPE 2; DATA_SIZE 9; IS_PARTIAL true; }\n"
    "C { CLASS_ID 2; DATA_TYPE 15; }\n"
    "A { CLASS_ID 7; DATA_TYPE 1; }\n"
    "F { CLASS_ID 3; IS_PRIMITIVE false; FIELDS { a { FIELD_CLASS_NAME A; }"
    " b { FIELD_CLASS_NAME B; } } }\n"
)
PLAIN = parse_cfile(TEXT)


@pytest.fixture
def kept(tmp_path: Path) -> Dictionary:
    assert store("0" * 64, PLAIN, tmp_path / "cache")
    found = fetch("0" * 64, tmp_path / "cache")
    assert found is not None
    return found


def test_only_what_is_used_is_made(kept: Dictionary, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    init = Entry.__init__

    def counted(self: Entry, fid: int, *more: object) -> None:
        made.append(fid)
        init(self, fid, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Entry, "__init__", counted)
    assert len(kept) == 5
    assert 7 in kept
    assert kept.get(99) is None
    assert hash(kept) == hash(PLAIN)
    assert made == []
    assert kept.get(2) is kept.by_name["B"]
    assert kept.by_fid[2] is kept.get(2)
    assert made == [2]


def test_every_view_is_that_of_a_plain_dictionary(kept: Dictionary) -> None:
    assert kept == PLAIN
    assert kept.entries == PLAIN.entries
    assert kept.problems == PLAIN.problems
    assert kept.forms == PLAIN.forms
    assert repr(kept) == repr(PLAIN)
    for mine, plain in ((kept.by_fid, PLAIN.by_fid), (kept.by_name, PLAIN.by_name)):
        assert mine == plain
        assert list(mine.items()) == list(plain.items())
        assert list(mine.values()) == list(plain.values())
        assert list(mine) == list(plain)
        assert len(mine) == len(plain)
    assert kept.by_name["A"].fid == 1
    with pytest.raises(KeyError):
        kept.by_name["Z"]


@pytest.mark.parametrize("used", [(), (2,), (1, 2, 3, 7)])
def test_entries_made_before_stay_the_same(kept: Dictionary, used: tuple[int, ...]) -> None:
    before = [kept.get(fid) for fid in used]
    entries = kept.entries
    assert entries == PLAIN.entries
    assert all(any(one is entry for entry in entries) for one in before)
    assert kept.get(1) is entries[0]


def test_after_many_messages_the_mapping_is_a_plain_one(kept: Dictionary) -> None:
    first = kept.get(2)
    assert not isinstance(kept.by_fid, dict)
    for _ in range(model._MANY):
        assert kept.by_fid[2] is first
    assert isinstance(kept.by_fid, dict)
    assert list(kept.by_fid.items()) == list(PLAIN.by_fid.items())


def test_it_pickles(kept: Dictionary) -> None:
    again = pickle.loads(pickle.dumps(kept))
    assert again == kept
    assert again.problems == kept.problems


def test_it_cannot_be_changed(kept: Dictionary) -> None:
    for name in ("entries", "problems", "by_fid", "by_name"):
        with pytest.raises(AttributeError):
            setattr(kept, name, ())
    assert kept != 1
