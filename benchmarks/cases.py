"""What a codec benchmark consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Values = Any
"""What a message says, in a form that every implementation can produce."""


@dataclass(frozen=True)
class Codec:
    """One implementation."""

    decode: Callable[[bytes], Any]
    view: Callable[[Any], Values]
    """The values in the result of `decode`."""
    encode: Callable[[Any], bytes] | None = None
    """Bytes from the result of `decode`; None if the tool cannot write."""


@dataclass(frozen=True)
class Case:
    name: str
    what: str
    messages: tuple[bytes, ...]
    ours: Codec
    peers: Mapping[str, Codec] = field(default_factory=dict)

    def codecs(self) -> dict[str, Codec]:
        return {"wireloom": self.ours, **self.peers}

    def verify(self) -> None:
        """All implementations read the same values, and write the bytes they read.

        Raises:
            AssertionError: they do not.
        """
        for data in self.messages:
            expected = self.ours.view(self.ours.decode(data))
            for name, codec in self.codecs().items():
                made = codec.decode(data)
                found = codec.view(made)
                assert found == expected, f"{self.name}: {name} reads {found}, not {expected}"
                if codec.encode is not None:
                    assert codec.encode(made) == data, f"{self.name}: {name} writes other bytes"
