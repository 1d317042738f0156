"""Builds the one extension, the columnar kernel, for every Python from 3.11 on (abi3).

The kernel consists of small modules in Cython's pure Python mode (`src/wireloom/kernel/`), which
also run as they are. Here they are joined into one module, in the order of `PARTS`, so that
the compiler can inline across them and there is one file to ship.

Without a C compiler on the machine, the one in the `ziglang` package is used if that is installed.
A build that fails leaves a working package: the same code then runs interpreted, with a warning.

WIRELOOM_KERNEL=checked builds with bounds checks; WIRELOOM_KERNEL=asan with AddressSanitizer too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from ast import literal_eval
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
KERNEL = Path("src/wireloom/kernel")
PARTS = (HERE / KERNEL / "PARTS").read_text().split()
"""Names of the kernel's modules; a module may use those before it."""

_OWN_IMPORT = re.compile(
    r"^from wireloom\.kernel(\.\w+)* import (\([^)]*\)|[^\n]*)\n"
    r"|^from __future__ import annotations\n"
    r"|^\w+ = later\([^)]*\)\n"  # not needed once all parts are in one module
    r"|^from wireloom\.kernel(\.\w+)+ cimport (\([^)]*\)|[^\n]*)\n"
    r"|^__all__ = \[[^\]]*\]\n",
    re.MULTILINE,
)


_CONSTANT = re.compile(r"^(\w+) = cython\.declare\(cython\.(\w+), (-?[\w.]+)\)", re.MULTILINE)
_C_TYPES = {
    "double": ("double", ""),
    "int": ("int", ""),
    "longlong": ("long long", "LL"),
    "Py_ssize_t": ("Py_ssize_t", ""),
    "uint": ("unsigned int", "U"),
    "ulonglong": ("unsigned long long", "ULL"),
}


def join(suffix: str) -> str:
    """All parts in one text, without their imports of each other."""
    texts = []
    for part in PARTS:
        path = HERE / KERNEL / f"{part}{suffix}"
        if path.exists():
            texts.append(f"# --- {path.name}\n" + _OWN_IMPORT.sub("", path.read_text("utf-8")))
    return "\n".join(texts)


def constants(text: str) -> str:
    """Declarations for the constants of the joined parts.

    Without these they would be variables, loaded from memory each time, and the compiler could not
    tell that one of them is zero or that two are different.
    """
    macros, names = [], []
    for name, kind, value in _CONSTANT.findall(text):
        c_type, ending = _C_TYPES[kind]
        number = literal_eval(value)
        macros.append(f"    #define WIRELOOM_{name} (({c_type}){number!r}{ending})\n")
        names.append(f'    const {c_type} {name} "WIRELOOM_{name}"\n')
    quotes = '    """\n'
    return "cdef extern from *:\n" + quotes + "".join(macros) + quotes + "".join(names)


def write(path: Path, text: str) -> None:
    """Write only what changed, so that an unchanged kernel is not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def choose_compiler() -> None:
    """Use ziglang's compiler where the machine has none."""
    if os.environ.get("CC") or any(shutil.which(name) for name in ("cc", "gcc", "clang", "cl")):
        return
    if find_spec("ziglang") is not None:
        os.environ["CC"] = f"{sys.executable} -m ziglang cc"
        os.environ["LDSHARED"] = f"{sys.executable} -m ziglang cc -shared"


def extensions() -> list[Extension]:
    """The kernel, or nothing when it must stay interpreted."""
    mode = os.environ.get("WIRELOOM_KERNEL", "")
    if mode == "interpreted" or find_spec("Cython") is None:
        return []
    from Cython.Build import cythonize

    choose_compiler()
    # Cython looks for the types of wireloom._kernel in a package of that name.
    # Each mode has its own folder: what was built for one must not be used for the other.
    out = Path("build", f"kernel-{mode}" if mode else "kernel", "wireloom")
    write(HERE / out / "__init__.py", "")
    head = (
        "# cython: language_level=3\n# Joined by setup.py; edit the parts instead.\nimport cython\n"
    )
    source = join(".py")
    write(HERE / out / "_kernel.py", head + _CONSTANT.sub("", source))
    write(HERE / out / "_kernel.pxd", constants(source) + join(".pxd"))
    is_checked = mode in ("checked", "asan")
    flags = ["-O1", "-g", "-fsanitize=address,undefined"] if mode == "asan" else ["-O3"]
    kernel = Extension(
        "wireloom._kernel",
        [str(out / "_kernel.py")],
        define_macros=[("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")],
        py_limited_api=True,
        extra_compile_args=flags,
        extra_link_args=[flag for flag in flags if flag.startswith("-fsanitize")] or strip_flags(),
    )
    directives = {
        "boundscheck": is_checked,
        "wraparound": False,
        "initializedcheck": is_checked,
        "cdivision": True,
        "freethreading_compatible": True,
    }
    made = list(cythonize([kernel], compiler_directives=directives, quiet=True))
    for extension in made:
        # Not above: cythonize returns new objects, which do not keep it.
        extension.optional = mode == ""
    return made


def strip_flags() -> list[str]:
    """Flags that strip symbols, which are four fifths of the file and of no use."""
    if sys.platform == "darwin":
        return ["-Wl,-x"]
    return [] if sys.platform == "win32" else ["-s"]


HOW = """
The kernel was not compiled. Wireloom works without it, but reads captures about 100 times slower.
To get the fast one, install a C compiler (Debian, Ubuntu: apt install gcc; macOS: xcode-select
--install), or the one that comes as a Python package, and install again:

    pip install setuptools cython ziglang
    pip install --force-reinstall --no-deps --no-build-isolation .
"""


class Build(build_ext):
    """Builds the kernel if it can, and says what to do where it cannot."""

    def run(self) -> None:
        """Build; an optional extension that fails is left out."""
        super().run()
        missing = [each for each in self.extensions if not self.is_there(each)]
        if missing:
            # On stderr, which `pip install -v` shows and a build log keeps.
            sys.stderr.write(HOW)

    def is_there(self, extension: Extension) -> bool:
        """Whether the extension was built."""
        if self.inplace:
            return Path(self.get_ext_fullpath(extension.name)).exists()
        return Path(self.build_lib, self.get_ext_filename(extension.name)).exists()


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": Build},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
