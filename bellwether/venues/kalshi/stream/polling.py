"""Polling of order books and trades over REST, which needs no key, as frames with the verbatim responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from bellwether.errors import ConfigError
from bellwether.venues.http.client import KalshiClient
from bellwether.venues.http.page import VenuePage, split_batches
from bellwether.venues.kalshi import routes
from bellwether.venues.kalshi.routes import MOST_TICKERS
from bellwether.venues.kalshi.stream.frame import REST_BOOKS, REST_TRADES, START, Frame, StreamStart
from bellwether.venues.wire.times import parse_instant

_SECOND = timedelta(seconds=1)
_NEVER = datetime(1971, 1, 1, tzinfo=UTC)
#: Statuses of markets that no longer trade.
_OVER = frozenset({"closed", "determined", "disputed", "amended", "finalized"})


class KalshiPolling:
    """Stream of frames built from REST responses: pages of up to 100 order books, and pages with new trades.

    A frame is `{"type": "orderbook_rest" | "trade_rest", "request", "fetched_at", "msg"}`, where `msg` is the verbatim response. Trades are
    requested from the first book on, then from the last trade on. Trades of the same second may be repeated: deduplicate by trade_id.

    Attributes:
        client: open client. tickers: markets. interval: seconds from the start of one round to the start of the next.
        start: position of the first frame. clock: nanoseconds since 1970.
    """

    def __init__(
        self,
        client: KalshiClient,
        tickers: tuple[str, ...],
        *,
        interval: float = 5.0,
        start: StreamStart = START,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        if not tickers or interval <= 0:
            raise ConfigError(f"polling Kalshi: {len(tickers)} markets every {interval} s; name markets, and a positive number of seconds")
        self.open = list(tickers)
        self.gaps, self.connections = 0, 1
        self._client = client
        self._interval = interval
        self._connection, self._ordinal = start
        self._clock = clock
        self._newest: dict[str, datetime] = {}
        self._seen: dict[str, set[str]] = {ticker: set() for ticker in tickers}

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until every market has closed. Cancel the task, or close the generator, to stop earlier.

        Raises `VenueError` if the venue refuses a call or is unavailable for longer than the client's bounds allow.
        """
        while self.open:
            started = time.monotonic()
            for batch in split_batches(self.open, MOST_TICKERS):
                page = await self._client.fetch(routes.orderbooks(batch))
                for ticker in batch:
                    self._newest.setdefault(ticker, page.fetched_at)
                yield self._frame(REST_BOOKS, page)
            async for page in self._new_trades(self.open):
                yield self._frame(REST_TRADES, page)
            over = await find_over_markets(self._client, self.open)
            # Trades between the last request and the close.
            async for page in self._new_trades(sorted(over)):
                yield self._frame(REST_TRADES, page)
            self.open = [ticker for ticker in self.open if ticker not in over]
            if self.open:
                await asyncio.sleep(max(0.0, started + self._interval - time.monotonic()))

    def _frame(self, kind: str, page: VenuePage) -> Frame:
        """Wrap a response as a frame."""
        head = orjson.dumps({"type": kind, "request": page.request, "fetched_at": page.fetched_at.isoformat().replace("+00:00", "Z")})
        frame = Frame(self._clock(), self._connection, self._ordinal, head[:-1] + b',"msg":' + page.body.strip() + b"}")
        self._ordinal += 1
        return frame

    async def _new_trades(self, tickers: Sequence[str]) -> AsyncGenerator[VenuePage, None]:
        """Yield the pages that contain trades not seen in earlier polls, of each market the oldest page first."""
        for ticker in tickers:
            known_ids, new, pages = self._seen[ticker], set[str](), []
            async for page in self._client.follow(routes.trades(ticker=ticker, after=self._newest[ticker] - _SECOND)):
                trades = [trade for trade in page.items("trades") if isinstance(trade, dict)]
                ids = {str(trade.get("trade_id")) for trade in trades}
                if ids <= known_ids:
                    break
                pages.append(page)
                new |= ids
                self._newest[ticker] = max([self._newest[ticker], *map(_read_created, trades)])
            self._seen[ticker] = new or known_ids
            for page in reversed(pages):
                yield page


async def find_over_markets(client: KalshiClient, tickers: Sequence[str]) -> set[str]:
    """Fetch the status of markets, and return those that no longer trade. Raises `VenueError` if the venue does not respond."""
    over: set[str] = set()
    for batch in split_batches(tickers, MOST_TICKERS):
        async for page in client.follow(routes.markets(tickers=batch, mve_filter=None)):
            markets = [market for market in page.items("markets") if isinstance(market, dict) and market.get("status") in _OVER]
            over.update(str(market.get("ticker")) for market in markets)
    return over


def _read_created(trade: dict[str, Any]) -> datetime:
    """Return the time of a trade; if it is missing, a time before all others."""
    return parse_instant(trade.get("created_time")) or _NEVER
