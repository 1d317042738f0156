"""Whether an entry point is who it should be: a pin, an authority, or who it was the last time.

What discovery says came by unauthenticated datagrams. So the certificate that is presented has to
be, byte for byte, the one that was announced, and beyond that one of these decides: the SHA-256
that somebody was told, an authority, or what the same address presented the first time.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from wireloom.errors import OptionError, TrustError
from wireloom.formats.nrep.certificates import fingerprint
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tls import client_context
from wireloom.services.nrep.settings import state_folder

__all__ = ["Trust"]

log = get_log("nrep.trust")


def _known_folder() -> Path:
    return state_folder() / "known"


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom a client believes.

    Raises:
        OptionError: a pin that is none, or more than one way to decide.
    """

    pin: str | None = None
    """SHA-256 of the whole certificate in hex; colons are allowed."""
    ca: Path | None = None
    """Authorities in PEM; the name of the host is checked, too."""
    known: Path = field(default_factory=_known_folder)
    """Folder with what each address presented the first time; used without `pin` and `ca`."""
    cert: Path | None = None
    """This client's own certificate in PEM, where the entry point asks for one."""
    key: Path | None = None
    is_insecure: bool = False
    """Also speak plain TCP, with an entry point that announces it, or when no certificate is known
    from discovery: everybody on the way can read and change what is relayed."""

    def __post_init__(self) -> None:
        if self.pin is not None:
            digits = self.pin.replace(":", "").lower()
            if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
                raise OptionError("a pin is the SHA-256 of a certificate: 64 hex digits")
            object.__setattr__(self, "pin", digits)
        if (self.pin is not None) + (self.ca is not None) + self.is_insecure > 1:
            raise OptionError("only one of a pin, an authority and insecure can be chosen")

    def context(self) -> ssl.SSLContext:
        """For connecting. Without an authority it verifies nothing: `check` does.

        Raises:
            SourceError: a file cannot be read or used.
        """
        return client_context(self.ca, self.cert, self.key, is_verified=self.ca is not None)

    def check(self, address: Address, presented: bytes, announced: bytes | None) -> None:
        """Decide about the certificate of an entry point, before anything is sent to it.

        Args:
            address: where it is.
            presented: its certificate in DER.
            announced: the one in its answer to Discover, if there was one.

        Raises:
            TrustError: it is not who was expected.
            OSError: the folder of known ones cannot be read or written.
        """
        found = fingerprint(presented)
        if announced is not None and announced != presented:
            raise TrustError(
                f"{address} presents another certificate (SHA-256 {found}) than was announced"
                f" ({fingerprint(announced)})"
            )
        if self.ca is not None:
            return
        if self.pin is not None:
            if found != self.pin:
                raise TrustError(f"{address} presents SHA-256 {found}, and the pin is {self.pin}")
            return
        path = self.known / quote(str(address), safe="")
        try:
            before = path.read_text("ascii").strip()
        except FileNotFoundError:
            self._remember(path, found)
            log.warning("trusted_on_first_use", address=str(address), fingerprint=found)
            return
        if before != found:
            raise TrustError(
                f"{address} presents SHA-256 {found}, and it was {before} before: somebody may be"
                f" in the middle. If the certificate was changed on purpose, delete {path}"
            )

    def _remember(self, path: Path, found: str) -> None:
        self.known.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(found + "\n", "ascii")
        draft.replace(path)
