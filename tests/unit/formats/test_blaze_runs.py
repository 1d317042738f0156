"""What sessions keep as runs of numbers is what they would keep one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wireloom.formats.blaze.session.completed import Completed
from wireloom.formats.blaze.session.outstanding import Outstanding

NUMBERS = st.integers(1, 40)
RUNS = st.one_of(
    st.builds(lambda first, size: range(first, first + size), NUMBERS, st.integers(1, 8)),
    st.lists(NUMBERS, min_size=1, max_size=5, unique=True),
)


@given(
    most=st.integers(0, 12),
    runs=st.lists(st.tuples(st.sampled_from([(1, 1, 5), (2, 1, 5)]), RUNS), max_size=12),
)
def test_as_many_answered_ids_are_remembered_as_are_wanted(
    most: int, runs: list[tuple[tuple[int, int, int], list[int]]]
) -> None:
    completed = Completed(most)
    kept: list[tuple[int, int, int, int]] = []
    for sender, numbers in runs:
        wanted = any((*sender, number) in kept for number in numbers)
        assert completed.has_any(sender, numbers) is wanted
        if wanted:  # then it would have been refused
            continue
        completed.add(sender, numbers)
        kept = [*kept, *((*sender, number) for number in numbers)][-most or len(kept) + 99 :]
        for number in range(1, 50):
            assert ((*sender, number) in completed) is ((*sender, number) in kept)


@given(
    steps=st.lists(st.one_of(RUNS, st.tuples(NUMBERS, st.booleans())), max_size=30),
)
def test_events_wait_until_they_are_acknowledged(
    steps: list[range | list[int] | tuple[int, bool]],
) -> None:
    outstanding = Outstanding()
    kept: list[int] = []
    for step in steps:
        if not isinstance(step, tuple):
            if not set(kept) & set(step):  # an id is given once
                outstanding.add(step)
                kept += step
        else:
            sevtid, is_cumulative = step
            assert outstanding.acknowledge(sevtid, is_cumulative) is (sevtid in kept)
            if sevtid in kept:
                at = kept.index(sevtid)
                kept[0 if is_cumulative else at : at + 1] = []
        assert len(outstanding) == len(kept)
