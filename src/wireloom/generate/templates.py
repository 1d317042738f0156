"""Messages in bulk: encoded once by the codec, then written again and again with other values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache

__all__ = ["Slot", "template"]

Slot = tuple[bytes, str]
"""The placeholder bytes of a value, and the value's `struct` format code."""


def template(
    data: bytes, slots: Sequence[Slot], order: str = ">", *, front: int | None = None
) -> Callable[..., bytes]:
    """A function from the values of the slots, in their order in the message, to its bytes.

    If `front` is given, the values of so many slots come as one sequence, the first argument.

    >>> template(b"a quote of 1111 at 2222", [(b"1111", "4s"), (b"2222", "4s")])(b"ABCD", b"0007")
    b'a quote of ABCD at 0007'

    Raises:
        ValueError: a slot is not found, or is found more than once.
    """
    codes: list[str] = [order]
    constants: list[bytes] = []
    at = 0
    for number, (marker, code) in enumerate(slots):
        where = data.find(marker, at)
        if where < 0 or data.find(marker, where + 1) >= 0:
            raise ValueError(f"slot {number}, {marker.hex()}, does not stand out in {data.hex()}")
        codes.append(f"{where - at}s{code}")
        constants.append(data[at:where])
        at = where + len(marker)
    codes.append(f"{len(data) - at}s")
    return _maker(len(slots), front)(struct.Struct("".join(codes)).pack, *constants, data[at:])


@cache
def _maker(slots: int, front: int | None) -> Callable[..., Callable[..., bytes]]:
    """A factory: given `struct`'s pack and constants, it makes a function from values to bytes.

    It is generated as source: a call with constants and values in a list costs twice as much.
    """
    together = front or 0
    names = [f"v{number}" for number in range(together, slots)]
    values = [f"front[{number}]" for number in range(together)] + names
    constants = [f"c{number}" for number in range(slots)]
    mixed = [name for pair in zip(constants, values, strict=True) for name in pair]
    outer = ", ".join(["pack", *constants, "rest"])
    inner = ", ".join(names if front is None else ["front", *names])
    source = f"lambda {outer}: lambda {inner}: pack({', '.join([*mixed, 'rest'])})"
    made: Callable[..., Callable[..., bytes]] = eval(source)
    return made
