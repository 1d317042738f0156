"""The page about the junction: its ten commands work, its configuration is one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.naislive import certificate, free_port

from wireloom.services._shell.settings import build, parse_config
from wireloom.services.nais import JunctionSettings

PAGE = Path(__file__).parents[2] / "docs" / "nais-junction.md"


def block(language: str) -> str:
    found = re.search(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_ten_commands_work(tmp_path: Path) -> None:
    text = block("sh")
    for port in sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text))):
        text = text.replace(f":{port}", f":{free_port()}")
    install, *commands = text.splitlines()
    assert install == "pip install 'wireloom[serve]'"  # this environment stands for it
    assert len(commands) == 9
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONASYNCIODEBUG": ""}
    shown: list[str] = []
    with contextlib.ExitStack() as stack:
        for command in commands:
            if command.endswith(" &"):
                process = subprocess.Popen(
                    ["bash", "-c", "exec " + command.removesuffix(" &")],
                    cwd=tmp_path,
                    env=environ,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                stack.callback(process.communicate)
                stack.callback(process.terminate)
                assert process.stdout is not None
                assert json.loads(process.stdout.readline())["event"] == "ready"
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environ,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            shown.append(done.stdout)
    sessions, switched, told, asked, events, metrics, decoded = shown
    assert "board" in sessions
    assert json.loads(switched)["status"] == 5
    assert json.loads(told)["status"] == 0
    assert json.loads(asked)["config"]["board"] == "hall"
    assert [json.loads(line)["id"] for line in events.splitlines()] == [12, 12]
    assert "wireloom_nais_line_frames_total" in metrics
    assert len(decoded.splitlines()) >= 5  # texts come on top
    assert all(json.loads(line)["format"] == "nais" for line in decoded.splitlines())


def test_the_configuration_on_the_page_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate(tmp_path)
    (tmp_path / "app.token").write_text("word")
    package = tmp_path / "workshop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "rules.py").write_text("def check(record):\n    return record.data\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = block("toml")
    for name, real in {
        "/etc/wireloom/junction.pem": "cert.pem",
        "/etc/wireloom/junction.key": "key.pem",
        "/etc/wireloom/app.token": "app.token",
    }.items():
        text = text.replace(name, str(tmp_path / real))
    settings = build(JunctionSettings, parse_config(text, JunctionSettings), {})
    settings.check()
    assert set(settings.all_lines()) == {"usb", "app", "web"}
    assert settings.routes[1].backward.types == (10,)
