"""Transcripts of an NREP entry point: what each of its clients is sent after each step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from wireloom.formats.nrep.quotas import Behaviour
from wireloom.formats.nrep.table import Table
from wireloom.testing.vectors import Case

__all__ = ["play"]

_COLUMNS: dict[Behaviour, str] = {"recommended": "recommended", "legacy": "reference"}
"""What the vectors call the rules."""

_KNOWN = {"id", "title", "peers", "steps", "note", "source", "checked"}


def play(case: Case, rules: Behaviour = "recommended") -> str | None:
    """None when the table sends exactly what the transcript says, else the first difference.

    Raises:
        KeyError: the case lacks something.
        ValueError: bytes are not hex.
    """
    if unknown := set(case) - _KNOWN:
        return f"not understood: {', '.join(sorted(unknown))}"
    table = Table(
        rules,
        new_instance_id=_instance_ids(0x50 if rules == "legacy" else 0x01),
        new_socket_id=_socket_ids(),
    )
    peers = {name: table.connect(0.0) for name in case["peers"]}
    for peer in peers.values():
        peer.data_to_send()
    for number, step in enumerate(case["steps"], 1):
        given, expected = step[_COLUMNS[rules]]["input"], step[_COLUMNS[rules]]["output"]
        if "event" in given:
            if given["event"] != "tcp_lost":
                return f"step {number}: not understood: {given['event']}"
            peers[given["peer"]].receive(b"", float(number))
        else:
            peers[given["peer"]].receive(bytes.fromhex(given["hex"]), float(number))
        for name, peer in peers.items():
            wanted = "".join(item["hex"] for item in expected if item["peer"] == name)
            found = peer.data_to_send().hex()
            if found != wanted:
                return (
                    f"step {number}: {name} is sent {found or 'nothing'}, "
                    f"expected {wanted or 'nothing'}"
                )
    return None


def _instance_ids(first: int) -> Callable[[], bytes]:
    """The ids that the transcripts use: they stand for random ones."""
    numbers = count(first)
    return lambda: b"\x50" * 9 + bytes([next(numbers)])


def _socket_ids() -> Callable[[], bytes]:
    numbers = count(0xA0)
    return lambda: bytes([next(numbers), *range(0xA1, 0xAA)])
