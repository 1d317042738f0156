"""The options of NAIS, as they come from Python, a command line or a data source: mostly text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wireloom.errors import OptionError
from wireloom.format import Option
from wireloom.formats.nais.rules import DEFAULT_RULES, MAX_LEN_BYTES, MAX_PAYLOAD, LineRules
from wireloom.formats.nais.schema import BUILT_IN, TypeRegistry
from wireloom.formats.nais.stream import MAX_TEXT, StreamDecoder
from wireloom.wire import Limits

__all__ = ["OPTIONS", "decoder_from", "load_types", "rules_from", "types_from"]

OPTIONS = (
    Option("proto", "your own messages: .proto files or descriptor sets", type="files"),
    Option("bind", "which TYPE carries which of them: 10=LedCommand,11=LedState", type="list"),
    Option("include", "directories where .proto files find their imports", type="list"),
    Option("types", "a TypeRegistry, instead of proto and bind", type="object"),
    Option("max_payload", "largest payload in bytes", default=MAX_PAYLOAD),
    Option("max_text", "bytes after which a line of text is cut", default=MAX_TEXT),
    Option("max_len_bytes", "most bytes that LEN may take", default=MAX_LEN_BYTES),
    Option("strict_rsv", "refuse frames whose RSV has other bits set than bit 0", default=False),
)

_Options = Mapping[str, Any]
_FLAGS = {"true": True, "false": False}


def _number(options: _Options, name: str, default: int) -> int:
    value = options.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise OptionError(f"{name} must be a number, not {value!r}")
    return value


def _flag(options: _Options, name: str) -> bool:
    value = options.get(name)
    if isinstance(value, str):
        value = _FLAGS.get(value.lower(), value)
    if value is not None and not isinstance(value, bool):
        raise OptionError(f"{name} must be true or false, not {value!r}")
    return bool(value)


def rules_from(limits: Limits, strict: bool, options: _Options) -> LineRules:
    """What frames may look like.

    Raises:
        OptionError: a value is unusable.
    """
    if not options and not strict and limits.max_frame == DEFAULT_RULES.max_frame:
        return DEFAULT_RULES
    return LineRules(
        _number(options, "max_payload", DEFAULT_RULES.max_payload),
        _number(options, "max_len_bytes", DEFAULT_RULES.max_len_bytes),
        strict or _flag(options, "strict_rsv"),
        limits.max_frame,
    )


def decoder_from(limits: Limits, strict: bool, offset: int, options: _Options) -> StreamDecoder:
    """A decoder for one stream.

    Raises:
        OptionError: a value is unusable.
    """
    max_text = _number(options, "max_text", MAX_TEXT)
    return StreamDecoder(rules_from(limits, strict, options), max_text=max_text, offset=offset)


# --- schemas ------------------------------------------------------------------------------------


def _several(value: object, name: str) -> tuple[str, ...]:
    """The parts of an option that may be given once, as a list, or separated by commas."""
    if value is None:
        return ()
    if isinstance(value, (str, os.PathLike)):
        return tuple(part.strip() for part in os.fspath(value).split(",") if part.strip())
    if isinstance(value, Iterable):
        return tuple(str(part) for part in value)
    raise OptionError(f"{name} must be text or a list of texts, not {value!r}")


def _bindings(value: object) -> tuple[tuple[int, str], ...]:
    if isinstance(value, Mapping):
        return tuple(value.items())
    bound = []
    for part in _several(value, "bind"):
        code, equals, name = part.partition("=")
        if not (equals and code.strip().isdecimal() and name.strip()):
            raise OptionError(f"bind must be like 10=LedCommand, not {part!r}")
        bound.append((int(code), name.strip()))
    return tuple(bound)


def types_from(options: _Options) -> TypeRegistry:
    """The schemas that the options name; the same options give the same registry.

    Raises:
        OptionError: a value is unusable, or a message to bind does not exist.
        SourceError: a schema file is wrong.
    """
    if not options:
        return BUILT_IN
    given = options.get("types")
    if all(options.get(name) is None for name in ("proto", "bind", "include")):
        if given is not None and not isinstance(given, TypeRegistry):
            raise OptionError(f"types must be a TypeRegistry, not {given!r}; see proto and bind")
        return BUILT_IN if given is None else given
    if given is not None:
        raise OptionError("types cannot be given with proto, bind or include")
    bind = _bindings(options.get("bind"))
    if not bind:
        raise OptionError("bind must say which TYPE carries which message: 10=LedCommand")
    proto = _several(options.get("proto"), "proto")
    return load_types(proto, bind, _several(options.get("include"), "include"))


def load_types(
    proto: Iterable[str], bind: Iterable[tuple[int, str]], include: Iterable[str] = ()
) -> TypeRegistry:
    """A registry with the messages of the files `proto`, bound as `bind` says.

    Files that did not change since they were last asked for are not compiled again.

    Raises:
        OptionError: a message to bind does not exist, or its TYPE is taken.
        SourceError: a file is wrong.
    """
    stamped = tuple((path, _stamp(path)) for path in proto)
    return _load(stamped, tuple(bind), tuple(include))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0  # loading it says what is wrong
    return found.st_mtime_ns, found.st_size


# A reader asks once per frame; a program uses only a handful of schemas.
@lru_cache(maxsize=16)
def _load(
    proto: tuple[tuple[str, tuple[int, int]], ...],
    bind: tuple[tuple[int, str], ...],
    include: tuple[str, ...],
) -> TypeRegistry:
    made = TypeRegistry()
    for path, _ in proto:
        made.load(path, include=include)
    for code, name in bind:
        made.bind(code, name)
    return made
