"""Rejects that a later answer may replace keep a day of Polymarket open. Unparsable pages block nothing."""

from __future__ import annotations

import json
from datetime import date, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from bellwether.tables.raw import POLYMARKET_EVENTS, POLYMARKET_MARKETS, POLYMARKET_PRICES
from bellwether.venues.polymarket.pull.day import DayPull
from tests.unit.venues.test_polymarket_pull import DAY, Session, rows
from tests.venues.polymarket.objects import event
from tests.venues.polymarket.world import World, ending, ordinary, token
from tests.venues.venue import answer
from tests.venues.world import after


def with_reject(**changes: Any) -> World:
    """The ordinary day, and a rejected market that is alone in its event."""
    world = ordinary()
    world.markets.append(ending(51, "2026-03-14T09:00:00Z", of=5, **({"clobTokenIds": ""} | changes)))
    world.events["5"] = event(5)
    return world


@pytest.fixture
def run(tmp_path: Path) -> Session:
    return Session(with_reject(), tmp_path)


def at(run: Session, age: int) -> date:
    """Set the venue's clock to this many days after the day, and return its date."""
    now = after(DAY, age) + timedelta(hours=3)
    run.world.date = format_datetime(now, usegmt=True)
    return now.date()


def take_requests(run: Session) -> list[str]:
    """Return the requests since the last call, without the parameters of listings."""
    found = [url for url in run.world.asked if not url.endswith("closed=false&limit=1")]
    run.world.asked.clear()
    return found


def is_final(pull: DayPull) -> bool:
    return bool(pull.pulls()["final"].item())


def ids(pull: DayPull) -> set[str]:
    return set(rows(POLYMARKET_MARKETS, pull.markets())["market_id"])


async def test_a_cured_reject_brings_its_market_event_and_prices(run: Session):
    at(run, 1)
    first = await run.day()
    assert (is_final(first), "51" in ids(first)) == (False, False)
    take_requests(run)
    assert not is_final(await run.day())
    assert {url.split("include_tag")[0] for url in take_requests(run)} == {"/markets/keyset?closed=true&id=51&"}
    run.world.markets[-1]["clobTokenIds"] = json.dumps([token(51, 0), token(51, 1)])
    cured = await run.day()
    assert "51" in ids(cured)
    assert "5" in set(rows(POLYMARKET_EVENTS, cured.events())["event_id"])
    assert "51" in set(rows(POLYMARKET_PRICES, cured.prices())["market_id"])
    assert is_final(cured)
    assert cured.rejects().is_empty()


@pytest.mark.parametrize("body", [{"history": 5}, {"error": "?"}, {"history": [5, {"t": -1, "p": 1}, {"t": 10**17, "p": 0.5}]}, []])
async def test_prices_of_another_shape_cost_their_market_alone(body: Any, tmp_path: Path):
    run = Session(ordinary(), tmp_path)
    world = run.world

    class Odd(World):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            good = world(request)
            odd = request.url.path == "/prices-history" and request.url.params["market"] == token(12, 0)
            return answer(body) if odd else good

    run.world = Odd(markets=world.markets, events=world.events)
    pull = await run.day()
    priced = set(rows(POLYMARKET_PRICES, pull.prices())["market_id"])
    assert "12" not in priced
    assert priced
    assert pull.rejects().height >= 1
