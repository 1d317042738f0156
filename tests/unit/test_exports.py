from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import wireloom


def test_every_exported_name_is_there_and_documented() -> None:
    assert wireloom.__all__ == sorted(wireloom.__all__)
    for name in wireloom.__all__:
        assert getattr(wireloom, name).__doc__, name


def test_what_is_defined_in_the_package_is_exported() -> None:
    own = {
        name
        for name, value in vars(wireloom).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == "wireloom"
    }
    assert own <= set(wireloom.__all__)
    assert set(wireloom._LAZY) <= set(wireloom.__all__)


def public_modules() -> list[str]:
    found = walk_packages(wireloom.__path__, "wireloom.")
    names = [module.name for module in found]
    return [name for name in names if not any(p.startswith("_") for p in name.split("."))]


@pytest.mark.parametrize("name", public_modules())
def test_every_public_module_has_a_docstring_and_exports_what_it_lists(name: str) -> None:
    module = import_module(name)
    assert module.__doc__
    defined = {
        public
        for public, value in vars(module).items()
        if not public.startswith("_") and getattr(value, "__module__", "") == name
    }
    assert hasattr(module, "__all__") or not defined
    for exported in getattr(module, "__all__", ()):
        assert hasattr(module, exported), exported


def test_importing_the_package_imports_no_format_and_nothing_heavy() -> None:
    code = (
        "import sys, wireloom\n"
        "heavy = {'asyncio', 'socket', 'click', 'rich', 'google.protobuf', 'cryptography',\n"
        "         'hypothesis', *wireloom._formats.REGISTRY.values()}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
