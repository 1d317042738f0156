"""Frames → messages: what every decoded message can do, whatever its format.

A message is an immutable dataclass. It writes itself back (`encode`), becomes JSON and returns from
it without loss (`to_dict`, `wireloom.from_dict`), shows itself (`outline`, in a notebook as hex
beside a field tree), and names the payloads of other formats that it carries (`payloads`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from wireloom.outline import Node
from wireloom.view import to_html

__all__ = ["Json", "Message"]

Json = dict[str, Any]
"""A JSON object: str, int, float, bool, None, lists and objects only."""


class Message(ABC):
    """One decoded message of any format."""

    __slots__ = ()

    format: ClassVar[str]
    """Name of the format, as in ``wireloom.formats()``."""

    @property
    @abstractmethod
    def type_name(self) -> str:
        """What kind of message it is: a packet's name, or the format's for self-describing ones."""

    @abstractmethod
    def encode(self) -> bytes:
        """The bytes of the message.

        Raises:
            EncodeError: a value cannot be written in this format.
        """

    @abstractmethod
    def to_dict(self) -> Json:
        """The message as a JSON object; `wireloom.from_dict` makes an equal message of it."""

    @abstractmethod
    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Byte strings inside that may hold a message of another format, each with its path."""
        return iter(())

    def _repr_html_(self) -> str:
        return to_html(self.encode(), self.outline())
