from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

CFILE = """
BID  { CLASS_ID 101; IS_PRIMITIVE true; IS_FIXED true; DATA_SIZE 8; DATA_TYPE 6; }
NAME { CLASS_ID 102; IS_PRIMITIVE true; IS_FIXED false; DATA_SIZE 20; DATA_TYPE 2; }
"""
FORM = """
REC { CLASS_ID 200; IS_PRIMITIVE false; FIELDS { "BID" { FIELD_CLASS_NAME "BID"; } } }
"""
RDM = """!tag Filename  RDMFieldDictionary
!tag Type 1
!ACRONYM DDE_ACRONYM FID RIPPLES_TO FIELD_TYPE LENGTH RWF_TYPE RWF_LEN
BID "BID" 22 BID_1 PRICE 17 REAL64 7
BID_1 "BID 1" 23 NULL PRICE 17 REAL64 7
RDN_EXCHID "IDN EXCHANGE ID" 4 NULL ENUMERATED 3 ( 3 ) ENUM 1
"""
ENUMS = """!tag Filename  ENUMTYPE.001
RDN_EXCHID 4
!VALUE DISPLAY MEANING
0 "   " undefined
1 "ASE" American
"""


@pytest.fixture
def cfile(tmp_path: Path) -> Path:
    path = tmp_path / "tss_fields.cf"
    path.write_text(CFILE)
    return path


@pytest.fixture
def rdm(tmp_path: Path) -> Path:
    path = tmp_path / "rdm" / "RDMFieldDictionary"
    path.parent.mkdir()
    path.write_text(RDM)
    (path.parent / "enumtype.def").write_text(ENUMS)
    return path


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_show_lists_the_entries(run: Any, cfile: Path) -> None:
    shown = run("dict", "show", cfile).stdout.splitlines()
    assert shown[0].split() == ["fid", "name", "type", "value", "kind", "size", "members"]
    assert shown[1].split() == ["101", "BID", "PRICE", "real", "fixed", "8"]
    assert shown[2].split() == ["102", "NAME", "STRING", "string", "variable", "20"]
    assert run("dict", "show", cfile.parent).stdout.splitlines() == shown


@pytest.mark.parametrize("words", [["--name", "B*"], ["--fid", "101"], ["--fid=101", "--fid=9"]])
def test_show_only_what_is_asked_for(run: Any, cfile: Path, words: list[str]) -> None:
    assert [row["name"] for row in rows(run("dict", "show", "--json", cfile, *words).stdout)] == [
        "BID"
    ]


def test_nothing_to_show_is_an_error(run: Any, cfile: Path) -> None:
    assert "no such entry" in run("dict", "show", cfile, "--name", "nosuch", code=1).stderr


def test_show_rdm_fields_with_their_enums(run: Any, rdm: Path) -> None:
    shown = rows(run("dict", "show", "--rdm", "--json", rdm).stdout)
    assert [row["name"] for row in shown] == ["BID", "BID_1", "RDN_EXCHID"]
    assert shown[0]["ripples_to"] == "BID_1"
    assert shown[2]["enum"] == {"0": "   ", "1": "ASE"}
    assert run("dict", "show", "--rdm", rdm, "--enums", rdm.parent / "enumtype.def").stdout


def test_show_makes_sass_fields_of_rdm_fields(run: Any, rdm: Path) -> None:
    shown = rows(run("dict", "show", "--json", rdm).stdout)
    assert {"BID", "BID_1", "RDN_EXCHID"} <= {row["name"] for row in shown}


def test_check_is_quiet_about_a_good_dictionary(run: Any, cfile: Path) -> None:
    result = run("dict", "check", cfile)
    assert result.stdout == ""
    assert "nothing wrong" in result.stderr


def test_check_lists_what_is_odd_with_file_and_line(run: Any, cfile: Path) -> None:
    cfile.write_text(CFILE + "BID { CLASS_ID 103; DATA_SIZE 8; DATA_TYPE 6; }\n")
    result = run("dict", "check", cfile, code=1)
    assert f"{cfile}:4: BID has fid 103" in result.stdout
    assert "(odd, but readable)" in result.stdout
    run("dict", "check", "--errors-only", cfile)


def test_check_lists_errors_with_file_and_line(run: Any, cfile: Path) -> None:
    cfile.write_text(CFILE + "BROKEN\x1b { CLASS_ID ; }\n")
    result = run("dict", "check", "--errors-only", cfile, code=1)
    assert f"{cfile}:4: " in result.stdout
    assert "odd" not in result.stdout
    assert "\x1b" not in result.stdout
    assert f"{cfile}:4: " in run("dict", "show", cfile, code=1).stderr


def test_convert_round_trips_through_json(run: Any, cfile: Path, tmp_path: Path) -> None:
    cfile.write_text(CFILE + FORM)
    lines, again = tmp_path / "d.jsonl", tmp_path / "again.cf"
    result = run("dict", "convert", cfile, "-o", lines, "--dialect", "clean")
    assert "fields" in result.stderr
    run("dict", "convert", lines, "-o", again)
    shown = run("dict", "show", "--json", cfile).stdout
    assert '"members":[{"name":"BID","fid":101}]' in shown
    assert run("dict", "show", "--json", again).stdout == shown
    assert lines.read_text() == shown


def test_convert_rdm_to_cfile(run: Any, rdm: Path, tmp_path: Path) -> None:
    made = run("dict", "convert", rdm, "--to", "cfile").stdout
    target = tmp_path / "made.cf"
    target.write_text(made)
    assert run("dict", "show", target).stdout == run("dict", "show", rdm).stdout
    assert "exists" in run("dict", "convert", rdm, "-o", target, code=2).stderr


def test_convert_to_csv(run: Any, cfile: Path) -> None:
    made = list(csv.DictReader(io.StringIO(run("dict", "convert", cfile, "--to", "csv").stdout)))
    assert [row["name"] for row in made] == ["BID", "NAME"]


def test_convert_needs_to_know_what_to_make(run: Any, cfile: Path) -> None:
    assert "--to cfile, json or csv" in run("dict", "convert", cfile, code=2).stderr
    assert "--to" in run("dict", "convert", cfile, "-o", "x.unknown", code=2).stderr


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "{}",
        '{"fid":1,"name":"A","type":"NOSUCH","size":1}',
        '{"fid":[],"name":"A","type":"PRICE","size":1}',
        '{"fid":1,"name":"A","type":null,"size":0,"members":[{"name":"B"}]}',
    ],
)
def test_json_that_is_no_dictionary_is_named_by_line(run: Any, tmp_path: Path, line: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(f'\n{{"fid":1,"name":"A","type":"PRICE","size":8}}\n{line}\n')
    assert f"{path}:3: " in run("dict", "convert", path, "--to", "cfile", code=1).stderr
