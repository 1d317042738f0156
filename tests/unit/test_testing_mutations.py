from __future__ import annotations

from random import Random

import pytest

from wireloom.testing import mutations
from wireloom.testing.mutations import EDITS, MAX_MUTANT, Edit, Mutator

SAMPLES = [b"hello world, this is a message", bytes(range(64)), b"\x00", b""]


@pytest.mark.parametrize("edit", sorted(set(EDITS), key=lambda e: e.__name__))
@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 100])
def test_an_edit_takes_messages_of_any_length(edit: Edit, size: int) -> None:
    for seed in range(50):
        for other in SAMPLES:
            data = bytearray(range(size))
            edit(data, other, Random(seed))


@pytest.mark.parametrize(
    "edit",
    [
        edit
        for edit in sorted(set(EDITS), key=lambda e: e.__name__)
        if edit.__name__ != "set_byte"  # may set what is there
    ],
)
def test_an_edit_changes_something(edit: Edit) -> None:
    changed = 0
    for seed in range(50):
        data = bytearray(range(100))
        edit(data, b"another message" * 4, Random(seed))
        changed += data != bytearray(range(100))
    assert changed > 40


def test_a_swap_keeps_all_bytes() -> None:
    for seed in range(50):
        data = bytearray(range(100))
        mutations.swap(data, b"", Random(seed))
        assert sorted(data) == list(range(100))


def test_a_mutant_follows_from_samples_seed_and_index() -> None:
    one = [mutant for _, mutant in Mutator(SAMPLES, 3).mutants(0, 200)]
    two = [Mutator(SAMPLES, 3).mutant(index) for index in range(200)]
    other = [mutant for _, mutant in Mutator(SAMPLES, 4).mutants(0, 200)]
    assert one == two
    assert one != other
    assert len(set(one)) > 150


def test_mutants_do_not_grow_without_bound() -> None:
    long = [bytes(MAX_MUTANT - 1)]
    assert all(len(mutant) <= MAX_MUTANT for _, mutant in Mutator(long, 1).mutants(0, 100))


def test_a_mutant_may_be_several_messages() -> None:
    mutator = Mutator([b"A" * 50], 1)
    assert any(mutant.count(b"A") > 120 for _, mutant in mutator.mutants(0, 50))
