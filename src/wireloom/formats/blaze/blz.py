"""The model language: ``.blz`` text ↔ `Model` (SPEC §5).

Every error names the file and the line. Included files are searched next to the including file and
in the given directories, never outside of them; each is read once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wireloom.errors import SourceError
from wireloom.formats.blaze.model import (
    EnumDecl,
    Model,
    ModelBuilder,
    NClass,
    NClassBuilder,
    check_namespace,
)

__all__ = ["MAX_INCLUDE_DEPTH", "MAX_SOURCE", "from_blz", "load_blz", "to_blz"]

MAX_INCLUDE_DEPTH = 16
"""Levels of includes. Real models have two or three; the parser recurses."""
MAX_SOURCE = 4 << 20
"""Bytes of a model with all it includes. A class of 100 fields takes about 3 KB."""
MAX_DIGITS = 12
"""Digits of a number; the largest legal one has ten."""

_TOKEN = re.compile(
    r"""[ \t\r\f]* (?: (?P<word>[A-Za-z_][A-Za-z0-9_]*) | (?P<at>@[A-Za-z_]+) | (?P<int>[0-9]+)
    | "(?P<text>[^"]*)" | (?P<sign>[{}\[\]=+,-]) | (?P<comment>\#.*) | (?P<bad>\S) | $ )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """word, at, int, text, sign; or end (of a line), eof."""
    text: str
    line: int

    def __str__(self) -> str:
        if self.kind in ("end", "eof"):
            return "the end of the line" if self.kind == "end" else "the end of the file"
        return repr(self.text)


def from_blz(
    text: str,
    *,
    file: str = "<text>",
    paths: Iterable[str | os.PathLike[str]] = (),
    first_index: int | None = None,
) -> Model:
    """The model that a text declares.

    Args:
        text: in the model language.
        file: what to call it in errors.
        paths: directories of files that it may include.
        first_index: INDEX of a class's first field; None: as the dialect says.

    Raises:
        SourceError: the text is wrong; with file and line.
    """
    parser = _Parser([Path(path) for path in paths])
    parser.take(len(text.encode("utf-8", "surrogatepass")), file)
    parser.unit(text, file)
    return parser.model(first_index)


def load_blz(
    path: str | os.PathLike[str],
    *,
    paths: Iterable[str | os.PathLike[str]] = (),
    first_index: int | None = None,
) -> Model:
    """The model that a file declares; see `from_blz`.

    Raises:
        SourceError: the file cannot be read, or its text is wrong; with file and line.
    """
    parser = _Parser([Path(path) for path in paths])
    parser.file(Path(path))
    return parser.model(first_index)


def files_of(path: str | os.PathLike[str]) -> tuple[Model, tuple[Path, ...]]:
    """The model that a file declares, and all files that it comes from.

    Raises:
        SourceError: a file cannot be read, or its text is wrong; with file and line.
    """
    parser = _Parser([])
    parser.file(Path(path))
    return parser.model(None), tuple(parser.done)


class _Parser:
    """Reads one model, from one or more files."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths
        self.done: dict[Path, None] = {}
        self._builder = ModelBuilder()
        self._named: set[str] = set()
        self._namespace: list[str] = []
        self._files: list[Path] = []  # files being read, the outermost first
        self._size = 0
        # State of the file that is being read:
        self._file = ""
        self._tokens: Iterator[_Token] = iter(())
        self._token = _Token("eof", "", 0)

    def model(self, first_index: int | None) -> Model:
        """The finished model."""
        return self._builder.build(first_index)

    # --- files ----------------------------------------------------------------------------------

    def take(self, size: int, file: str) -> None:
        """Count the bytes of a file."""
        self._size += size
        if self._size > MAX_SOURCE:
            raise SourceError(f"a model may have {MAX_SOURCE} bytes", file=file)

    def file(self, path: Path) -> None:
        """Read a file and what it includes."""
        try:
            with path.open("rb") as source:
                raw = source.read(MAX_SOURCE + 1)
            resolved = path.resolve()
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read the file: {error}", file=str(path)) from error
        self.take(len(raw), str(path))
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise SourceError("the text is not UTF-8", file=str(path), line=line) from None
        self._files.append(resolved)
        self.unit(text, str(path))
        self._files.pop()
        self.done[resolved] = None

    def _include(self, name: str) -> None:
        places = [self._files[-1].parent, *self.paths] if self._files else self.paths
        for place in places:
            try:
                root = place.resolve()
                path = (root / name).resolve()
                if not path.is_relative_to(root) or not path.is_file():
                    continue
            except (OSError, ValueError):  # a name with a NUL, a loop of links
                continue
            if path in self._files:
                raise SourceError(f"{name!r} includes itself")
            if len(self._files) >= MAX_INCLUDE_DEPTH:
                raise SourceError(f"files are included deeper than {MAX_INCLUDE_DEPTH}")
            if path not in self.done:
                outer = self._file, self._tokens, self._token
                self.file(path)
                self._file, self._tokens, self._token = outer
            return
        raise SourceError(f"there is no {name!r} to include")

    # --- tokens ---------------------------------------------------------------------------------

    def _scan(self, text: str) -> Iterator[_Token]:
        number = 1
        for number, line in enumerate(text.split("\n"), 1):
            for found in _TOKEN.finditer(line):
                kind = found.lastgroup
                if kind == "bad":
                    what = "a text without an end" if found["bad"] == '"' else found["bad"]
                    raise self._error(f"unexpected {what!r}", number)
                if kind == "text" and not found["text"].isprintable():
                    raise self._error("a text must be printable", number)
                if kind is not None and kind != "comment":
                    yield _Token(kind, found[kind], number)
            yield _Token("end", "", number)
        yield _Token("eof", "", number)

    def _error(self, reason: str, line: int) -> SourceError:
        return SourceError(reason, file=self._file, line=line)

    @contextmanager
    def _on(self, line: int) -> Iterator[None]:
        """Give errors of the builder, which knows no lines, the current line."""
        try:
            yield
        except SourceError as error:
            if error.line or error.file != "<text>":
                raise
            raise self._error(error.reason, line) from None

    def _next(self) -> _Token:
        """Advance past the current token."""
        token = self._token
        self._token = next(self._tokens, token)
        return token

    def _at(self, kind: str, text: str = "") -> bool:
        return self._token.kind == kind and (not text or self._token.text == text)

    def _accept(self, kind: str, text: str = "") -> _Token | None:
        return self._next() if self._at(kind, text) else None

    def _expect(self, what: str, kind: str, text: str = "") -> _Token:
        token = self._accept(kind, text)
        if token is None:
            raise self._error(f"expected {what}, not {self._token}", self._token.line)
        return token

    def _end(self) -> None:
        """One declaration per line: the line ends here, or the block does."""
        if not self._at("sign", "}") and not self._at("eof"):
            self._expect("the end of the line", "end")

    def _skip_ends(self) -> None:
        while self._accept("end"):
            pass

    # --- grammar --------------------------------------------------------------------------------

    def unit(self, text: str, file: str) -> None:
        """Read the text of one file."""
        self._file = file
        self._tokens = self._scan(text)
        self._token = next(self._tokens)
        declarations: dict[str, Callable[[], None]] = {
            "@include": self._read_include,
            "@define": self._define,
            "@model_name": self._model_name,
            "@model_version": self._model_version,
            "@namespace": self._read_namespace,
            "@namespace_end": self._namespace_end,
            "enum": self._enum,
            "nclass": self._nclass,
        }
        while not self._at("eof"):
            if self._accept("end"):
                continue
            token = self._next()
            read = declarations.get(token.text) if token.kind in ("at", "word") else None
            if read is None:
                raise self._error(f"expected a declaration, not {token}", token.line)
            with self._on(token.line):
                read()
            self._end()

    def _text(self) -> str:
        return self._expect("a text in quotes", "text").text

    def _read_include(self) -> None:
        self._include(self._text())

    def _define(self) -> None:
        name = self._expect("a name", "word").text
        self._builder.define(name, self._number(signed=True))

    def _model_name(self) -> None:
        self._once("@model_name")
        self._builder.name = self._text()

    def _model_version(self) -> None:
        self._once("@model_version")
        self._builder.version = self._text()

    def _once(self, what: str) -> None:
        if what in self._named:
            raise SourceError(f"{what} is given already")
        self._named.add(what)

    def _read_namespace(self) -> None:
        self._namespace.append(self._text())
        check_namespace(self._namespace)

    def _namespace_end(self) -> None:
        if not self._namespace:
            raise SourceError("no namespace is open")
        self._namespace.pop()

    def _number(self, signed: bool = False) -> int:
        """A number or the name of one."""
        sign = -1 if signed and self._accept("sign", "-") else 1
        if token := self._accept("word"):
            value = self._builder.defined(token.text)
            if value is None:
                raise self._error(f"{token.text!r} is not defined", token.line)
            return sign * value
        token = self._expect("a number", "int")
        if len(token.text) > MAX_DIGITS:
            raise self._error("the number is too long", token.line)
        return sign * int(token.text)

    def _sum(self) -> int:
        total = self._number()
        while self._accept("sign", "+"):
            total += self._number()
        return total

    def _description(self) -> str:
        token = self._accept("text")
        return "" if token is None else token.text

    def _block(self, kind: str) -> tuple[str, _Token]:
        """The name and the opening brace."""
        name = self._expect(f"the name of the {kind}", "word").text
        self._skip_ends()
        return name, self._expect("'{'", "sign", "{")

    def _items(self, name: str) -> Iterator[_Token]:
        """The first token of every line of a block, up to its closing brace."""
        while not self._accept("sign", "}"):
            if self._at("eof"):
                raise self._error(f"{name} is not closed", self._token.line)
            if not self._accept("end"):
                yield self._next()
                self._end()

    def _enum(self) -> None:
        name, _ = self._block("enum")
        enum = self._builder.enum(name, tuple(self._namespace))
        for token in self._items(name):
            with self._on(token.line):
                if token.kind != "word":
                    raise self._error(f"expected a member's name, not {token}", token.line)
                value = self._number(signed=True) if self._accept("sign", "=") else None
                enum.member(token.text, value, self._description())
        self._builder.close()

    def _nclass(self) -> None:
        name, _ = self._block("nclass")
        nclass = self._builder.nclass(name, None, tuple(self._namespace))
        keys: list[tuple[int, int, list[str], bool]] = []
        for token in self._items(name):
            with self._on(token.line):
                if token.kind == "at" and token.text == "@id":
                    nclass.id(self._number())
                elif token.kind == "at" and token.text == "@persistent":
                    if keys:
                        raise SourceError("@persistent must come before any @key")
                    nclass.persistent()
                elif token.kind == "at" and token.text == "@key":
                    keys.append((token.line, *self._key()))
                elif token.kind == "word":
                    self._field(nclass, token.text)
                else:
                    raise self._error(f"expected a field, not {token}", token.line)
        # Only now, since a key may precede its fields.
        for line, number, fields, is_primary in keys:
            with self._on(line):
                nclass.key(number, *fields, primary=is_primary)
        self._builder.close()

    def _field(self, nclass: NClassBuilder, type: str) -> None:
        count = 1
        if self._accept("sign", "["):
            count = self._sum()
            self._expect("']'", "sign", "]")
        name = self._expect("the field's name", "word").text
        nclass.field(name, type, count, self._description())

    def _key(self) -> tuple[int, list[str], bool]:
        is_primary = self._accept("word", "primary") is not None
        number: int | None = None
        fields: list[str] | None = None
        self._skip_ends()
        while not self._accept("at", "@key_end"):
            if number is None and self._accept("at", "@id"):
                number = self._number()
            elif fields is None and self._accept("at", "@fldset"):
                fields = self._names()
            else:
                reason = f"expected @id, @fldset or @key_end, not {self._token}"
                raise self._error(reason, self._token.line)
            self._skip_ends()
        if number is None or fields is None:
            raise SourceError("a key needs an @id and a @fldset")
        return number, fields, is_primary

    def _names(self) -> list[str]:
        self._expect("'{'", "sign", "{")
        names = [self._expect("a field's name", "word").text]
        while self._accept("sign", ","):
            names.append(self._expect("a field's name", "word").text)
        self._expect("'}'", "sign", "}")
        return names


def to_blz(model: Model) -> str:
    """The text that declares a model; `from_blz` gives an equal model, but for its first index."""
    lines: list[str] = []
    if model.name:
        lines.append(f'@model_name "{model.name}"')
    if model.version:
        lines.append(f'@model_version "{model.version}"')
    lines += [f"@define {define.name} {define.value}" for define in model.defines]
    namespace: tuple[str, ...] = ()
    for entity in model.entities:
        lines += _change(namespace, entity.namespace)
        namespace = entity.namespace
        lines += _enum_lines(entity) if isinstance(entity, EnumDecl) else _nclass_lines(entity)
    lines += _change(namespace, ())
    return "".join(line + "\n" for line in lines)


def _change(old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[str]:
    common = 0
    while common < min(len(old), len(new)) and old[common] == new[common]:
        common += 1
    yield from ("@namespace_end" for _ in old[common:])
    yield from (f'@namespace "{name}"' for name in new[common:])


def _described(line: str, text: str) -> str:
    return f'    {line} "{text}"' if text else f"    {line}"


def _enum_lines(enum: EnumDecl) -> Iterator[str]:
    yield from (f"enum {enum.name}", "{")
    for member in enum.members:
        yield _described(f"{member.name} = {member.value}", member.text)
    yield "}"


def _nclass_lines(nclass: NClass) -> Iterator[str]:
    yield from (f"nclass {nclass.name}", "{", f"    @id {nclass.id}")
    for decl in nclass.fields:
        size = f"[{decl.count}]" if decl.count > 1 else ""
        yield _described(f"{decl.type}{size} {decl.name}", decl.text)
    if nclass.persistent:
        yield "    @persistent"
    for key in nclass.keys:
        yield "    @key primary" if key.primary else "    @key"
        yield f"    @id {key.id}"
        yield f"    @fldset {{{', '.join(key.fields)}}}"
        yield "    @key_end"
    yield "}"
