"""Programs of the word kernel: one plan, of which each worker has a copy of its own."""

from __future__ import annotations

import pytest

from wireloom.columnar.program import Program, build_program
from wireloom.formats import get
from wireloom.kernel import load
from wireloom.tables import table
from wireloom.wire import DEFAULT_LIMITS


def program(name: str, columns: list[str] | None = None) -> Program:
    format = get(name)
    shapes, enums = format.columns().shapes(format.packets(), DEFAULT_LIMITS, False, {})
    return build_program(load(), table(name).select(columns), shapes, enums)


@pytest.mark.parametrize("name", ["blaze", "nrep", "nais"])
def test_what_one_program_learns_no_other_knows(name):
    one, other = program(name), program(name)
    before = [list(output.names) for output in other.outputs]
    assert [list(output.names) for output in one.outputs] == before
    assert one.name_outputs
    for output in one.name_outputs:
        output.names.append("learned")
    for each in (other, program(name)):
        assert [list(output.names) for output in each.outputs] == before


def test_other_columns_are_another_program():
    few = program("nrep", ["type_name", "nonce"])
    assert {output.name for output in few.outputs} == {"type_name", "nonce"}
    assert len(program("nrep").outputs) > 2
