"""Clients of Polymarket's HTTP interfaces: Gamma (markets and events) and the CLOB (order books and prices)."""

from __future__ import annotations

from typing import ClassVar

from bellwether.venues.http.client import HttpClient, RateLimit


class GammaClient(HttpClient):
    """Client of Polymarket's Gamma interface."""

    name = "Polymarket's Gamma interface"
    setting = "gamma_url"
    #: The documented 300 calls of /markets in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=25, tokens_per_read=1, bucket_seconds=1)


class ClobClient(HttpClient):
    """Client of Polymarket's CLOB interface. Its POST calls only read, and are retried like all other calls."""

    name = "Polymarket's CLOB interface"
    setting = "clob_url"
    lists = True
    #: The documented 500 calls of /books in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=40, tokens_per_read=1, bucket_seconds=2)
