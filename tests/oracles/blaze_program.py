"""``wireloom serve blaze`` as a process of its own, which can be killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from oracles.blaze_peers import FLEET

__all__ = ["Program"]

START_S = 60.0
"""Seconds for a broker to start serving on a busy machine."""


class Program:
    """A broker in a process; what it writes to stderr is in `log`."""

    def __init__(self, folder: Path, store: str, *options: str, model: str = FLEET) -> None:
        self.folder = folder
        self.log = folder / f"broker-{time.monotonic_ns()}.log"
        path = folder / "fleet.blz"
        if not path.exists():
            path.write_text(model)
        given = ["--model", str(path), "--store", store, "--listen", "127.0.0.1:0", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wireloom.cli", "serve", "blaze", *given],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={k: v for k, v in os.environ.items() if k != "PYTHONASYNCIODEBUG"},
            )
        self.ready: dict[str, Any] = {}

    @classmethod
    def start(cls, folder: Path, store: str, *options: str, model: str = FLEET) -> Self:
        """Start one, and wait until it serves."""
        made = cls(folder, store, *options, model=model)
        made.wait_ready()
        return made

    def wait_ready(self) -> None:
        """Wait for the line that says so.

        Raises:
            RuntimeError: it has ended, or takes too long.
        """
        assert self.process.stdout is not None
        found, _, _ = select.select([self.process.stdout], [], [], START_S)
        line = self.process.stdout.readline() if found else b""
        if not line:
            self.kill()
            raise RuntimeError(f"the broker does not start: {self.log.read_text()}")
        self.ready = json.loads(line)

    @property
    def address(self) -> str:
        return str(self.ready["listen"])

    def terminate(self, within_s: float = 30.0) -> int:
        """Send SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(within_s)

    def wait(self, within_s: float = 30.0) -> int:
        code = self.process.wait(within_s)
        self._close()
        return code

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        self.process.kill()
        self.process.wait(30)
        self._close()

    def _close(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._close()
