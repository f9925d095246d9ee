"""The journal's tests run on SQLite and on Postgres alike; each test has an empty database."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether.journal import Journal
from tests.journal.calls import Clock
from tests.journal.server import Unavailable, running

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Path]:
    """Folder of the socket of a server that lives as long as the session; skips where there is none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install bellwether[postgres]")
    try:
        with running() as socket:
            yield socket
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def postgres_url(postgres: Path) -> str:
    """An empty schema of its own."""
    import psycopg

    schema = f"journal_{next(_numbers)}"
    with psycopg.connect(host=str(postgres), user="bellwether", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"postgresql://bellwether@/postgres?host={postgres}&options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, in turn of either kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/journal.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(url: str, clock: Clock) -> Iterator[Journal]:
    """A journal on the tests' clock."""
    with Journal(url, clock=clock, patience=10) as opened:
        yield opened
