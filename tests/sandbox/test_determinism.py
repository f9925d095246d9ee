"""The same seed gives the same world on both venues, in any order of requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from bellwether.errors import ConfigError
from bellwether.sandbox import Clock, GeneratedWorld
from bellwether.sandbox.exchange.generated_exchange import GeneratedExchange
from bellwether.sandbox.models import ModelEndpoint, Truth
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.source import ListingFilter as PolymarketWanted
from bellwether.sandbox.polymarket.source import PriceTimes
from bellwether.sandbox.source import ListingFilter
from bellwether.sandbox.timestamps import DAY, HOUR, to_datetime, to_instant
from bellwether.sandbox.world.catalogue import load_catalogue
from bellwether.sandbox.world.model import WorldEvent
from bellwether.sandbox.worlds import build_generated
from tests.golden.scenario import ANSWERS
from tests.golden.scenario import NOW as NOW_OF_GOLDEN
from tests.golden.wire import load
from tests.sandbox.conftest import closing

ROOT = Path(__file__).resolve().parents[2]
NOW = to_instant(datetime(2025, 3, 20, 12, tzinfo=UTC))
#: Print the digests in another process, whose random generators have another state.
PROGRAM = """
import json, random
import numpy as np
from tests.sandbox.test_determinism import digests
random.seed(2), np.random.seed(2)
print(json.dumps(digests(5)))
"""


def kalshi(world: GeneratedWorld) -> Iterator[bytes]:
    """Return markets, candles, series and order flow."""
    rows = list(world.markets(ListingFilter(closes=(NOW - 3 * DAY, NOW + 3 * DAY)), NOW))
    for row in rows:
        yield row.body()
    for row in rows[:10]:
        yield orjson.dumps(world.candles(row.ticker, 60, 0, NOW, NOW))
    for series in world.series():
        yield orjson.dumps(series)
    flow = GeneratedExchange(world)
    for row in rows[:3]:
        yield repr(list(flow.events(row.ticker, NOW - 3 * DAY, NOW - 2 * DAY))).encode()


def polymarket(world: GeneratedWorld) -> Iterator[bytes]:
    """Return all data served about two days."""
    venue = GeneratedPolymarket(world)
    rows = list(venue.markets(PolymarketWanted(ends=(NOW - DAY, NOW + DAY)), NOW))
    for row in rows:
        yield row.body()
        yield orjson.dumps(venue.clob_market(row.condition_id, NOW))
    for row in rows[::7]:
        book = venue.book(row.tokens[0], NOW)
        yield orjson.dumps(book.body() if book else None)
        yield orjson.dumps(venue.prices(row.tokens[1], PriceTimes(0, NOW, HOUR), NOW))
    for event in venue.events(PolymarketWanted(ends=(NOW - DAY, NOW + DAY)), NOW):
        yield event.body()


def models(world: GeneratedWorld) -> Iterator[bytes]:
    """Return the knowledge of models about a question and about none, and an answer of the endpoint."""
    truth = Truth(world)
    terms = next(iter(world.day(60).events)).markets[0].terms
    for text in (f"{terms['title']}\n{terms['rules_primary']}", "Will it rain?"):
        yield repr(truth.subject(text, NOW)).encode()
    app = Starlette(routes=[Mount("/v1", routes=ModelEndpoint(truth, Clock(to_datetime(NOW))).routes())])

    async def answer() -> bytes:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), headers={"Authorization": "Bearer sandbox-key"}) as http:
            body = {"model": "noisy", "messages": [{"role": "user", "content": terms["title"]}], "seed": 2}
            return (await http.post("http://sandbox/v1/chat/completions", json=body)).raise_for_status().content

    yield asyncio.run(answer())


def digests(seed: int) -> dict[str, str]:
    """Return a digest of each part."""
    world = GeneratedWorld(seed)
    return {part.__name__: hashlib.sha256(b"\n".join(part(world))).hexdigest() for part in (kalshi, polymarket, models)}


def test_a_process_with_another_hash_seed_and_global_randomness_sees_the_same() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout) == digests(5)


def test_another_seed_makes_another_world() -> None:
    first, other = GeneratedWorld(5), GeneratedWorld(6)
    day = to_datetime(NOW).date()
    assert set(closing(first, day)).isdisjoint(closing(other, day))
    wanted = PolymarketWanted(ends=(NOW, NOW + DAY))
    ids = [{row.id for row in GeneratedPolymarket(world).markets(wanted, NOW)} for world in (first, other)]
    assert ids[0] and ids[0].isdisjoint(ids[1])


def test_the_order_of_looking_at_polymarket_does_not_matter() -> None:
    first, second = (GeneratedPolymarket(GeneratedWorld(3)) for _ in range(2))
    ids = [row.id for row in first.markets(PolymarketWanted(ends=(NOW - 5 * DAY, NOW)), NOW)]
    found = []
    for venue, order in ((first, ids), (second, ids[::-1])):
        if venue is second:
            list(venue.markets(PolymarketWanted(ends=(NOW + 40 * DAY, NOW + 41 * DAY)), NOW + 40 * DAY))
        found.append({one: (venue.outcome(one), next(venue.markets(PolymarketWanted(ids=frozenset((one,))), NOW)).body()) for one in order})
    assert found[0] == found[1]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        GeneratedWorld(-1)


@pytest.fixture(scope="module")
def years() -> list[WorldEvent]:
    """The events of two years."""
    world = GeneratedWorld(2)
    return [event for home in range(730) for event in world.day(home).events]


def test_tickers_are_unique_over_years(years: list[WorldEvent]) -> None:
    world = GeneratedWorld(2)
    tickers, events = [market.ticker for event in years for market in event.markets], [event.ticker for event in years]
    assert len(set(tickers)) == len(tickers)
    assert len(set(events)) == len(events)
    assert all(world.market(ticker).ticker == ticker for ticker in tickers[::97])
    assert all(world.event(ticker).ticker == ticker for ticker in events[::97])


def test_a_question_and_its_rules_name_one_market_but_where_two_deadlines_of_one_series_fall_on_one_day(years: list[WorldEvent]) -> None:
    names = ("title", "yes_sub_title", "rules_primary")
    markets = [(event, market.terms) for event in years if not event.is_combo for market in event.markets]
    asked: dict[tuple[str, ...], list[WorldEvent]] = {}
    for event, terms in markets:
        asked.setdefault(tuple(terms[name] for name in names), []).append(event)
    repeated = [event for events in asked.values() if len(events) > 1 for event in events]
    assert {load_catalogue().by_ticker[event.series_ticker].family.early for event in repeated} <= {"deadline"}
    assert len(repeated) < 0.01 * len(markets)


def test_the_world_still_gives_the_recorded_answers_of_the_demo(runner: asyncio.Runner) -> None:
    """Published numbers come from this world, so its pages must equal those of the golden run, byte for byte."""
    http = httpx.AsyncClient(
        transport=httpx.ASGITransport(build_generated(7, datetime.fromisoformat(NOW_OF_GOLDEN))), base_url="http://sandbox"
    )
    answers = {asked.removeprefix("GET "): answer for asked, answer in load(ANSWERS).items() if asked.startswith("GET ")}
    chosen = [asked for asked in sorted(answers) if "cursor=" not in asked][::12]
    assert {asked.split("/")[1] for asked in chosen} == {"clob", "gamma", "trade-api"}
    for asked in chosen:
        assert runner.run(http.get(asked)).text == answers[asked]["body"], asked
