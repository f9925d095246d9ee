"""Kalshi routes in use, with the venue's bounds; a forbidden call is refused before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from bellwether.errors import ConfigError
from bellwether.venues.http.page import Params, VenueCall, drop_missing, join_tickers, quote_segment
from bellwether.venues.http.paging import Listing

#: Filter words for events; they are not the words that answers carry.
EVENT_STATUSES = ("unopened", "open", "closed", "settled")
PERIODS = (1, 60, 1440)
MOST_TICKERS = 100
MOST_CANDLES = 10_000
#: What may stand in a path where the ticker of a market would.
LISTS_OF_MARKETS = frozenset({"candlesticks", "orderbooks", "trades"})


def events(
    *,
    status: str | None = None,
    tickers: Sequence[str] = (),
    closing_after: datetime | None = None,
    nested: bool = True,
    limit: int = 200,
) -> Listing:
    """Build GET /events, with nested markets by default; combos are never included.

    status: one of `EVENT_STATUSES`; an event matches if any of its markets does. closing_after: aware; events with a market that closes
    after it. Raises `ConfigError` for another status.
    """
    if status is not None and status not in EVENT_STATUSES:
        hint = "; answers say finalized, the filter is called settled" if status == "finalized" else ""
        raise ConfigError(f"asking for status={status!r}: the venue knows {', '.join(EVENT_STATUSES)}{hint}")
    chosen = {
        "status": status,
        "tickers": join_tickers(tickers),
        "min_close_ts": _seconds(closing_after),
        "with_nested_markets": "true" if nested else None,
        "limit": str(limit),
    }
    return Listing("/events", drop_missing(chosen), "events", "event_ticker")


def markets(
    *,
    closing_after: datetime | None = None,
    closing_before: datetime | None = None,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    mve_filter: Literal["exclude"] | None = "exclude",
    limit: int = 1000,
) -> Listing:
    """Build GET /markets, without combos by default.

    closing_after, closing_before: aware close times, truncated to whole seconds. The venue's documentation does not state whether the
    bounds are included: request one second more on both sides and filter.
    """
    chosen = {
        "min_close_ts": _seconds(closing_after),
        "max_close_ts": _seconds(closing_before),
        "tickers": join_tickers(tickers),
        "event_ticker": event_ticker,
        "mve_filter": mve_filter,
        "limit": str(limit),
    }
    return Listing("/markets", drop_missing(chosen), "markets", "ticker")


def historical_markets(
    *,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    mve_filter: Literal["exclude"] | None = "exclude",
    limit: int = 1000,
) -> Listing:
    """Build GET /historical/markets: markets settled before the cutoff.

    Raises `ConfigError` for two filters at once, which the venue forbids.
    """
    if tickers and event_ticker:
        raise ConfigError("asking for archived markets: tickers and event_ticker exclude each other; give one")
    chosen = {"tickers": join_tickers(tickers), "event_ticker": event_ticker, "mve_filter": mve_filter, "limit": str(limit)}
    return Listing("/historical/markets", drop_missing(chosen), "markets", "ticker")


def series() -> Listing:
    """Build GET /series: all series in one response, without a cursor."""
    return Listing("/series", (), "series", "ticker")


def historical_cutoff() -> VenueCall:
    """Build GET /historical/cutoff: markets settled before the cutoff are only in the archive."""
    return VenueCall("/historical/cutoff")


def candles_batch(tickers: Sequence[str], start: datetime, end: datetime, *, period_minutes: int = 60) -> VenueCall:
    """Build GET /markets/candlesticks for up to 100 live markets and 10,000 candles. Raises `ConfigError` beyond either."""
    most = len(tickers) * (int((end - start).total_seconds()) // (60 * period_minutes) + 1)
    if not 1 <= len(tickers) <= MOST_TICKERS or most > MOST_CANDLES:
        raise ConfigError(
            f"asking for candles: {len(tickers)} markets with up to {most} candles at once; ask for 1 to {MOST_TICKERS} and {MOST_CANDLES} at most"
        )
    return VenueCall("/markets/candlesticks", (("market_tickers", join_tickers(tickers)), *_span(start, end, period_minutes)))


def historical_candles(ticker: str, start: datetime, end: datetime, *, period_minutes: int = 60) -> VenueCall:
    """Build GET /historical/markets/…/candlesticks: the candles of one archived market that end within [start, end]."""
    return VenueCall(f"/historical/markets/{quote_segment(ticker)}/candlesticks", _span(start, end, period_minutes))


def orderbooks(tickers: Sequence[str]) -> VenueCall:
    """Build GET /markets/orderbooks: all levels of 1 to 100 markets. Raises `ConfigError` for another number."""
    if not 1 <= len(tickers) <= MOST_TICKERS:
        raise ConfigError(f"asking for order books: {len(tickers)} markets at once; ask for 1 to {MOST_TICKERS}")
    return VenueCall("/markets/orderbooks", tuple(("tickers", ticker) for ticker in tickers))


def trades(*, ticker: str | None = None, after: datetime | None = None, limit: int = 1000) -> Listing:
    """Build GET /markets/trades, newest first: trades of one or all markets since an aware time in whole seconds, including block trades."""
    return Listing(
        "/markets/trades", drop_missing({"ticker": ticker, "min_ts": _seconds(after), "limit": str(limit)}), "trades", "trade_id"
    )


def parse_requested_tickers(request: str) -> frozenset[str]:
    """Parse the tickers of a call as text, from its list parameter or its path."""
    parts = urlsplit(request.removeprefix("GET "))
    query = parse_qs(parts.query)
    listed = query.get("tickers", []) + query.get("market_tickers", []) + query.get("ticker", [])
    if listed:
        return frozenset(ticker for tickers in listed for ticker in tickers.split(","))
    segments = parts.path.split("/")
    return frozenset(unquote(after) for before, after in pairwise(segments) if before == "markets" and after not in LISTS_OF_MARKETS)


def _seconds(at: datetime | None) -> str | None:
    return str(int(at.timestamp())) if at else None


def _span(start: datetime, end: datetime, period_minutes: int) -> Params:
    if period_minutes not in PERIODS:
        raise ConfigError(f"asking for candles: a period of {period_minutes} minutes is none of {', '.join(map(str, PERIODS))}")
    return (("start_ts", str(int(start.timestamp()))), ("end_ts", str(int(end.timestamp()))), ("period_interval", str(period_minutes)))
