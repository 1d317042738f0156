"""TLS for services and clients: the standard library's contexts, with no weak choice to make."""

from __future__ import annotations

import ssl
from pathlib import Path

from wireloom.errors import SourceError

__all__ = ["client_context", "server_context"]


def _load(context: ssl.SSLContext, cert: Path, key: Path | None) -> None:
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise SourceError(
            f"the certificate and its key cannot be used: {error}", file=str(cert)
        ) from error


def _trust(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        raise SourceError(
            f"the authorities cannot be read: {error}", file=str(authorities)
        ) from error


def server_context(
    cert: Path, key: Path | None = None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """A server's context, TLS 1.2 or newer.

    Args:
        cert: certificate chain in PEM; may hold the key, too.
        key: its private key in PEM.
        client_ca: with it, clients need a certificate of one of these authorities.

    Raises:
        SourceError: a file cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, cert, key)
    if client_ca is not None:
        _trust(context, client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    *,
    is_verified: bool = True,
) -> ssl.SSLContext:
    """A client's context.

    Args:
        ca: authorities in PEM; those of the system when left out.
        cert: the client's own certificate chain, where the server asks for one.
        key: its private key.
        is_verified: whether the server's certificate and name are checked; without it anybody can
            be in the middle.

    Raises:
        SourceError: a file cannot be read or used.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        _trust(context, ca)
    if cert is not None:
        _load(context, cert, key)
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
