"""A private PostgreSQL in a temporary folder, on a socket there, removed after the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

__all__ = ["MISSING", "Server", "find_binaries", "running"]

MISSING: Final = (
    "PostgreSQL is not installed (initdb and postgres are looked for in PATH and Debian's folders)"
)
_USERS: Final = ("postgres", "nobody")
"""Users that a server may run as when tests run as root, which PostgreSQL refuses."""
_LOG_FILES: Final = 64
"""Of 16 MB each, in the log of one that is run in."""


def find_binaries() -> Path | None:
    """The folder of PostgreSQL's programs, the newest if there are several."""
    found = shutil.which("initdb")
    if found is not None and Path(found).with_name("postgres").exists():
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: int(path.parts[-3].partition(".")[0]))
    return newest[-1].parent if newest else None


class Server:
    """A server that can be stopped and started again."""

    def __init__(self, binaries: Path, folder: Path, *, is_durable: bool = False) -> None:
        self.binaries = binaries
        self.folder = folder
        self.data = folder / "data"
        self._is_durable = is_durable
        self._process: subprocess.Popen[bytes] | None = None
        self._user = next(iter(_existing(_USERS)), None) if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._databases = 0
        options = ("-U", "wireloom", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self._run("initdb", "-D", str(self.data), *options)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        done = subprocess.run(
            command, user=self._user, cwd=self.folder, capture_output=True, timeout=60, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode(errors='replace')}")

    def url(self, database: str = "postgres") -> str:
        """Address of a database."""
        return f"postgresql://wireloom@/{database}?host={self.folder}"

    def new_database(self, *, encoding: str = "UTF8") -> str:
        """Address of a new, empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'")
        return self.url(name)

    def new_schema(self) -> str:
        """Address of an empty schema: as good as a database, and quick to make."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "60",
            "shared_buffers": "32MB",
            # Tests kill programs, not the machine.
            "fsync": "on" if self._is_durable else "off",
        }
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                user=self._user,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the tests
            )
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(RuntimeError):
                self._run("pg_isready", "-h", str(self.folder), "-t", "1")
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "server.log").read_text(errors="replace"))
            time.sleep(0.05)

    def run_in(self) -> None:
        """Make its log as it is after hours of service: of files that are written again.

        A new file is first filled with zeros, which keeps every commit waiting meanwhile.
        """
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET min_wal_size = '{_LOG_FILES * 16}MB'")
            connection.execute(f"ALTER SYSTEM SET max_wal_size = '{_LOG_FILES * 64}MB'")
            connection.execute("SELECT pg_reload_conf()")
            for _ in range(_LOG_FILES):
                connection.execute("SELECT pg_logical_emit_message(false, '', '')")
                connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` ends connections, ``immediate`` is a crash."""
        if self._process is not None:
            self._run("pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w")
            self._process.wait(30)
            self._process = None


def _existing(names: tuple[str, ...]) -> Iterator[str]:
    import pwd

    for name in names:
        with contextlib.suppress(KeyError):
            yield pwd.getpwnam(name).pw_name


@contextlib.contextmanager
def running(binaries: Path, *, is_durable: bool = False) -> Iterator[Server]:
    """A server, for as long as the block lasts; if it is to be measured, durable and run in."""
    # Socket paths must be short, so not in pytest's own folder.
    with tempfile.TemporaryDirectory(prefix="wlpg-") as folder:
        server = Server(binaries, Path(folder), is_durable=is_durable)
        server.start()
        try:
            if is_durable:
                server.run_in()
            yield server
        finally:
            server.stop("immediate")
