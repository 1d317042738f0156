"""What peers of each dialect do, beyond the numbers they use (SPEC §6 and §8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.dialects import DOCUMENT, get_dialect

__all__ = ["BEHAVIOURS", "Behaviour", "behaviour_of"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What to expect from a peer."""

    has_acks: bool
    """Events are acknowledged."""
    has_download_end: bool
    """DWNLEND is sent."""
    has_stop: bool
    """A PAST subscription ends with STOP; otherwise it stays, silent, until the client stops it."""
    has_heartbeat: bool
    """TSTREQ is answered, so silence means that the peer is gone."""
    has_short_requests: bool
    """TXRQST without an object is understood; a 2017 server waits for more words."""
    is_ordered: bool
    """Downloads come in stamp order, so the last stamp seen is a place to resume from."""
    encodings: frozenset[Encoding]


BEHAVIOURS: Mapping[str, Behaviour] = {
    DOCUMENT: Behaviour(True, True, True, True, True, True, frozenset(Encoding)),
    "2017": Behaviour(True, True, False, False, False, False, frozenset({Encoding.INDEXNOTZERO})),
    "2019": Behaviour(False, False, False, False, False, False, frozenset({Encoding.INDEXNOTZERO})),
}
"""Behaviour by the dialect's name."""


def behaviour_of(dialect: str) -> Behaviour:
    """What peers of a dialect do.

    Raises:
        OptionError: there is no such dialect.
    """
    return BEHAVIOURS[get_dialect(dialect).name]
