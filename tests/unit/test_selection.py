"""Which tests a run has: all, the default ones, a quick sample; and where those of Spark go."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text("utf-8")

CASES = """
import pytest

@pytest.fixture(params=["compiled", "interpreted"])
def kernel(request):
    return request.param

@pytest.mark.parametrize("size", range(5))
@pytest.mark.parametrize("name", ["tibmsg", "nrep"])
def test_rows(kernel, name, size):
    pass

@pytest.mark.nightly
def test_long():
    pass

@pytest.mark.slow
def test_slow():
    pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    nightly\n    slow\n    spark\n")
    return pytester


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["--all"], 22),
        ([], 10 + 2 + 1),  # compiled, interpreted once for each format, slow
        (["--quick"], 1),
        (["test_them.py::test_long"], 1),
        (["test_them.py::test_rows"], 20),
    ],
)
def test_each_run_has_its_tests(
    project: pytest.Pytester, arguments: list[str], passed: int
) -> None:
    project.makepyfile(test_them=CASES)
    project.runpytest_subprocess("-q", *arguments).assert_outcomes(passed=passed)


@pytest.mark.slow
def test_a_quick_run_has_one_case_of_each_test_and_not_always_the_first(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.parametrize("n", range(6))
        """
        + "".join(f"\n        def test_{name}(n): pass" for name in range(30))
    )
    done = project.runpytest_subprocess("-v", "--quick")
    done.assert_outcomes(passed=30)
    shown = done.stdout.str()
    assert all(f"[{n}] PASSED" in shown for n in range(6))


WORKERS = """
import os, time
import pytest

def ran(unit, what=""):
    with open(unit, "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], what, file=file)

@pytest.fixture(scope="session")
def spark():
    pass

@pytest.mark.parametrize("n", range(6))
def test_session(spark, n):
    time.sleep(0.2)
    ran("session")

@pytest.mark.spark
@pytest.mark.parametrize("n", range(6))
def test_processes(n):
    time.sleep(0.2)
    ran("processes")

@pytest.mark.parametrize("n", range(6))
def test_other(n):
    ran("none", "short")

@pytest.mark.slow
def test_long():
    ran("none", "long")
"""


@pytest.mark.slow
def test_tests_of_spark_share_a_worker_and_long_ones_begin(project: pytest.Pytester) -> None:
    project.makepyfile(test_workers=WORKERS)
    done = project.runpytest_subprocess("-q", "-n", "3", "--dist", "loadgroup")
    done.assert_outcomes(passed=19)

    def ran(unit: str) -> list[tuple[str, ...]]:
        lines = (project.path / unit).read_text("utf-8").splitlines()
        return [tuple(line.split()) for line in lines]

    assert len(ran("session")) == len(ran("processes")) == 6
    workers = {*ran("session"), *ran("processes")}
    assert len(workers) == 2
    # The third worker has nothing else to do at first.
    [third] = [worker for worker, what in ran("none") if what == "long"]
    assert (third,) not in workers
    assert next(what for worker, what in ran("none") if worker == third) == "long"
