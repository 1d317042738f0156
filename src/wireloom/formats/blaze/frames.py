"""Bytes → frames: where a Blaze packet ends, from a table derived from the declarations (SPEC §2).

`wireloom.framing.Scanner` cuts a recorded stream with `RULES` and resynchronises after damage.
`wireloom.framing.Splitter` cuts a live connection with the same rules.
"""

from __future__ import annotations

import re

from wireloom.errors import InvalidFieldError, TruncatedError
from wireloom.formats.blaze.packets import PACKETS, VERSION
from wireloom.layout import PacketCodec, Word
from wireloom.wire import Buffer, as_bytes

__all__ = ["FORMS", "LENGTHS", "RULES", "Form", "Rules", "form_at", "header_fields", "measure"]

WORD_LEN = 4


class Form:
    """One legal combination of packet type and header length."""

    __slots__ = ("codec", "fields", "header_len", "pktlen_at", "words")

    def __init__(self, codec: PacketCodec, words: int) -> None:
        self.codec = codec
        self.words = words
        self.header_len = WORD_LEN * words
        self.fields: dict[str, tuple[int, int, int]] = {}
        """Every field of the header: byte offset of its word, lowest bit, mask."""
        self.pktlen_at = 0
        """Offset of PKTLEN, which gives the packet's length; 0 if the packet is only a header."""
        offset = 0
        for word in codec.forms[words]:
            if isinstance(word, Word):
                for bits in word.bits:
                    self.fields[bits.name] = offset, bits.low, bits.mask
                    if bits.derived == "frame":
                        self.pktlen_at = offset
                offset += word.size


FORMS: dict[int, Form] = {
    words << 6 | code: Form(cls.codec, words)
    for code, cls in PACKETS.items()
    for words in cls.codec.forms
}
"""The 23 forms, by HDRLEN and PKTTYP: the low 10 bits of the first two bytes."""

_PLACES = {key: form.pktlen_at // WORD_LEN or 255 for key, form in FORMS.items()}
LENGTHS = bytes(_PLACES.get(key, 0) for key in range(1 << 10))
"""Which word of a packet is PKTLEN, for the kernel; 255: none is, 0: there is no such form."""

_KEY = 0x3FF
_VERSION_SHIFT = 10


def _starts() -> re.Pattern[bytes]:
    """A header of this version without unused bits, or the start of one at the end of the data."""
    heads = [(VERSION << _VERSION_SHIFT | key).to_bytes(2, "big") for key in FORMS]
    branches = []
    for first in sorted({head[0] for head in heads}):
        seconds = b"".join(re.escape(head[1:]) for head in heads if head[0] == first)
        branches.append(re.escape(bytes([first])) + rb"(?:[" + seconds + rb"](?:\0\0|\0?\Z)|\Z)")
    return re.compile(b"|".join(branches), re.DOTALL)


_START = _starts()


def form_at(data: bytes | bytearray, pos: int, end: int) -> Form:
    """The form of the packet whose header starts at `pos`.

    Raises:
        TruncatedError: there are fewer than 4 bytes.
        InvalidFieldError: type, header length or version are not legal.
    """
    if end - pos < WORD_LEN:
        raise TruncatedError(needed=WORD_LEN, available=end - pos, offset=pos, path="pkthdr")
    head = data[pos] << 8 | data[pos + 1]
    form = FORMS.get(head & _KEY)
    if form is None or head >> _VERSION_SHIFT == 0:
        raise _illegal(head, pos)
    return form


def _illegal(head: int, pos: int) -> InvalidFieldError:
    code, words = head & 0x3F, head >> 6 & 0xF
    if code not in PACKETS:
        path, reason = "pkttyp", f"there is no packet type {code}"
    elif head & _KEY not in FORMS:
        legal = " or ".join(str(n) for n in PACKETS[code].codec.forms)
        path, reason = "hdrlen", f"{PACKETS[code].name} has {legal} words, not {words}"
    else:
        path, reason = "prover", "version 0 is not legal"
    return InvalidFieldError(reason, offset=pos, path=path, code=path)


def measure(data: bytes | bytearray, pos: int, end: int) -> int:
    """Bytes of the packet whose header starts at `pos`.

    Raises:
        TruncatedError: the header ends before PKTLEN.
        InvalidFieldError: it is not a header.
    """
    form = form_at(data, pos, end)
    if not form.pktlen_at:
        return form.header_len
    at = pos + form.pktlen_at
    if end < at + WORD_LEN:
        needed = form.pktlen_at + WORD_LEN
        raise TruncatedError(needed=needed, available=end - pos, offset=pos, path="pktlen")
    size = int.from_bytes(data[at : at + WORD_LEN], "big")
    if size < form.header_len:
        reason = f"PKTLEN {size} is less than the header's {form.header_len} bytes"
        raise InvalidFieldError(reason, offset=at, path="pktlen", code="pktlen")
    return size


def header_fields(data: Buffer) -> dict[str, int]:
    """The numbers in the header of a packet, legal or not, by field name.

    A server must answer a request that it cannot accept, and the answer repeats its ids.

    Raises:
        TruncatedError: the header is not complete.
        InvalidFieldError: type, header length or version are not legal.
    """
    raw = as_bytes(data)
    form = form_at(raw, 0, len(raw))
    if len(raw) < form.header_len:
        raise TruncatedError(needed=form.header_len, available=len(raw))
    return {
        name: int.from_bytes(raw[at : at + WORD_LEN], "big") >> low & mask
        for name, (at, low, mask) in form.fields.items()
    }


class Rules:
    """What `wireloom.framing.Scanner` must know about Blaze."""

    # The first word has few legal values, but they are no proof: both lengths that must agree come
    # first, and still agree in a packet that has lost bytes and runs into the next one.
    has_magic = False

    def measure(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """Bytes of the packet whose header starts at `pos`.

        Raises:
            TruncatedError: the header is not complete in ``data[pos:end]``.
            DecodeError: it is not a header.
        """
        return measure(data, pos, end)

    def check(self, data: bytes | bytearray, pos: int, end: int, steps: int | None) -> bool:
        """Whether the body's own LEN agrees with PKTLEN, which proves the frame.

        If it does not, either may be wrong; a packet without a body says nothing.
        """
        form = FORMS[(data[pos] << 8 | data[pos + 1]) & _KEY]
        at = pos + form.header_len
        return end - at >= WORD_LEN and end - at - WORD_LEN == int.from_bytes(
            data[at : at + WORD_LEN], "little"
        )

    def find(self, data: bytes | bytearray, pos: int, end: int) -> int:
        """The first position where a packet of this version without unused bits might start."""
        found = _START.search(data, pos, end)
        return end if found is None else found.start()


RULES = Rules()
