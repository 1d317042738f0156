"""Reads the recipes of packets too large to be written out in a vector file.

A recipe is a line of prose: the packet's name, then its fields, as in ``SOCKET_DATA, socket id
a0..a9, nonce 0, data = bytes 00..ff repeated 320 times (81920 bytes)``. Only a line of which every
clause is understood is built; remarks in brackets are skipped.
"""

from __future__ import annotations

import re
from typing import Any

from wireloom.formats.nrep import HEADER_LEN, ID_LEN, PACKETS, SocketFlags

__all__ = ["build"]

_KEYS = {
    "nonce": "nonce",
    "flags": "flags",
    "success": "success",
    "tcp port": "tcp_port",
    "port": "tcp_port",
    "socket id": "socket_id",
    "app id": "app_id",
    "instance id": "instance_id",
    "data": "data",
    "payload": "data",
    "description": "description",
    "certificate": "x509",
    "x509": "x509",
    "trailing": "trailing",
}
_NUMBERS = ("nonce", "flags", "success", "tcp_port")
_MAY_BE_ABSENT = ("nonce", "instance_id", "trailing")

_CLAUSE = re.compile(rf"({'|'.join(_KEYS)})\s*(?:=|:|\bis\b|\bof\b)?\s*(.+)", re.DOTALL)
_NUMBER = r"(?:0x[0-9a-f]+|\d[\d_]*)"
_AMOUNTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rf"(?P<unit>.+?)\s*(?:\*|×|repeated)\s*(?P<times>{_NUMBER})(?:\s*times)?",
        rf"(?P<times>{_NUMBER})\s*(?:\*|×|times|bytes(?:\s+of)?)\s*(?P<unit>.+)",
        rf"(?P<times>{_NUMBER})\s+(?P<unit>zero)\s+bytes",
        r"(?P<unit>.+)(?P<times>)",
    )
)
_RANGE = re.compile(r"([0-9a-f]{2})\s*\.\.\s*([0-9a-f]{2})")
_HEX = re.compile(r"(?:0x)?((?:[0-9a-f]{2})+)")
_TEXT = re.compile(r"(['\"]?)(\w|(?<=['\"])[^'\"]*)\1")


def build(recipe: str, head: bytes = b"") -> bytes | None:
    """The packet of a recipe; None when a part of its text is not understood.

    Args:
        recipe: the text.
        head: the first bytes, for the nonce if the text does not give it.
    """
    clauses = [clause.strip() for clause in re.split("[,;]", re.sub(r"\([^()]*\)", "", recipe))]
    cls = {cls.name: cls for cls in PACKETS.values()}.get(clauses[0])
    if cls is None:
        return None
    values: dict[str, Any] = {}
    if len(head) >= HEADER_LEN:
        values["nonce"] = int.from_bytes(head[2:6], "little")
    for clause in clauses[1:]:
        found = _CLAUSE.fullmatch(clause)
        name = _KEYS[found[1]] if found else ""
        value = _value(name, found[2]) if found else None
        if value is None or name not in cls.codec.attributes:
            return None
        values[name] = value
    if "nonce" not in values or not set(cls.codec.attributes) <= {*values, *_MAY_BE_ABSENT}:
        return None
    return cls(**values).encode()


def _value(name: str, text: str) -> Any:
    """The attribute's value in the words of a recipe; None when they are not understood."""
    if name in _NUMBERS:
        if not re.fullmatch(_NUMBER, text):
            return None
        number = _number(text)
        return SocketFlags(number) if name == "flags" else number
    value = bytes(ID_LEN) if name.endswith("_id") and text == "zero" else _bytes(text)
    if value is None or (name.endswith("_id") and len(value) != ID_LEN):
        return None
    return value.decode("utf-8", "replace") if name == "description" else value


def _number(text: str) -> int:
    return int(text.replace("_", ""), 0)


def _bytes(text: str) -> bytes | None:
    """Bytes given as a range, in hex or as text, once or repeated."""
    for pattern in _AMOUNTS:
        if found := pattern.fullmatch(text):
            unit = _unit(found["unit"])
            if unit is not None:
                return unit * (_number(found["times"]) if found["times"] else 1)
    return None


def _unit(text: str) -> bytes | None:
    text = text.removeprefix("bytes ").removeprefix("byte ")
    if text == "zero":
        return b"\0"
    if found := _RANGE.fullmatch(text):
        return bytes(range(int(found[1], 16), int(found[2], 16) + 1))
    if found := _HEX.fullmatch(text):
        return bytes.fromhex(found[1])
    found = _TEXT.fullmatch(text)
    return found[2].encode() if found else None
