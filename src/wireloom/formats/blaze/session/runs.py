"""Packets that differ in nothing but their counters and bodies: a session looks at them once.

A busy peer sends hundreds of them in one segment: requests whose numbers rise, their answers,
events and acknowledgements.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from wireloom.formats.blaze.frames import FORMS, LENGTHS, WORD_LEN
from wireloom.formats.blaze.packets import VERSION

__all__ = ["COUNTERS", "Run", "frame_of", "head_of"]

Run = tuple[tuple[int, ...], list[Sequence[int]], list[bytes], int]
"""Words of the first packet's header; of each counter its values, a range where they rise by one;
the bodies, where there are any; and how many packets there are."""

_COUNTED = {"txprid", "sevtid", "tmstmp1"}
"""Numbers that rise from packet to packet."""
_NO_LENGTH = 255

_PLACES = {
    key: sorted(at // WORD_LEN for name, (at, *_) in form.fields.items() if name in _COUNTED)
    for key, form in FORMS.items()
}
"""Of each form, which of its words are counters."""
COUNTERS = b"".join(
    sum(1 << place for place in _PLACES.get(key, ())).to_bytes(2, "big") for key in range(1 << 10)
)
"""Of each form, the bits of the words that are counters, for the kernel."""


def head_of(code: int, words: int) -> int:
    """The first word of packets of a kind whose header has so many words."""
    return VERSION << 26 | words << 22 | code << 16


def frame_of(run: Run, place: int) -> bytes:
    """The bytes of one of the packets."""
    first, columns, bodies, _ = run
    words = list(first)
    key = first[0] >> 16 & 0x3FF
    for at, column in zip(_PLACES[key], columns, strict=True):
        words[at] = column[place]
    if LENGTHS[key] == _NO_LENGTH:
        return struct.pack(f">{len(words)}I", *words)
    words[LENGTHS[key]] = WORD_LEN * len(words) + len(bodies[place])
    return struct.pack(f">{len(words)}I", *words) + bodies[place]
