"""Polling of order books and new trades over REST without a key, as frames that contain the verbatim responses."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from bellwether.errors import ConfigError
from bellwether.venues.http.page import VenuePage
from bellwether.venues.kalshi.client import KalshiClient
from bellwether.venues.kalshi.routes import MOST_TICKERS
from bellwether.venues.kalshi.stream.frame import REST_BOOKS, REST_TRADES, START, Frame, StreamStart
from bellwether.venues.wire.times import parse_instant

_SECOND = timedelta(seconds=1)
_NEVER = datetime(1971, 1, 1, tzinfo=UTC)
#: Rounds in a row in which the venue leaves a market out of its listing before it counts as gone.
_UNLISTED = 3
#: Statuses, in the words of answers, of markets that trade no more.
_OVER = frozenset({"closed", "determined", "disputed", "amended", "finalized", "settled"})


class KalshiPolling:
    """Stream of frames from REST: pages of order books of up to 100 markets, and pages with new trades.

    A frame is `{"type": "orderbook_rest" | "trade_rest", "request", "fetched_at", "msg"}`, where `msg` is the verbatim response. Trades are
    requested from the first book on, then from the last trade on; trades of the same second are repeated on a page with a new one, so
    deduplicate by trade_id.

    Attributes:
        client: open. tickers: of the markets. interval: seconds from the start of one round to the start of the next.
        start: of the first frame. clock: nanoseconds since 1970.
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
        self._unlisted: Counter[str] = Counter()
        self._seen: dict[str, set[str]] = {ticker: set() for ticker in tickers}

    async def frames(self) -> AsyncGenerator[Frame, None]:
        """Yield frames until every market has closed. Cancel the task, or close the generator, to stop earlier.

        Raises `VenueError` if the venue refuses a call or is unavailable for longer than the client's bounds allow.
        """
        while self.open:
            started = time.monotonic()
            for chunk in _chunks(self.open):
                page = await self._client.orderbooks(chunk)
                for ticker in chunk:
                    self._newest.setdefault(ticker, page.fetched_at)
                yield self._frame(REST_BOOKS, page)
            async for page in self._all_new_trades(self.open):
                yield self._frame(REST_TRADES, page)
            # What was traded between the last look and the close.
            async for page in self._all_new_trades(await self._drop_closed()):
                yield self._frame(REST_TRADES, page)
            if self.open:
                await asyncio.sleep(max(0.0, started + self._interval - time.monotonic()))

    def _frame(self, kind: str, page: VenuePage) -> Frame:
        head = orjson.dumps({"type": kind, "request": page.request, "fetched_at": page.fetched_at.isoformat().replace("+00:00", "Z")})
        frame = Frame(self._clock(), self._connection, self._ordinal, head[:-1] + b',"msg":' + page.body.strip() + b"}")
        self._ordinal += 1
        return frame

    async def _all_new_trades(self, tickers: Sequence[str]) -> AsyncGenerator[VenuePage, None]:
        for ticker in tickers:
            for page in await self._new_trades(ticker):
                yield page

    async def _new_trades(self, ticker: str) -> list[VenuePage]:
        """Return pages with new trades, oldest first."""
        seen, fresh, found = self._seen[ticker], set[str](), []
        async for page in self._client.trades(ticker=ticker, after=self._newest[ticker] - _SECOND):
            trades = [trade for trade in page.items("trades") if isinstance(trade, dict)]
            ids = {str(trade.get("trade_id")) for trade in trades}
            if ids <= seen:
                break
            found.append(page)
            fresh |= ids
            self._newest[ticker] = max([self._newest[ticker], *map(_created, trades)])
        self._seen[ticker] = fresh or seen
        return found[::-1]

    async def _drop_closed(self) -> list[str]:
        """Drop and return the markets that no longer trade, by their status or because the venue no longer lists them."""
        listed = await _listed(self._client, self.open)
        for ticker in self.open:
            self._unlisted[ticker] = 0 if ticker in listed else self._unlisted[ticker] + 1
        closed = [ticker for ticker in self.open if listed.get(ticker, self._unlisted[ticker] >= _UNLISTED)]
        self.open = [ticker for ticker in self.open if ticker not in closed]
        return closed


async def find_over_markets(client: KalshiClient, tickers: Sequence[str]) -> set[str]:
    """Return the markets that the venue lists as no longer trading. Raises `VenueError` if it does not respond."""
    return {ticker for ticker, is_over in (await _listed(client, tickers)).items() if is_over}


async def _listed(client: KalshiClient, tickers: Sequence[str]) -> dict[str, bool]:
    """Return the markets that the venue lists, and whether each has stopped trading."""
    listed: dict[str, bool] = {}
    for chunk in _chunks(tickers):
        async for page in client.markets(tickers=chunk, mve_filter=None):
            listed |= {market["ticker"]: str(market.get("status")) in _OVER for market in page.items("markets") if _is_named(market)}
    return listed


def _chunks(tickers: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(tickers), MOST_TICKERS):
        yield tickers[start : start + MOST_TICKERS]


def _is_named(market: Any) -> bool:
    return isinstance(market, dict) and isinstance(market.get("ticker"), str)


def _created(trade: dict[str, Any]) -> datetime:
    """Return the time of a trade; a time long ago if it has none."""
    return parse_instant(trade.get("created_time")) or _NEVER
