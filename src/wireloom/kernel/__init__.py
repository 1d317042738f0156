"""The kernel: compiled where possible, otherwise the same code interpreted.

The modules listed in ``PARTS`` are written in Cython's pure Python mode. ``setup.py`` joins and
compiles them as `wireloom._kernel`; `load` gives that module, or the interpreted parts
with a warning that says how to get the fast one.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from wireloom._kernel import Kernel
else:
    Kernel = ModuleType | SimpleNamespace

__all__ = ["Kernel", "SlowKernelWarning", "either", "interpreted", "is_compiled", "load"]

_SLOW = (
    "the compiled kernel is missing, so the interpreted one is used, which is about 100 times "
    "slower; install a wheel, or a C compiler and Wireloom again; for one from "
    "PyPI: pip install setuptools cython ziglang, then in the checkout "
    "pip install --force-reinstall --no-deps --no-build-isolation ."
)


class SlowKernelWarning(UserWarning):
    """The kernel runs interpreted."""


@cache
def interpreted() -> SimpleNamespace:
    """Everything the parts export, as plain Python."""
    parts = (Path(__file__).parent / "PARTS").read_text().split()
    names = SimpleNamespace()
    for part in parts:
        module = import_module(f"{__name__}.{part.replace('/', '.')}")
        for name in module.__all__:
            setattr(names, name, getattr(module, name))
    return names


@cache
def _compiled() -> ModuleType | None:
    try:
        return import_module("wireloom._kernel")
    except ImportError:
        return None


def is_compiled() -> bool:
    """Whether `load` gives the compiled kernel."""
    return _compiled() is not None and os.environ.get("WIRELOOM_KERNEL") != "interpreted"


def either() -> Kernel:
    """Like `load`, without the warning: for what is quick enough interpreted."""
    return cast("Kernel", _compiled() if is_compiled() else interpreted())


def load() -> Kernel:
    """The compiled kernel, else the interpreted one with a warning.

    ``WIRELOOM_KERNEL=interpreted`` in the environment asks for the latter, without a warning.
    """
    found = _compiled()
    if os.environ.get("WIRELOOM_KERNEL") == "interpreted":
        return cast("Kernel", interpreted())
    if found is not None:
        return cast("Kernel", found)
    warnings.warn(_SLOW, SlowKernelWarning, stacklevel=2)
    return cast("Kernel", interpreted())
