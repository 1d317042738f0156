"""A writer that dies at any point: between any two things that it does to the disk."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oracles.lakes import Row, frames_batch, logged_rows, stage_frames, visible_rows

from wireloom.lake import Lake, StagedWriter, Writing, compact, without_sources
from wireloom.lake import lake as lake_module

NOVEMBER = 19_675 * 86_400_000_000_000  # 2023-11-14

OLD: list[Row] = [("a", offset, NOVEMBER) for offset in range(5)]
MORE: list[Row] = [("b", offset, NOVEMBER) for offset in range(5)]
NEW: list[Row] = [("c", day, NOVEMBER + day * 10**15) for day in range(3)]

Step = Callable[[Writing], Callable[[], Any]]
"""Prepares something in staging; what it gives commits it."""

_WRITES = ("link", "rename", "replace", "unlink", "fsync", "mkdir", "rmdir")


def dies_at(count: int, act: Callable[[], Any]) -> bool:
    """Run `act` in a process that is gone before its write number `count`; False: it was done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no threads
        child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, 9), code
        return code == 9
    left = count

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return real(*args, **settings)

        return call

    try:
        for name in _WRITES:
            setattr(os, name, deadly(getattr(os, name)))
        lake_module.exchange = deadly(lake_module.exchange)
        act()
    except BaseException:
        os._exit(1)
    os._exit(0)


def append(writing: Writing) -> Callable[[], Any]:
    files = stage_frames(writing, MORE[:2])
    files += stage_frames(writing, [("b", 2, NOVEMBER + 10**15), *MORE[3:]])
    return lambda: writing.commit(files, batch=("query", 1))


def compaction(writing: Writing) -> Callable[[], Any]:
    with StagedWriter(writing.root, writing.run) as writer:
        writer.write("frames", frames_batch(OLD))
        files = writer.close()
    old = [file.path for file in writing.lake.files("frames")]
    return lambda: writing.commit(files, remove=old, kind="compact")


def replacement(writing: Writing) -> Callable[[], Any]:
    kept, gone = without_sources(writing, ["a"])
    files = stage_frames(writing, [("a", 99, NOVEMBER)])
    return lambda: writing.commit([*kept, *files], remove=gone, kind="replace")


def removal(writing: Writing) -> Callable[[], Any]:
    kept, gone = without_sources(writing, ["a"])
    assert not kept
    return lambda: writing.commit(remove=gone, kind="replace")


def remade(writing: Writing) -> Callable[[], Any]:
    """Every row of the table is another one, and the days are others, too."""
    files = stage_frames(writing, NEW)
    return lambda: writing.commit(files, whole=["frames"], kind="derive")


AFTER = {
    append: sorted([*OLD, *MORE[:2], ("b", 2, NOVEMBER + 10**15), *MORE[3:]]),
    compaction: OLD,
    replacement: [("a", 99, NOVEMBER)],
    removal: [],
    remade: NEW,
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = Lake.create(tmp_path / "base")
    with made.write() as writing:
        writing.commit(stage_frames(writing, OLD[:2]))
        writing.commit(stage_frames(writing, OLD[2:]))
    return made.path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "can_exchange"),
    [
        pytest.param(append, True, id="append"),
        pytest.param(removal, True, id="removal"),
        pytest.param(compaction, True, id="compaction"),
        pytest.param(compaction, False, id="compaction where folders cannot be swapped"),
        pytest.param(replacement, True, id="replacement"),
        pytest.param(replacement, False, id="replacement where folders cannot be swapped"),
        pytest.param(remade, True, id="a whole table"),
        pytest.param(remade, False, id="a whole table where folders cannot be swapped"),
    ],
)
def test_a_writer_may_die_anywhere(
    base: Path, tmp_path: Path, step: Step, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_exchange:
        monkeypatch.setattr(lake_module, "exchange", lambda one, other: False)
    died, outcomes = True, set()
    count = 0
    while died:
        root = tmp_path / f"lake-{count}"
        shutil.copytree(base, root)
        died = dies_at(count, step(Writing(Lake(root))))
        count += 1
        assert count < 200

        # Before anybody repairs it: a reader of the log sees all of the commit or nothing of it.
        seen = logged_rows(Lake(root))
        assert seen in (OLD, AFTER[step])
        # A reader of the folder sees no row twice, and none that was not committed.
        visible = visible_rows(root)
        assert len(set(visible)) == len(visible)
        assert set(visible) <= set(OLD) | set(AFTER[step])
        if step in (compaction, remade) and can_exchange:
            assert visible in (OLD, AFTER[step])

        # The next writer puts it in order.
        repaired = Lake(root)
        with repaired.write():
            assert visible_rows(root) == logged_rows(repaired) == seen
        assert not (root / "_wireloom/staging").exists()
        outcomes.add(tuple(seen))

        # And the same step can be done (again).
        with repaired.write() as writing:
            if repaired.version == 2:
                step(writing)()
            assert visible_rows(root) == logged_rows(repaired) == AFTER[step]
        shutil.rmtree(root)
    assert outcomes == {tuple(OLD), tuple(AFTER[step])}


@pytest.mark.slow
def test_a_batch_sent_again_after_a_crash_is_not_committed_twice(
    base: Path, tmp_path: Path
) -> None:
    died, count = True, 0
    while died:
        root = tmp_path / f"lake-{count}"
        shutil.copytree(base, root)
        died = dies_at(count, append(Writing(Lake(root))))
        count += 1
        again = Lake(root)
        with again.write() as writing:
            append(writing)()
        assert visible_rows(root) == AFTER[append]
        shutil.rmtree(root)


def test_recovery_may_die_anywhere_too(base: Path, tmp_path: Path) -> None:
    # A commit that was made durable and no more.
    made = Writing(Lake(base))
    act = compaction(made)
    monkey = lake_module.Writing._carry_out
    lake_module.Writing._carry_out = lambda self, commit: None  # type: ignore[method-assign]
    try:
        act()
    finally:
        lake_module.Writing._carry_out = monkey  # type: ignore[method-assign]

    def recover(root: Path) -> None:
        with Lake(root).write():
            pass

    died, count = True, 0
    while died:
        root = tmp_path / f"lake-{count}"
        shutil.copytree(base, root)
        died = dies_at(count, lambda root=root: recover(root))  # type: ignore[misc]
        count += 1
        recover(root)
        assert visible_rows(root) == logged_rows(Lake(root)) == OLD
        assert len(Lake(root).files("frames")) == 1
        shutil.rmtree(root)


def test_an_error_while_files_are_moved_loses_nothing(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted() -> None:
        with Lake(base).write() as writing:
            act = append(writing)
            monkeypatch.setattr(lake_module, "publish", full)
            act()

    with pytest.raises(OSError, match="No space"):
        interrupted()
    monkeypatch.undo()
    with Lake(base).write():
        pass
    assert visible_rows(base) == AFTER[append]


def test_compaction_makes_few_files_of_many_and_changes_no_row(lake: Lake) -> None:
    rows: list[Row] = []
    with lake.write() as writing:
        for part in range(6):
            new: list[Row] = [("a", part * 10 + n, NOVEMBER + n * 10**14) for n in range(3)]
            rows += new
            writing.commit(stage_frames(writing, new))
        before = len(lake.files("frames"))
        reports = compact(writing)
        assert compact(writing) == []
    assert visible_rows(lake.path) == logged_rows(lake) == sorted(rows)
    assert sum(report.files_before for report in reports) == before
    assert len(lake.files("frames")) == len(reports) == len({f.day for f in lake.files("frames")})


def test_taking_captures_out_leaves_the_others(lake: Lake) -> None:
    with lake.write() as writing:
        writing.commit(stage_frames(writing, [*OLD, *MORE]))
        writing.commit(stage_frames(writing, MORE[:1]))
        untouched = lake.files("frames")[-1].path
        kept, gone = without_sources(writing, ["a"])
        writing.commit(kept, remove=gone)
    assert visible_rows(lake.path) == sorted([*MORE, *MORE[:1]])
    assert untouched in lake.state.files
