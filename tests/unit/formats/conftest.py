from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest


@pytest.fixture
def steps() -> Callable[[Callable[[], object]], int]:
    """Counts the calls of functions while a job runs: Python's, C's, and generators resumed.

    Unlike time, that is the same on every machine. What a single call costs is for the fuzzer's
    growth check and the benchmarks.
    """

    def count(job: Callable[[], object]) -> int:
        calls = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        gc.disable()  # what it calls is not the job's
        sys.setprofile(note)
        try:
            job()
        finally:
            sys.setprofile(before)
            gc.enable()
        return calls

    return count
