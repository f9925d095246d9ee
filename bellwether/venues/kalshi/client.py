"""Client of Kalshi's REST interface."""

from __future__ import annotations

from bellwether.venues.http.client import HttpClient, RateLimit, call_method, listing_method
from bellwether.venues.kalshi import routes

__all__ = ["KalshiClient", "RateLimit"]


class KalshiClient(HttpClient):
    """Client of Kalshi's public market data; `base_url` ends with /trade-api/v2."""

    name = "Kalshi"
    setting = "kalshi_url"

    events = listing_method(routes.events)
    markets = listing_method(routes.markets)
    historical_markets = listing_method(routes.historical_markets)
    series = listing_method(routes.series)
    trades = listing_method(routes.trades)
    historical_cutoff = call_method(routes.historical_cutoff)
    orderbooks = call_method(routes.orderbooks)
