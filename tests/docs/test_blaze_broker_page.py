"""The ten commands of the broker's page work, one after the other."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from wireloom.services.blaze.hooks import load_hooks

PAGE = (Path(__file__).parents[2] / "docs" / "blaze-broker.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_ten_commands_start_insert_subscribe_and_query_the_tap(tmp_path: Path) -> None:
    commands = blocks("sh")
    assert len(commands) == 10
    script = "set -e\n" + "".join(f"echo '@@@'\n{command}" for command in commands)
    for port in ("12345", "12346"):
        with socket.create_server(("127.0.0.1", 0)) as free:
            script = script.replace(port, str(free.getsockname()[1]))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.split("@@@\n")[1:]
    stored = [json.loads(line) for line in said[6].splitlines()]
    assert "1200" in json.dumps(stored)
    assert "eight" not in json.dumps(stored)
    assert "TRUCK" in said[7]
    counts = dict(line.split(",") for line in said[9].splitlines()[1:])
    assert counts["TXRQST"] == counts["TXRESP"] == "4"
    assert json.loads((tmp_path / "ready.json").read_text())["event"] == "ready"


def test_hooks_on_the_page_can_be_loaded(tmp_path: Path) -> None:
    [text] = blocks("python")
    (tmp_path / "mine.py").write_text(text)
    hooks = load_hooks(str(tmp_path / "mine.py"))
    assert hooks.connect is not None
    assert hooks.may is not None
    assert [*hooks.handlers, *hooks.filters] == ["TRUCK", "TRUCK"]


def test_the_config_on_the_page_is_well_formed() -> None:
    from wireloom.services._shell.settings import build, parse_config
    from wireloom.services.blaze.settings import BrokerSettings

    [text] = blocks("toml")
    assert build(BrokerSettings, parse_config(text, BrokerSettings), {}).subscriptions.window == 256
