"""The routes that are used, with the venue's rules on which parameters go together; a forbidden call is refused before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from bellwether.errors import ConfigError
from bellwether.venues.http.page import Call, Params, comma_list, given, segment
from bellwether.venues.http.paging import Listing

EVENT_STATUSES = ("unopened", "open", "closed", "settled")
MARKET_STATUSES = ("unopened", "open", "paused", "closed", "settled")
#: Status filters that each kind of time window goes together with; None stands for no status.
WINDOW_STATUSES: dict[str, tuple[str | None, ...]] = {
    "created": (None, "unopened", "open"),
    "updated": (None,),
    "close": (None, "closed"),
    "settled": (None, "settled"),
}
PERIODS = (1, 60, 1440)
MOST_TICKERS = 100
MOST_CANDLES = 10_000
MOST_LEVELS = 100
#: What may stand in a path where the ticker of a market would.
LISTS_OF_MARKETS = frozenset({"candlesticks", "orderbooks", "trades"})
MOST_TRADES = 1000

Mve = Literal["only", "exclude"]


@dataclass(frozen=True, slots=True)
class Window:
    """A span of one kind of time of a market (created, updated, close or settled), in whole seconds; aware times, either end may be open.

    The venue's documentation does not say whether the ends belong to it: ask a second wider and filter.
    """

    kind: Literal["created", "updated", "close", "settled"]
    after: datetime | None = None
    before: datetime | None = None

    @property
    def params(self) -> Params:
        """min_…_ts and max_…_ts."""
        ends = (("min", self.after), ("max", self.before))
        return tuple((f"{end}_{self.kind}_ts", str(int(at.timestamp()))) for end, at in ends if at is not None)


def events(
    *,
    status: str | None = None,
    tickers: Sequence[str] = (),
    series_ticker: str | None = None,
    closing_after: datetime | None = None,
    nested: bool = True,
    limit: int = 200,
) -> Listing:
    """GET /events, with nested markets unless told otherwise; combos are never among them.

    status: unopened, open, closed or settled; matches an event when any of its markets does. closing_after: aware; events with a market that
    closes after it. Raises `ConfigError` for a status that is no filter word.
    """
    _check_word("status", status, EVENT_STATUSES)
    chosen = {
        "status": status,
        "tickers": comma_list(tickers),
        "series_ticker": series_ticker,
        "min_close_ts": str(int(closing_after.timestamp())) if closing_after else None,
        "with_nested_markets": "true" if nested else None,
        "limit": str(limit),
    }
    return Listing("/events", given(chosen), "events", "event_ticker")


def markets(
    *,
    status: str | None = None,
    window: Window | None = None,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    series_ticker: str | None = None,
    mve_filter: Mve | None = "exclude",
    limit: int = 1000,
) -> Listing:
    """GET /markets, without combos unless told otherwise.

    status: unopened, open, paused, closed or settled; these filter words are not the words that answers carry. Raises `ConfigError` for what
    the venue forbids: another status word, a window of times together with a status it does not go with, or a window of update times
    together with anything but `series_ticker` and mve_filter=exclude.
    """
    _check_word("status", status, MARKET_STATUSES)
    if window is not None and status not in WINDOW_STATUSES[window.kind]:
        allowed = " or ".join(word or "no status" for word in WINDOW_STATUSES[window.kind])
        raise ConfigError(f"asking for markets: a window of {window.kind} times goes with {allowed}, not with status={status}")
    if window is not None and window.kind == "updated" and (tickers or event_ticker or mve_filter != "exclude"):
        raise ConfigError(
            "asking for markets: a window of update times goes with series_ticker and mve_filter=exclude only; leave the rest out"
        )
    chosen = {
        "status": status,
        **dict(window.params if window else ()),
        "tickers": comma_list(tickers),
        "event_ticker": event_ticker,
        "series_ticker": series_ticker,
        "mve_filter": mve_filter,
        "limit": str(limit),
    }
    return Listing("/markets", given(chosen), "markets", "ticker")


def historical_markets(
    *,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    series_ticker: str | None = None,
    mve_filter: Literal["exclude"] | None = "exclude",
    limit: int = 1000,
) -> Listing:
    """GET /historical/markets: what settled before the cutoff. Raises `ConfigError` for two filters at once, which the venue forbids."""
    if sum(map(bool, (tickers, event_ticker, series_ticker))) > 1:
        raise ConfigError("asking for archived markets: tickers, event_ticker and series_ticker exclude each other; give one")
    chosen = {
        "tickers": comma_list(tickers),
        "event_ticker": event_ticker,
        "series_ticker": series_ticker,
        "mve_filter": mve_filter,
        "limit": str(limit),
    }
    return Listing("/historical/markets", given(chosen), "markets", "ticker")


def series(*, category: str | None = None, tags: Sequence[str] = ()) -> Listing:
    """GET /series: all in one answer, without a cursor."""
    return Listing("/series", given({"category": category, "tags": comma_list(tags)}), "series", "ticker")


def historical_cutoff() -> Call:
    """GET /historical/cutoff: what settled before it is only in the archive."""
    return Call("/historical/cutoff")


def market(ticker: str) -> Call:
    """GET /markets/{ticker}."""
    return Call(f"/markets/{segment(ticker)}")


def candles(series_ticker: str, ticker: str, start: datetime, end: datetime, *, period_minutes: int = 60) -> Call:
    """GET /series/…/markets/…/candlesticks: the candles of one live market that end within [start, end]."""
    return Call(f"/series/{segment(series_ticker)}/markets/{segment(ticker)}/candlesticks", _span(start, end, period_minutes))


def candles_batch(tickers: Sequence[str], start: datetime, end: datetime, *, period_minutes: int = 60) -> Call:
    """GET /markets/candlesticks for up to 100 live markets; the venue returns 10,000 candles at most. Raises `ConfigError` beyond that."""
    most = len(tickers) * (int((end - start).total_seconds()) // (60 * period_minutes) + 1)
    if not 1 <= len(tickers) <= MOST_TICKERS or most > MOST_CANDLES:
        raise ConfigError(
            f"asking for candles: {len(tickers)} markets with up to {most} candles at once; ask for 1 to {MOST_TICKERS} and {MOST_CANDLES} at most"
        )
    return Call("/markets/candlesticks", (("market_tickers", comma_list(tickers)), *_span(start, end, period_minutes)))


def historical_candles(ticker: str, start: datetime, end: datetime, *, period_minutes: int = 60) -> Call:
    """GET /historical/markets/…/candlesticks: the candles of one archived market that end within [start, end]."""
    return Call(f"/historical/markets/{segment(ticker)}/candlesticks", _span(start, end, period_minutes))


def orderbook(ticker: str, *, depth: int = 0) -> Call:
    """GET /markets/{ticker}/orderbook: the bids of both sides, the best `depth` price levels (1 to 100) of each, or all when 0.

    Raises `ConfigError` for another depth.
    """
    if not 0 <= depth <= MOST_LEVELS:
        raise ConfigError(f"asking for an order book: a depth of {depth} levels; ask for 1 to {MOST_LEVELS}, or 0 for all")
    return Call(f"/markets/{segment(ticker)}/orderbook", given({"depth": str(depth) if depth else None}))


def orderbooks(tickers: Sequence[str]) -> Call:
    """GET /markets/orderbooks: all levels of up to 100 markets at once. Raises `ConfigError` for none or more."""
    if not 1 <= len(tickers) <= MOST_TICKERS:
        raise ConfigError(f"asking for order books: {len(tickers)} markets at once; ask for 1 to {MOST_TICKERS}")
    return Call("/markets/orderbooks", tuple(("tickers", ticker) for ticker in tickers))


def trades(
    *,
    ticker: str | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    is_block_trade: bool | None = None,
    limit: int = MOST_TRADES,
) -> Listing:
    """GET /markets/trades, newest first: of one market or of all, between two aware times, cut to whole seconds.

    The venue's documentation does not say whether the ends belong to the span: ask a second wider and filter. Block trades are among them
    unless `is_block_trade` says only (True) or none (False). Raises `ConfigError` for a limit that is not 1 to 1000.
    """
    if not 1 <= limit <= MOST_TRADES:
        raise ConfigError(f"asking for trades: {limit} on a page; ask for 1 to {MOST_TRADES}")
    chosen = {
        "ticker": ticker,
        "min_ts": str(int(after.timestamp())) if after else None,
        "max_ts": str(int(before.timestamp())) if before else None,
        "is_block_trade": None if is_block_trade is None else str(is_block_trade).lower(),
        "limit": str(limit),
    }
    return Listing("/markets/trades", given(chosen), "trades", "trade_id")


def historical_trades(
    *,
    ticker: str | None = None,
    after: datetime | None = None,
    before: datetime | None = None,
    is_block_trade: bool | None = None,
    limit: int = MOST_TRADES,
) -> Listing:
    """GET /historical/trades: what was traded before the cutoff, otherwise as `trades`."""
    live = trades(ticker=ticker, after=after, before=before, is_block_trade=is_block_trade, limit=limit)
    return replace(live, path="/historical/trades")


def asked_tickers(request: str) -> frozenset[str]:
    """The tickers that a call, as text, asked for: those of its list parameter, or the one in its path."""
    parts = urlsplit(request.removeprefix("GET "))
    query = parse_qs(parts.query)
    listed = query.get("tickers", []) + query.get("market_tickers", []) + query.get("ticker", [])
    if listed:
        return frozenset(ticker for tickers in listed for ticker in tickers.split(","))
    segments = parts.path.split("/")
    return frozenset(unquote(after) for before, after in pairwise(segments) if before == "markets" and after not in LISTS_OF_MARKETS)


def _span(start: datetime, end: datetime, period_minutes: int) -> Params:
    if period_minutes not in PERIODS:
        raise ConfigError(f"asking for candles: a period of {period_minutes} minutes is none of {', '.join(map(str, PERIODS))}")
    return (("start_ts", str(int(start.timestamp()))), ("end_ts", str(int(end.timestamp()))), ("period_interval", str(period_minutes)))


def _check_word(name: str, word: str | None, words: Sequence[str]) -> None:
    if word is not None and word not in words:
        hint = "; answers say finalized, the filter is called settled" if word == "finalized" else ""
        raise ConfigError(f"asking for {name}={word!r}: the venue knows {', '.join(words)}{hint}")
