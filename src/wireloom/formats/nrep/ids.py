"""The identifiers of NREP: ten raw bytes each, and the rule that gives an app its id (SPEC §4)."""

from __future__ import annotations

import hashlib

__all__ = ["ID_LEN", "ZERO_ID", "app_id"]

ID_LEN = 10
"""Bytes of an app, instance or socket id."""

ZERO_ID = bytes(ID_LEN)
"""What a failed Publish Reply and the answer "no such instance" carry."""


def app_id(description: str) -> bytes:
    """The id of the app with that description: the first 10 bytes of the SHA-1 of its UTF-8.

    Client and entry point compute it independently, so it is part of the protocol: exact bytes,
    case-sensitive, no trimming, no Unicode normalisation.

    >>> app_id("echo").hex()
    'b2d21e771d9f86865c5e'
    """
    # A name, not a security check: the protocol chose SHA-1, and FIPS builds must allow it too.
    return hashlib.sha1(description.encode(), usedforsecurity=False).digest()[:ID_LEN]
