"""The certificate inside a Discover Reply: one DER X.509 certificate, no chain (SPEC §3.2, E19).

Parsed only on demand: a packet is valid whatever its certificate bytes are, and `cryptography` is
slow to import for programs that never look at one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from wireloom.errors import DecodeError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = ["fingerprint", "load", "summary"]


def load(der: bytes) -> Certificate:
    """The certificate of those DER bytes.

    Raises:
        DecodeError: they are not one X.509 certificate (code ``certificate``).
    """
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(der)
    except (
        Exception
    ) as error:  # the parser documents no complete list, and these bytes are untrusted
        raise DecodeError(
            f"not an X.509 certificate: {error}", path="x509", code="certificate"
        ) from None


def fingerprint(der: bytes) -> str:
    """SHA-256 of the whole certificate in hex: what a client pins."""
    return hashlib.sha256(der).hexdigest()


def summary(der: bytes) -> str:
    """Subject and fingerprint in one line, or why there are none."""
    try:
        subject = load(der).subject.rfc4514_string()
    except Exception as error:  # the subject is parsed lazily, and may be the broken part
        subject = error.reason if isinstance(error, DecodeError) else f"bad subject: {error}"
    return f"{subject}; SHA-256 {fingerprint(der)}"
