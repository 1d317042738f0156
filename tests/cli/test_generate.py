"""`wireloom generate`: captures that the other commands read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wireloom import generate as generator
from wireloom.cli import _progress

MAGICS = {
    "raw": b"",
    "pcap": b"\x4d\x3c\xb2\xa1",
    "pcapng": b"\x0a\x0d\x0d\x0a",
    "gz": b"\x1f\x8b",
    "zst": b"\x28\xb5\x2f\xfd",
}


@pytest.mark.parametrize(
    ("name", "words", "magic"),
    [
        ("x.pcap", [], "pcap"),
        ("x.pcapng", [], "pcapng"),
        ("x", [], "pcapng"),
        ("x.PCAP.gz", [], "gz"),
        ("x.pcapng.zst", [], "zst"),
        ("x.zst", [], "zst"),
        ("x.bin", ["-f", "tibmsg"], "raw"),
        ("x.pcap", ["--container", "pcapng"], "pcapng"),
        ("x", ["--container", "pcap.zst"], "zst"),
    ],
)
def test_the_suffix_or_the_option_chooses_the_container(
    run: Any, tmp_path: Path, name: str, words: list[str], magic: str
) -> None:
    target = tmp_path / name
    result = run("generate", "-o", target, "--messages", 20, *words)
    assert target.read_bytes().startswith(MAGICS[magic])
    assert "20 frames" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_manifest_is_what_the_others_find(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "day.pcapng.zst"
    schemas = tmp_path / "schemas"
    words = ["--size", "300kB", "--seed", 1, "--schemas", schemas, "--json"]
    result = run("generate", "-o", target, "--format", "blaze,qform", *words)
    manifest = json.loads(result.stdout)
    assert f"to read it: --dictionary {schemas}/tss_fields.cf" in result.stderr
    given = [f"--dictionary={schemas}/tss_fields.cf", f"--model={schemas}/orders.blz"]
    found = json.loads(run("stat", target, "--json", *given).stdout)
    assert found["accounting"]["total"]["frames"] == manifest["messages"]
    assert set(manifest["frames"]) == {"blaze", "qform"}
    assert 250_000 < manifest["size"] < 400_000


def test_the_same_seed_gives_the_same_bytes(run: Any, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("generate", "-o", tmp_path / name, "--messages", 50, "--seed", seed, "-q")
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_faults_are_made_and_told(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "bad.pcap"
    faults = "loss=5%, reorder=0.1,duplicates=0.05"
    result = run("generate", "-o", target, "--size", "200kB", "--faults", faults, "--one-way")
    shown = {line.split()[0]: line for line in result.stdout.splitlines()[1:]}
    assert all(name in shown["faults"] for name in ("loss", "reorder", "duplicates"))
    assert "frames" in shown["hit"]
    run("stat", target, code=1)


def test_to_stdout(run: Any) -> None:
    result = run("generate", "-o", "-", "-f", "nrep", "--messages", 10, "--container=pcap")
    assert result.stdout_bytes.startswith(MAGICS["pcap"])
    assert "10 frames" in result.stderr
    found = json.loads(run("stat", "--json", stdin=result.stdout_bytes).stdout)
    assert found["accounting"]["total"]["frames"] == 10


def test_nothing_is_overwritten_without_force(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "x.pcap"
    target.write_text("precious")
    assert "exists; overwrite it with --force" in run("generate", "-o", target, code=2).stderr
    assert target.read_text() == "precious"
    run("generate", "-o", target, "--messages", 1, "--force", "-q")
    assert target.read_bytes().startswith(MAGICS["pcap"])
    run("generate", "-o", "/dev/null", "--messages", 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--format", "nosuch"], "cannot generate 'nosuch'; there are tibmsg"),
        (["--container", "tar"], "no container 'tar'; there are raw, pcap or pcapng"),
        (["--container", "pcap.tar"], "no container 'pcap.tar'"),
        (["--container", "raw"], "one stream: choose one format"),
        (["--faults", "fire=1"], "'fire=1' is not KIND=SHARE; kinds are reorder, loss"),
        (["--faults", "loss"], "'loss' is not KIND=SHARE"),
        (["--faults", "loss=much"], "'much' is not a number"),
        (["--faults", "loss=200%"], "loss is a share from 0 to 1"),
        (["--size", "big"], "'big' is not a size"),
    ],
)
def test_a_wrong_option_is_usage(run: Any, tmp_path: Path, words: list[str], says: str) -> None:
    assert says in run("generate", "-o", tmp_path / "x", *words, code=2).stderr
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_leaves_no_capture(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(file: Any, *_: Any, **__: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(generator, "generate", interrupted)
    run("generate", "-o", tmp_path / "x.pcap", code=130)
    assert not list(tmp_path.iterdir())


def test_progress_on_a_terminal(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "BIG", 1)
    monkeypatch.setattr(_progress, "is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    words = ["generate", "-o", tmp_path / "x.pcap", "--size", "100kB", "--force"]
    assert "━" in run(*words).stderr
    assert "━" not in run(*words, "-q").stderr
