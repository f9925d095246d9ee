"""Kalshi's market data over HTTP."""

from __future__ import annotations

from bellwether.venues.http.client import HttpClient, RateLimit, answering, following
from bellwether.venues.kalshi import routes

__all__ = ["KalshiClient", "RateLimit"]


class KalshiClient(HttpClient):
    """Reads Kalshi's public market data; `base_url` goes up to and with /trade-api/v2."""

    name = "Kalshi"
    setting = "kalshi_url"

    events = following(routes.events)
    markets = following(routes.markets)
    historical_markets = following(routes.historical_markets)
    series = following(routes.series)
    trades = following(routes.trades)
    historical_cutoff = answering(routes.historical_cutoff)
    orderbooks = answering(routes.orderbooks)
