"""The ten commands of the guide, as they are written there."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "nrep-entry-point.md"


def free_port(kind: socket.SocketKind) -> str:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("python3") is None,
    reason="curl and python3 are not installed (Debian: apt install curl python3)",
)
def test_the_ten_commands_lead_to_a_system_that_works(tmp_path: Path) -> None:
    block = re.search(r"^```sh\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert block is not None
    text = block[1]
    for port in ("6700", "9100", "18000", "8000"):
        text = re.sub(rf"\b{port}\b", free_port(socket.SOCK_STREAM), text)
    text = text.replace("2888", free_port(socket.SOCK_DGRAM))
    install, *lines = text.splitlines()
    assert install == "pip install 'wireloom[serve]'"
    assert len(lines) == 9
    (tmp_path / "index.html").write_text("it works")
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONASYNCIODEBUG"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    running: list[subprocess.Popen[bytes]] = []
    shown: list[str] = []
    try:
        for number, line in enumerate(lines):
            if not line.endswith("&"):
                shown.append(run(line, tmp_path, environment))
                continue
            out = tmp_path / f"{number}.out"
            with out.open("wb") as file, (tmp_path / f"{number}.err").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        ["sh", "-c", f"exec {line.removesuffix('&')}"],
                        cwd=tmp_path,
                        env=environment,
                        stdout=file,
                        stderr=log,
                    )
                )
            deadline = time.monotonic() + 60
            while line.startswith("wireloom") and not out.read_bytes():
                assert running[-1].poll() is None, (tmp_path / f"{number}.err").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)
    found, listed, page, status, decoded = shown
    assert re.search(r"127\.0\.0\.1:\d+ +[0-9a-f]{64}", found)
    assert re.search(r"^web +1$", listed, re.MULTILINE)
    assert page == "it works"
    assert '"relayed_bytes":' in status
    packets = [json.loads(line)["packet"] for line in decoded.splitlines()]
    assert {"HELLO", "PUBLISH", "OPEN_SOCKET", "SOCKET_DATA", "UNKNOWN"} <= set(packets)


def run(line: str, folder: Path, environment: dict[str, str]) -> str:
    """What a command prints; one that needs a server that has just been started may try again."""
    for attempt in range(20):
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode == 0 or not line.startswith("curl"):
            break
        time.sleep(0.1 * attempt)
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout
