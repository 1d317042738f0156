"""Servers that live tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.postgres import MISSING, Server, find_binaries, running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL for all tests of this process."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(MISSING)
    with running(binaries) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """An empty schema of PostgreSQL, which is as good as a database."""
    return postgres.new_schema()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fleet.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
