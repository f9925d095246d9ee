"""Kalshi's market data over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bellwether.venues.http.client import HttpClient, RateLimit, answering, following
from bellwether.venues.http.page import Page, Params
from bellwether.venues.http.paging import Listing
from bellwether.venues.kalshi import routes

__all__ = ["IDENTITIES", "KalshiClient", "RateLimit"]

#: Field that tells one record of a list from another.
IDENTITIES = {"markets": "ticker", "events": "event_ticker", "series": "ticker", "trades": "trade_id"}


class KalshiClient(HttpClient):
    """Reads Kalshi's public market data; `base_url` goes up to and with /trade-api/v2."""

    name = "Kalshi"
    setting = "kalshi_url"

    def pages(self, path: str, params: Params, items_key: str, *, cursor: str | None = None) -> AsyncIterator[Page]:
        """The pages of a listing whose records stand under `items_key`, from `cursor` on."""
        return self.follow(Listing(path, params, items_key, IDENTITIES.get(items_key, "ticker")), cursor=cursor)

    events = following(routes.events)
    markets = following(routes.markets)
    historical_markets = following(routes.historical_markets)
    series = following(routes.series)
    historical_cutoff = answering(routes.historical_cutoff)
    market = answering(routes.market)
    candles = answering(routes.candles)
    candles_batch = answering(routes.candles_batch)
    historical_candles = answering(routes.historical_candles)
    orderbook = answering(routes.orderbook)
    orderbooks = answering(routes.orderbooks)
    trades = following(routes.trades)
    historical_trades = following(routes.historical_trades)
