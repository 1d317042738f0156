"""Sections of settings that all services have; light to import, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wireloom.errors import OptionError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import LogLevel, LogStyle
from wireloom.services._shell.settings import setting

if TYPE_CHECKING:
    import ssl

__all__ = ["LimitSettings", "ProgramSettings", "TapSettings", "TlsSettings"]


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """What every service has."""

    metrics: Address | None = setting(
        Address("127.0.0.1", 0),
        "Serve /metrics, /healthz, /readyz and /status there; port 0 takes any that is free.",
        flag="--metrics",
        metavar="HOST:PORT",
    )
    log_level: LogLevel = setting("info", "debug, info, warning or error.", flag="--log-level")
    log_style: LogStyle = setting("json", "json or text.", flag="--log-style")
    drain_s: float = setting(
        10.0, "Seconds for work under way to end after SIGTERM.", flag="--drain-s"
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """What a service grants to connections."""

    max_connections: int = setting(10_000, "Connections at the same time; more are refused.")
    max_connections_per_address: int = setting(
        4_096, "Connections from one address at the same time; more are refused."
    )
    max_bytes_per_s: int = setting(
        0, "Bytes per second that one connection may send; then it is slowed down. 0: any number."
    )
    max_queue_bytes: int = setting(
        1 << 20, "Bytes that may wait for one connection in the socket's buffer."
    )


@dataclass(frozen=True, slots=True)
class TapSettings:
    """What is recorded, and where."""

    folder: Path | None = setting(
        None, "Record all traffic there, as pcapng files.", flag="--tap", metavar="DIR"
    )
    file_bytes: int = setting(256 << 20, "Begin another file when one has this many bytes.")
    file_s: float = setting(3600.0, "Begin another file after this many seconds.")
    keep_files: int = setting(0, "Delete the oldest files beyond this number; 0: keep all.")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a service proves who it is."""

    cert: Path | None = setting(
        None, "Serve TLS with this certificate chain in PEM.", metavar="FILE"
    )
    key: Path | None = setting(None, "Its private key in PEM.", metavar="FILE")
    client_ca: Path | None = setting(
        None,
        "Let in only clients with a certificate of these authorities.",
        flag="--client-ca",
        metavar="FILE",
    )

    def context(self) -> ssl.SSLContext | None:
        """The server's context; None: no TLS.

        Raises:
            OptionError: a key or authorities without a certificate.
            SourceError: a file cannot be read or used.
        """
        if self.cert is None:
            if self.key is not None or self.client_ca is not None:
                raise OptionError("--tls-key and --client-ca need --tls-cert")
            return None
        from wireloom.services._shell.tls import server_context

        return server_context(self.cert, self.key, self.client_ca)
