"""The same seed makes the same world, whoever looks at it and in whatever order."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.instants import DAY, instant
from bellwether.sandbox.source import Wanted
from bellwether.sandbox.world.catalogue import catalogue
from bellwether.sandbox.world.model import Event

ROOT = Path(__file__).resolve().parents[2]
NOW = instant(datetime(2025, 3, 20, 12, tzinfo=UTC))


def digest(seed: int) -> str:
    """A hash over bodies and candles of three weeks."""
    import orjson

    world, result = GeneratedWorld(seed), hashlib.sha256()
    for row in world.markets(Wanted(closes=(NOW - 14 * DAY, NOW + 7 * DAY)), NOW):
        result.update(row.body())
    for row in list(world.markets(Wanted(closes=(NOW - 2 * DAY, NOW - DAY)), NOW))[:10]:
        result.update(orjson.dumps(world.candles(row.ticker, 60, 0, NOW, NOW)))
    for series in world.series(NOW):
        result.update(orjson.dumps(series.body()))
    return result.hexdigest()


@pytest.fixture(scope="module")
def fifth() -> str:
    """The digest of one seed."""
    return digest(5)


def test_a_process_with_another_hash_seed_sees_the_same_world(fifth: str) -> None:
    code = "from test_determinism import digest; print(digest(5))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == fifth


def test_another_seed_makes_another_world(fifth: str) -> None:
    assert fifth != digest(6)


def test_the_order_of_looking_does_not_matter() -> None:
    first, second = GeneratedWorld(3), GeneratedWorld(3)
    days = [datetime(2025, 2, day, tzinfo=UTC).date() for day in (3, 9, 21)]
    forward = {day: [(ticker, first.outcome(ticker)) for ticker in first.closing(day)] for day in days}
    backward = {day: [(ticker, second.outcome(ticker)) for ticker in second.closing(day)] for day in reversed(days)}
    assert forward == backward


def test_nothing_is_drawn_from_global_randomness(fifth: str) -> None:
    import random

    import numpy as np

    random.seed(2)
    np.random.seed(2)
    assert digest(5) == fifth


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        GeneratedWorld(-1)


@pytest.fixture(scope="module")
def years() -> list[Event]:
    """The events of two years."""
    world = GeneratedWorld(2)
    return [event for home in range(730) for event in world.day(home).events]


def test_tickers_are_unique_over_years(years: list[Event]) -> None:
    world = GeneratedWorld(2)
    tickers, events = [market.ticker for event in years for market in event.markets], [event.ticker for event in years]
    assert len(set(tickers)) == len(tickers)
    assert len(set(events)) == len(events)
    assert all(world.market(ticker).ticker == ticker for ticker in tickers[::97])
    assert all(world.event(ticker).ticker == ticker for ticker in events[::97])


def test_a_question_and_its_rules_name_one_market_but_where_two_deadlines_of_one_series_fall_on_one_day(years: list[Event]) -> None:
    names = ("title", "yes_sub_title", "rules_primary")
    markets = [(event, market.terms) for event in years if not event.is_combo for market in event.markets]
    asked: dict[tuple[str, ...], list[Event]] = {}
    for event, terms in markets:
        asked.setdefault(tuple(terms[name] for name in names), []).append(event)
    repeated = [event for events in asked.values() if len(events) > 1 for event in events]
    assert {catalogue().by_ticker[event.series_ticker].family.early for event in repeated} <= {"deadline"}
    assert len(repeated) < 0.01 * len(markets)
