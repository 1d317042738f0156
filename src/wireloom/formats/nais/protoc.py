"""Texts in the protobuf language → descriptor sets, with the compiler of ``grpcio-tools``.

The compiler runs as a child process: in-process it writes its complaints straight to the terminal,
where they can be neither caught nor told apart between threads.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from wireloom.errors import SourceError

__all__ = ["compile_file", "compile_text"]

_TIMEOUT_S = 60
"""A large schema takes a second; a compiler that hangs must not hang its caller."""
_COMPLAINT = re.compile(r"^(?P<file>.+?):(?P<line>\d+):\d+: (?!warning:)(?P<reason>.+)$", re.M)
_OWN_DIRECTORY = Path(__file__).parent


def compile_file(path: Path, include: Iterable[Path] = ()) -> bytes:
    """The descriptor set of a ``.proto`` file and of everything that it imports.

    Args:
        path: the file.
        include: directories to look for imports in, before the file's own. The well-known types
            and ``nais.proto`` are always found.

    Raises:
        SourceError: it cannot be read or compiled, or there is no compiler.
    """
    if not path.is_file():
        raise SourceError("no such file", file=str(path))
    path = path.resolve()
    roots = [*(root.resolve() for root in include), path.parent, _OWN_DIRECTORY]
    with TemporaryDirectory(prefix="wireloom-") as directory:
        out = Path(directory, "set.binpb")
        done = _run(path, [*(f"-I{root}" for root in roots), f"--descriptor_set_out={out}"])
        if done.returncode:
            raise _complaint(path, roots, done.stderr)
        return out.read_bytes()


def compile_text(text: str, name: str = "schema.proto", include: Iterable[Path] = ()) -> bytes:
    """The descriptor set of a text in the protobuf language.

    Raises:
        SourceError: it cannot be compiled, or there is no compiler.
    """
    with TemporaryDirectory(prefix="wireloom-") as directory:
        path = Path(directory, Path(name).name)
        path.write_text(text, encoding="utf-8")
        try:
            return compile_file(path, include)
        except SourceError as error:
            if error.file == str(path.resolve()):
                error.file = name
            raise


def _compiler(path: Path) -> list[str]:
    if find_spec("grpc_tools") is not None:
        # -P: a directory called grpc_tools in the current one must not be imported.
        return [sys.executable, "-P", "-m", "grpc_tools.protoc"]
    if (found := shutil.which("protoc")) is not None:
        return [found]
    raise SourceError(
        "reading .proto files needs a compiler: install wireloom[proto], or put protoc on the"
        " PATH, or use a set made with protoc --include_imports --descriptor_set_out",
        file=str(path),
    )


def _run(path: Path, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [*_compiler(path), *options, "--include_imports", str(path)]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"the compiler did not run: {error}", file=str(path)) from error


def _complaint(path: Path, roots: list[Path], output: str) -> SourceError:
    """The compiler's first complaint, with its file and line."""
    found = _COMPLAINT.search(output)
    if found is None:
        reason = output.strip().partition("\n")[0] or "the compiler failed without a word"
        return SourceError(reason, file=str(path))
    # Some releases of the compiler name a file by its path, some as an import would.
    file = next((root / found["file"] for root in roots if (root / found["file"]).is_file()), path)
    return SourceError(found["reason"], file=str(file), line=int(found["line"]))
