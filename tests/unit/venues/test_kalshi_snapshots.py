"""Requests to Kalshi for the arena: archived contracts, complete events, candles in parts, refused times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import httpx

from bellwether.venues.http.client import RateLimit
from bellwether.venues.kalshi import snapshots
from bellwether.venues.kalshi.client import KalshiClient

AT = datetime(2026, 4, 5, 0, 5, tzinfo=UTC)
DATE = {"Date": "Sun, 05 Apr 2026 00:10:00 GMT"}
HOUR = timedelta(hours=1)


def contract(ticker: str, event: str = "KXA-1", **more: Any) -> dict[str, Any]:
    """Return a market object of the venue."""
    return {
        "ticker": ticker,
        "event_ticker": event,
        "status": "active",
        "result": "",
        "created_time": "2026-03-01T00:00:00Z",
        "open_time": "2026-03-01T00:00:00Z",
        "close_time": "2026-04-09T00:00:00Z",
        **more,
    }


def event(ticker: str) -> dict[str, Any]:
    return {"event_ticker": ticker, "series_ticker": "KXA", "title": ticker, "mutually_exclusive": True}


class Answers:
    """Answers GET requests by path, and records them."""

    def __init__(self, answers: dict[str, Callable[[dict[str, list[str]]], Any]]) -> None:
        self.answers, self.asked = answers, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.raw_path.decode())
        found = self.answers[request.url.path.removeprefix("/v2")](parse_qs(request.url.query.decode()))
        return httpx.Response(404, json={}, headers=DATE) if found is None else httpx.Response(200, json=found, headers=DATE)


def ask(answers: Answers, work: Callable[[KalshiClient], Any]) -> Any:
    async def session() -> Any:
        how: dict[str, Any] = {"limits": RateLimit(tokens_per_second=1e9), "transport": httpx.MockTransport(answers)}
        async with KalshiClient("http://kalshi.test/v2", **how) as client:
            return await work(client)

    return asyncio.run(session())


def listing(*contracts: dict[str, Any]) -> dict[str, Any]:
    return {"markets": list(contracts), "cursor": ""}


def test_names_are_contracts_live_or_archived_and_else_events_with_all_of_theirs() -> None:
    live = {"KXB-1": contract("KXB-1", "KXB-1"), "KXA-1-X": contract("KXA-1-X")}
    old = {"KXC-1": contract("KXC-1", "KXC-1"), "KXA-1-Y": contract("KXA-1-Y", status="finalized", result="no")}

    def markets(kept: dict[str, Any]) -> Callable[[dict[str, list[str]]], Any]:
        def answer(query: dict[str, list[str]]) -> Any:
            if "tickers" in query:
                return listing(*(kept[name] for name in query["tickers"][0].split(",") if name in kept))
            return listing(*(one for one in kept.values() if one["event_ticker"] == query["event_ticker"][0]))

        return answer

    answers = Answers(
        {
            "/markets": markets(live),
            "/historical/markets": markets(old),
            "/events": lambda query: {"events": [event(name) for name in query["tickers"][0].split(",")], "cursor": ""},
        }
    )
    seen, events = ask(answers, lambda client: snapshots.fetch_by_id(client, ["KXB-1", "KXC-1", "KXA-1", "KXZ-9"]))
    assert set(seen.contracts) == {"KXB-1", "KXC-1", "KXA-1-X", "KXA-1-Y"}
    assert events == {"KXA-1"}
    assert set(seen.events) == {"KXB-1", "KXC-1", "KXA-1"}
    assert seen.at == datetime(2026, 4, 5, 0, 10, tzinfo=UTC)


def _candle(at: datetime, bid: str) -> dict[str, Any]:
    sides = {"yes_bid": {"close_dollars": bid}, "yes_ask": {"close_dollars": "0.6000"}, "price": {}}
    return {"end_period_ts": int(at.timestamp()), "volume_fp": "0.00", "open_interest_fp": "0.00", **sides}


def test_candles_of_archived_contracts_come_from_the_archive() -> None:
    group = {
        "market_ticker": "KXA-1-X",
        "candlesticks": [_candle(AT + HOUR, "0.5000"), _candle(AT, "0.4000"), _candle(AT - HOUR, "0.3000")],
    }
    old = {"ticker": "KXC-1", "candlesticks": [{**_candle(AT, "0.1000"), "yes_bid": {"close": "0.1000"}, "yes_ask": {"close": "0.2000"}}]}
    answers = Answers(
        {
            "/markets/candlesticks": lambda query: {"markets": [group]},
            "/historical/markets/KXC-1/candlesticks": lambda query: old,
            "/historical/markets/KXZ-9/candlesticks": lambda query: None,
        }
    )
    found = ask(
        answers, lambda client: snapshots.fetch_candles(client, dict.fromkeys(["KXA-1-X", "KXC-1", "KXZ-9"], (AT - HOUR / 2, AT + HOUR)))
    )
    assert [(row["end_at"], row["yes_bid_close"]) for row in found["KXA-1-X"]] == [(AT, Decimal("0.4")), (AT + HOUR, Decimal("0.5"))]
    assert [row["yes_bid_close"] for row in found["KXC-1"]] == [Decimal("0.1")]
    assert found["KXZ-9"] == []


def test_no_call_asks_for_more_candles_than_the_venue_gives() -> None:
    names = [f"KXA-1-{number}" for number in range(70)]

    def answer(query: dict[str, list[str]]) -> Any:
        return {"markets": [{"market_ticker": name, "candlesticks": []} for name in query["market_tickers"][0].split(",")]}

    answers = Answers({"/markets/candlesticks": answer})
    assert ask(answers, lambda client: snapshots.fetch_candles(client, dict.fromkeys(names, (AT - timedelta(days=14), AT)))) == {
        name: [] for name in names
    }
    assert len(answers.asked) == 3, "29 contracts with 337 hours each"
