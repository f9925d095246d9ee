"""Kalshi's REST routes over a world: parameters, status words, paging and the live/historical split of the trade API v2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.instants import MINUTE, SECOND, instant, wire_time
from bellwether.sandbox.params import (
    EVENT_STATUSES,
    STATUSES,
    MarketFilter,
    Params,
    Refusal,
    Window,
    bad_request,
    cursor_after,
    not_found,
)
from bellwether.sandbox.source import Candle, EventRow, Key, MarketRow, SeriesRow, Source, Wanted

MOST_TICKERS = 100
MOST_CANDLES = 10_000
#: With this parameter an answer takes seconds: it must not hold up the others.
_READS_ALL = "include_volume"

Body = dict[str, Any]
#: Takes the parameters, the path's values and the present instant, and returns the body of its answer or raises `Refusal`.
Handler = Callable[[Params, dict[str, str], int], Body]


class Keyed(Protocol):
    """A row with its place in a listing."""

    @property
    def key(self) -> Key:
        """Rows run in ascending order of it."""
        ...


Row = TypeVar("Row", bound=Keyed)


def json_routes(handlers: Mapping[str, Handler], clock: Clock) -> list[Route]:
    """Routes that answer GET with what the handler of their path returns, in the order of the handlers."""
    return [Route(path, _endpoint(handler, clock), methods=["GET"]) for path, handler in handlers.items()]


def _endpoint(handler: Handler, clock: Clock) -> Callable[[Request], Any]:
    def answer(request: Request) -> Response:
        try:
            body: Body = handler(Params(request.query_params), request.path_params, instant(clock.now()))
        except Refusal as refusal:
            return Response(orjson.dumps(refusal.body), status_code=refusal.status, media_type="application/json")
        return Response(orjson.dumps(body), media_type="application/json")

    async def endpoint(request: Request) -> Response:
        if _READS_ALL in request.query_params:
            return await run_in_threadpool(answer, request)
        return answer(request)

    return endpoint


@dataclass(frozen=True, slots=True)
class CandleQuery:
    """What a candle request asks for: start and end (instants, both included), and the period in minutes."""

    start: int
    end: int
    period: int
    with_latest_before: bool

    @classmethod
    def of(cls, params: Params) -> CandleQuery:
        """Read and check it. Raises `Refusal` where a value is missing or out of bounds."""
        start, end, period = params.needed_instant("start_ts"), params.needed_instant("end_ts"), params.period()
        if start > end:
            raise bad_request("start_ts is after end_ts")
        return cls(start, end, period, params.flag("include_latest_before_start"))


class Kalshi:
    """The handlers of markets, events, series and candles."""

    def __init__(self, source: Source, clock: Clock) -> None:
        self._source = source
        self._clock = clock

    def routes(self) -> list[Route]:
        """Routes relative to the base URL."""
        handlers: dict[str, Handler] = {
            "/exchange/status": self.exchange_status,
            "/events": self.events,
            "/events/{event_ticker}": self.event,
            "/markets": self.markets,
            "/markets/candlesticks": self.batch_candlesticks,
            "/markets/{ticker}": self.market,
            "/series": self.series_list,
            "/series/{series_ticker}": self.series,
            "/series/{series_ticker}/markets/{ticker}/candlesticks": self.candlesticks,
            "/historical/cutoff": self.cutoff,
            "/historical/markets": self.historical_markets,
            "/historical/markets/{ticker}": self.historical_market,
            "/historical/markets/{ticker}/candlesticks": self.historical_candlesticks,
        }
        return json_routes(handlers, self._clock)

    # --- exchange ----------------------------------------------------------------------------------------------

    def exchange_status(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /exchange/status."""
        return {
            "exchange_active": True,
            "exchange_estimated_resume_time": None,
            "intra_exchange_transfers_active": True,
            "trading_active": True,
        }

    def cutoff(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /historical/cutoff."""
        cutoff = wire_time(self._source.cutoff(now))
        names = ("market_positions_last_updated_ts", "market_settled_ts", "orders_updated_ts", "trades_created_ts")
        return dict.fromkeys(names, cutoff)

    # --- series ------------------------------------------------------------------------------------------------

    def series_list(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /series: all in one answer."""
        category, tags, updated = params.text("category"), params.tickers("tags"), Window(params.instant("min_updated_ts"), None)
        volume, metadata = params.flag("include_volume"), params.flag("include_product_metadata")
        rows = [
            row
            for row in self._source.series(now)
            if (category is None or category in row.categories)
            and (tags is None or set(tags) & set(row.tags))
            and updated.holds(row.updated)
        ]
        return {"series": [_series_body(row, volume, metadata) for row in rows]}

    def series(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /series/{series_ticker}."""
        for row in self._source.series(now):
            if row.ticker == path["series_ticker"]:
                return {"series": _series_body(row, params.flag("include_volume"), True)}
        raise not_found("series not found")

    # --- events ------------------------------------------------------------------------------------------------

    def events(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /events: multivariate events excluded; every event stays, archived markets leave its nested list."""
        nested, milestones = params.flag("with_nested_markets"), params.flag("with_milestones")
        status, tickers = params.word("status", EVENT_STATUSES), params.tickers()
        closes, updated = Window(params.instant("min_close_ts"), None), Window(params.instant("min_updated_ts"), None)
        series = params.text("series_ticker")
        wanted = Wanted(after=params.cursor(), tickers=tickers, series_ticker=series, closes=(closes.low, None))

        def matches(event: EventRow) -> bool:
            if event.is_combo or (series and event.series_ticker != series) or not updated.holds(event.updated):
                return False
            if status is None and not closes.asked:
                return True
            markets = event.markets()
            by_status = status is None or any(market.status in STATUSES[status] for market in markets)
            return by_status and (not closes.asked or any(closes.holds(market.closes) for market in markets))

        limit = params.limit(1, 200, 200)
        rows, cursor = page_of((row for row in self._source.events(wanted, now) if matches(row)), limit)
        body: Body = {"cursor": cursor, "events": [self._event_body(row, nested, now) for row in rows]}
        return {**body, "milestones": []} if milestones else body

    def event(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /events/{event_ticker}: its live markets beside it or, when asked, nested in it."""
        nested, excluded = params.flag("with_nested_markets"), params.flag("exclude_markets")
        row = next(self._source.events(Wanted(tickers=(path["event_ticker"],)), now), None)
        if row is None:
            raise not_found("event not found")
        beside = [] if nested or excluded else [orjson.Fragment(market.body()) for market in self._live(row.markets(), now)]
        return {"event": self._event_body(row, nested, now), "markets": beside}

    def _event_body(self, row: EventRow, nested: bool, now: int) -> Body:
        body = row.body()
        return {**body, "markets": [orjson.Fragment(market.body()) for market in self._live(row.markets(), now)]} if nested else body

    def _live(self, markets: Iterable[MarketRow], now: int) -> Iterator[MarketRow]:
        cutoff = self._source.cutoff(now)
        return (market for market in markets if market.settled is None or market.settled >= cutoff)

    # --- markets -----------------------------------------------------------------------------------------------

    def markets(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /markets: what has not been archived."""
        asked = MarketFilter.of(params)
        limit, cutoff = params.limit(0, 1000, 100), self._source.cutoff(now)
        wanted = Wanted(
            after=params.cursor(),
            tickers=asked.tickers,
            event_ticker=asked.event_ticker,
            series_ticker=asked.series_ticker,
            closes=(asked.closes.low, asked.closes.high),
            settled_after=cutoff,
        )
        rows = (row for row in self._live(self._source.markets(wanted, now), now) if _matches(row, asked))
        return _market_page(rows, limit)

    def market(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /markets/{ticker}."""
        row = next(self._live(self._source.markets(Wanted(tickers=(path["ticker"],)), now), now), None)
        if row is None:
            raise not_found("market not found")
        return {"market": orjson.Fragment(row.body())}

    def historical_markets(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /historical/markets: what has been archived."""
        tickers, event, series = params.tickers(), params.text("event_ticker"), params.text("series_ticker")
        plain = params.word("mve_filter", ("exclude",)) == "exclude"
        limit, cutoff = params.limit(0, 1000, 100), self._source.cutoff(now)
        wanted = Wanted(after=params.cursor(), tickers=tickers, event_ticker=event, series_ticker=series, settled_before=cutoff)
        rows = (
            row
            for row in self._source.markets(wanted, now)
            if row.settled is not None
            and row.settled < cutoff
            and not (plain and row.is_combo)
            and (event is None or row.event_ticker == event)
            and (series is None or row.series_ticker == series)
        )
        return _market_page(rows, limit)

    def _archived(self, ticker: str, now: int) -> MarketRow:
        row = next(self._source.markets(Wanted(tickers=(ticker,)), now), None)
        if row is None or row.settled is None or row.settled >= self._source.cutoff(now):
            raise not_found("market not found")
        return row

    def historical_market(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /historical/markets/{ticker}."""
        return {"market": orjson.Fragment(self._archived(path["ticker"], now).body())}

    # --- candlesticks ------------------------------------------------------------------------------------------

    def _live_candles(self, ticker: str, asked: CandleQuery, now: int, series: str | None = None) -> list[Candle] | None:
        """Candles of a market that is not archived; None when there is none of this ticker (in this series)."""
        row = next(self._source.markets(Wanted(tickers=(ticker,)), now), None)
        if row is not None and (next(self._live((row,), now), None) is None or (series is not None and row.series_ticker != series)):
            return None
        found = self._source.candles(ticker, asked.period, asked.start, asked.end, now)
        if found is None or not asked.with_latest_before:
            return found
        before = self._source.candles(ticker, asked.period, 0, asked.start - SECOND, now)
        return [_carried(before[-1], asked), *found] if before else found

    def candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /series/{series_ticker}/markets/{ticker}/candlesticks."""
        found = self._live_candles(path["ticker"], CandleQuery.of(params), now, path["series_ticker"])
        if found is None:
            raise not_found("market not found")
        return {"candlesticks": found, "ticker": path["ticker"]}

    def batch_candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /markets/candlesticks: unknown and archived tickers are left out."""
        tickers = params.tickers("market_tickers")
        if not tickers:
            raise bad_request("missing market_tickers")
        if len(tickers) > MOST_TICKERS:
            raise bad_request(f"too many market_tickers: {len(tickers)}, at most {MOST_TICKERS}")
        asked = CandleQuery.of(params)
        markets, total = [], 0
        for ticker in dict.fromkeys(tickers):
            found = self._live_candles(ticker, asked, now)
            if found is not None:
                markets.append({"candlesticks": found, "market_ticker": ticker})
                total += len(found)
            if total > MOST_CANDLES:
                raise bad_request(f"too many candlesticks: more than {MOST_CANDLES}; ask for fewer markets or a shorter time")
        return {"markets": markets}

    def historical_candlesticks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """GET /historical/markets/{ticker}/candlesticks: fields without their suffixes."""
        asked = CandleQuery.of(params)
        self._archived(path["ticker"], now)
        found = self._source.candles(path["ticker"], asked.period, asked.start, asked.end, now) or []
        return {"candlesticks": [_historical_candle(candle) for candle in found], "ticker": path["ticker"]}


def _matches(row: MarketRow, asked: MarketFilter) -> bool:
    return (
        (asked.status is None or row.status in STATUSES[asked.status])
        and (asked.combos is None or row.is_combo == (asked.combos == "only"))
        and (asked.event_ticker is None or row.event_ticker == asked.event_ticker)
        and (asked.series_ticker is None or row.series_ticker == asked.series_ticker)
        and asked.created.holds(row.created)
        and asked.updated.holds(row.updated)
        and asked.closes.holds(row.closes)
        and asked.settled.holds(row.settled)
    )


def page_of(rows: Iterator[Row], limit: int) -> tuple[list[Row], str]:
    """The next rows and the cursor behind them; "" when there are no more."""
    page = list(islice(rows, limit))
    more = next(rows, None) is not None
    return page, cursor_after(page[-1].key) if more else ""


def _market_page(rows: Iterator[MarketRow], limit: int) -> Body:
    page, cursor = page_of(rows, limit)
    return {"cursor": cursor, "markets": [orjson.Fragment(row.body()) for row in page]}


def _series_body(row: SeriesRow, volume: bool, metadata: bool) -> Body:
    body = dict(row.body())
    if not metadata:
        body.pop("product_metadata", None)
    traded = row.volume() if volume else None
    return body if traded is None else {**body, "volume_fp": f"{traded // 100}.{traded % 100:02d}"}


def _carried(candle: Candle, asked: CandleQuery) -> Candle:
    """The synthetic candle that carries the state before the start to the first period boundary after it: quotes stand, nothing trades."""
    length = asked.period * MINUTE
    bars = ("open_dollars", "low_dollars", "high_dollars", "close_dollars")
    price = candle["price"]
    previous = price.get("close_dollars") or price.get("previous_dollars")
    return {
        **candle,
        "end_period_ts": (asked.start // length + 1) * length // SECOND,
        "price": {**dict.fromkeys(bars), "mean_dollars": None, "previous_dollars": previous},
        **{name: zero for name, zero in (("volume", 0), ("volume_fp", "0.00")) if name in candle},
        **{side: dict.fromkeys(bars, candle[side].get("close_dollars")) for side in ("yes_ask", "yes_bid")},
    }


def _historical_candle(candle: Candle) -> Candle:
    """The candle in the form of the historical endpoint: names without suffixes, every member there."""
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
