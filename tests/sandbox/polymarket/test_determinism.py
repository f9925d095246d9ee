"""The same seed lists the same on Polymarket, whoever looks at it and in whatever order."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.sandbox.instants import DAY, HOUR, instant
from bellwether.sandbox.polymarket.generated import GeneratedPolymarket
from bellwether.sandbox.polymarket.listing import EARLIEST_END, LATEST_END
from bellwether.sandbox.polymarket.source import Ticks, Wanted
from bellwether.sandbox.world import GeneratedWorld

ROOT = Path(__file__).resolve().parents[3]
NOW = instant(datetime(2025, 3, 20, 12, tzinfo=UTC))


def digest(seed: int) -> str:
    """A hash over everything that is served about four days."""
    import orjson

    polymarket, result = GeneratedPolymarket(GeneratedWorld(seed)), hashlib.sha256()
    rows = list(polymarket.markets(Wanted(ends=(NOW - 2 * DAY, NOW + 2 * DAY)), NOW))
    for row in rows:
        result.update(row.body())
        result.update(orjson.dumps(polymarket.clob_market(row.condition_id, NOW)))
    for row in rows[::7]:
        book = polymarket.book(row.tokens[0], NOW)
        result.update(orjson.dumps(book.body() if book else None))
        result.update(orjson.dumps(polymarket.prices(row.tokens[1], Ticks(0, NOW, HOUR), NOW)))
        result.update(orjson.dumps(list(polymarket.trades((row.condition_id,), NOW))))
    for event in polymarket.events(Wanted(ends=(NOW - DAY, NOW + DAY)), NOW):
        result.update(event.body())
    return result.hexdigest()


@pytest.fixture(scope="module")
def fifth() -> str:
    """The digest of one seed."""
    return digest(5)


def test_a_process_with_another_hash_seed_sees_the_same(fifth: str) -> None:
    code = "from test_determinism import digest; print(digest(5))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == fifth


def test_another_seed_lists_something_else(fifth: str) -> None:
    assert fifth != digest(6)


def test_the_order_of_looking_does_not_matter() -> None:
    first, second = (GeneratedPolymarket(GeneratedWorld(3)) for _ in range(2))
    ids = [row.id for row in first.markets(Wanted(ends=(NOW - 5 * DAY, NOW)), NOW)]
    forward = {one: (first.outcome(one), next(first.markets(Wanted(ids=frozenset((one,))), NOW)).body()) for one in ids}
    later = NOW + 40 * DAY
    list(second.markets(Wanted(ends=(later, later + DAY)), later))
    backward = {one: (second.outcome(one), next(second.markets(Wanted(ids=frozenset((one,))), NOW)).body()) for one in reversed(ids)}
    assert forward == backward


@pytest.mark.slow
def test_names_are_unique_and_lead_back() -> None:
    polymarket = GeneratedPolymarket(GeneratedWorld(2))
    rows = [row for row in polymarket.markets(Wanted(), NOW + 150 * DAY) if row.created is not None]
    assert len(rows) > 3000
    for names in ("id", "condition_id", "slug"):
        assert len({getattr(row, names) for row in rows}) == len(rows)
    tokens = [token for row in rows for token in row.tokens]
    assert len(set(tokens)) == 2 * len(rows)
    assert {len(token) for token in tokens} <= set(range(72, 79))
    for row in rows[::97]:
        for wanted in (
            Wanted(ids=frozenset((row.id,))),
            Wanted(condition_ids=frozenset((row.condition_id,))),
            Wanted(tokens=frozenset((row.tokens[1],))),
            Wanted(slugs=frozenset((row.slug,))),
        ):
            assert [found.key for found in polymarket.markets(wanted, NOW + 150 * DAY)] == [row.key]


def test_a_day_is_listed_without_making_the_rest_of_the_world() -> None:
    polymarket = GeneratedPolymarket(GeneratedWorld(4))
    now = NOW + 400 * DAY
    assert list(polymarket.markets(Wanted(ends=(now - DAY, now), closed=True), now))
    assert polymarket._listing.day.cache_info().misses <= LATEST_END + EARLIEST_END + 2
