"""The project's own files agree with one another."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\$", re.MULTILINE)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def committed_files() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    yield from (ROOT / name for name in listed.stdout.split("\0") if name)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_requirement_is_pinned_and_hashed(lock: Path) -> None:
    lines = [line for line in lock.read_text("utf-8").splitlines() if not line.startswith("#")]
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("    "):
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line)
        else:
            assert PIN.fullmatch(line), line
            assert not before.endswith("\\"), f"no hash before {line}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locks_agree_so_that_they_share_one_environment(lock: Path) -> None:
    everything = set(PIN.findall((ROOT / "requirements" / "dev.txt").read_text("utf-8")))
    versions = {(name, version) for name, version, _ in everything}
    if lock.stem not in {"bootstrap", "zig"}:
        found = {(name, version) for name, version, _ in PIN.findall(lock.read_text("utf-8"))}
        others = {name for name, _ in found - versions}
        # Which Spark it has is all that an environment of its own is for.
        assert others == ({"pyspark"} if lock.stem == "spark40" else set())


def test_locks_hold_every_direct_dependency() -> None:
    locked = {
        name for name, _, _ in PIN.findall((ROOT / "requirements/dev.txt").read_text("utf-8"))
    }
    assert set(direct_dependencies()) <= locked


def direct_dependencies() -> Iterator[str]:
    project = PROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for group in [*groups, *PROJECT["dependency-groups"].values()]:
        for requirement in group:
            if isinstance(requirement, str):
                yield re.split(r"[^\w.-]", requirement)[0]


def test_dependencies_are_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    assert set(direct_dependencies()) == set(
        re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE)
    ) | {"grpcio-tools"}
    assert "`grpcio-tools`" in page


def test_committed_files_name_no_machine_and_no_registry() -> None:
    # Split, so that this file does not contain what it looks for.
    machine = r"(?<![\w.])/(?:work|farm|root|opt/pypi)" + "/"
    registry = r"(?:pypi|pythonhosted|npmjs|debian)" + r"\.org"
    pattern = re.compile(f"{machine}|{registry}")
    found = []
    for path in committed_files():
        if path.is_file() and path.suffix not in {".gz", ".binpb"}:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                if pattern.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not found


def test_changelog_is_in_order_and_ends_at_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall(r"^## (\d+)\.(\d+)\.(\d+) - (\S+)$", text, re.MULTILINE)
    versions = [tuple(map(int, parts)) for *parts, _ in releases]
    dates = [date.fromisoformat(day) for *_, day in releases]
    assert versions == sorted(set(versions), reverse=True)
    assert dates == sorted(dates, reverse=True)
    assert not versions or versions[0] <= tuple(map(int, PROJECT["project"]["version"].split(".")))


def test_change_notes_have_a_known_kind() -> None:
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    notes = [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    for note in notes:
        assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(kinds)})(\.\d+)?\.md", note.name)
        assert note.read_text("utf-8").strip()


def test_run_lists_every_verb_it_has() -> None:
    script = (ROOT / "run").read_text("utf-8")
    listed = re.findall(r"^#   ([\w-]+)  ", script, re.MULTILINE)
    assert sorted(listed) == sorted(re.findall(r"^([\w-]+)\)", script, re.MULTILINE))
    shown = subprocess.run([ROOT / "run"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in shown.splitlines()] == listed
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert [verb for verb in listed if f"./run {verb}" not in contributing] == []


def test_the_kernel_is_built_again_for_its_sources_and_for_nothing_else() -> None:
    kernel = "src/wireloom/kernel"
    [line] = re.findall(r'key="\$PWD \$\(cat (.*\$kernel.*) \|', (ROOT / "run").read_text("utf-8"))
    patterns = [each for each in line.replace("$kernel", kernel).split() if kernel in each]
    read = {path for pattern in patterns for path in ROOT.glob(pattern)}
    # What Python leaves in __pycache__ changes with every run.
    assert read == {path for path in committed_files() if kernel in path.as_posix()}


def test_run_refuses_an_unknown_verb() -> None:
    assert subprocess.run([ROOT / "run", "sing"], capture_output=True, check=False).returncode == 2


def test_ci_runs_on_every_python_that_is_claimed() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    matrix = re.search(r"python: \[(.+)\]", (ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
    assert matrix is not None
    assert re.findall(r"[\d.]+", matrix[1]) == claimed
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash_and_jobs_have_a_time_limit(workflow: Path) -> None:
    text = workflow.read_text("utf-8")
    for line in re.findall(r"uses: .*", text):
        assert re.fullmatch(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)
    assert text.count("runs-on:") == text.count("timeout-minutes:")


def test_what_the_default_run_leaves_out_runs_at_night() -> None:
    text = (ROOT / ".github/workflows/nightly.yml").read_text("utf-8")
    assert "run: ./run test --all\n" in text
    assert "schedule:" in text


def test_importing_wireloom_loads_nothing_heavy() -> None:
    heavy = ("asyncio", "click", "cryptography", "google.protobuf", "pyarrow", "pyspark", "rich")
    code = f"import sys, wireloom; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
