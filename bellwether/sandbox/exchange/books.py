"""Kalshi's REST routes for order books and trades."""

from __future__ import annotations

from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.exchange import Exchange, ExchangeBook, TradeFilter
from bellwether.sandbox.kalshi import MOST_TICKERS, Body, build_json_routes, take_page
from bellwether.sandbox.params import Params, bad_request
from bellwether.sandbox.timestamps import SECOND


class KalshiBooks:
    """Handlers of order books and trades. Their routes must precede `/markets/{ticker}`, which also matches their paths."""

    def __init__(self, exchange: Exchange, clock: Clock) -> None:
        self._exchange = exchange
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        return build_json_routes({"/markets/orderbooks": self.orderbooks, "/markets/trades": self.trades}, self._clock)

    def orderbooks(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /markets/orderbooks; unknown and archived tickers are left out."""
        tickers = params.get_all("tickers") or ()
        if not 1 <= len(tickers) <= MOST_TICKERS:
            raise bad_request(f"{len(tickers)} tickers: between 1 and {MOST_TICKERS}")
        books = (self._live_book(ticker, now) for ticker in dict.fromkeys(tickers))
        return {
            "orderbooks": [
                {"ticker": book.ticker, "orderbook_fp": {"yes_dollars": book.yes, "no_dollars": book.no}}
                for book in books
                if book is not None
            ]
        }

    def _live_book(self, ticker: str, now: int) -> ExchangeBook | None:
        """Return the book of a market; None if it is unknown or archived."""
        return None if self._exchange.is_archived(ticker, now) else self._exchange.book(ticker, now)

    def trades(self, params: Params, path: dict[str, str], now: int) -> Body:
        """Serve GET /markets/trades, newest first; trades before the historical cutoff are only in the archive. The bounds min_ts and
        max_ts are inclusive.
        """
        low, high, first = params.seconds("min_ts"), params.seconds("max_ts"), self._exchange.cutoff(now)
        wanted = TradeFilter(
            ticker=params.text("ticker"),
            low=first if low is None else max(first, low),
            high=now if high is None else min(now, high + SECOND - 1),
            after=params.cursor("cursor"),
        )
        page, cursor = take_page(self._exchange.trades(wanted), params.integer("limit", 0, 1000) or 100)
        return {"cursor": cursor, "trades": [row.body for row in page]}
