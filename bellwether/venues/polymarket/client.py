"""Clients of Polymarket's HTTP interfaces: Gamma (markets and events) and the CLOB (order books and prices)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from bellwether.venues.http.client import HttpClient, RateLimit, listing_method
from bellwether.venues.http.page import VenuePage
from bellwether.venues.polymarket import routes


class GammaClient(HttpClient):
    """Client of Polymarket's Gamma interface."""

    name = "Polymarket's Gamma interface"
    setting = "gamma_url"
    lists = True
    #: The documented 300 calls of /markets in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=25, tokens_per_read=1, bucket_seconds=1)

    markets = listing_method(routes.markets)


class ClobClient(HttpClient):
    """Client of Polymarket's CLOB interface. Its POST calls only read, and are retried like all other calls."""

    name = "Polymarket's CLOB interface"
    setting = "clob_url"
    lists = True
    #: The documented 500 calls of /books in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=40, tokens_per_read=1, bucket_seconds=2)

    async def books(self, token_ids: Iterable[str]) -> list[VenuePage]:
        """Fetch the order books of any number of tokens, in pages of up to 500 tokens; tokens without a book are left out."""
        return await self.fetch_all(routes.books(token_ids))
