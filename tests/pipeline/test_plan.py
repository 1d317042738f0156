"""How captures are divided, and the proof that ranges meet."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import OptionError, SourceError
from wireloom.pipeline import PipelineOptions, StreamOptions
from wireloom.pipeline.plan import Range, cut, expand
from wireloom.pipeline.seams import Chain
from wireloom.pipeline.work import Outcome


def test_folders_are_searched_in_the_order_of_numbers(tmp_path: Path) -> None:
    for name in ("c10", "c9", "sub/c1", ".hidden", "_wireloom/x", "_x"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = [Path(path).relative_to(tmp_path).as_posix() for path in expand([tmp_path])]
    assert found == ["c9", "c10", "sub/c1"]
    named = expand([tmp_path / "c10", tmp_path / "c*", tmp_path / "c10"])
    assert [Path(path).name for path in named] == ["c10", "c9"]
    with pytest.raises(SourceError, match="no such file"):
        expand([tmp_path / "z*"])


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(1, 700))
def test_ranges_cover_everything_once(first: int, size: int, split: int) -> None:
    found = list(cut("x", first, first + size, split))
    assert found[0].first == first
    assert found[-1].last == first + size
    assert all(a.last == b.first for a, b in pairwise(found))
    assert all(one.size <= split for one in found)
    assert [one.is_seam for one in found] == [True] + [False] * (len(found) - 1)


class Capture:
    """Frames, and places that look like frames but are none: what a blind start may find."""

    def __init__(self, frames: list[int], traps: set[int]) -> None:
        self.bounds = [0]
        for length in frames:
            self.bounds.append(self.bounds[-1] + length)
        self.size = self.bounds[-1]
        self.traps = traps

    def read(self, unit: Range) -> Outcome:
        """As a task does it: from the first place that looks right to the first behind the end."""
        starts = set(self.bounds[:-1]) | self.traps
        start = unit.first
        if not unit.is_seam:
            start = min((at for at in starts if unit.first <= at < unit.last), default=unit.last)
        end = start
        while end < unit.last:
            # From a trap, reading finds its way back only sometimes.
            following = [at for at in self.bounds if at > end]
            end = following[0] if end in self.bounds else min(end + 7, self.size)
        return Outcome(unit, start=start, end=end)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=60),
    st.sets(st.integers(1, 1500), max_size=20),
    st.integers(5, 400),
)
def test_what_is_proven_is_what_one_pass_reads(
    frames: list[int], traps: set[int], split: int
) -> None:
    capture = Capture(frames, {trap for trap in traps if trap < sum(frames)})
    chain = Chain("x", 0, capture.size)
    todo = list(cut("x", 0, capture.size, split))
    for _ in range(len(frames) + len(todo) + 2):
        todo = chain.add(capture.read(unit) for unit in todo)
        if not todo:
            break
    assert not todo
    assert chain.end == capture.size
    at = 0
    for link in chain.proven:
        assert link.start == at
        assert link.start in capture.bounds  # every link begins at a real frame
        at = link.end
    assert at == capture.size


@pytest.mark.parametrize(
    "options", [{"writer": "x"}, {"route": "x"}, {"split_bytes": 0}, {"commit_bytes": 0}]
)
def test_wrong_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        PipelineOptions(**options)  # type: ignore[arg-type]


def test_wrong_intervals_are_refused() -> None:
    with pytest.raises(OptionError):
        StreamOptions(every_s=-1)
    with pytest.raises(OptionError):
        StreamOptions(max_bytes=0)
