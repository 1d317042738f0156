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
        (["--quick"], 3),
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
def test_only_tests_with_a_session_share_a_worker(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_workers="""
        import os, time
        import pytest

        @pytest.fixture(scope="session")
        def spark():
            return os.environ["PYTEST_XDIST_WORKER"]

        @pytest.mark.parametrize("n", range(6))
        def test_with(spark, n):
            time.sleep(0.3)
            open(f"spark-{spark}", "w").close()

        @pytest.mark.parametrize("n", range(6))
        def test_without(n):
            time.sleep(0.1)
            open(f"other-{os.environ['PYTEST_XDIST_WORKER']}", "w").close()
        """
    )
    done = project.runpytest_subprocess("-q", "-n", "2", "--dist", "loadgroup")
    done.assert_outcomes(passed=12)
    assert len(list(project.path.glob("spark-*"))) == 1
    assert len(list(project.path.glob("other-*"))) >= 1
