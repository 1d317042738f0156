"""The cache of parsed dictionaries: quick, and never trusted more than it deserves."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from wireloom.errors import SourceError
from wireloom.formats.qform.dictionary import (
    Dictionary,
    Entry,
    Member,
    Problem,
    TssType,
    cache,
    load,
    loading,
    parse_cfile,
    scan_cfile,
)
from wireloom.formats.qform.dictionary.cache import cache_directory, cache_key, fetch, store
from wireloom.formats.qform.dictionary.source import Source, to_source

KEY = "0" * 64
TEXT = (
    "A { CLASS_ID 1; DATA_TYPE 2; DATA_SIZE 3; IS_FIXED false; }\n"
    "B { CLASS_ID 2; DATA_TYPE 2; DATA_SIZE 9; IS_PARTIAL true; }\n"
    "C { CLASS_ID 2; DATA_TYPE 15; }\n"
    '"\u00e9" { CLASS_ID 3; IS_PRIMITIVE false; FIELDS { "a" { FIELD_CLASS_NAME A; }'
    " b { FIELD_CLASS_NAME B; } } }\n"
)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "cache"
    monkeypatch.setenv("WIRELOOM_CACHE", str(place))
    return place


def kept_file(directory: Path) -> Path:
    (path,) = directory.glob("*.json")
    return path


def rewrite(path: Path, body: bytes) -> None:
    """Another content with a right header, as someone who knows the format would write it."""
    path.write_bytes(cache._header(path.stem, body) + b"\n" + body)


# --- what is kept ---


def test_what_is_stored_is_fetched_again_with_its_problems(directory: Path) -> None:
    made = parse_cfile(TEXT)
    assert made.problems
    assert fetch(KEY, directory) is None
    assert store(KEY, made, directory)
    again = fetch(KEY, directory)
    assert again == made
    assert again is not None
    assert again.problems == made.problems
    assert store(KEY, Dictionary(), directory)
    assert fetch(KEY, directory) == Dictionary()


def test_files_are_for_this_user_only(directory: Path) -> None:
    assert store(KEY, parse_cfile(TEXT), directory)
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(kept_file(directory)).st_mode) == 0o600
    assert os.listdir(directory) == [f"{KEY}.json"]


def test_the_key_depends_on_every_byte_and_name() -> None:
    sources = [to_source("ab", "f"), to_source("c", "g")]
    keys = {
        cache_key("cfile", sources),
        cache_key("rdm", sources),
        cache_key("cfile", [to_source("a", "f"), to_source("bc", "g")]),
        cache_key("cfile", [to_source("ab", "ff"), to_source("c", "g")]),
        cache_key("cfile", sources[::-1]),
        cache_key("cfile", sources[:1]),
        cache_key("cfile", [Source("\udcff", b"")]),
    }
    assert len(keys) == 7
    assert cache_key("cfile", sources) == cache_key("cfile", sources)


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WIRELOOM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_directory() == Path("/xdg/wireloom/dictionaries")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_directory() == Path("/home/someone/.cache/wireloom/dictionaries")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path("/home/someone/.cache/wireloom/dictionaries")
    monkeypatch.setenv("WIRELOOM_CACHE", "/elsewhere")
    assert cache_directory() == Path("/elsewhere")
    for off in ("off", "OFF", "0", "no", "false"):
        monkeypatch.setenv("WIRELOOM_CACHE", off)
        assert cache_directory() is None


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.delenv("WIRELOOM_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_directory() is None
    assert fetch(KEY, None) is None
    assert not store(KEY, Dictionary(), None)


def test_old_dictionaries_make_room(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_FILES", 3)
    for number in range(5):
        assert store(f"{number}", Dictionary(), directory)
        os.utime(directory / f"{number}.json", (number, number))
    assert store("5", Dictionary(), directory)
    assert sorted(os.listdir(directory)) == ["3.json", "4.json", "5.json"]


def test_what_writers_left_behind_is_removed_after_a_while(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    for name in ("old.tmp", "new.tmp"):
        (directory / name).write_text("")
    os.utime(directory / "old.tmp", (0, 0))
    assert store(KEY, Dictionary(), directory)
    assert sorted(os.listdir(directory)) == sorted([f"{KEY}.json", "new.tmp"])


# --- what is not trusted ---


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "foreign", "longer"])
def test_a_damaged_file_is_ignored_and_written_anew(directory: Path, damage: str) -> None:
    made = parse_cfile(TEXT)
    store(KEY, made, directory)
    path = kept_file(directory)
    data = path.read_bytes()
    damaged = {
        "truncated": data[: len(data) // 2],
        "flipped": data.replace(b'"A"', b'"X"'),
        "empty": b"",
        "foreign": b"\x80\x04\x95 not ours",
        "longer": data + b" ",
    }[damage]
    path.write_bytes(damaged)
    assert fetch(KEY, directory) is None
    assert store(KEY, made, directory)
    assert fetch(KEY, directory) == made


def test_truncations_and_mutations_are_harmless(directory: Path) -> None:
    made = parse_cfile(TEXT)
    store(KEY, made, directory)
    path = kept_file(directory)
    data = path.read_bytes()
    rng = random.Random(1)
    for size in [*range(0, len(data), 5), len(data) - 1]:
        path.write_bytes(data[:size])
        assert fetch(KEY, directory) is None
    body = data.partition(b"\n")[2]
    for _ in range(300):
        mutated = bytearray(body)
        for _ in range(rng.randint(1, 3)):
            mutated[rng.randrange(len(mutated))] = rng.choice(b'0123456789,[]{}"-eAx')
        rewrite(path, bytes(mutated))  # as if it were right: the content alone must hold
        found = fetch(KEY, directory)
        assert found is None or isinstance(found, Dictionary)


def good() -> dict[str, Any]:
    data: dict[str, Any] = cache._to_json(parse_cfile(TEXT))
    return data


@pytest.mark.parametrize(
    "change",
    [
        {"fids": None},
        {"fids": [1, 2, 2]},
        {"fids": [1, 2, 2, True]},
        {"fids": [1, 2, 2, 3.0]},
        {"fids": [1, 2, 2, 1 << 40]},
        {"fids": {"0": 1}},
        {"names": ["A", "B", "C", 4]},
        {"names": ["A", "B", "C", ""]},
        {"names": ["A", "B", "C", "x" * 255]},
        {"names": "ABCD"},
        {"kind": None},
        {"kind": [0, 1, 2]},
        {"kind": [0, 1, 2, 4]},
        {"kind": [0, 1, 2, -1]},
        {"kind": [0, 1, 2, "3"]},
        {"kinds": None},
        {"kinds": [[2, 3, 1], [2, 9, 1], [15, 9, 1]]},
        {"kinds": [[2, 3, 1]] * 3 + [[2, 3]]},
        {"kinds": [[2, 3, 1]] * 3 + [[2, 3, True]]},
        {"kinds": [[2, 3, 1]] * 3 + [[22, 3, 1]]},
        {"kinds": [[2, 3, 1]] * 3 + [[-2, 3, 1]]},
        {"kinds": [[2, 3, 1]] * 3 + [[2, -1, 1]]},
        {"kinds": [[2, 3, 1]] * 3 + [[2, 1 << 20, 1]]},
        {"kinds": [[2, 3, 1]] * 3 + [[2, 3, 8]]},
        {"members": None},
        {"members": [[4, "a", 1]]},
        {"members": [[-1, "a", 1]]},
        {"members": [[3, "a"]]},
        {"members": [[3, 1, 1]]},
        {"members": [[3, "a", "b"]]},
        {"members": [3]},
        {"reasons": None},
        {"reasons": [1]},
        {"reasons": ["r", "s"]},
        {"files": [1]},
        {"lines": [-1]},
        {"lines": []},
        {"errors": [0]},
        {"errors": None},
    ],
)
def test_content_of_another_shape_is_no_dictionary(directory: Path, change: dict[str, Any]) -> None:
    store(KEY, Dictionary(), directory)
    path = kept_file(directory)
    rewrite(path, json.dumps(good()).encode())
    assert fetch(KEY, directory) == parse_cfile(TEXT)
    rewrite(path, json.dumps({**good(), **change}).encode())
    assert fetch(KEY, directory) is None


@pytest.mark.parametrize(
    "body",
    [b"[]", b"null", b"{}", b"{", b"\xff", b"[" * 100_000, b'{"fids": [1' + b"0" * 5000 + b"]}"],
)
def test_content_that_is_no_dictionary_at_all(directory: Path, body: bytes) -> None:
    store(KEY, Dictionary(), directory)
    rewrite(kept_file(directory), body)
    assert fetch(KEY, directory) is None


def test_a_file_that_others_can_write_is_ignored(directory: Path) -> None:
    store(KEY, parse_cfile(TEXT), directory)
    for mode in (0o620, 0o602, 0o666):
        os.chmod(kept_file(directory), mode)
        assert fetch(KEY, directory) is None
    os.chmod(kept_file(directory), 0o600)
    assert fetch(KEY, directory) is not None


def test_a_directory_that_others_can_write_is_not_used(directory: Path) -> None:
    store(KEY, parse_cfile(TEXT), directory)
    os.chmod(directory, 0o777)
    assert fetch(KEY, directory) is None
    assert not store("1", Dictionary(), directory)
    assert os.listdir(directory) == [f"{KEY}.json"]


def test_what_belongs_to_someone_else_is_not_used(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(KEY, parse_cfile(TEXT), directory)
    monkeypatch.setattr(cache, "_effective_user", lambda: os.geteuid() + 1)
    assert fetch(KEY, directory) is None
    assert not store("1", Dictionary(), directory)
    # Where files have no owners, there is nothing to compare.
    monkeypatch.setattr(cache, "_effective_user", None)
    assert fetch(KEY, directory) is not None


def test_links_are_not_followed(directory: Path, tmp_path: Path) -> None:
    made = parse_cfile(TEXT)
    store(KEY, made, directory)
    path = kept_file(directory)
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    assert fetch(KEY, directory) is None
    content = target.read_bytes()
    assert store(KEY, Dictionary(), directory)
    assert not path.is_symlink()
    assert target.read_bytes() == content
    link = tmp_path / "link"
    link.symlink_to(directory)
    assert fetch(KEY, link) is None
    assert not store("1", Dictionary(), link)


def test_pipes_and_directories_in_place_of_a_file_are_ignored(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.mkfifo(directory / f"{KEY}.json", 0o600)
    assert fetch(KEY, directory) is None
    (directory / "1.json").mkdir(mode=0o700)
    assert fetch("1", directory) is None
    assert not store("1", Dictionary(), directory)
    assert sorted(os.listdir(directory)) == sorted([f"{KEY}.json", "1.json"])


def test_a_file_too_large_is_ignored(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(KEY, parse_cfile(TEXT), directory)
    monkeypatch.setattr(cache, "_MAX_BYTES", 10)
    assert fetch(KEY, directory) is None


def test_a_place_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not store(KEY, Dictionary(), tmp_path / "file" / "cache")
    assert fetch(KEY, tmp_path / "file" / "cache") is None


def test_writers_and_readers_may_run_side_by_side(directory: Path) -> None:
    made = [
        Dictionary(tuple(Entry(fid, f"N{fid}", TssType.LONG, 8) for fid in range(count)))
        for count in (1, 400)
    ]
    rounds = range(100)
    wrong: list[object] = []

    def write(dictionary: Dictionary) -> None:
        stored = [store(KEY, dictionary, directory) for _ in rounds]
        wrong.extend(done for done in stored if not done)

    def read() -> None:
        for _ in rounds:
            found = fetch(KEY, directory)
            if found not in made:
                wrong.append(found)

    store(KEY, made[0], directory)
    threads = [threading.Thread(target=write, args=(one,)) for one in made]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert os.listdir(directory) == [f"{KEY}.json"]


# --- loading through it ---


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MIN_CACHED_BYTES", 0)


@pytest.mark.usefixtures("small")
def test_a_file_is_parsed_once(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fields.cf"
    path.write_text(TEXT)
    made = load(path)
    monkeypatch.setattr(loading, "scan_cfile", lambda *_, **__: pytest.fail("parsed again"))
    again = load(path)
    assert again == made
    assert again.problems == made.problems
    monkeypatch.undo()
    monkeypatch.setenv("WIRELOOM_CACHE", str(directory))
    monkeypatch.setattr(loading, "MIN_CACHED_BYTES", 0)
    path.write_text(TEXT.replace("DATA_SIZE 3", "DATA_SIZE 4"))
    assert load(path).by_name["A"].size == 4
    assert len(os.listdir(directory)) == 2


@pytest.mark.usefixtures("small")
def test_a_change_in_an_included_file_is_seen(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cf").write_text('CFILE_INCLUDES # }\n { a.cf; "b.cf"; }')
    (tmp_path / "a.cf").write_text("CFILE_INCLUDES { c.cf; }")
    (tmp_path / "b.cf").write_text("CFILE_INCLUDES { c.cf; }")
    (tmp_path / "c.cf").write_text("X { CLASS_ID 1; DATA_TYPE 1; }")
    assert load(tmp_path / "main.cf").by_name["X"].fid == 1
    assert len(os.listdir(directory)) == 1
    (tmp_path / "c.cf").write_text("X { CLASS_ID 2; DATA_TYPE 1; }")
    assert load(tmp_path / "main.cf").by_name["X"].fid == 2
    assert load(tmp_path / "main.cf").by_name["X"].fid == 2
    assert len(os.listdir(directory)) == 2


@pytest.mark.usefixtures("small")
def test_rdm_dictionaries_are_kept_with_their_enums(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "RDMFieldDictionary").write_text('E "E" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1\n')
    assert load(tmp_path).by_name["E"].size == 4
    (tmp_path / "enumtype.def").write_text('E 4\n0 "LONGER"\n')
    assert load(tmp_path).by_name["E"].size == 8
    assert load(tmp_path).by_name["E"].size == 8
    assert len(os.listdir(directory)) == 2


@pytest.mark.usefixtures("small")
def test_what_is_not_kept(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "good.cf").write_text(TEXT)
    (tmp_path / "bad.cf").write_text(TEXT + "}")
    (tmp_path / "odd.cf").write_text("CFILE_INCLUDES { gone; } CFILE_INCLUDES { ../x; }")
    load(TEXT)
    load(tmp_path / "good.cf", cache=False)
    load(tmp_path / "good.cf", dialect="reference")
    for name in ("bad.cf", "odd.cf"):
        with pytest.raises(SourceError):
            load(tmp_path / name)
    assert not directory.exists()


def test_small_files_are_not_kept(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "good.cf").write_text(TEXT)
    load(tmp_path / "good.cf")
    assert not directory.exists()


@pytest.mark.usefixtures("small")
def test_a_text_that_was_not_hashed_keeps_the_result_out(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MAX_INCLUDES", 0)
    (tmp_path / "main.cf").write_text("CFILE_INCLUDES { a; b; }")
    (tmp_path / "a").write_text("X { CLASS_ID 1; DATA_TYPE 1; }")
    (tmp_path / "b").write_text("Y { CLASS_ID 2; DATA_TYPE 1; }")
    assert len(load(tmp_path / "main.cf")) == 2
    assert not directory.exists()


def test_a_large_rdm_dictionary_is_parsed_once(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How quick that is, `./run bench dictionaries` says.
    path = tmp_path / "RDMFieldDictionary"
    path.write_text("".join(f'F{n} "F {n}" {n + 1} NULL PRICE 17 REAL64 7\n' for n in range(2000)))
    cold = load(path)
    assert len(cold) == 2004
    assert len(os.listdir(directory)) == 1
    monkeypatch.setattr(loading, "scan_rdm", None)
    assert load(path) == cold


def test_the_checksum_covers_the_body() -> None:
    header = cache._header(KEY, b"body").decode()
    assert header == f"wireloom dictionary {cache.PARSER_VERSION} {KEY} " + (
        hashlib.sha256(b"body").hexdigest()
    )
    problem = Problem("half \ud800 a character", "f", 1)
    made = Dictionary((Entry(1, "\ud800", None, 0, members=(Member("m", 2),)),), (problem,))
    assert cache._from_json(json.loads(json.dumps(cache._to_json(made)))).problems == (problem,)
    assert scan_cfile(to_source("", "f")) == cache._from_json(cache._to_json(Dictionary()))
