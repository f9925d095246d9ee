"""Routes of Kalshi, and the venue's documented limits.

A combo is a multivariate market, on the outcomes of several other markets. Markets settled before the venue's cutoff, an instant, are only
in its archive.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

from bellwether.venues.http.page import Params, VenueCall, drop_missing
from bellwether.venues.http.paging import Listing

#: Most tickers of a call, and most candles of a response.
MOST_TICKERS = 100
MOST_CANDLES = 10_000
#: Event tickers per call; the venue documents no maximum.
MOST_EVENTS = 50
#: Minutes of a candle.
CANDLE_MINUTES = 60


def events(
    *, status: str | None = None, tickers: Sequence[str] = (), closing_after: datetime | None = None, nested: bool = True
) -> Listing:
    """Build GET /events. nested: with the markets of each event. Combos are never included.

    status: unopened, open, closed or settled, of any of the event's markets; responses name some of these differently. closing_after: aware
    time after which a market of the event closes.
    """
    chosen = {
        "status": status,
        "tickers": ",".join(tickers),
        "min_close_ts": _seconds(closing_after),
        "with_nested_markets": "true" if nested else None,
        "limit": "200",
    }
    return Listing("/events", drop_missing(chosen), "events", "event_ticker")


def markets(
    *,
    closing_after: datetime | None = None,
    closing_before: datetime | None = None,
    tickers: Sequence[str] = (),
    event_ticker: str | None = None,
    mve_filter: Literal["exclude"] | None = "exclude",
) -> Listing:
    """Build GET /markets; by default without combos (`mve_filter`).

    closing_after, closing_before: aware times, truncated to whole seconds. The venue does not document whether the bounds are included:
    request one second more on both sides and filter.
    """
    chosen = {
        "min_close_ts": _seconds(closing_after),
        "max_close_ts": _seconds(closing_before),
        "tickers": ",".join(tickers),
        "event_ticker": event_ticker,
        "mve_filter": mve_filter,
        "limit": "1000",
    }
    return Listing("/markets", drop_missing(chosen), "markets", "ticker")


def historical_markets(
    *, tickers: Sequence[str] = (), event_ticker: str | None = None, mve_filter: Literal["exclude"] | None = "exclude"
) -> Listing:
    """Build GET /historical/markets: archived markets, which settled before the cutoff. The venue forbids two filters at once."""
    chosen = {"tickers": ",".join(tickers), "event_ticker": event_ticker, "mve_filter": mve_filter, "limit": "1000"}
    return Listing("/historical/markets", drop_missing(chosen), "markets", "ticker")


def series() -> Listing:
    """Build GET /series: all series in one response, without a cursor."""
    return Listing("/series", (), "series", "ticker")


def historical_cutoff() -> VenueCall:
    """Build GET /historical/cutoff: markets settled before the cutoff are only in the archive."""
    return VenueCall("/historical/cutoff", required="market_settled_ts")


def candles_batch(tickers: Sequence[str], start: datetime, end: datetime) -> VenueCall:
    """Build GET /markets/candlesticks: hourly candles of at most `MOST_TICKERS` live markets and `MOST_CANDLES` candles in total."""
    params = (("market_tickers", ",".join(tickers)), *_span(start, end))
    return VenueCall("/markets/candlesticks", params, required="markets")


def historical_candles(ticker: str, start: datetime, end: datetime) -> VenueCall:
    """Build GET /historical/markets/…/candlesticks: those hourly candles of one archived market that end within [start, end]."""
    path = f"/historical/markets/{quote(ticker, safe='')}/candlesticks"
    return VenueCall(path, _span(start, end), required="candlesticks")


def orderbooks(tickers: Sequence[str]) -> VenueCall:
    """Build GET /markets/orderbooks: the complete books of at most `MOST_TICKERS` markets."""
    return VenueCall("/markets/orderbooks", tuple(("tickers", ticker) for ticker in tickers))


def trades(*, ticker: str | None = None, after: datetime | None = None) -> Listing:
    """Build GET /markets/trades: trades of one market or of all (`ticker` is None), newest first, including block trades.

    after: aware time, truncated to whole seconds.
    """
    return Listing("/markets/trades", drop_missing({"ticker": ticker, "min_ts": _seconds(after), "limit": "1000"}), "trades", "trade_id")


def parse_requested_tickers(request: str) -> frozenset[str]:
    """Parse the tickers in a call that is given as text, from its query or its path."""
    parts = urlsplit(request.removeprefix("GET "))
    query = parse_qs(parts.query)
    listed = query.get("tickers", []) + query.get("market_tickers", []) + query.get("ticker", [])
    if listed:
        return frozenset(ticker for tickers in listed for ticker in tickers.split(","))
    return frozenset(map(unquote, re.findall(r"^/historical/markets/([^/]+)/", parts.path)))


def _seconds(at: datetime | None) -> str | None:
    return str(int(at.timestamp())) if at else None


def _span(start: datetime, end: datetime) -> Params:
    return (("start_ts", str(int(start.timestamp()))), ("end_ts", str(int(end.timestamp()))), ("period_interval", str(CANDLE_MINUTES)))
