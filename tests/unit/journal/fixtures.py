"""Databases for tests of the journal, which run on SQLite and on Postgres."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether.journal import Journal
from deploy.loopback import Process
from tests.unit.journal.calls import Clock

_numbers = itertools.count(1)


@pytest.fixture
def postgres_url(postgres_server: Process) -> str:
    """URL of an empty Postgres schema."""
    import psycopg

    schema = f"journal_{next(_numbers)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgres_server.url}?options=-csearch_path%3D{schema}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path}/journal.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journal(url: str, clock: Clock) -> Iterator[Journal]:
    """A journal with the tests' clock."""
    with Journal(url, clock=clock, patience=10) as opened:
        yield opened
