"""Golden vectors of any registered format: bytes, and the message or the error that they are.

A case is ``{"format": NAME, "hex": BYTES, "message": WHAT_TO_DICT_GIVES}``, or has the ``error``'s
code instead of the message; ``options`` are those of `wireloom.decode`. It may have a ``name``, a
``source`` (where it comes from) and a ``note``; any other key is refused.
"""

from __future__ import annotations

from typing import Any

import wireloom
from wireloom.errors import DecodeError, WireloomError
from wireloom.formats import names
from wireloom.testing.vectors import Case

__all__ = ["Verifier"]

_KEYS = {"format", "hex", "message", "error", "options", "name", "source", "note"}


class Verifier:
    """Checks the cases of one vector file."""

    def accepts(self, case: Case) -> bool:
        """Whether the case has bytes of a registered format."""
        return "hex" in case and case.get("format") in names()

    def check(self, case: Case) -> str | None:
        """None when the codec agrees with the case, else what differs."""
        if unknown := sorted(set(case) - _KEYS):
            return f"not understood: {', '.join(unknown)}"
        if ("message" in case) == ("error" in case):
            return "either a message or an error is needed"
        try:
            data = bytes.fromhex(case["hex"])
        except (TypeError, ValueError):
            return "hex is not hexadecimal"
        try:
            return _compare(case, data, case.get("options") or {})
        except WireloomError as error:
            return str(error)


def _compare(case: Case, data: bytes, options: dict[str, Any]) -> str | None:
    try:
        message = wireloom.decode(data, case["format"], **options)
    except DecodeError as error:
        if error.code == case.get("error"):
            return None
        return f"{error.code}: {error}"
    if "error" in case:
        return f"read, where {case['error']} was expected"
    if message.to_dict() != {"format": case["format"], **case["message"]}:
        return f"expected {case['message']}, got {message.to_dict()}"
    if message.encode() != data:
        return f"encoded as {message.encode().hex()}"
    made = wireloom.from_dict(message.to_dict()).encode()
    return None if made == data else f"encoded from the case as {made.hex()}"
