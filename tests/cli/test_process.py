"""What only a real process shows: signals, pipes, and what gets imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wireloom.lake import Lake

WIRELOOM = [sys.executable, "-m", "wireloom.cli"]
HEAVY = {
    "asyncio",
    "cryptography",
    "google.protobuf",
    "importlib.metadata",
    "pyarrow",
    "rich",
    "wireloom.testing",
    *(f"wireloom.formats.{name}" for name in ("blaze", "nais", "nrep", "qform", "tibmsg", "tibrv")),
}


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "decode --help",
        "inspect --help",
        "dict show --help",
        "stat --help",
        "generate --help",
    ],
)
def test_help_imports_nothing_heavy(words: str) -> None:
    code = (
        "import sys\n"
        "from wireloom.cli import main\n"
        "try:\n"
        "    main(prog_name='wireloom')\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=True
    )
    assert "Usage: wireloom" in done.stdout
    assert not HEAVY & set(done.stderr.split())


def test_a_closed_pipe_is_quiet(tmp_path: Path, stream: bytes) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(stream * 500)
    with subprocess.Popen(
        [*WIRELOOM, "decode", "-f", "nrep", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"frame_offset":0,')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_pipe_that_closes_at_the_very_end_is_quiet(capture: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*WIRELOOM, "decode", "-q", "-f", "nrep", str(capture)],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Processes that are started can be interrupted, even if a shell started this one with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT for one process there")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_one_line_and_rows_so_far_are_out(stream: bytes) -> None:
    with subprocess.Popen(
        [*WIRELOOM, "decode", "-f", "nrep"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(stream)
        process.stdin.flush()
        # The row comes although the input is still open: nothing waits for a full buffer.
        assert process.stdout.readline().startswith(b'{"frame_offset":0,')
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == b"interrupted\n"


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT for one process there")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "style", ["-o {}/out.jsonl", "--tables frames -o {}/out.csv", "-o {}/out/"]
)
def test_an_interrupt_leaves_no_half_file(style: str, tmp_path: Path, stream: bytes) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    words = style.format(folder).split()
    with subprocess.Popen(
        [*WIRELOOM, "decode", "-f", "nrep", *words],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(stream * 1000)
        process.stdin.flush()
        for _ in range(600):
            if any(path.is_file() for path in folder.rglob("*")) or (
                words[-1].endswith("/") and any(folder.iterdir())
            ):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr.read() == b"interrupted\n"
    assert list(folder.rglob("*")) == []


@pytest.mark.skipif(os.name == "nt", reason="no SIGINT for one process there")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_query(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    Lake.create(tmp_path / "lake")
    began = tmp_path / "began.csv"
    query = (
        f"copy (select 1) to '{began}';"
        "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 77 = 3"
    )
    with subprocess.Popen(
        [*WIRELOOM, "sql", str(tmp_path / "lake"), query, "--engine", "duckdb"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        for _ in range(600):
            if began.exists():
                break
            time.sleep(0.05)
        time.sleep(0.3)  # for the second statement
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(20) == 130
        finally:
            process.kill()
        assert process.stderr.read() == b"interrupted\n"


def test_arrow_looks_for_pandas_before_anything_is_written(tmp_path: Path, stream: bytes) -> None:
    # While it looks it drops what is raised, so that an interrupt would be lost.
    path, made = tmp_path / "in.bin", tmp_path / "out.csv"
    path.write_bytes(stream)
    code = (
        "import sys; from wireloom.cli import _capture, _tablewriting, main\n"
        "find = _capture._NoPandas.find_spec\n"
        "def told(self, name, *more):\n"
        "    if name == 'pandas': print('looks', _open, file=sys.stderr)\n"
        "    return find(self, name, *more)\n"
        "_open = False\n"
        "write = _tablewriting._write_rows\n"
        "def writing(*given):\n"
        "    global _open; _open = True\n"
        "    return write(*given)\n"
        "_capture._NoPandas.find_spec = told; _tablewriting._write_rows = writing; main()"
    )
    words = ["decode", "-q", "-f", "nrep", "--tables", "frames", str(path), "-o", str(made)]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "looks False" in done.stderr
    assert "looks True" not in done.stderr


def test_stdin_that_is_closed_is_an_error() -> None:
    code = "import sys; sys.stdin = None; from wireloom.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "decode", "-f", "nrep"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "stdin is closed" in done.stderr


def test_output_that_has_no_unicode_is_no_error(capture: Path) -> None:
    done = subprocess.run(
        [*WIRELOOM, "inspect", "-f", "nrep", "--no-nested", "-n1", str(capture)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"DISCOVER" in done.stdout


@pytest.mark.parametrize("words", ["stat", "decode", "decode --tables frames", "convert --to json"])
def test_captures_are_read_without_pandas(words: str, capture: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "wireloom.cli", *words.split(), str(capture)],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow" in imported
    # What was looked for and refused is listed, too.
    assert not any(name.startswith("pandas.") for name in imported)
