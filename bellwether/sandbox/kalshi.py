"""Kalshi's REST routes for series, events, markets and candles, over a world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.params import (
    EVENT_STATUSES,
    PERIODS,
    STATUSES,
    Params,
    TimeFilter,
    VenueRefusal,
    bad_request,
    build_cursor,
    not_found,
)
from bellwether.sandbox.source import Candle, EventRow, Key, ListingFilter, MarketRow, Source
from bellwether.sandbox.timestamps import format_time, to_instant

MOST_TICKERS = 100
MOST_CANDLES = 10_000

Body = dict[str, Any]
#: Takes the query, the path's parameters and the instant `now`; returns the body of the response, or raises `VenueRefusal`.
Handler = Callable[[Params, dict[str, str], int], Body]


class KeyedRow(Protocol):
    """Row of a listing."""

    @property
    def key(self) -> Key:
        """Sort key of the row; listings are in ascending order."""


Row = TypeVar("Row", bound=KeyedRow)


def build_json_routes(handlers: Mapping[str, Handler], clock: Clock) -> list[Route]:
    """Build one GET route per path, which returns the result of the path's handler as JSON."""
    return [Route(path, _endpoint(handler, clock), methods=["GET"]) for path, handler in handlers.items()]


def _endpoint(handler: Handler, clock: Clock) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        try:
            body: Body = handler(Params(request.query_params), request.path_params, to_instant(clock.now()))
        except VenueRefusal as refusal:
            return refusal.response()
        return Response(orjson.dumps(body), media_type="application/json")

    return endpoint


class Kalshi:
    """Handlers of series, events, markets and candles. Archived markets are only in the routes `/historical/…`."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        handlers: dict[str, Handler] = {
            "/exchange/status": self.exchange_status,
            "/events": self.events,
            "/markets": self.markets,
            "/markets/candlesticks": self.batch_candlesticks,
            "/markets/{ticker}": self.market,
            "/series": self.series,
            "/series/{series_ticker}/markets/{ticker}/candlesticks": self.candlesticks,
            "/historical/cutoff": self.cutoff,
            "/historical/markets": self.historical_markets,
            "/historical/markets/{ticker}/candlesticks": self.historical_candlesticks,
        }
        return build_json_routes(handlers, self._clock)

    def exchange_status(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /exchange/status; the exchange is always open."""
        return {
            "exchange_active": True,
            "exchange_estimated_resume_time": None,
            "intra_exchange_transfers_active": True,
            "trading_active": True,
        }

    def cutoff(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /historical/cutoff: the instant before which settled markets are archived."""
        cutoff = format_time(self._source.cutoff(now))
        names = ("market_positions_last_updated_ts", "market_settled_ts", "orders_updated_ts", "trades_created_ts")
        return dict.fromkeys(names, cutoff)

    def series(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /series: all series in one response."""
        return {"series": list(self._source.series())}

    def events(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /events, without multivariate events and without archived markets."""
        nested, limit = params.flag("with_nested_markets"), params.integer("limit", 1, 200) or 200
        status, series, closes = params.choice("status", *EVENT_STATUSES), params.text("series_ticker"), TimeFilter.of(params)
        wanted = ListingFilter(after=params.cursor("cursor"), tickers=params.tickers(), series_ticker=series, closes=(closes.low, None))

        def matches(event: EventRow) -> bool:
            if event.is_combo or (series and event.series_ticker != series):
                return False
            if status is None and closes.low is None:
                return True
            markets = event.markets()
            by_status = status is None or any(market.status in STATUSES[status] for market in markets)
            return by_status and (closes.low is None or any(closes.matches(market.closes) for market in markets))

        rows, cursor = take_page((row for row in self._source.events(wanted, now) if matches(row)), limit)
        return {"cursor": cursor, "events": [self._event_body(row, bool(nested), now) for row in rows]}

    def _event_body(self, row: EventRow, nested: bool, now: int) -> Body:
        body = row.body()
        return {**body, "markets": [orjson.Fragment(market.body()) for market in self._live(row.markets(), now)]} if nested else body

    def _live(self, markets: Iterable[MarketRow], now: int) -> Iterator[MarketRow]:
        cutoff = self._source.cutoff(now)
        return (market for market in markets if market.settled is None or market.settled >= cutoff)

    def markets(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /markets: live markets."""
        status, combos = params.choice("status", *STATUSES), params.choice("mve_filter", "only", "exclude")
        event, series = params.text("event_ticker"), params.text("series_ticker")
        closes = TimeFilter.of(params)

        def matches(row: MarketRow) -> bool:
            return (
                (status is None or row.status in STATUSES[status])
                and (combos is None or row.is_combo == (combos == "only"))
                and (event is None or row.event_ticker == event)
                and (series is None or row.series_ticker == series)
                and closes.matches(row.closes)
            )

        wanted = ListingFilter(
            after=params.cursor("cursor"),
            tickers=params.tickers(),
            event_ticker=event,
            series_ticker=series,
            closes=(closes.low, closes.high),
            settled_after=self._source.cutoff(now),
        )
        return _market_page(filter(matches, self._live(self._source.markets(wanted, now), now)), params)

    def market(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /markets/{ticker}: one live market."""
        row = next(self._live(self._source.markets(ListingFilter(tickers=(path["ticker"],)), now), now), None)
        if row is None:
            raise not_found("market not found")
        return {"market": orjson.Fragment(row.body())}

    def historical_markets(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /historical/markets: archived markets."""
        event, series = params.text("event_ticker"), params.text("series_ticker")
        plain, cutoff = params.choice("mve_filter", "exclude"), self._source.cutoff(now)
        wanted = ListingFilter(params.cursor("cursor"), params.tickers(), event, series, settled_before=cutoff)
        rows = (
            row
            for row in self._source.markets(wanted, now)
            if row.settled is not None
            and row.settled < cutoff
            and not (plain and row.is_combo)
            and (event is None or row.event_ticker == event)
            and (series is None or row.series_ticker == series)
        )
        return _market_page(rows, params)

    def _live_candles(self, ticker: str, span: tuple[int, int, int], now: int, series: str | None = None) -> list[Candle] | None:
        """Return the candles of a live market; None if it is unknown, archived, or not in `series`."""
        row = next(self._source.markets(ListingFilter(tickers=(ticker,)), now), None)
        if row is not None and (next(self._live((row,), now), None) is None or (series is not None and row.series_ticker != series)):
            return None
        return self._source.candles(ticker, *span, now)

    def candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /series/{series_ticker}/markets/{ticker}/candlesticks: candles of one live market."""
        candles = self._live_candles(path["ticker"], _read_span(params), now, path["series_ticker"])
        if candles is None:
            raise not_found("market not found")
        return {"candlesticks": candles, "ticker": path["ticker"]}

    def batch_candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /markets/candlesticks: candles of several live markets; tickers of unknown or archived markets are left out."""
        tickers, span = params.tickers("market_tickers") or (), _read_span(params)
        if not 1 <= len(tickers) <= MOST_TICKERS:
            raise bad_request(f"{len(tickers)} market_tickers: between 1 and {MOST_TICKERS}")
        by_ticker = {ticker: self._live_candles(ticker, span, now) for ticker in dict.fromkeys(tickers)}
        candles = {ticker: rows for ticker, rows in by_ticker.items() if rows is not None}
        if sum(map(len, candles.values())) > MOST_CANDLES:
            raise bad_request(f"too many candlesticks: more than {MOST_CANDLES}")
        return {"markets": [{"candlesticks": rows, "market_ticker": ticker} for ticker, rows in candles.items()]}

    def historical_candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /historical/markets/{ticker}/candlesticks: candles of one archived market."""
        span, ticker = _read_span(params), path["ticker"]
        row = next(self._source.markets(ListingFilter(tickers=(ticker,)), now), None)
        if row is None or row.settled is None or row.settled >= self._source.cutoff(now):
            raise not_found("market not found")
        candles = self._source.candles(ticker, *span, now) or []
        return {"candlesticks": [_historical_candle(candle) for candle in candles], "ticker": ticker}


def _read_span(params: Params) -> tuple[int, int, int]:
    """Parse period (minutes), start and end (inclusive instants) of a request for candles."""
    period, start, end = params.integer("period_interval"), params.seconds("start_ts"), params.seconds("end_ts")
    if period not in PERIODS or start is None or end is None or start > end:
        raise bad_request("period_interval must be 1, 60 or 1440, and start_ts not after end_ts")
    return period, start, end


def take_page(rows: Iterator[Row], limit: int) -> tuple[list[Row], str]:
    """Return the next `limit` rows and the cursor of the following page, which is "" if no rows remain."""
    page = list(islice(rows, limit))
    more = next(rows, None) is not None
    return page, build_cursor(page[-1].key) if more else ""


def _market_page(rows: Iterator[MarketRow], params: Params) -> Body:
    page, cursor = take_page(rows, params.integer("limit", 0, 1000) or 100)
    return {"cursor": cursor, "markets": [orjson.Fragment(row.body()) for row in page]}


def _historical_candle(candle: Candle) -> Candle:
    """Convert a candle to the format of the archive's routes: field names have no suffixes, and missing prices are null."""
    price = candle["price"]
    names = ("open", "low", "high", "close", "mean", "previous")
    sides = {side: {name.removesuffix("_dollars"): value for name, value in candle[side].items()} for side in ("yes_ask", "yes_bid")}
    return {
        "end_period_ts": candle["end_period_ts"],
        "open_interest": candle["open_interest_fp"],
        "price": {name: price.get(f"{name}_dollars") for name in names},
        "volume": candle["volume_fp"],
        **sides,
    }
