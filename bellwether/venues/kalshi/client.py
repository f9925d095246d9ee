"""Client of Kalshi's REST interface."""

from __future__ import annotations

from bellwether.venues.http.client import HttpClient


class KalshiClient(HttpClient):
    """Client of Kalshi's public market data; `base_url` ends with /trade-api/v2."""

    name = "Kalshi"
    setting = "kalshi_url"
