"""What mypy knows about the kernel is what the kernel is."""

from __future__ import annotations

import ast

import pytest

from wireloom import kernel
from wireloom.kernel.stub import STUB, stub


def test_the_stub_is_made_of_the_sources_as_they_are() -> None:
    # The formatter may lay it out differently.
    assert ast.dump(ast.parse(STUB.read_text("utf-8"))) == ast.dump(ast.parse(stub()))


@pytest.mark.skipif(not kernel.is_compiled(), reason="the kernel is not compiled here")
def test_the_compiled_kernel_has_what_the_stub_promises() -> None:
    loaded = kernel.load()
    classes = {node.name: node for node in ast.parse(stub()).body if isinstance(node, ast.ClassDef)}
    for node in classes.pop("Kernel").body:
        target = node.target if isinstance(node, ast.AnnAssign) else node
        name = getattr(target, "id", getattr(target, "name", None))
        if isinstance(name, str):
            assert hasattr(loaded, name), name
    for name, declared in classes.items():
        for member in declared.body:
            if isinstance(member, ast.FunctionDef):
                assert hasattr(getattr(loaded, name), member.name), f"{name}.{member.name}"
