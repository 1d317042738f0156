"""Bodies: what is in the packets of a format, where something outside of them tells what it is.

A format whose packets carry objects of a model's classes gives a `Bodies` (`Columns.bodies`). It
makes rows of `fields`, fills one column of the packet table, and says which bytes in the bodies may
be messages. If what a body is was told by packets before it, also by those of the other direction
(`Columns.is_told`), every frame has a word that says it, which `classes` finds.
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
"""A frame that tells something: its index, whether it is a request, the number of the request, and
then the word of a request's bodies, or whatever an answer says."""


@dataclass(frozen=True, slots=True)
class BodyRows:
    """What came of some frames in a row."""

    rows: pa.RecordBatch
    """Rows of the `fields` table."""
    refused: list[Refused]
    """Frames whose bodies cannot be read."""
    texts: pa.Array | None = None
    """The column of the packet table (`Columns.body`) of each frame; null where there is none."""
    payloads: list[Payloads] | None = None
    """In the order of the frames. A body of which nothing is known, or that cannot be read, is one
    byte string."""


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
        """The rows of the bodies in a batch of frames; all frames are in one of those given.

        Args:
            batch: the frames, which are legal packets but for those to pass over.
            words: what `classes` gave for each; zeros where nothing is told.
            keys: the key columns of the frames.
            passed_over: frames that are no legal packets.
            texts: whether the column of the packet table is wanted, too.
            payloads: whether byte strings that may be messages are wanted.
        """

    def state(self) -> Any:
        """What is known of one direction of a connection at its start."""
        return None

    def lessons(self, batch: FrameBatch) -> list[Lesson]:
        """The frames that tell what other bodies are, legal or not."""
        return []

    def classes(
        self,
        batch: FrameBatch,
        state: Any,
        *,
        passed_over: Iterable[int] = (),
        told: Iterable[tuple[int, int, int]] = (),
    ) -> memoryview:
        """A word for each frame that says what its body is; 0 where nothing does.

        Args:
            batch: the frames.
            state: what is known of their connection; it learns from them.
            passed_over: frames from which nothing can be learned, being no legal packets.
            told: requests of the other direction: the frame before which each is to be known, the
                request, and its word.
        """
        return memoryview(bytes(8 * max(batch.count, 1))).cast("q")[: batch.count]
