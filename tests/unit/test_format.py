from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from wireloom import format as format_module
from wireloom.errors import OptionError, UnknownProtocolError
from wireloom.format import COMMON_OPTIONS, Format, Option, TypeInfo
from wireloom.formats import REGISTRY, _load, get, names
from wireloom.framing import Framer
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits


class Stub(Format):
    """A format that only has options."""

    name = "stub"
    title = "Stub"
    kind = "message"
    summary = "Nothing to read."
    options = (
        Option("dialect", "which one", choices=("old", "new"), default="new"),
        Option("model", "any object"),
    )

    def decode(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Message:
        raise NotImplementedError

    def framer(self, *, limits: Limits, strict: bool, offset: int = 0, **options: Any) -> Framer:
        raise NotImplementedError

    def detect(self, data: bytes) -> int:
        return 0

    def from_dict(self, d: Json) -> Message:
        raise NotImplementedError

    def outline(self, data: bytes, *, limits: Limits, strict: bool, **options: Any) -> Node:
        raise NotImplementedError

    def types(self) -> Sequence[TypeInfo]:
        return ()

    def samples(self) -> Mapping[str, bytes]:
        return {}


def test_without_options_the_defaults_hold() -> None:
    assert Stub().check_options({}) == (DEFAULT_LIMITS, False, {})


def test_options_are_sorted_into_limits_strict_and_own() -> None:
    model = object()
    given = {
        "max_frame": 100,
        "max_depth": 3,
        "max_fields": 7,
        "strict": True,
        "dialect": "old",
        "model": model,
    }
    limits, strict, own = Stub().check_options(given)
    assert limits == Limits(max_frame=100, max_depth=3, max_fields=7)
    assert strict is True
    assert own == {"dialect": "old", "model": model}


@pytest.mark.parametrize("name", ["max_frame", "max_depth", "max_fields"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "10", None])
def test_a_limit_must_be_a_positive_number(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{name} must be a positive number"):
        Stub().check_options({name: value})


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError) as caught:
        Stub().check_options({"colour": 1})
    for name in ("stub", "colour", "dialect", "model", "strict", "max_frame"):
        assert name in str(caught.value)


def test_a_value_that_is_no_choice_is_refused_with_the_choices() -> None:
    with pytest.raises(OptionError, match="dialect must be one of old, new, not 'odd'"):
        Stub().check_options({"dialect": "odd"})


def test_the_common_options_state_the_real_defaults() -> None:
    stated = {option.name: option.default for option in COMMON_OPTIONS}
    assert stated.pop("strict") is False
    assert stated == dataclasses.asdict(DEFAULT_LIMITS)
    assert all(option.doc for option in COMMON_OPTIONS)


def test_a_format_must_have_every_method() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Format()  # type: ignore[abstract]


def test_exported_names() -> None:
    assert format_module.__all__ == ["Format", "Option", "OptionType", "TypeInfo"]
    assert sys.modules["wireloom.formats"].__all__ == [
        "GROUP",
        "REGISTRY",
        "failures",
        "get",
        "names",
    ]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Format]:
    module = ModuleType("stub_format_package")
    module.FORMAT = Stub()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(REGISTRY, "stub", module.__name__)
    _load.cache_clear()
    yield module.FORMAT
    _load.cache_clear()


def test_one_line_in_the_registry_makes_a_format_known(registered: Format) -> None:
    assert "stub" in names()
    assert list(names()) == sorted(names())
    assert get("stub") is registered
    assert get("stub") is registered


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownProtocolError, match=r"no format 'http'; there are blaze, .*tibrv"):
        get("http")


def test_the_six_formats_are_registered() -> None:
    assert {"blaze", "nais", "nrep", "qform", "tibmsg", "tibrv"} <= set(names())
