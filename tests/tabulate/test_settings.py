"""What may be asked for, as values and as texts."""

from __future__ import annotations

import io
import pickle

import pytest

from wireloom.errors import OptionError, SourceError
from wireloom.formats import tibmsg
from wireloom.formats.blaze import from_blz
from wireloom.generate import generate
from wireloom.tables import table_names
from wireloom.tabulate import Settings, tabulate
from wireloom.wire import Limits

BLZ = "nclass P\n{\n@id 1\nbyte b\n}\n"


def test_texts_give_the_same_as_values():
    made = Settings.from_options(
        {
            "tables": "fields, wide,errors",
            "columns": "BID,ASK:decimal(18,4)",
            "formats": "tibmsg,tibrv",
            "ports": "7001=blaze, 7002=nais",
            "select": "fields.name,fields.value_int,errors.raw",
            "mode": "failfast",
            "include_raw": "true",
            "nested": "FALSE",
            "max_frame": "1000",
            "max_flows": "7",
            "batch_rows": "10",
        }
    )
    assert made == Settings(
        tables=("fields", "wide", "errors"),
        columns=("BID", "ASK:decimal(18,4)"),
        formats=("tibmsg", "tibrv"),
        ports={7001: "blaze", 7002: "nais"},
        select={"fields": ("name", "value_int"), "errors": ("raw",)},
        mode="failfast",
        include_raw=True,
        nested=False,
        limits=Limits(max_frame=1000),
        reassembly=made.reassembly,
        batch_rows=10,
    )
    assert made.reassembly.max_flows == 7
    assert pickle.loads(pickle.dumps(made)) == made
    assert Settings.from_options({"columns": "BID"}).tables == (*table_names(), "wide")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tablez": "x"}, "there is no option 'tablez'; there are tables, formats"),
        ({"tables": "fieldz"}, "no table 'fieldz'"),
        ({"formats": "http"}, "no format 'http'"),
        ({"ports": "80"}, "like 7001=blaze"),
        ({"ports": "80=http"}, "no format 'http'"),
        ({"ports": "99999=nais"}, "from 0 to 65535"),
        ({"mode": "loud"}, "mode must be one of"),
        ({"include_raw": "perhaps"}, "true or false"),
        ({"batch_rows": "0"}, "batch_rows"),
        ({"batch_rows": "many"}, "must be a number"),
        ({"max_frame": "0"}, "max_frame"),
        ({"select": "fields"}, "like fields.name"),
        ({"select": "fields.namez"}, "no column 'namez'"),
        ({"tables": "wide"}, "go together"),
        ({"columns": "BID:money"}, "no type 'money'"),
        ({"bind": "10"}, "bind must be"),
        ({"blaze.dialect": "klingon"}, "dialect must be one of"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(OptionError, match=words):
        Settings.from_options(options)


def test_values_that_cannot_be():
    for options in ({"tables": 5}, {"tables": (5,)}, {"ports": {"80": "nais"}}):
        with pytest.raises(OptionError):
            Settings(**options)
    with pytest.raises(OptionError, match="no option 'tablez'"):
        tabulate([], tablez="x")


def test_files_are_read_so_that_workers_need_none(tmp_path):
    model, cfile = tmp_path / "m.blz", tmp_path / "absent.cf"
    model.write_text(BLZ)
    made = Settings(options={"model": str(model)}).resolved([])
    model.unlink()
    assert made.format_options("blaze") == {"model": from_blz(BLZ)}
    again = pickle.loads(pickle.dumps(made))
    assert again.format_options("blaze") == made.format_options("blaze")
    with pytest.raises(SourceError):
        Settings(options={"dictionary": str(cfile)})


def test_wide_columns_get_the_types_of_the_first_frames(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(tibmsg.build({"SYM": "ABC", "N": 10, "P": 1.5}).encode() * 3)
    made = Settings(tables=("wide",), columns=("SYM", "N", "P:decimal(18,4)", "Q")).resolved([path])
    assert made.columns == ("SYM:text", "N:i64", "P:decimal(18,4)", "Q:text")
    batch = dict(tabulate(path, tables=("wide",), columns=("N",)))["wide"]
    assert batch.column("N").to_pylist() == [10, 10, 10]
    batch = dict(tabulate(io.BytesIO(path.read_bytes()), columns=("N",), tables=("wide",)))["wide"]
    assert batch.column("N").to_pylist() == [10, 10, 10]


class _Pipe(io.RawIOBase):
    """Can be read once, a few bytes at a time."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self._data.read(min(len(buffer), 7000))
        buffer[: len(data)] = data
        return len(data)


def test_types_come_from_pipes_too():
    data = tibmsg.build({"SYM": "ABC", "N": 10}).encode() * 20_000
    assert len(data) > 1 << 18  # more than is looked at
    pipe = io.BufferedReader(_Pipe(data))
    rows = [batch for name, batch in tabulate(pipe, columns=("N", "SYM"), tables=("wide",))]
    assert sum(batch.num_rows for batch in rows) == 20_000
    assert {value for batch in rows for value in batch.column("N").to_pylist()} == {10}
    pipe = io.BufferedReader(_Pipe(data[:40]))
    (batch,) = (batch for name, batch in tabulate(pipe, columns=("N",), tables=("wide",)))
    assert batch.column("N").to_pylist() == [10]


def test_types_come_from_messages_in_messages_and_from_rare_ones(tmp_path):
    path = tmp_path / "nested.pcap"
    generate(path, ["tibmsg-in-tibrv"], messages=300, container="pcap", one_way=True)
    made = Settings(tables=("wide",), columns=("SYMBOL", "BID")).resolved([path])
    assert made.columns == ("SYMBOL:text", "BID:decimal")
    common = tibmsg.build({f"F{number}": number for number in range(60)}).encode()
    path.write_bytes(common * 4000 + tibmsg.build({"RARE": 1.5}).encode())
    made = Settings(tables=("wide",), columns=("RARE",)).resolved([path])
    assert made.columns == ("RARE:f64",)


def test_types_come_from_the_dictionary_where_there_is_no_data(tmp_path):
    cfile = tmp_path / "fields.cf"
    cfile.write_text("BID { CLASS_ID 22; DATA_TYPE grocery; DATA_SIZE 9; }")
    chosen = {"tables": ("wide",), "columns": ("BID", "ASK")}
    assert Settings(**chosen, options={"dictionary": str(cfile)}).resolved([]).columns == (
        "BID:decimal",
        "ASK:text",
    )


def test_texts_of_which_some_are_dates_stay_texts(tmp_path):
    path = tmp_path / "x"
    some = [tibmsg.build({"DAY": text}).encode() for text in ("14 MAR 2024", "tomorrow")]
    path.write_bytes(b"".join(some))
    made = Settings(tables=("wide",), columns=("DAY",)).resolved([path])
    assert made.columns == ("DAY:text",)


def test_options_of_formats_are_told_apart_by_name_and_choice():
    made = Settings.from_options({"dialect": "2019", "nais.max_payload": "0x100"})
    assert made.options == {"blaze.dialect": "2019", "nais.max_payload": 256}
    both = Settings(options={"dialect": "document", "tibrv.dialect": "standard"})
    assert both.options == {"blaze.dialect": "document", "tibrv.dialect": "standard"}
    changed = both.changed(dialect="auto", mode="failfast")
    assert changed.options == {"blaze.dialect": "document", "tibrv.dialect": "auto"}
    assert changed.mode == "failfast"
    with pytest.raises(OptionError, match="no dialect 'x'; there are blaze: document"):
        Settings(options={"dialect": "x"})
    with pytest.raises(OptionError, match="makes no sense for tables"):
        Settings(options={"unwrap": True})
