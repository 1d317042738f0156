"""What the page on the Blaze client shows works, against a real server on loopback."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from oracles.blaze_broker import Broker, broker_in_a_thread

from wireloom import cli
from wireloom.captures import Recorder
from wireloom.formats.blaze import ConnectionRequest, ConnectionResponse, from_blz

PAGE = (Path(__file__).parents[2] / "docs" / "blaze.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.chdir(tmp_path)
    (model,) = blocks("text")
    Path("fleet.blz").write_text(model)
    with broker_in_a_thread(model=from_blz(model)) as broker:
        yield broker


def test_the_python_on_the_page_runs(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks("python"):
        exec(compile(block.replace("12345", str(broker.port)), "blaze.md", "exec"), names)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "APPLICATION_ERROR"
    assert shown[1].startswith("TRUCK(truck_id=7, name='seven', speed=3.5, temps=[21, 20, 0, 0]")
    assert shown[2] == "100"
    assert any(line.startswith("resume at (") for line in shown)
    assert 8 in {row.key[0] for row in broker.store.rows[302].values()}  # type: ignore[index]


def test_the_commands_on_the_page_run(broker: Broker) -> None:
    Path("trucks.jsonl").write_text('{"truck_id": 1, "name": "uno"}\n{"truck_id": 2}\n')
    Path("trucks.csv").write_text("truck_id,name,temps_0\n2,two,20\n3,three,\n")
    with Path("day1.pcapng").open("wb") as file:
        recording = Recorder(file).connect(("10.0.0.1", 40000), ("10.0.0.2", 12345), 10**18)
        recording.from_client(ConnectionRequest(hbtsec=30).encode(), 10**18 + 1)
        answer = ConnectionResponse(conres=1, agrhbt=30, connid=9)
        recording.from_server(answer.encode(), 10**18 + 2)
        recording.close(10**18 + 3)
    (text,) = blocks("sh")
    for line in text.splitlines():
        line, _, source = line.partition(" < ")
        words = shlex.split(line.replace("12345", str(broker.port)))
        stdin = Path(source).read_text() if source else None
        result = CliRunner().invoke(cli.main, words[1:], input=stdin)
        assert result.exit_code == 0, (line, result.output)
    images = [row.image for row in broker.store.rows[302].values() if row.image is not None]
    assert [image.to_values() for image in images] == [
        {"truck_id": 1, "name": "uno"},
        {"truck_id": 2, "name": "two", "temps": {"0": 20}},
        {"truck_id": 3, "name": "three"},
    ]
