"""Clients of Polymarket's HTTP interfaces: Gamma (markets and events) and the CLOB (order books and prices)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

from bellwether.errors import VenueError
from bellwether.venues.http.client import HttpClient, RateLimit, listing_method
from bellwether.venues.http.page import VenueCall, VenuePage
from bellwether.venues.http.paging import Listing
from bellwether.venues.http.retry import RefusedError
from bellwether.venues.polymarket import routes

__all__ = ["ClobClient", "GammaClient", "OffsetLimitError"]

#: Statuses of a server that does not know a route.
UNKNOWN_ROUTE = frozenset({404, 405, 410})


class OffsetLimitError(RefusedError):
    """The venue refuses an offset beyond about 2,000 records; a listing by keyset (with cursors instead of offsets) has no such limit."""

    def __init__(self, refused: RefusedError, offset: int) -> None:
        self.status = refused.status
        cause = f"{refused.cause} (at offset {offset})"
        advice = "Listings by offset end here: list by keyset, or ask for a shorter span of end dates"
        VenueError.__init__(self, refused.call, refused.attempts, cause, advice, kind="paging")


class GammaClient(HttpClient):
    """Client of Polymarket's Gamma interface.

    Listings are paged by keyset, or by offset if the first call shows that the server does not support keysets.
    """

    name = "Polymarket's Gamma interface"
    setting = "gamma_url"
    lists = True
    #: The documented 300 calls of /markets in 10 s, with some to spare; other routes allow more.
    usual_limits: ClassVar[RateLimit] = RateLimit(tokens_per_second=25, tokens_per_read=1, bucket_seconds=1)

    def __init__(self, base_url: str, **options: Any) -> None:
        super().__init__(base_url, **options)
        self._knows_keyset: bool | None = None
        self._keyset_lock = asyncio.Lock()

    markets = listing_method(routes.markets)

    async def adapt_listing(self, listing: Listing) -> Listing:
        """Convert a listing by keyset (with cursors) to paging by offset if the server does not support keysets.

        Raises the error of the first call if it fails for another reason.
        """
        async with self._keyset_lock:
            if self._knows_keyset is None:
                self._knows_keyset = await self._detect_keyset()
        return listing if self._knows_keyset else routes.use_offsets(listing)

    async def _detect_keyset(self) -> bool:
        """Return True if the server supports keysets, by a request that is made once."""
        first = routes.markets(closed=False, limit=1)
        page = await self.get(first.path, first.params, accept=UNKNOWN_ROUTE)
        return page.status not in UNKNOWN_ROUTE

    async def fetch(self, call: VenueCall, *, ordinal: int = 0, accept: frozenset[int] = frozenset()) -> VenuePage:
        """Send `call` and return the response; see `HttpClient.fetch`. Raises `OffsetLimitError` for an offset that is too large."""
        try:
            return await super().fetch(call, ordinal=ordinal, accept=accept)
        except RefusedError as refused:
            offset = routes.parse_offset(call)
            if refused.status == 422 and offset:
                raise OffsetLimitError(refused, offset) from refused
            raise


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
