"""Kalshi's REST routes for series, events, markets, candles, order books and trades, over the generated world."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

import orjson
from starlette.routing import Route

from bellwether.sandbox.params import Handler, Params, VenueRefusal, build_cursor, build_routes, take_page
from bellwether.sandbox.timestamps import DAY, SECOND, Clock
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.candles import Candle, build_candles
from bellwether.sandbox.world.catalogue import load_catalogue
from bellwether.sandbox.world.events import LATEST_SETTLEMENT, LONGEST_LIFE
from bellwether.sandbox.world.model import Market, WorldEvent, to_day_number
from bellwether.sandbox.world.wire import build_book, build_cutoff, build_historical_candle, build_series, build_status, build_trades

#: Days for which settled markets stay in the live endpoints.
LIVE_DAYS = 90

MOST_TICKERS = 100
MOST_CANDLES = 10_000
PERIODS = (1, 60, 1440)

#: Status in a filter of events -> statuses of markets in responses.
STATUSES: dict[str, frozenset[str]] = {
    "unopened": frozenset({"initialized"}),
    "open": frozenset({"active"}),
    "closed": frozenset({"closed", "determined", "disputed"}),
    "settled": frozenset({"finalized"}),
}

_KEY = attrgetter("key")


def _error(status: int, code: str, details: str) -> VenueRefusal:
    """Build an error response of Kalshi."""
    return VenueRefusal(status, {"error": {"code": code, "message": code.replace("_", " "), "details": details}})


def _bad_request(details: str) -> VenueRefusal:
    return _error(400, "bad_request", details)


def _not_found() -> VenueRefusal:
    return _error(404, "not_found", "market not found")


def _is_within(at: int, low: int | None, high: int | None) -> bool:
    """Return True if an instant is strictly between two bounds; None is no bound."""
    return (low is None or at > low) and (high is None or at < high)


class Kalshi:
    """Handlers of the routes. Archived markets, which settled before the cutoff, are only in the routes `/historical/…`."""

    def __init__(self, world: GeneratedWorld, clock: Clock) -> None:
        self._world = world
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        handlers: dict[str, Handler] = {
            "/exchange/status": lambda params, path, now: build_status(),
            "/events": self.events,
            "/markets": self.markets,
            "/markets/candlesticks": self.candlesticks,
            "/markets/orderbooks": self.orderbooks,
            "/markets/trades": self.trades,
            "/series": lambda params, path, now: {"series": [build_series(series) for series in load_catalogue().values()]},
            "/historical/cutoff": lambda params, path, now: build_cutoff(self._cutoff(now)),
            "/historical/markets": self.historical_markets,
            "/historical/markets/{ticker}/candlesticks": self.historical_candlesticks,
        }
        return build_routes(handlers, self._clock, lambda name: _bad_request(f"invalid {name}"))

    def _cutoff(self, now: int) -> int:
        return now // DAY * DAY - LIVE_DAYS * DAY

    def _is_archived(self, market: Market, now: int) -> bool:
        settled = market.life.settlement(now)
        return settled is not None and settled < self._cutoff(now)

    def _live_market(self, ticker: str, now: int) -> Market | None:
        """Return a market that is listed and not archived at `now`; None for others."""
        market = self._world.market(ticker)
        return None if market is None or market.life.created > now or self._is_archived(market, now) else market

    def _days(self, low: int | None, high: int | None, now: int) -> range:
        """Return the days on which markets close that are live and state a close between two instants."""
        first, last = to_day_number(self._cutoff(now)) - LATEST_SETTLEMENT, to_day_number(now) + LONGEST_LIFE + 1
        if low is not None:
            # Open markets may close earlier than they announce, so every day from today on may have a match.
            first = max(first, min(to_day_number(low), to_day_number(now)))
        if high is not None and high < now:
            last = to_day_number(high)
        return range(first, last + 1)

    def _body(self, markets: Iterable[Market], now: int) -> list[orjson.Fragment]:
        return [orjson.Fragment(self._world.body(market, now)) for market in markets]

    def events(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /events; their archived markets are left out."""
        nested, limit, after = params.flag("with_nested_markets"), params.integer("limit", 1, 200) or 200, params.cursor("cursor")
        status, low, tickers = params.choice("status", *STATUSES), params.seconds("min_close_ts"), params.tickers()

        def matches(event: WorldEvent) -> bool:
            lives = {market.life for market in event.markets}
            return (
                (status is None or any(life.status(now) in STATUSES[status] for life in lives))
                and any(_is_within(life.announced_close(now), low, None) for life in lives)
                and (after is None or event.key > after)
            )

        if tickers is not None:
            named = (self._world.event(ticker) for ticker in set(tickers))
            events: Iterator[WorldEvent] = iter(sorted((event for event in named if event and event.created <= now), key=_KEY))
        else:
            live = status in ("unopened", "open") or low is not None
            days = self._days(low if low is not None else now if live else None, None, now)
            events = self._world.listed(now, days if live else range(days.stop), after)
        rows, more = take_page(filter(matches, events), limit)
        bodies = [self._event_body(event, bool(nested), now) for event in rows]
        return {"cursor": build_cursor(rows[-1].key) if more else "", "events": bodies}

    def _event_body(self, event: WorldEvent, nested: bool, now: int) -> Any:
        if not nested:
            return event.body
        return {**event.body, "markets": self._body((market for market in event.markets if not self._is_archived(market, now)), now)}

    def _market_page(self, markets: Iterator[Market], params: Params, now: int) -> Any:
        after = params.cursor("cursor")
        following = (market for market in markets if after is None or market.key > after)
        page, more = take_page(following, params.integer("limit", 1, 1000) or 100)
        return {"cursor": build_cursor(page[-1].key) if more else "", "markets": self._body(page, now)}

    def _markets(self, params: Params, days: range, now: int) -> Iterator[Market]:
        """Yield the markets that the tickers or the event of the request name; without these, all that close on some days."""
        tickers, event_ticker = params.tickers(), params.text("event_ticker")
        if tickers is not None:
            named = [market for ticker in set(tickers) if (market := self._world.market(ticker)) and market.life.created <= now]
            return iter(sorted(named, key=_KEY))
        if event_ticker is not None:
            event = self._world.event(event_ticker)
            return iter(event.markets if event and event.created <= now else ())
        events = self._world.listed(now, days, params.cursor("cursor"))
        return (market for event in events for market in event.markets)

    def markets(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets: live markets."""
        low, high = params.seconds("min_close_ts"), params.seconds("max_close_ts")
        markets = (
            market
            for market in self._markets(params, self._days(low, high, now), now)
            if not self._is_archived(market, now) and _is_within(market.life.announced_close(now), low, high)
        )
        return self._market_page(markets, params, now)

    def historical_markets(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /historical/markets: archived markets."""
        days = range(to_day_number(self._cutoff(now)) + 1)
        archived = (market for market in self._markets(params, days, now) if self._is_archived(market, now))
        return self._market_page(archived, params, now)

    def candlesticks(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets/candlesticks: candles of several live markets; tickers of unknown or archived markets are left out."""
        tickers, span = params.tickers("market_tickers") or (), _read_span(params)
        if not 1 <= len(tickers) <= MOST_TICKERS:
            raise _bad_request(f"{len(tickers)} market_tickers: between 1 and {MOST_TICKERS}")
        live = {ticker: market for ticker in dict.fromkeys(tickers) if (market := self._live_market(ticker, now))}
        candles = {ticker: _candles(market, span, now) for ticker, market in live.items()}
        if sum(map(len, candles.values())) > MOST_CANDLES:
            raise _bad_request(f"too many candlesticks: more than {MOST_CANDLES}")
        return {"markets": [{"candlesticks": rows, "market_ticker": ticker} for ticker, rows in candles.items()]}

    def historical_candlesticks(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /historical/markets/{ticker}/candlesticks: candles of one archived market."""
        span, market = _read_span(params), self._world.market(path["ticker"])
        if market is None or not self._is_archived(market, now):
            raise _not_found()
        return {"candlesticks": [build_historical_candle(candle) for candle in _candles(market, span, now)], "ticker": market.ticker}

    def orderbooks(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets/orderbooks; unknown and archived tickers are left out."""
        tickers = params.get_all("tickers") or ()
        if not 1 <= len(tickers) <= MOST_TICKERS:
            raise _bad_request(f"{len(tickers)} tickers: between 1 and {MOST_TICKERS}")
        markets = (self._live_market(ticker, now) for ticker in dict.fromkeys(tickers))
        return {"orderbooks": [build_book(market, now) for market in markets if market is not None]}

    def trades(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets/trades of one market, newest first; trades before the cutoff are only in the archive. The bound min_ts is
        inclusive.
        """
        market = self._world.market(params.text("ticker") or "")
        low, after, limit = params.seconds("min_ts") or 0, params.cursor("cursor"), params.integer("limit", 1, 1000) or 100
        end = now if after is None else min(now, -after[0] - 1)
        trades = build_trades(market, max(low, self._cutoff(now)), end) if market else iter(())
        page, more = take_page(trades, limit)
        return {"cursor": build_cursor((-page[-1][0],)) if more else "", "trades": [body for _, body in page]}


def _read_span(params: Params) -> tuple[int, int, int]:
    """Parse period (minutes), start and end (inclusive instants) of a request for candles."""
    period, start, end = params.integer("period_interval"), params.seconds("start_ts"), params.seconds("end_ts")
    if period not in PERIODS or start is None or end is None or start > end:
        raise _bad_request("period_interval must be 1, 60 or 1440, and start_ts not after end_ts")
    return period, start, end


def _candles(market: Market, span: tuple[int, int, int], now: int) -> list[Candle]:
    period, start, end = span
    return build_candles(market.tape(), period, start, min(end, now // SECOND * SECOND))
