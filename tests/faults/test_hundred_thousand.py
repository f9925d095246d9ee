"""A pull of 100,000 markets while a fifth of all answers go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random

import orjson
import pytest

from bellwether.lake.storage import open_storage
from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.faults import HTTP_FAULTS, LASTING, Faults
from bellwether.sandbox.instants import instant, midnight
from bellwether.sandbox.server import serve
from bellwether.sandbox.source import Candle, EventRow, MarketRow, SeriesRow, Wanted
from bellwether.venues.http.pages import PageStore
from bellwether.venues.http.retry import Retry
from bellwether.venues.kalshi.client import KalshiClient, RateLimit
from bellwether.venues.kalshi.pull import CandlePlan, DayPull, pull_day
from tests.faults.cells import at_once, stored
from tests.venues.wire_objects import market

MARKETS, PER_EVENT, PER_PAGE = 100_000, 2_500, 1_000
DAY, NOW = date(2025, 6, 10), datetime(2025, 6, 15, tzinfo=UTC)
CLOSES = instant(datetime(2025, 6, 10, 12, tzinfo=UTC))
#: Of all answers; each fault that passes has an equal part.
RATE = 0.2


@dataclass(frozen=True)
class Crowd:
    """A world with 100,000 markets that closed on one day, made when someone looks."""

    template: bytes = orjson.dumps(market("TICKER", event_ticker="EVENT", close_time="2025-06-10T12:00:00Z"))

    def default_clock(self) -> Clock:
        return Clock(NOW)

    def cutoff(self, now: int) -> int:
        return midnight(DAY) - midnight(date(1970, 1, 2))

    def series(self, now: int) -> Iterator[SeriesRow]:
        return iter(())

    def events(self, wanted: Wanted, now: int) -> Iterator[EventRow]:
        """Those asked for, without their markets."""
        for number, ticker in enumerate(sorted(wanted.tickers or ())):
            if wanted.after is None or number > wanted.after[0]:
                body = {"event_ticker": ticker, "series_ticker": "S", "title": ticker, "mutually_exclusive": False}
                yield EventRow((number,), ticker, "S", False, body.copy, list)

    def markets(self, wanted: Wanted, now: int) -> Iterator[MarketRow]:
        for number in range(wanted.after[0] + 1 if wanted.after else 0, MARKETS):
            yield self.row(number)

    def row(self, number: int) -> MarketRow:
        ticker, event = f"M-{number:06d}", f"E-{number // PER_EVENT:03d}"

        def body() -> bytes:
            return self.template.replace(b"TICKER", ticker.encode()).replace(b"EVENT", event.encode())

        return MarketRow((number,), ticker, event, "S", "finalized", False, CLOSES, CLOSES, CLOSES, CLOSES, body)

    def candles(self, ticker: str, period: int, start: int, end: int, now: int) -> list[Candle] | None:
        return []


async def pull(folder: Path, faults: Faults | None) -> tuple[DayPull, KalshiClient]:
    """A pull through the real routes over a real socket; stalls last as long as the client's patience, no other wait is real."""
    limits = RateLimit(tokens_per_second=1e9, timeout=60.0 if faults is None else 1.0)
    with serve(create_app(Crowd(), clock=Clock(NOW), faults=faults)) as site:
        async with KalshiClient(site.kalshi, limits=limits, retry=Retry(attempts=20), sleep=at_once, rng=Random(1)) as client:
            plan = CandlePlan(days=1, markets=500)
            return await pull_day(client, PageStore(open_storage(str(folder))), DAY, archive=None, plan=plan), client


@pytest.mark.slow
async def test_a_hundred_thousand_markets_are_pulled_whole_while_a_fifth_of_the_answers_go_wrong(tmp_path: Path):
    passing = sorted(HTTP_FAULTS.keys() - LASTING.keys())
    faults = Faults(dict.fromkeys(passing, RATE / len(passing)), seed=11)
    undisturbed, honest = await pull(tmp_path / "undisturbed", None)
    disturbed, client = await pull(tmp_path / "disturbed", faults)
    # What is parsed follows from what is stored.
    assert stored(tmp_path / "disturbed") == stored(tmp_path / "undisturbed")
    assert disturbed.pull.count("markets") == MARKETS // PER_PAGE
    assert next(disturbed.markets()).height == PER_PAGE
    assert sum(frame.height for frame in disturbed.events()) == MARKETS // PER_EVENT
    assert disturbed.rejects().is_empty()
    assert undisturbed.requests == disturbed.requests == honest.stats.attempts
    assert client.stats.attempts >= honest.stats.attempts + faults.stats.total()
    assert faults.stats.keys() == set(passing)
    tickers = disturbed.markets_of_day.rows["ticker"]
    assert tickers.n_unique() == tickers.len() == MARKETS


def test_a_crowd_is_a_world():
    rows = [Crowd().row(0), next(Crowd().markets(Wanted(after=(MARKETS - 2,)), 0))]
    assert [orjson.loads(row.body())["ticker"] for row in rows] == ["M-000000", f"M-{MARKETS - 1:06d}"]
    assert midnight(DAY) <= CLOSES < midnight(DAY + timedelta(days=1))
