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


def test_processes_with_other_hash_seeds_see_the_same_world() -> None:
    code = "from test_determinism import digest; print(digest(5))"
    seen = set()
    for hash_seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
        seen.add(done.stdout.strip())
    assert seen == {digest(5)}


def test_another_seed_makes_another_world() -> None:
    assert digest(5) != digest(6)


def test_the_order_of_looking_does_not_matter() -> None:
    first, second = GeneratedWorld(3), GeneratedWorld(3)
    days = [datetime(2025, 2, day, tzinfo=UTC).date() for day in (3, 9, 21)]
    forward = {day: [(ticker, first.outcome(ticker)) for ticker in first.closing(day)] for day in days}
    backward = {day: [(ticker, second.outcome(ticker)) for ticker in second.closing(day)] for day in reversed(days)}
    assert forward == backward


def test_nothing_is_drawn_from_global_randomness() -> None:
    import random

    import numpy as np

    random.seed(1)
    np.random.seed(1)
    before = digest(5)
    random.seed(2)
    np.random.seed(2)
    assert digest(5) == before


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        GeneratedWorld(-1)


def test_tickers_are_unique_over_years() -> None:
    world = GeneratedWorld(2)
    tickers = [market.ticker for home in range(730) for event in world.day(home).events for market in event.markets]
    events = [event.ticker for home in range(730) for event in world.day(home).events]
    assert len(set(tickers)) == len(tickers)
    assert len(set(events)) == len(events)
    assert all(world.market(ticker).ticker == ticker for ticker in tickers[::97])
    assert all(world.event(ticker).ticker == ticker for ticker in events[::97])
