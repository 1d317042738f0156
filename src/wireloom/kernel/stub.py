"""Writes ``wireloom/_kernel.pyi``: what mypy and editors know about the compiled kernel.

``python -m wireloom.kernel.stub`` makes it from the kernel's own sources: signatures from the
``.py`` files, attributes from the ``.pxd`` files. Numbers are C constants and are left out. A test
fails when the stub is out of date; `./run fmt` formats it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

__all__ = ["STUB", "stub"]

_HERE = Path(__file__).parent
STUB = _HERE.parent / "_kernel.pyi"

_HEAD = '''\
"""The compiled kernel, as mypy sees it. Made by ``python -m wireloom.kernel.stub``; do not edit."""

from typing import Any, Protocol

Buffer = bytes | bytearray | memoryview
"""What a typed memoryview of C takes."""
'''
_NUMBERS = re.compile(
    r"(unsigned |signed )?(char|short|int|long long|long|Py_ssize_t)|size_t"
    r"|u?(char|short|int|long|longlong)"
)
_C_TYPE = r"(?:const )?((?:unsigned )?(?:long long|\w+)(?:\[::1\])?)"
_ATTRIBUTE = re.compile(rf"    cdef (readonly|public) {_C_TYPE} ([\w, ]+)$")
_METHOD = re.compile(rf"    cpdef {_C_TYPE} (\w+)\(self(?:, )?([^)]*)\)")
_SAME = {"bytes", "dict", "list", "object", "str", "tuple", "int", "float", "bool", "None"}


def _type(text: str, classes: set[str], *, is_argument: bool) -> str:
    """The Python type of a C type, or of a type of Cython's pure Python mode."""
    text = text.replace("cython.", "").strip()
    if text.endswith("[::1]") or "[::1]" in text:
        return "Buffer" if is_argument else "memoryview"
    if text in ("bint", "bool"):
        return "bool"
    if text in ("double", "float"):
        return "float"
    if _NUMBERS.fullmatch(text):
        return "int"
    if text == "object":
        return "Any"
    if text in ("dict", "list", "tuple"):
        return {"dict": "dict[Any, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]"}[text]
    return text if text in _SAME or text in classes else "Any"


def _signature(node: ast.FunctionDef, classes: set[str], indent: str) -> str:
    """One ``def`` without its body."""
    given = node.args.args
    first_default = len(given) - len(node.args.defaults)
    arguments = []
    for number, argument in enumerate(given):
        if argument.arg == "self":
            arguments.append("self")
            continue
        kind = "Any"
        if argument.annotation is not None:
            kind = _type(ast.unparse(argument.annotation), classes, is_argument=True)
        default = " = ..." if number >= first_default else ""
        arguments.append(f"{argument.arg}: {kind}{default}")
    result = "Any"
    if node.returns is not None:
        result = _type(ast.unparse(node.returns), classes, is_argument=False)
    lines = "".join(f"{indent}    {each},\n" for each in arguments)
    inside = f"\n{lines}{indent}" if arguments else ""
    return f"{indent}def {node.name}({inside}) -> {result}: ...\n"


def _attributes(declared: str, name: str, classes: set[str]) -> Iterator[str]:
    """The attributes and methods of a class that a ``.pxd`` file exposes to Python."""
    match = re.search(rf"^cdef class {name}\b.*?:\n((?:    .*\n)*)", declared, re.MULTILINE)
    for line in (match[1] if match else "").splitlines():
        if found := _ATTRIBUTE.match(line):
            kind = _type(found[2], classes, is_argument=False)
            for attribute in found[3].split(","):
                if found[1] == "public":
                    yield f"    {attribute.strip()}: {kind}\n"
                else:
                    yield f"    @property\n    def {attribute.strip()}(self) -> {kind}: ...\n"
        elif found := _METHOD.match(line):
            kind = "None" if found[1] == "void" else _type(found[1], classes, is_argument=False)
            given = (each.rpartition(" ") for each in found[3].split(", ") if each)
            arguments = [f"{n}: {_type(t, classes, is_argument=True)}" for t, _, n in given]
            yield f"    def {found[2]}({', '.join(['self', *arguments])}) -> {kind}: ...\n"


def _is_public(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    """Whether Python may call it: what is declared in C has no annotations."""
    return isinstance(node, ast.FunctionDef) and node.returns is not None


def stub() -> str:
    """The text of the stub."""
    parts = (_HERE / "PARTS").read_text().split()
    trees: list[tuple[ast.Module, str, list[str]]] = []
    for part in parts:
        tree = ast.parse((_HERE / f"{part}.py").read_text("utf-8"))
        pxd = _HERE / f"{part}.pxd"
        declared = pxd.read_text("utf-8") if pxd.exists() else ""
        trees.append((tree, declared, _exported(tree)))
    classes = {
        node.name
        for tree, _, names in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in names
    }
    out, members = [_HEAD], []
    for tree, declared, names in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name in names:
                out.append(f"\nclass {node.name}:\n")
                out += _attributes(declared, node.name, classes)
                out += [_signature(each, classes, "    ") for each in node.body if _is_public(each)]
                # In the protocol below, a member hides the class of the same name.
                out.append(f"\n_{node.name} = {node.name}\n")
                members.append(f"    {node.name}: type[_{node.name}]\n")
            elif _is_public(node) and node.name in names:
                text = _signature(node, classes, "    ")
                text = re.sub(rf": ({'|'.join(classes)})\b", r": _\1", text)
                members.append(f"    @staticmethod\n{text}")
    out.append('\nclass Kernel(Protocol):\n    """What `wireloom.kernel.load` gives."""\n\n')
    return "".join([*out, *members])


def _exported(tree: ast.Module) -> list[str]:
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            value: ast.expr | None = getattr(node, "value", None)
            return list(ast.literal_eval(value)) if value is not None else []
    return []


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")
