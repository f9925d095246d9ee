"""Simulated Kalshi and Polymarket with any number of closing markets a day, whose clock the benchmark sets. Some markets settle days after they
close.

The sandbox closes only about thirty markets a day. The objects here are as large as real ones.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import httpx
import orjson

HOUR = 3600
PER_EVENT = 8
#: Share of the markets that settle so long after their close at the latest.
SETTLING = ((0.90, timedelta(hours=1)), (0.98, timedelta(days=2)), (1.0, timedelta(days=20)))
#: Shares of Polymarket's markets that have no scheduled end, and a distant one.
ENDLESS, DISTANT = 0.01, 0.035


def kalshi_object(number: int, rng: Random) -> dict[str, Any]:
    """Build a market object in Kalshi's current format, about as large as a real one. number: of the market; eight consecutive ones share an event."""
    close = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number // 8 * 7919 % (90 * 1_440))
    bid = rng.randrange(1, 99)
    team = f"Team {rng.randrange(400)}"
    rules = f"If {team} wins game {number} originally scheduled for {close:%b %d, %Y}, then the market resolves to Yes. "
    return {
        "can_close_early": True,
        "close_time": f"{close:%Y-%m-%dT%H:%M:%SZ}",
        "created_time": f"{close - timedelta(days=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "custom_strike": {"team": f"{rng.getrandbits(128):032x}"},
        "early_close_condition": "This market will close and expire after a winner is declared.",
        "event_ticker": f"KXGAME-{number // 8}",
        "exchange_index": 0,
        "expected_expiration_time": f"{close + timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
        "expiration_time": f"{close + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "expiration_value": team,
        "last_price_dollars": f"0.{bid:02d}00",
        "latest_expiration_time": f"{close + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "liquidity_dollars": "0.0000",
        "market_type": "binary",
        "no_ask_dollars": f"0.{100 - bid:02d}00",
        "no_bid_dollars": f"0.{99 - bid:02d}00",
        "no_sub_title": team,
        "notional_value_dollars": "1.0000",
        "occurrence_datetime": f"{close + timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}",
        "open_interest_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "open_time": f"{close - timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}",
        "previous_price_dollars": "0.6000",
        "previous_yes_ask_dollars": "0.6000",
        "previous_yes_bid_dollars": "0.5900",
        "price_level_structure": "linear_cent",
        "price_ranges": [{"end": "1.0000", "start": "0.0000", "step": "0.0100"}],
        "result": rng.choice(("yes", "no")),
        "rules_primary": rules,
        "rules_secondary": rules * 6,
        "settlement_timer_seconds": 120,
        "settlement_ts": f"{close + timedelta(minutes=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "settlement_value_dollars": "1.0000",
        "status": "finalized",
        "strike_type": "structured",
        "ticker": f"KXGAME-{number // 8}-{number}",
        "title": f"{team} against Team {rng.randrange(400)}: winner?",
        "updated_time": f"{close + timedelta(minutes=3):%Y-%m-%dT%H:%M:%S}.{rng.randrange(10**6):06d}Z",
        "volume_24h_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "volume_fp": f"{rng.randrange(10**6)}.{rng.randrange(100):02d}",
        "yes_ask_dollars": f"0.{bid + 1:02d}00",
        "yes_ask_size_fp": "0.00",
        "yes_bid_dollars": f"0.{bid:02d}00",
        "yes_bid_size_fp": "0.00",
        "yes_sub_title": team,
    }


@dataclass(frozen=True)
class Market:
    """Simulated market of a venue. kind: whether the venue states the scheduled end ("endless": none, "distant": year 2030)."""

    number: int
    closes: datetime
    settles: datetime
    kind: str

    @property
    def event(self) -> int:
        """Number of the market's event."""
        return self.number // PER_EVENT

    @property
    def scheduled(self) -> datetime | None:
        """Scheduled end of the market; None if the venue states none."""
        return None if self.kind == "endless" else datetime(2030, 1, 1, tzinfo=UTC) if self.kind == "distant" else self.closes

    @cached_property
    def kalshi(self) -> dict[str, Any]:
        """Kalshi's JSON object of the market after its settlement."""
        close = f"{self.closes:%Y-%m-%dT%H:%M:%SZ}"
        own = {"ticker": f"KX-{self.event}-{self.number}", "event_ticker": f"KX-{self.event}", "close_time": close}
        return kalshi_object(self.number, Random(self.number)) | own | {"updated_time": f"{self.settles:%Y-%m-%dT%H:%M:%SZ}"}

    @property
    def condition(self) -> str:
        """Polymarket's condition id of the market."""
        return f"0x{self.number:064x}"

    def tokens(self) -> list[str]:
        """Return the ids of Polymarket's tokens for yes and no."""
        return [f"{self.number}{place}".rjust(77, "9") for place in (0, 1)]

    def gamma(self, now: datetime) -> dict[str, Any]:
        """Return Gamma's JSON object of the market as of `now`."""
        rules = f"This market resolves to Yes if number {self.number} comes up. " * 12
        found = {
            "id": str(self.number),
            "question": f"Will number {self.number} come up?",
            "conditionId": self.condition,
            "slug": f"number-{self.number}",
            "description": rules,
            "outcomes": '["Yes", "No"]',
            "clobTokenIds": orjson.dumps(self.tokens()).decode(),
            "events": [{"id": str(self.event), "slug": f"event-{self.event}", "title": f"Event {self.event}"}],
            "createdAt": "2026-01-01T00:00:00Z",
            "volume": "80362.86",
            "closed": now >= self.closes,
            "active": True,
            "outcomePrices": '["1", "0"]' if now >= self.settles else '["0.6", "0.4"]',
        }
        if self.scheduled is not None:
            found["endDate"] = f"{self.scheduled:%Y-%m-%dT%H:%M:%SZ}"
        if now >= self.closes:
            found["closedTime"] = f"{self.closes:%Y-%m-%d %H:%M:%S}+00"
            found["umaResolutionStatus"] = "resolved" if now >= self.settles else "proposed"
        return found


@dataclass
class VenueServer:
    """Simulated Kalshi, Gamma and CLOB over some days. now: the server's clock. calls: requests so far by host. per_day: closing markets per venue."""

    first: date
    days: int
    per_day: int
    seed: int = 7
    now: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    calls: dict[str, int] = field(default_factory=dict)

    @cached_property
    def markets(self) -> list[Market]:
        """The simulated markets, all of which exist on both Kalshi and Polymarket."""
        rng, start = Random(self.seed), datetime.combine(self.first, datetime.min.time(), UTC)
        made = []
        for number in range(self.days * self.per_day):
            closes = start + timedelta(days=number // self.per_day, seconds=rng.randrange(0, 24 * HOUR))
            share, longest = rng.random(), timedelta(0)
            longest = next(most for limit, most in SETTLING if share <= limit)
            kind = rng.choices(("usual", "endless", "distant"), (1 - ENDLESS - DISTANT, ENDLESS, DISTANT))[0]
            made.append(Market(number, closes, closes + longest * rng.random(), kind))
        return made

    def __call__(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host.split(".")[0]
        self.calls[host] = self.calls.get(host, 0) + 1
        body = getattr(self, f"_{host}")(request.url.path, request.url.params)
        return httpx.Response(200, content=orjson.dumps(body), headers={"Date": f"{self.now:%a, %d %b %Y %H:%M:%S} GMT"})

    # --- Kalshi ------------------------------------------------------------------------------------------------------

    def _kalshi(self, path: str, query: httpx.QueryParams) -> Any:
        if path == "/historical/cutoff":
            return {"market_settled_ts": "2025-12-01T00:00:00Z"}
        if path == "/markets/candlesticks":
            span = range(int(query["start_ts"]), int(query["end_ts"]), HOUR)
            quote = dict.fromkeys(("open_dollars", "high_dollars", "low_dollars", "close_dollars"), "0.4000")
            candles = [{"end_period_ts": at, "yes_bid": quote, "yes_ask": quote, "price": quote, "volume_fp": "12.50"} for at in span]
            return {"markets": [{"market_ticker": name, "candlesticks": candles} for name in query["market_tickers"].split(",")]}
        if path == "/events":
            wanted = query["tickers"].split(",")
            events = [{"event_ticker": name, "series_ticker": "KX", "title": name, "category": "World", "markets": []} for name in wanted]
            return {"events": events, "cursor": ""}
        if "tickers" in query:
            chosen = [self.markets[int(name.rpartition("-")[2])] for name in query["tickers"].split(",")]
        else:
            low, high = int(query["min_close_ts"]), int(query["max_close_ts"])
            chosen = [market for market in self.markets if low < market.closes.timestamp() < high]
        page, cursor = _page(chosen, query, "cursor")
        return {"markets": [self._kalshi_market(market) for market in page], "cursor": cursor}

    def _kalshi_market(self, market: Market) -> dict[str, Any]:
        if self.now >= market.settles:
            return market.kalshi
        open_still = {"status": "closed", "result": "", "settlement_value_dollars": None, "settlement_ts": None}
        return market.kalshi | open_still | {"updated_time": market.kalshi["close_time"]}

    # --- Polymarket --------------------------------------------------------------------------------------------------

    def _gamma(self, path: str, query: httpx.QueryParams) -> Any:
        closed = query.get("closed") == "true"
        if path == "/events/keyset":
            found = [{"id": name, "slug": f"event-{name}", "title": name, "closed": closed} for name in query.get_list("id") if closed]
            return {"events": found}
        chosen = [market for market in self.markets if (self.now >= market.closes) == closed]
        if ids := set(query.get_list("id")):
            chosen = [market for market in chosen if str(market.number) in ids]
        elif query.get("order") == "closedTime":
            chosen = sorted(chosen, key=lambda market: market.closes, reverse=True)
        elif "end_date_min" in query:
            low, high = (datetime.fromisoformat(query[name]) for name in ("end_date_min", "end_date_max"))
            chosen = [market for market in chosen if market.scheduled is not None and low <= market.scheduled <= high]
        page, cursor = _page(chosen, query, "after_cursor")
        return {"markets": [market.gamma(self.now) for market in page], **({"next_cursor": cursor} if cursor else {})}

    def _clob(self, path: str, query: httpx.QueryParams) -> Any:
        if path == "/prices-history":
            return {"history": [{"t": at, "p": 0.25} for at in range(int(query["startTs"]), int(query["endTs"]), HOUR)]}
        market = self.markets[int(path.rsplit("/", 1)[-1], 16)]
        settled = self.now >= market.settles
        tokens = [
            {"token_id": token, "outcome": name, "price": 0.5, "winner": settled and name == "Yes"}
            for token, name in zip(market.tokens(), ("Yes", "No"), strict=True)
        ]
        return {"condition_id": market.condition, "closed": True, "accepting_orders": False, "is_50_50_outcome": False, "tokens": tokens}


def _page(items: list[Market], query: httpx.QueryParams, cursor: str) -> tuple[list[Market], str]:
    start, size = int(query.get(cursor) or 0), int(query["limit"])
    return items[start : start + size], str(start + size) if start + size < len(items) else ""


class VenueClient:
    """Handler of HTTP requests that passes them to a `VenueServer` in another process, so that only the caller's time and memory are measured. now:
    the server's clock. calls: requests so far by host.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.calls: Counter[str] = Counter()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls[request.url.host.split(".")[0]] += 1
        self._connection.send((self.now, str(request.url)))
        headers, content = self._connection.recv()
        return httpx.Response(200, content=content, headers=headers)


@contextmanager
def serve_apart(first: date, days: int, per_day: int) -> Iterator[VenueClient]:
    """Start a `VenueServer` in a process of its own, and yield a client. per_day: closing markets a day on each venue."""
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_serve, args=(theirs, first, days, per_day), daemon=True)
    process.start()
    theirs.close()
    try:
        yield VenueClient(ours)
    finally:
        ours.close()
        process.join()


def _serve(connection: Connection, first: date, days: int, per_day: int) -> None:
    """Answer the requests of a `VenueClient` until the connection is closed."""
    venue = VenueServer(first, days, per_day)
    while True:
        try:
            venue.now, url = connection.recv()
        except EOFError:
            return
        response = venue(httpx.Request("GET", url))
        connection.send(({"Date": response.headers["Date"]}, response.content))
