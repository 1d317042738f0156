"""A file's format is told in the same way, whether it is given alone or with others."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wireloom.cli import main
from wireloom.formats import get, names


@pytest.mark.parametrize("name", names())
def test_junk_before_the_frames_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    path = tmp_path / "junk.bin"
    frames = b"".join(get(name).samples().values()) * 4
    path.write_bytes(b"\xff\xfe\x01" + frames)
    alone = CliRunner().invoke(main, ["decode", str(path), "--json"])
    both = CliRunner().invoke(main, ["decode", str(path), str(path), "--json"])
    assert f"{name}: " in alone.stderr, alone.stderr
    assert f"{name}: " in both.stderr, both.stderr
    assert both.exit_code == alone.exit_code


def test_noise_is_of_no_format_either_way(tmp_path: Path) -> None:
    path = tmp_path / "noise.bin"
    path.write_bytes(b"\xff\xfd" * 100)
    alone = CliRunner().invoke(main, ["decode", str(path), "--json"])
    both = CliRunner().invoke(main, ["decode", str(path), str(path), "--json"])
    assert alone.exit_code == both.exit_code == 1
    assert not alone.stdout.count('"packet"')
    assert not both.stdout.count('"packet"')
