"""``wireloom blaze`` against a real server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.blaze_broker import FLEET, MODEL, Broker, broker_in_a_thread
from oracles.certificates import write_certificate
from rich.console import Console

from wireloom.cli._blazesub import LiveTable
from wireloom.cli._blazevalues import from_pairs
from wireloom.errors import EncodeError
from wireloom.formats.blaze import Action, BlazeCode, EventType, new_value
from wireloom.formats.blaze.nclass import layout_of
from wireloom.services.blaze.events import Event, Reader

Run = Callable[..., Any]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with broker_in_a_thread(window=16) as broker:
        yield broker


@pytest.fixture
def here(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options that every command needs; the folder is empty but for the model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.blz").write_text(FLEET)
    return ["--model", "fleet.blz", "--at", f"127.0.0.1:{broker.port}"]


def stored(broker: Broker) -> dict[int, Any]:
    rows = broker.store.rows.get(302, {}).values()
    kept = [row.image for row in rows if row.action is not Action.DEL and row.image is not None]
    return {image.read("truck_id"): image.to_values() for image in kept}  # type: ignore[misc]


def test_a_transaction_from_arguments(run: Run, broker: Broker, here: list[str]) -> None:
    pairs = ["truck_id=7", "name=seven", "home.x=5", "temps[2]=-3", "gauge=GAUGE_High", "on=yes"]
    done = run("blaze", "tx", "ins", "TRUCK", *pairs, "speed=1.5", *here)
    assert done.stdout == "INS TRUCK 7: ok\n"
    run("blaze", "tx", "dlt", "TRUCK", "truck_id=7", "speed=0", "stops[1].label=dock", *here)
    image = {
        "truck_id": 7,
        "name": "seven",
        "gauge": "GAUGE_High",
        "temps": {"2": -3},
        "home": {"x": 5},
        "stops": {"1": {"label": "dock"}},
        "on": True,
    }
    assert stored(broker) == {7: image}
    again = run("blaze", "tx", "ins", "302", "truck_id=7", *here, code=1)
    assert again.stderr == "INS TRUCK 7: refused: APPLICATION_ERROR (4)\n"
    result = run("blaze", "tx", "upd", "TRUCK", "truck_id=7", "temps=[1,2]", "--result", *here)
    assert json.loads(result.stdout.splitlines()[1]) == {
        "truck_id": 7,
        "temps": {"0": 1, "1": 2},
    }
    run("blaze", "tx", "del", "TRUCK", "truck_id=7", *here)
    assert stored(broker) == {}


def test_many_transactions_from_json_lines(run: Run, broker: Broker, here: list[str]) -> None:
    lines = "".join(json.dumps({"truck_id": i % 5 + 1}) + "\n" for i in range(6))
    done = run("blaze", "tx", "ins", "TRUCK", "--json", *here, stdin=lines, code=1)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["ok"] for row in rows] == [True] * 5 + [False]
    assert rows[-1]["code"] == "APPLICATION_ERROR"
    assert [row["key"] for row in rows] == [[1], [2], [3], [4], [5], [1]]
    run("blaze", "tx", "upd", "TRUCK", *here, stdin='[{"truck_id": 1, "name": "a"},\n{}]')
    assert stored(broker)[1] == {"truck_id": 1, "name": "a"}


def test_a_class_is_reset_without_an_object(run: Run, here: list[str]) -> None:
    assert run("blaze", "tx", "rst", "TRUCK", *here, stdin="").stdout == "RST TRUCK: ok\n"
    done = run("blaze", "tx", "rst", "TRUCK", "truck_id=3", *here)
    assert done.stdout == "RST TRUCK 3: ok\n"


@pytest.mark.parametrize(
    ("arguments", "stdin", "status", "told"),
    [
        (["ins", "CAR", "x=1"], None, 2, "it has POINT, TRUCK, PING"),
        (["add", "TRUCK", "x=1"], None, 2, "Invalid value"),
        (["ins", "TRUCK", "truck_id"], None, 2, "is not FIELD=VALUE"),
        (["ins", "TRUCK", "nope=1"], None, 2, "no such field (in nope)"),
        (["ins", "TRUCK", "truck_id=x"], None, 2, "'x' is not a value of type uint_32"),
        (["ins", "TRUCK", "truck_id=-1"], None, 2, "type uint_32 (in truck_id)"),
        (["ins", "TRUCK", "temps[4]=1"], None, 2, "4 elements, from 0 (in temps[4])"),
        (["ins", "TRUCK", "truck_id=1", "truck_id=2"], None, 2, "given twice"),
        (["ins", "TRUCK"], "{", 1, "not JSON"),
        (["ins", "TRUCK"], '{"truck_id":1}\n{', 1, "line 2 is not JSON"),
        (["ins", "TRUCK"], "[3]", 1, "object 1 is no JSON object"),
        (["ins", "TRUCK"], '{"nope":1}', 1, "no such field (in object 1.nope)"),
        (["ins", "TRUCK", "truck_id=1", "--dialect", "2018"], None, 2, "no dialect"),
        (["ins", "TRUCK", "truck_id=1", "--key", "fleet.blz"], None, 2, "--cert"),
        (["ins", "TRUCK"], "", 0, "there are no objects"),
        (["ins", "TRUCK"], "\n", 0, "there are no objects"),
    ],
)
def test_what_is_wrong_is_said(
    run: Run, here: list[str], arguments: list[str], stdin: str | None, status: int, told: str
) -> None:
    done = run("blaze", "tx", *arguments, *here, stdin=stdin, code=status)
    assert told in done.stderr


def test_nobody_there(run: Run, side: str, tmp_path: Path) -> None:
    model = tmp_path / "fleet.blz"
    model.write_text(FLEET)
    refused = "Error: 127.0.0.1:1: Connection refused\n"
    here = ["--model", model, "--at", "127.0.0.1:1"]
    assert run("blaze", "tx", "ins", "TRUCK", "truck_id=1", *here, code=1).stderr == refused
    assert run("blaze", "sub", "TRUCK", *here, code=1).stderr == refused
    here[-1] = "[::1]:1"
    assert "Error: ::1:1: " in run("blaze", "sub", "TRUCK", *here, code=1).stderr
    here[-1] = side  # it answers, but not in Blaze
    told = run("blaze", "sub", "TRUCK", *here, "--timeout", "5", code=1).stderr
    assert told.startswith(f"Error: {side}: ")
    told = run("blaze", "sub", "TRUCK", *here, "--tls", code=1).stderr
    assert told == f"Error: {side}: what answers does not speak TLS\n"
    for address in ("127.0.0.1", ":1", "x:y", "x:0", "x:70000"):
        done = run("blaze", "sub", "TRUCK", "--model", model, "--at", address, code=2)
        assert "is not HOST:PORT" in done.stderr


def test_paths_of_fields() -> None:
    layout = layout_of(MODEL, "TRUCK")
    assert from_pairs(layout, ["home_x=1", "temps_3=0x10", "stops_2_label=a=b"]) == {
        "home": {"x": 1},
        "temps": {"3": 16},
        "stops": {"2": {"label": "a=b"}},
    }
    assert from_pairs(layout, ['home={"x": 1}', "gauge=-3", "speed=inf", "on=0"]) == {
        "home": {"x": 1},
        "gauge": -3,
        "speed": float("inf"),
        "on": False,
    }
    for wrong in ("home.z=1", "home..x=1", ".home=1", "temps.x=1", "home[0]=1", "stops[0]label=1"):
        with pytest.raises(EncodeError, match="no such field"):
            from_pairs(layout, [wrong])
    with pytest.raises(EncodeError, match="not a value of type bool"):
        from_pairs(layout, ["on=maybe"])


def test_a_subscription_as_json_lines(run: Run, broker: Broker, here: list[str]) -> None:
    lines = "".join(json.dumps({"truck_id": i + 1, "name": f"n{i}"}) + "\n" for i in range(5))
    run("blaze", "tx", "ins", "TRUCK", *here, stdin=lines)
    done = run("blaze", "sub", "TRUCK", "--past", *here)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.get("object", {}).get("truck_id") for row in rows] == [1, 2, 3, 4, 5, None]
    assert rows[0]["event"] == "DATADWNL"
    assert rows[0]["action"] == "INS"
    assert rows[-1] == {"event": "download_end"}
    seconds, number = rows[2]["stamp"]
    some = run("blaze", "sub", "TRUCK", "--json", "--limit", 2, *here)
    assert len(some.stdout.splitlines()) == 2
    assert "--since" in some.stderr
    rest = run("blaze", "sub", "TRUCK", "--past", "--since", f"{seconds},{number}", *here)
    assert len(rest.stdout.splitlines()) == 3
    last = ["--last", "--deltas", "--all", "--limit", 5]
    assert len(run("blaze", "sub", "TRUCK", *last, *here).stdout.splitlines()) == 5
    assert "SECONDS,COUNTER" in run("blaze", "sub", "TRUCK", "--since", "x", *here, code=2).stderr
    broker.refused_subscriptions[302] = BlazeCode.UNAUTHORIZED
    assert "UNAUTHORIZED (10)" in run("blaze", "sub", "TRUCK", *here, code=1).stderr


def test_where_a_download_has_no_end_the_command_says_so(run: Run, tmp_path: Path) -> None:
    model = tmp_path / "fleet.blz"
    model.write_text(FLEET)
    with broker_in_a_thread(dialect="2019") as broker:
        here = ["--model", model, "--dialect", "2019", "--at", f"127.0.0.1:{broker.port}"]
        run("blaze", "tx", "ins", "TRUCK", "truck_id=1", *here)
        done = run("blaze", "sub", "TRUCK", "--past", "--limit", "1", *here)
        assert "do not say when that is all" in done.stderr
        assert json.loads(done.stdout)["object"] == {"truck_id": 1}


def test_the_table_shows_what_changed_last_on_top() -> None:
    nclass = MODEL.nclass("TRUCK")
    assert nclass is not None
    console = Console(width=100, height=9, record=True, force_terminal=True)
    table = LiveTable(nclass, console)
    reader = Reader(MODEL, 302, None)
    for number in range(1, 6):
        value = new_value(MODEL, "TRUCK", {"truck_id": number, "name": f"\x1b[31m{number}"})
        event: Event[Any] = Event(EventType.DATADWNL, Action.INS, (1, number), b"", 0, reader)
        event.merge(None, value)
        table.show(event)
    table.show(Event(EventType.DWNLEND))
    table.show(Event(None))
    gone: Event[Any] = Event(EventType.DATALIVE, Action.DEL, (2, 0), b"", 0, reader)
    gone.merge(None, new_value(MODEL, "TRUCK", {"truck_id": 2}))
    table.show(gone)
    console.print(table.picture())
    text = console.export_text()
    assert "TRUCK: 5 objects, 6 events, 1 gaps (live)" in text
    rows = [line for line in text.splitlines() if "INS" in line or "DEL" in line]
    assert len(rows) == 3  # what fits
    assert "DEL" in rows[0]
    assert "\\x1b[31m5" in rows[1]
    assert "\x1b[31m" not in text
    table.connected(False)
    console.print(table.picture())
    assert "(no connection)" in console.export_text()


def test_a_csv_file_is_loaded_and_what_is_not_taken_is_written_down(
    run: Run, broker: Broker, here: list[str], tmp_path: Path
) -> None:
    rows = [f'{i},"truck, {i}",{i}.5,{i},true' for i in range(1, 6)]
    rows += ["3,again,,,", "x,bad,,,", "", "7,ok,,,,too,many", "8,short"]
    path = tmp_path / "trucks.csv"
    path.write_text("truck_id,name,speed,home_x,on\n" + "\n".join(rows) + "\n")
    done = run("blaze", "load", path, "TRUCK", *here, code=1)
    assert "6 of 9 rows loaded" in done.stderr
    assert "3 rows were rejected: trucks.csv.rejects.jsonl" in done.stderr
    rejects = [json.loads(s) for s in Path("trucks.csv.rejects.jsonl").read_text().splitlines()]
    assert {(each["row"], each["reason"]) for each in rejects} == {
        (6, "refused: APPLICATION_ERROR (4)"),
        (7, "'x' is not a value of type uint_32 (in truck_id)"),
        (9, "more cells than columns"),
    }
    assert stored(broker)[1] == {
        "truck_id": 1,
        "name": "truck, 1",
        "speed": 1.5,
        "home": {"x": 1},
        "on": True,
    }
    assert "overwrite it with --force" in run("blaze", "load", path, "TRUCK", *here, code=2).stderr
    done = run("blaze", "load", path, "TRUCK", "--upsert", "--rejects", "r.jsonl", *here, code=1)
    assert "7 of 9 rows loaded, 7 of them updates" in done.stderr
    assert stored(broker)[3] == {"truck_id": 3, "name": "again"}


def test_a_file_that_cannot_be_read_says_where(
    run: Run, broker: Broker, here: list[str], tmp_path: Path
) -> None:
    Path("latin.csv").write_bytes(b"truck_id,name\n1,\xe4\n2,\xc3\xa4\n")
    done = run("blaze", "load", "latin.csv", "TRUCK", *here, code=1)
    assert "1 of 2 rows loaded" in done.stderr
    assert "1 row was rejected: latin.csv.rejects.jsonl" in done.stderr
    (reject,) = Path("latin.csv.rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["reason"] == "not UTF-8 (in name)"
    assert stored(broker) == {2: {"truck_id": 2, "name": "ä"}}
    Path("long.csv").write_text(f"truck_id,name\n1,a\n2,{'x' * 200_000}\n")
    done = run("blaze", "load", "long.csv", "TRUCK", *here, code=1)
    assert "Error: long.csv:3: field larger" in done.stderr
    Path("no.parquet").write_bytes(b"truck_id")
    done = run("blaze", "load", "no.parquet", "TRUCK", *here, code=1)
    assert "Error: no.parquet: it is no Parquet file" in done.stderr


@pytest.mark.parametrize(
    ("text", "status", "told"),
    [
        ("truck_id,truck_id\n1,2", 1, "there are two columns for it (in truck_id)"),
        ("truck_id,home.x,home_x\n1,2,3", 1, "there are two columns for it (in home_x)"),
        ("truck_id,\n1,", 1, "column 2 has no name"),
        ("name\nx", 0, "no column for truck_id, which is in the key: it is empty\n1 of 1 rows"),
        ("truck_id,name\n,x\n5,y", 1, "1 of 2 rows loaded"),
    ],
)
def test_columns_are_clear_and_keys_are_whole(
    run: Run, here: list[str], text: str, status: int, told: str
) -> None:
    Path("trucks.csv").write_text(text)
    assert told in run("blaze", "load", "trucks.csv", "TRUCK", *here, code=status).stderr
    if "5,y" in text:
        reject = json.loads(Path("trucks.csv.rejects.jsonl").read_text())
        assert reject["reason"] == "a part of the key is empty (in truck_id)"


def test_loading_ends_where_the_broker_is_gone(run: Run, broker: Broker, here: list[str]) -> None:
    broker.after_bytes = lambda: 1000
    broker.refuse_from = 2
    Path("trucks.csv").write_text("truck_id\n" + "\n".join(map(str, range(1, 9001))))
    done = run("blaze", "load", "trucks.csv", "TRUCK", "--timeout", "2", *here, code=1)
    assert "the connection is lost; trying again" in done.stderr
    assert "no connection within 2 s; rows after 4096 were not read" in done.stderr
    rejects = [json.loads(s) for s in Path("trucks.csv.rejects.jsonl").read_text().splitlines()]
    assert {each["reason"] for each in rejects} == {
        "not sent",
        "not known: TRANSACTION_LOST (204)",
    }
    assert f"{4096 - len(rejects)} of 4096 rows loaded" in done.stderr


def test_a_parquet_file_is_loaded(
    run: Run, broker: Broker, here: list[str], tmp_path: Path
) -> None:
    rows = [
        {"truck_id": i, "name": f"n{i}", "temps": [0, i], "home": {"x": i, "label": None}}
        for i in range(1, 3001)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "trucks.parquet")
    done = run("blaze", "load", "trucks.parquet", "TRUCK", "--flying", 64, *here)
    assert "3000 of 3000 rows loaded" in done.stderr
    assert stored(broker)[9] == {
        "truck_id": 9,
        "name": "n9",
        "temps": {"1": 9},
        "home": {"x": 9},
    }
    assert not Path("trucks.parquet.rejects.jsonl").exists()
    pq.write_table(pa.table({"wheels": [1]}), tmp_path / "other.parquet")
    assert (
        "no such field (in wheels)"
        in run("blaze", "load", "other.parquet", "TRUCK", *here, code=1).stderr
    )


def test_tls(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ssl

    cert, key = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    monkeypatch.chdir(tmp_path)
    Path("fleet.blz").write_text(FLEET)
    with broker_in_a_thread(tls=context) as broker:
        words = ["blaze", "tx", "upd", "TRUCK", "truck_id=1", "--model", "fleet.blz"]
        words += ["--at", f"127.0.0.1:{broker.port}"]
        assert run(*words, "--ca", cert, "--cert", cert, "--key", key).stdout
        assert "warning: nobody checks" in run(*words, "--insecure").stderr
        assert "certificate verify failed" in run(*words, "--tls", code=1).stderr
        wrong = run(*words, "--ca", "fleet.blz", code=1).stderr
        assert wrong.startswith("Error: fleet.blz: ")
        wrong = run(*words, "--ca", cert, "--cert", cert, "--key", "fleet.blz", code=1).stderr
        assert wrong.startswith(f"Error: {cert}: the certificate and its key cannot be used")
        assert "a broker with TLS" in run(*words, "--timeout", "5", code=1).stderr
        assert "exclude each other" in run(*words, "--ca", cert, "--insecure", code=2).stderr


class _Side(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        code, body = self.answers.get(self.path, (404, b""))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def side() -> Iterator[str]:
    found = {"connections": 2, "classes": {"TRUCK": {"objects": 7}}, "peers": [{"id": 1}]}
    answers = {"/status": (200, json.dumps(found).encode()), "/odd": (200, b"<html>")}
    answers["/list"] = (200, b"[]")
    handler = type("Handler", (_Side,), {"answers": answers})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_status_of_a_broker(run: Run, side: str) -> None:
    shown = run("blaze", "status", f"http://{side}").stdout
    assert [line.split() for line in shown.splitlines()] == [
        ["name", "value"],
        ["connections", "2"],
        ["classes.TRUCK.objects", "7"],
        ["peers[0].id", "1"],
    ]
    assert json.loads(run("blaze", "status", side, "--json").stdout)["connections"] == 2
    assert "404" in run("blaze", "status", f"http://{side}/nowhere", code=1).stderr
    assert "not JSON" in run("blaze", "status", f"{side}/odd", code=1).stderr
    assert "not a status" in run("blaze", "status", f"{side}/list", code=1).stderr
    assert "refused" in run("blaze", "status", "127.0.0.1:1", code=1).stderr
    with broker_in_a_thread() as broker:
        done = run("blaze", "status", f"127.0.0.1:{broker.port}", code=1)
        assert "no HTTP server" in done.stderr
    assert "not http" in run("blaze", "status", "ftp://x", code=2).stderr
