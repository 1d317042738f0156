"""Bodies: the content of a format's packets, where something outside the packet says what it is.

A format whose packets carry objects of a model's classes gives a `Bodies` (`Columns.bodies`). It
makes rows of `fields`, fills one column of the packet table, and says which bytes in the bodies may
be messages. Where earlier packets, of either direction, say what a body is (`Columns.is_told`),
`classes` finds a word for every frame that says it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from wireloom.arrow.frames import FrameBatch, Keys, Payloads, Refused

__all__ = ["Bodies", "BodyRows", "Lesson"]

Lesson = tuple[int, bool, int, int]
"""A frame that says what other bodies are: its index, whether it is a request, the number of the
request, and then the word of the request's bodies, or what an answer says."""


@dataclass(frozen=True, slots=True)
class BodyRows:
    """What was read from consecutive frames."""

    rows: pa.RecordBatch
    """Rows of the `fields` table."""
    refused: list[Refused]
    """Frames whose bodies cannot be read."""
    texts: pa.Array | None = None
    """The column of the packet table (`Columns.body`) of each frame; null where there is none."""
    payloads: list[Payloads] | None = None
    """In the order of the frames. An unknown body, or one that cannot be read, is one byte
    string."""


class Bodies(ABC):
    """Reads the bodies of a format's packets; for one worker at a time."""

    @abstractmethod
    def read(
        self,
        batch: FrameBatch,
        words: memoryview,
        keys: Keys,
        *,
        passed_over: Iterable[int] = (),
        texts: bool = False,
        payloads: bool = False,
    ) -> Iterator[BodyRows]:
        """The rows of the bodies in a batch of frames, in parts that together cover all frames.

        Args:
            batch: the frames, all of them legal packets except those to pass over.
            words: what `classes` gave for each; zeros if it was not asked.
            keys: the key columns of the frames.
            passed_over: frames that are not legal packets.
            texts: whether the column of the packet table is wanted, too.
            payloads: whether byte strings that may be messages are wanted.
        """

    def state(self) -> Any:
        """The state of one direction of a connection at its start."""
        return None

    def lessons(self, batch: FrameBatch) -> list[Lesson]:
        """The frames that say what other bodies are, legal packets or not."""
        return []

    def classes(
        self,
        batch: FrameBatch,
        state: Any,
        *,
        passed_over: Iterable[int] = (),
        told: Iterable[tuple[int, int, int]] = (),
    ) -> memoryview:
        """A word for each frame that says what its body is; 0 if it is not known.

        Args:
            batch: the frames.
            state: what is known of their connection; it is updated.
            passed_over: frames to ignore, since they are not legal packets.
            told: requests of the other direction: the frame before which each becomes known, the
                request, and its word.
        """
        return memoryview(bytes(8 * max(batch.count, 1))).cast("q")[: batch.count]
