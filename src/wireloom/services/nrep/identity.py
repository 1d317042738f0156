"""Who an entry point is: its certificate and key, given or generated once and kept."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from wireloom.errors import SourceError
from wireloom.formats.nrep.certificates import fingerprint

__all__ = ["Identity", "given_identity", "kept_identity"]

_KEPT = "identity.pem"
"""Key and certificate in one file, so that no crash leaves one without the other."""
_PUBLIC = "certificate.pem"
_VALID = timedelta(days=3650)
"""Clients pin the certificate itself; that it ends is only in the way."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate, and where its key is."""

    cert: Path
    key: Path | None
    der: bytes
    """The certificate, as it is in a Discover Reply."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of it in hex: what clients pin."""
        return fingerprint(self.der)


def given_identity(cert: Path, key: Path | None) -> Identity:
    """The identity in PEM files; the first certificate of a chain is the entry point's own.

    Raises:
        SourceError: there is no certificate in the file, or it cannot be read.
    """
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(cert.read_bytes())[0]
    except (OSError, ValueError, IndexError) as error:
        raise SourceError(f"no certificate can be read: {error}", file=str(cert)) from error
    return Identity(cert, key, found.public_bytes(Encoding.DER))


def kept_identity(folder: Path) -> Identity:
    """The identity that is kept in a folder; a new one the first time.

    Raises:
        SourceError: what is kept there cannot be read.
        OSError: the folder cannot be written to.
    """
    path = folder / _KEPT
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key, certificate = _generate()
        _write(folder / f".{secrets.token_hex(8)}", key + certificate, 0o600, path)
        # Also alone: for clients that take it as their authority.
        _write(folder / f".{secrets.token_hex(8)}", certificate, 0o644, folder / _PUBLIC)
    return given_identity(path, None)


def _write(draft: Path, data: bytes, mode: int, path: Path) -> None:
    """Make a file whole or not at all; one that is there already stays."""
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


def _generate() -> tuple[bytes, bytes]:
    """A new key and a certificate signed by itself, in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64] or "localhost")])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if host.isascii() and host not in ("", "localhost"):
        names.append(x509.DNSName(host))
    names += [x509.IPAddress(ip_address(each)) for each in ("127.0.0.1", "::1")]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # for clocks that are behind
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, certificate.public_bytes(Encoding.PEM)
