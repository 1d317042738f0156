"""The tap: what crossed a service's connections, as rotated pcapng files that anybody reads.

Behind TLS it is the plain text that is recorded, in TCP segments that are made up
(`wireloom.captures.recorder`). A file is complete up to its last flush, twice a second, so that
``wireloom pipeline --stream`` follows it while it is written. A disk that is full ends the
recording, not the service.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from wireloom.captures.recorder import Recorder, TcpRecording
from wireloom.errors import OptionError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.sections import TapSettings

__all__ = [
    "Tap",
    "TapSession",
]

log = get_log("tap")

FLUSH_S = 0.5
"""How long recorded bytes may wait in memory: what a follower of the file is behind at most."""


class TapSession:
    """One connection of a tap."""

    __slots__ = ("_is_incoming", "_recording", "_tap")

    def __init__(self, tap: Tap, recording: TcpRecording, is_incoming: bool) -> None:
        self._tap, self._recording, self._is_incoming = tap, recording, is_incoming

    def received(self, data: bytes) -> None:
        """The peer has sent this."""
        self._record(data, self._is_incoming)

    def sent(self, data: bytes) -> None:
        """This was sent to the peer."""
        self._record(data, not self._is_incoming)

    def _record(self, data: bytes, is_from_client: bool) -> None:
        if self._tap.is_open:
            record = self._recording.from_client if is_from_client else self._recording.from_server
            record(bytes(data), time.time_ns())

    def close(self) -> None:
        """The connection has ended."""
        if self._tap.is_open:
            self._recording.close(time.time_ns())


class Tap(Recorder):
    """Records connections and datagrams into a folder.

    Args:
        settings: where, and how large files become.
        name: with which the files' names start.

    Raises:
        OptionError: no folder was named.
        OSError: the folder cannot be written to.
    """

    def __init__(self, settings: TapSettings, name: str) -> None:
        if settings.folder is None:
            raise OptionError("a tap needs a folder")
        self._settings = settings
        self._folder = settings.folder
        self._name = name
        self._number = 0
        self._file: BinaryIO | None = None
        self._opened = self._flushed = 0.0
        self._written: list[Path] = []
        self.error: str | None = None
        """Why recording has ended before its time."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._rotate()

    @property
    def is_open(self) -> bool:
        """Whether it records."""
        return self._file is not None

    def connect_peer(self, remote: Address, local: Address, is_incoming: bool = True) -> TapSession:
        """Record a connection from now on; `is_incoming`: the peer is the client of it."""
        # Unix sockets have no address.
        a, b = ((end.host or "127.0.0.1", end.port) for end in (remote, local))
        client, server = (a, b) if is_incoming else (b, a)
        return TapSession(self, self.connect(client, server, time.time_ns()), is_incoming)

    def packet(self, packet: bytes, ts_ns: int) -> None:
        """Record one whole IP packet, in the next file when this one is large or old enough."""
        if self._file is None:
            return
        try:
            now = time.monotonic()
            is_old = now - self._opened >= self._settings.file_s
            if is_old or self._file.tell() >= self._settings.file_bytes:
                self._rotate()
            super().packet(packet, ts_ns)
            if now - self._flushed >= FLUSH_S:
                self._file.flush()
                self._flushed = now
        except OSError as error:
            self.error = str(error)
            log.error("tap_ended", error=self.error)
            self.close()

    def flush(self) -> None:
        """Make what was recorded visible to others; called now and then while nothing comes."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Record no more."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self.error = str(error)

    def _rotate(self) -> None:
        self.close()
        self._number += 1
        time_of = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self._folder / f"{self._name}-{time_of}-{self._number:06d}.pcapng"
        self._file = path.open("xb", buffering=1 << 18)
        self._opened = self._flushed = time.monotonic()
        super().__init__(self._file)
        self._file.flush()
        self._written.append(path)
        keep = self._settings.keep_files
        while keep and len(self._written) > keep:
            self._written.pop(0).unlink(missing_ok=True)
