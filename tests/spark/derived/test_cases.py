"""What the derived tables say in cases that one can follow by hand; the replay agrees with each."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from oracles.derivations import BLAZE_MODEL, KEYS, Rows, check, frames, plain

from wireloom.errors import OptionError
from wireloom.tables import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

CLIENT, SERVER = "10.0.0.1:4000", "10.0.0.9:80"
UP, DOWN = f"tcp {CLIENT} > {SERVER} #1", f"tcp {SERVER} > {CLIENT} #1"


def rows_of(name: str, *given: Row) -> list[Row]:
    """Rows of a base table, with times and offsets that grow from row to row."""
    made = []
    for number, row in enumerate(given, 1):
        key = {
            "source": "a.pcap",
            "stream": UP,
            "frame_offset": 100 * number,
            "frame_length": 20,
            "ts_ns": 1_700_000_000_000_000_000 + 1000 * number,
            "path": "",
        }
        made.append(dict.fromkeys(table(name).names) | key | row)
    return made


def column(found: list[Row], *names: str) -> list[Any]:
    ordered = sorted(found, key=lambda row: (row["ts_ns"] or 0, row.get("response_offset") or 0))
    return [tuple(row[name] for name in names) for row in ordered]


# --- dialogues ------------------------------------------------------------------------------------


def request(number: int, **more: Any) -> Row:
    ids = {"txplid": 0, "txsvid": 0, "txcnid": 1, "txprid": number}
    return {"stream": UP, "type_code": 6, "type_name": "TXRQST", "txtype": "NCLASS", **ids, **more}


def response(number: int, result: str = "TXOK", **more: Any) -> Row:
    return request(number) | {
        "stream": DOWN,
        "type_code": 7,
        "type_name": "TXRESP",
        "txtype": None,
        "txresl": result,
        **more,
    }


def test_a_response_answers_the_newest_open_request_of_its_id(spark: SparkSession) -> None:
    rows = rows_of(
        "blaze",
        response(9),  # the capture starts in the middle
        request(1),
        request(2),
        response(2, "TXKO"),
        response(1),
        request(3),  # its answer was lost, and the id is used again
        request(3),
        response(3),
        response(3),
        response(3),
        request(4),
    )
    found = check(spark, "blaze_transactions", {"blaze": rows})
    assert column(found, "txprid", "outcome", "latency_ns") == [
        (9, "unrequested", None),
        (1, "ok", 3000),
        (2, "ko", 1000),
        (3, "ok", 3000),
        (3, "ok", 1000),
        (3, "repeated", None),
        (4, "unanswered", None),
    ]
    assert not any(row["is_doubtful"] for row in found)


def test_directions_meet_although_they_count_their_connections_differently(
    spark: SparkSession,
) -> None:
    rows = rows_of(
        "blaze", request(1), response(1, stream=DOWN.replace("#1", "#2"), source="b.pcap")
    )
    gap = {"source": "b.pcap", "stream": DOWN, "offset": 5, "length": 1}
    late = rows_of("blaze", request(7))
    tables: Rows = {"blaze": rows + late, "gaps": [dict.fromkeys(table("gaps").names) | gap]}
    found = check(spark, "blaze_transactions", tables)
    assert sorted((row["outcome"], row["is_doubtful"]) for row in found) == [
        ("ok", False),
        ("unanswered", True),
    ]


def test_networks_with_the_same_addresses_are_kept_apart(spark: SparkSession) -> None:
    from wireloom.spark.derived import derive

    rows = rows_of("blaze", request(1), response(1, source="lab2/b.pcap"))
    by_folder = "regexp_extract(source, '^(.*)/', 1)"
    found = plain(derive("blaze_transactions", frames(spark, {"blaze": rows}), network=by_folder))
    assert sorted(row["outcome"] for row in found) == ["unanswered", "unrequested"]


def nais(code: int, message: Row, *, up: bool = True, sline: int = 0, dline: int = 0) -> Row:
    return {
        "stream": UP if up else DOWN,
        "type_code": code,
        "type_name": "Ack" if code == 3 else "Custom",
        "sline": sline,
        "dline": dline,
        "message": json.dumps(message),
    }


def test_acks_go_by_their_number_first_and_then_by_type(spark: SparkSession) -> None:
    rows = rows_of(
        "nais",
        nais(10, {"id": 1, "seq": 1}),
        nais(10, {"id": 1, "seq": 2}),
        nais(3, {"id": 10, "seq": 1, "status": 7}, up=False),
        nais(3, {"id": 10}, up=False),
        nais(6, {"id": 5}, up=False),
        nais(40, {"id": 5}, up=False),  # what a board sends by itself is no request
        nais(11, {"id": 5}),
        nais(3, {"id": 12}, up=False),
    )
    found = check(spark, "nais_exchanges", {"nais": rows})
    assert column(found, "type_code", "seq", "outcome", "status", "latency_ns") == [
        (10, 1, "acked", 7, 2000),
        (10, 2, "acked", None, 2000),
        (11, None, "unanswered", None, None),
        (12, None, "unrequested", None, None),
    ]


def test_on_a_board_s_line_acks_go_back_to_the_session_that_asked(spark: SparkSession) -> None:
    rows = rows_of(
        "nais",
        nais(10, {"id": 1}, sline=5),
        nais(10, {"id": 1}, sline=6),
        nais(3, {"id": 10}, up=False, dline=5),
        nais(3, {"id": 10}, up=False, dline=6),
        nais(3, {"id": 10}, up=False, dline=6),
    )
    found = check(spark, "nais_exchanges", {"nais": rows})
    assert column(found, "session", "outcome", "latency_ns") == [
        (5, "acked", 2000),
        (6, "acked", 2000),
        (6, "repeated", None),
    ]


# --- sockets --------------------------------------------------------------------------------------

SOCKET, OTHER, ZERO = "ab" * 10, "cd" * 10, "00" * 10


def control(flags: int, *, up: bool = False, socket: str = SOCKET, nonce: int = 0) -> Row:
    kind = {"type_code": 9, "type_name": "SOCKET_CONTROL", "flags": flags, "nonce": nonce}
    return {"stream": UP if up else DOWN, "socket_id": socket, **kind}


def opening(nonce: int) -> Row:
    kind = {"type_code": 8, "type_name": "OPEN_SOCKET", "nonce": nonce}
    return {"stream": UP, "instance_id": "ef" * 10, **kind}


def data(content: bytes, *, up: bool = False, socket: str = SOCKET) -> Row:
    kind = {"type_code": 10, "type_name": "SOCKET_DATA", "nonce": 0}
    return {"stream": UP if up else DOWN, "socket_id": socket, "data": content, **kind}


def test_sockets_have_their_openings_bytes_and_ends(spark: SparkSession) -> None:
    rows = rows_of(
        "nrep",
        data(b"before", socket=OTHER),
        opening(1),
        control(0x80, nonce=1),
        control(0x08),
        data(b"abc", up=True),
        data(b"defgh"),
        control(0x04, up=True),
        control(0x04),  # said again
        opening(2),
        control(0x80, nonce=2),  # the same id, once more
        control(0x04),
        opening(3),
        control(0x84, socket=ZERO, nonce=3),
        opening(4),
        control(0x40, socket="12" * 10),
        control(0x20, socket="12" * 10, up=True),
    )
    found = check(spark, "nrep_sockets", {"nrep": rows})
    assert column(found, "role", "outcome", "sent_bytes", "received_bytes", "closed_by") == [
        (None, "open", 0, 6, None),
        ("requester", "closed", 3, 5, "client"),
        ("requester", "refused", 0, 0, "broker"),
        ("requester", "no_instance", None, None, "broker"),
        ("requester", "unanswered", None, None, None),
        ("receiver", "open", 0, 0, None),
    ]


# --- objects --------------------------------------------------------------------------------------


def event(number: int, action: str, values: Row) -> Row:
    kind = {"type_code": 10, "type_name": "SBSEVT", "sevttp": "DATALIVE", "sbeact": action}
    more = {"sbsrid": 4, "sevtid": number, "tmstmp0": 1, "tmstmp1": number}
    return {"stream": DOWN, "nclass": json.dumps(values), **kind, **more}


def subscribed() -> list[Row]:
    asked = {"type_code": 8, "type_name": "SBSREQ", "rqstid": 2, "nclsid": 401}
    given = {"type_code": 9, "type_name": "SBSRES", "rqstid": 2, "sbresl": "SBSOK", "sbsrid": 4}
    return [{"stream": UP, **asked}, {"stream": DOWN, **given}]


def test_changes_are_merged_into_objects(spark: SparkSession) -> None:
    rows = rows_of(
        "blaze",
        event(1, "UPD", {"order_id": 7}),  # of a subscription that was not seen to start
        *subscribed(),
        event(2, "INS", {"order_id": 1, "legs": {"0": {"a": 1, "b": 2}}, "price": 1.5}),
        event(3, "DLT", {"order_id": 1, "legs": {"0": {"b": 3}, "4": {"a": 9}}}),
        event(4, "DLT", {"order_id": 1, "price": 0}),
        event(5, "INS", {"order_id": 2}),
        event(6, "DEL", {"order_id": 2}),
        event(7, "DLT", {"order_id": 3, "price": 2}),
    )
    tables = {"blaze": rows}
    options: dict[str, Any] = {"model": BLAZE_MODEL, "plainly": {"keys": KEYS}}
    found = check(spark, "blaze_objects", tables, **options)
    images = {row["key"]: json.loads(row["image"]) for row in found}
    assert images['["1"]'] == {
        "order_id": 1,
        "legs": {"0": {"a": 1, "b": 3}, "4": {"a": 9}},
        "price": 0,
    }
    assert sorted((row["key"], row["state"], row["is_complete"]) for row in found) == [
        ('["1"]', "live", True),
        ('["2"]', "deleted", False),
        ('["3"]', "live", False),
    ]


def test_a_reset_ends_all_objects_of_its_class(spark: SparkSession) -> None:
    from wireloom.spark.derived import derive

    rows = rows_of(
        "blaze",
        *subscribed(),
        event(1, "INS", {"order_id": 1, "price": 1.5}),
        event(2, "INS", {"order_id": 2, "price": 2.5}),
        event(3, "DEL", {"order_id": 2}),
        event(4, "INS", {"order_id": 3}),
        event(5, "RST", {}),
        event(6, "INS", {"order_id": 3, "price": 3.5}),
        event(7, "DLT", {"order_id": 1, "price": 4.5}),  # of what is no more
        event(8, "INS", {"order_id": 4}),
        event(9, "RST", {}),
        event(10, "UPD", {"order_id": 3, "price": 5.5}),
    )
    tables = {"blaze": rows}
    options: dict[str, Any] = {"model": BLAZE_MODEL, "plainly": {"keys": KEYS}}
    found = check(spark, "blaze_objects", tables, **options)
    assert sorted((row["key"], row["state"], row["is_complete"]) for row in found) == [
        ('["1"]', "deleted", False),
        ('["2"]', "deleted", False),
        ('["3"]', "live", True),
        ('["4"]', "deleted", False),
    ]
    # Elsewhere it may be the image of one object.
    one = rows_of("blaze", *subscribed(), event(1, "RST", {"order_id": 1, "price": 1.5}))
    given = frames(spark, {"blaze": one})
    [row] = derive("blaze_objects", given, model=BLAZE_MODEL, reset="object").collect()
    assert (row["key"], row["state"], row["is_complete"]) == ('["1"]', "live", True)


# --- images ---------------------------------------------------------------------------------------


def message(number: int, msg_type: int | None, *fields: Row, **key: Any) -> list[Row]:
    """The fields of a message about ABC."""
    about = [] if key.get("path") else [{"name": "SYMBOL", "type": "string", "value_text": "ABC"}]
    if msg_type is not None:
        about.append({"name": "MSG_TYPE", "type": "int", "value_int": msg_type})
    place = {"frame_offset": 100 * number, "ts_ns": 1_700_000_000_000_000_000 + number, **key}
    return [
        {"type": "int", "is_blank": False, "position": position} | place | field
        for position, field in enumerate((*about, *fields))
    ]


def text(name: str, value: str, at: int | None = None) -> Row:
    kind = "string" if at is None else "partial"
    return {"name": name, "type": kind, "value_text": value, "partial_offset": at}


def number(name: str, value: int) -> Row:
    return {"name": name, "value_int": value}


UPDATE, DROP, STATUS, INITIAL, TRANSIENT = 1, 4, 6, 8, 9


Images = dict[str, dict[str | None, Row]]

HOLE = 250
"""Where the streams with holes have one."""
BEFORE = message(1, INITIAL, number("BID", 1), number("ASK", 1))
AFTER = message(3, UPDATE, number("BID", 2))
DROPPED = [message(1, INITIAL, number("BID", 1)), message(2, DROP)]
NESTED = {"name": "BOOK", "type": "message"}
OPAQUE = {"name": "_data_", "type": "opaque", "value_binary": b".."}
IMAGES: dict[str, list[list[Row]]] = {
    "partials": [
        message(1, INITIAL, text("ROW", "0123456789"), text("PAGE", "x")),
        message(2, UPDATE, text("ROW", "AB", 2)),
        message(3, UPDATE, text("ROW", "C", 3), text("ROW", "é", 9), text("PAGE", "z", 3)),
        message(4, UPDATE, text("FAR", "q", 1 << 40), text("LATE", "tail", 2)),
        message(5, UPDATE, text("LATE", "he", 0)),
    ],
    "refresh": [
        message(1, UPDATE, number("OLD", 1), text("ROW", "abc", 0)),
        message(2, INITIAL, number("BID", 1), number("ASK", 2)),
        message(3, None, number("BID", 3)),
        message(4, TRANSIENT, number("BID", 99)),
        message(5, STATUS, number("REC_STATUS", 18), number("BID", 98)),
    ],
    "dropped": DROPPED,
    "revived": [*DROPPED, message(3, UPDATE, number("ASK", 5))],
    "gap": [BEFORE, AFTER],
    "gap, mended": [BEFORE, AFTER, message(4, INITIAL, number("BID", 3))],
    "error": [BEFORE, AFTER],
    "nested": [
        message(1, INITIAL, OPAQUE, NESTED),
        message(1, None, number("BID", 1), path="_data_"),
        message(1, None, number("BID", 7), path="BOOK"),
        message(2, DROP),
        message(2, None, number("BID", 2), path="_data_"),
        message(3, UPDATE, NESTED),
        message(3, None, number("BID", 8), path="BOOK"),
        message(3, None, number("BID", 9), path="_data_[2]"),
        message(3, None, number("BID", 10), path="_data_[10]"),
    ],
}
"""Each a stream of its own, so that Spark goes through all of them at once."""


@pytest.fixture(scope="module")
def images(spark: SparkSession) -> Images:
    """The fields of ABC by case."""
    fields = rows_of(
        "fields",
        *(
            row | {"stream": name}
            for name, messages in IMAGES.items()
            for each in messages
            for row in each
        ),
    )
    gaps = [
        dict.fromkeys(table("gaps").names)
        | {"source": "a.pcap", "stream": name, "offset": HOLE, "length": 1}
        for name in ("gap", "gap, mended")
    ]
    errors = rows_of("errors", {"stream": "error", "frame_offset": HOLE, "layer": "frame"})
    found = check(spark, "last_values", {"fields": fields, "gaps": gaps, "errors": errors})
    made: Images = {}
    for row in found:
        made.setdefault(row["stream"], {})[row.get("name")] = row
    return made


def test_partials_are_applied_inside_the_field(images: Images) -> None:
    found = images["partials"]
    assert found["ROW"]["value_text"] == "01AC45678é"
    assert (found["PAGE"]["value_text"], found["PAGE"]["is_partial"]) == ("x  z", True)
    assert (found["LATE"]["value_text"], found["LATE"]["is_partial"]) == ("hetail", False)
    assert "FAR" not in found
    assert found["ROW"]["messages"] == 5


def test_a_refresh_starts_the_image_anew_and_other_messages_do_not(images: Images) -> None:
    found = images["refresh"]
    assert {name: row["value_int"] for name, row in found.items()} == {"BID": 3, "ASK": 2}
    assert {(row["state"], row["stale_reason"]) for row in found.values()} == {("stale", "status")}
    assert {row["messages"] for row in found.values()} == {4}


def test_a_dropped_image_has_no_values_until_something_new_comes(images: Images) -> None:
    assert {name: row["state"] for name, row in images["dropped"].items()} == {None: "dropped"}
    found = images["revived"]
    assert list(found) == ["ASK"]
    assert (found["ASK"]["state"], found["ASK"]["is_complete"]) == ("live", False)


@pytest.mark.parametrize("cause", ["gap", "error"])
def test_an_image_is_stale_from_a_hole_on(images: Images, cause: str) -> None:
    assert {name: row["value_int"] for name, row in images[cause].items()} == {"BID": 2, "ASK": 1}
    assert {row["state"] for row in images[cause].values()} == {"stale"}
    assert {row["stale_reason"] for row in images[cause].values()} == {cause}


def test_a_refresh_behind_a_hole_makes_the_image_live_again(images: Images) -> None:
    found = images["gap, mended"].values()
    assert [(row["name"], row["state"]) for row in found] == [("BID", "live")]


def test_messages_inside_have_the_subject_of_the_one_around_them(images: Images) -> None:
    found = images["nested"]
    assert {name: row["value_int"] for name, row in found.items()} == {"BID": 10, "BOOK.BID": 8}


def test_bars_count_trades_and_nothing_else(spark: SparkSession) -> None:
    def trade(order: int, msg_type: int, price: int, size: int | None) -> list[Row]:
        fields = [number("TRDPRC_1", price)]
        fields += [] if size is None else [number("TRDVOL_1", size)]
        return message(order, msg_type, *fields, ts_ns=order * 10**10)

    messages = [
        trade(1, INITIAL, 500, 1),
        trade(2, UPDATE, 10, 2),
        trade(3, UPDATE, 12, 3),
        trade(4, 2, 99, 9),  # a correction
        trade(5, UPDATE, 9, None),
        trade(6, UPDATE, 20, None),
    ]
    given = [row for each in messages for row in each]
    fields = rows_of("fields", *given)
    for row in fields:
        row["ts"] = moment(row["ts_ns"])
    found = check(spark, "bars", {"fields": fields}, interval="1 minute", plainly={"seconds": 60})
    bars = [
        tuple(row[name] for name in ("open", "high", "low", "close", "volume", "trades"))
        for row in sorted(found, key=lambda row: row["ts"])
    ]
    assert bars == [(10, 12, 9, 9, 5, 3), (20, 20, 20, 20, None, 1)]


def moment(ts_ns: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ts_ns / 1e9, dt.UTC)


# --- options --------------------------------------------------------------------------------------


def test_what_is_missing_or_unknown_is_named(spark: SparkSession) -> None:
    from wireloom.spark.derived import derive, derived_table

    with pytest.raises(OptionError, match="no derived table 'x'; there are blaze_transactions"):
        derived_table("x")
    with pytest.raises(OptionError, match="'fields' is needed; given: none"):
        derive("bars", {})
    with pytest.raises(OptionError, match="bars has no option 'length'; it has interval"):
        derive("bars", {}, length="1 s")
    with pytest.raises(OptionError, match="primary key"):
        derive("blaze_objects", {}, model="nclass A\n{\n@id 1\nbool a\n}\n")
    with pytest.raises(OptionError, match="reset is class or object, not 'row'"):
        derive("blaze_objects", {}, model=BLAZE_MODEL, reset="row")
