"""A model → the types of its Python classes, for type checkers (``.pyi``)."""

from __future__ import annotations

from wireloom.formats.blaze.model import EnumDecl, FieldDecl, Model, NClass
from wireloom.formats.blaze.objects import attribute_name, member_name

__all__ = ["stub_of"]

_MODULES = {
    "IntEnum": "enum",
    "Mapping": "collections.abc",
    "Model": "wireloom.formats.blaze",
    "ModelObject": "wireloom.formats.blaze.classes",
    "Sequence": "collections.abc",
    **dict.fromkeys(("bool", "bytes", "float", "int", "list", "str"), "builtins"),
}
_PYTHON = {"bool": "bool", "float_32": "float", "float_64": "float", "ascii": "str"}


def stub_of(model: Model, source: str = "") -> str:
    """The text of a stub for the classes that `wireloom.formats.blaze.classes` makes.

    Args:
        model: the classes and enums.
        source: the file they come from, for the first line.
    """
    writer = _Writer(model)
    body: list[str] = []
    for entity in model.entities:
        body += ["", ""]
        if isinstance(entity, EnumDecl):
            body += writer.enum(entity)
        else:
            body += writer.nclass(entity)
    of = f" of {source}" if source else ""
    lines = [f"# The classes{of}, as `wireloom model stub` wrote them.", ""]
    lines += writer.imports()
    lines += ["", f"MODEL: {writer.use('Model')}"]
    return "\n".join(lines + body) + "\n"


class _Writer:
    def __init__(self, model: Model) -> None:
        self._model = model
        taken = {attribute_name(entity.name) for entity in model.entities}
        for entity in model.entities:
            members = entity.members if isinstance(entity, EnumDecl) else entity.fields
            taken |= {attribute_name(member.name) for member in members}
            taken |= {member_name(member.name) for member in members}
        self._names: dict[str, str] = {}
        for name in _MODULES:
            alias = name
            while alias in taken:  # a field named `int` would hide the type
                alias = f"_{alias}"
            self._names[name] = alias
        self._used = {"Model"}

    def use(self, name: str) -> str:
        """The name of a type in this stub."""
        self._used.add(name)
        return self._names[name]

    def imports(self) -> list[str]:
        found: dict[str, list[str]] = {}
        for name in sorted(self._used):
            alias = self._names[name]
            if _MODULES[name] != "builtins" or alias != name:
                text = name if alias == name else f"{name} as {alias}"
                found.setdefault(_MODULES[name], []).append(text)
        return [f"from {module} import {', '.join(found[module])}" for module in sorted(found)]

    def enum(self, decl: EnumDecl) -> list[str]:
        lines = [f"class {attribute_name(decl.name)}({self.use('IntEnum')}):"]
        for member in decl.members:
            lines.append(f"    {member_name(member.name)} = {member.value}")
            lines += _doc(member.text)
        return lines

    def nclass(self, decl: NClass) -> list[str]:
        lines = [f"class {attribute_name(decl.name)}({self.use('ModelObject')}):"]
        for field in decl.fields:
            lines.append(f"    {attribute_name(field.name)}: {self._type(field)}")
            lines += _doc(field.text)
        if not decl.fields:
            return [*lines, "    def __init__(self) -> None: ..."]
        lines += ["    def __init__(", "        self,", "        *,"]
        for field in decl.fields:
            lines.append(f"        {attribute_name(field.name)}: {self._given(field)} = ...,")
        return [*lines, "    ) -> None: ..."]

    def _item(self, decl: FieldDecl) -> str:
        entity = self._model.entity(decl.type)
        if isinstance(entity, EnumDecl):
            return f"{attribute_name(entity.name)} | {self.use('int')}"
        if entity is not None:
            return attribute_name(entity.name)
        return self.use(_PYTHON.get(decl.type, "int"))

    def _type(self, decl: FieldDecl) -> str:
        """What an attribute holds."""
        if decl.count == 1 or decl.type == "ascii":
            return self._item(decl)
        if decl.type == "byte":
            return self.use("bytes")
        return f"{self.use('list')}[{self._item(decl)}]"

    def _given(self, decl: FieldDecl) -> str:
        """What the constructor takes."""
        if decl.count == 1 or decl.type in ("ascii", "byte"):
            return self._type(decl)
        item = self._item(decl)
        mapping = f"{self.use('Mapping')}[{self.use('int')}, {item}]"
        return f"{self.use('Sequence')}[{item}] | {mapping}"


def _doc(text: str) -> list[str]:
    """The description as a docstring; texts of models have no quotes, but may have backslashes."""
    if not text:
        return []
    escaped = text.replace("\\", "\\\\")
    return [f'    """{escaped}"""']
