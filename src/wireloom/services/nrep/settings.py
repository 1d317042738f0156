"""What an entry point can be told, declared once for TOML, the command line and the docs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wireloom.errors import OptionError
from wireloom.formats.nrep import DISCOVERY_PORT, LEAST_MAX_CONTENT
from wireloom.formats.nrep.quotas import Quotas
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import (
    LimitSettings,
    ProgramSettings,
    TapSettings,
    TlsSettings,
)
from wireloom.services._shell.settings import MisplacedError, section, setting

__all__ = [
    "DEFAULT_PORT",
    "DiscoverySettings",
    "EntryPointSettings",
    "QuotaSettings",
    "TimeSettings",
    "state_folder",
]

DEFAULT_PORT = 6700
"""For clients, by default: fixed, so that who trusts an entry point knows it again."""

_DEFAULT = Quotas()


def state_folder() -> Path:
    """Where this user's certificates and known entry points are kept."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "wireloom" / "nrep"


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Who is answered on UDP."""

    listen: Address = setting(
        Address("0.0.0.0", DISCOVERY_PORT),
        "Answer Discover there, on UDP.",
        flag="--discovery",
        metavar="HOST:PORT",
    )
    is_on: bool = setting(True, "Answer Discover at all.", flag="--announce")
    interfaces: tuple[str, ...] = setting(
        (),
        "Answer only sources in the networks of this interface. May be repeated.",
        flag="--interface",
        metavar="NAME",
    )
    any_source: bool = setting(
        False,
        "Also answer sources that are in no network of this machine: an answer is much longer than"
        " the question, and the source may be forged.",
        flag="--any-source",
    )
    answers_per_s: int = setting(200, "Answers per second, to all sources together.")
    answers_per_source_per_s: int = setting(10, "Answers per second to one source.")


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What one client may have.

    Raises:
        OptionError: packets that existing forwarders send would not be accepted.
    """

    instances: int = setting(_DEFAULT.instances, "Publications of one connection.")
    sockets: int = setting(_DEFAULT.sockets, "Sockets with one connection as either end.")
    requests: int = setting(_DEFAULT.requests, "Sockets that one connection opened.")
    all_sockets: int = setting(_DEFAULT.all_sockets, "Sockets of all connections.")
    watches: int = setting(_DEFAULT.watches, "Apps that one connection watches.")
    socket_bytes: int = setting(
        0, "Bytes relayed for one socket, both ways together; then it is closed. 0: any number."
    )
    description_bytes: int = setting(_DEFAULT.description_bytes, "Length of an app's description.")
    max_content: int = setting(_DEFAULT.max_content, "Content of one packet.")
    backlog_bytes: int = setting(
        32 << 20, "Bytes that may wait for one connection at most; then it is cut off."
    )

    def __post_init__(self) -> None:
        if self.max_content < LEAST_MAX_CONTENT:
            raise OptionError(f"quotas.max_content must be at least {LEAST_MAX_CONTENT}")

    def quotas(self, connections: int, accept_s: float) -> Quotas:
        """The same for the table."""
        return Quotas(
            connections=connections,
            instances=self.instances,
            sockets=self.sockets,
            requests=self.requests,
            all_sockets=self.all_sockets,
            watches=self.watches,
            socket_bytes=self.socket_bytes or None,
            description_bytes=self.description_bytes,
            max_content=self.max_content,
            accept_seconds=accept_s,
        )


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """How long things may take."""

    accept_s: float = setting(
        _DEFAULT.accept_seconds, "Seconds in which a publisher has to accept a socket."
    )
    packet_s: float = setting(60.0, "Seconds in which a packet that was begun has to be complete.")
    stall_s: float = setting(
        60.0,
        "Seconds in which a client that knows windows has to read something of what waits for it.",
    )
    legacy_stall_s: float = setting(
        600.0, "The same for one that does not: it may have to wait for whom it forwards to."
    )
    idle_s: float = setting(
        3600.0, "Seconds without a packet for one that has no publication, socket or watch."
    )


@dataclass(frozen=True, slots=True)
class EntryPointSettings:
    """All of an entry point."""

    listen: Address = setting(
        Address("0.0.0.0", DEFAULT_PORT), "Clients connect there.", metavar="HOST:PORT"
    )
    insecure: bool = setting(
        False, "Speak plain TCP: everybody on the way can read and change what is relayed."
    )
    state: Path | None = setting(
        None,
        "Keep the certificate that is generated without --tls-cert there"
        " [default: ~/.local/state/wireloom/nrep].",
        metavar="DIR",
    )
    legacy_reject_id: bool = setting(
        True,
        "Refuse unknown instances with the zero socket id, as the first implementation does; its"
        " client stops for good at the second one. Without it the id is random.",
        flag="--zero-reject-id",
    )
    discovery: DiscoverySettings = section(DiscoverySettings)
    tls: TlsSettings = section(TlsSettings)
    quotas: QuotaSettings = section(QuotaSettings)
    times: TimeSettings = section(TimeSettings)
    limits: LimitSettings = section(LimitSettings)
    tap: TapSettings = section(TapSettings)
    program: ProgramSettings = section(ProgramSettings)

    def check(self) -> None:
        """Whether an entry point can be made of it.

        Raises:
            OptionError: settings contradict each other.
            SourceError: the certificate or its key cannot be used.
        """
        tls = self.tls
        if self.insecure and (tls.cert or tls.key or tls.client_ca):
            raise MisplacedError("insecure", "--insecure and a certificate contradict each other")
        if tls.key is not None and tls.cert is None:
            raise MisplacedError("tls.key", "--tls-key needs --tls-cert")
        if tls.cert is not None:
            tls.context()
