"""What every format must do, as functions that take a `Format`: for ours and for your own.

>>> from wireloom.formats import get
>>> check(get("nrep"))

A check returns nothing, or raises `AssertionError` saying what is wrong. What a format itself
raises comes out as it is, with a note that names the check. `SAMPLE_CHECKS` take a format and the
name and bytes of one of its samples, `FORMAT_CHECKS` take the format alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wireloom.format import Format
from wireloom.testing.conformance.hostile import HOSTILE_CHECKS, examine
from wireloom.testing.conformance.samples import SAMPLE_CHECKS, FormatCheck, SampleCheck
from wireloom.testing.conformance.streams import STREAM_CHECKS

__all__ = ["FORMAT_CHECKS", "SAMPLE_CHECKS", "FormatCheck", "SampleCheck", "check", "examine"]

FORMAT_CHECKS: tuple[FormatCheck, ...] = (*STREAM_CHECKS, *HOSTILE_CHECKS)


def check(format: Format) -> None:
    """Run every check on a format.

    Raises:
        AssertionError: it does not do what every format must do.
    """
    for name, data in format.samples().items():
        for one in SAMPLE_CHECKS:
            with _noted(f"{format.name}: check {one.__name__}, sample {name!r}: {one.__doc__}"):
                one(format, name, data)
    for other in FORMAT_CHECKS:
        with _noted(f"{format.name}: check {other.__name__}: {other.__doc__}"):
            other(format)


@contextmanager
def _noted(note: str) -> Iterator[None]:
    """Add a note to whatever is raised."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
