"""The build of the kernel, with a kernel of one small part so that it takes a second."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "setup.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SETUP.exists(), reason="a wheel has no setup.py"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks at ELF files"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package like ours, with a kernel of one function."""
    pytest.importorskip("Cython")
    kernel = tmp_path / "src" / "wireloom" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "PARTS").write_text("small\n")
    (kernel / "small.py").write_text(
        "from __future__ import annotations\nimport cython\n"
        'LIMIT = cython.declare(cython.int, 7)\n__all__ = ["twice"]\n'
        "def twice(x: cython.int) -> int:\n    return x + x\n"
    )
    (kernel.parent / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["cython", "setuptools"]\n'
        'build-backend = "setuptools.build_meta"\n'
        '[project]\nname = "wireloom"\nversion = "0"\n'
        '[tool.setuptools.packages.find]\nwhere = ["src"]\n'
    )
    shutil.copy(SETUP, tmp_path)
    return tmp_path


def install(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `pip install .` does, into a folder."""
    command = [sys.executable, "-m", "pip", "install", "-v", "--no-build-isolation", "--no-deps"]
    return subprocess.run(
        [*command, "--no-index", "--target", str(project / "out"), str(project)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_compiler_it_installs_and_says_how_to_get_the_fast_kernel(project: Path) -> None:
    done = install(project, CC="no-such-compiler", LDSHARED="no-such-compiler")
    assert done.returncode == 0, done.stdout + done.stderr
    installed = project / "out" / "wireloom"
    assert (installed / "__init__.py").exists()
    assert not list(installed.glob("_kernel*"))
    said = done.stdout + done.stderr
    assert "The kernel was not compiled" in said
    assert "pip install setuptools cython ziglang" in said


def test_a_checked_kernel_that_fails_is_an_error(project: Path) -> None:
    done = install(project, CC="no-such-compiler", WIRELOOM_KERNEL="checked")
    assert done.returncode != 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_kernel_has_no_symbols_that_only_a_debugger_reads(project: Path) -> None:
    done = install(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The kernel was not compiled" not in done.stdout + done.stderr
    (built,) = (project / "out" / "wireloom").glob("_kernel*")
    assert SYMTAB not in section_types(built.read_bytes())


SYMTAB = 2


def section_types(elf: bytes) -> set[int]:
    """The kinds of sections of a 64-bit ELF file."""
    assert elf[:5] == b"\x7fELF\x02"
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    return {struct.unpack_from("<I", elf, start + at * size + 4)[0] for at in range(count)}
