"""Routes of Polymarket's CLOB, over a generated or recorded world."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bellwether.sandbox.clock import Clock
from bellwether.sandbox.params import Params, VenueRefusal, clob_error
from bellwether.sandbox.polymarket.source import PolymarketSource, PriceTimes, TokenBook
from bellwether.sandbox.timestamps import MINUTE, SECOND, to_instant

MOST_TOKENS = 500

_NO_BOOK = "No orderbook exists for the requested token id"


class Clob:
    """Handlers of the CLOB's routes; each returns the body of the response."""

    def __init__(self, source: PolymarketSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes, relative to the base URL."""
        single: dict[str, Callable[[Params, dict[str, str], int], Any]] = {
            "/time": self.time,
            "/book": self.book,
            "/midpoint": self.midpoint,
            "/prices-history": self.prices_history,
            "/markets/{condition_id}": self.market,
        }
        batches: dict[str, Callable[[list[str], int], Any]] = {"/books": self.books, "/midpoints": self.midpoints}
        return [
            *(Route(path, self._single(handler), methods=["GET"]) for path, handler in single.items()),
            *(Route(path, self._batch(handler), methods=["POST"]) for path, handler in batches.items()),
        ]

    def _now(self) -> int:
        return to_instant(self._clock.now())

    def _single(self, handler: Callable[[Params, dict[str, str], int], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            params = Params(request.query_params, lambda name: clob_error(400, f"invalid {name}"))
            return _answer(lambda: handler(params, request.path_params, self._now()))

        return endpoint

    def _batch(self, handler: Callable[[list[str], int], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            content = await request.body()
            return _answer(lambda: handler(_tokens(content), self._now()))

        return endpoint

    def time(self, params: Params, path: dict[str, str], now: int) -> int:
        """Serve GET /time: Unix time in seconds."""
        return now // SECOND

    def _book(self, params: Params, now: int) -> TokenBook:
        token = params.text("token_id")
        if token is None:
            raise clob_error(400, "Invalid token id")
        book = self._source.book(token, now)
        if book is None:
            raise clob_error(404, _NO_BOOK)
        return book

    def book(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /book."""
        return self._book(params, now).body()

    def books(self, tokens: list[str], now: int) -> Any:
        """Serve POST /books; tokens without a book are left out."""
        return [book.body() for token in tokens if (book := self._source.book(token, now))]

    def midpoint(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /midpoint."""
        middle = self._book(params, now).middle
        if middle is None:
            raise clob_error(404, _NO_BOOK)
        return {"mid": _text(middle)}

    def midpoints(self, tokens: list[str], now: int) -> Any:
        """Serve POST /midpoints; tokens without a book are left out."""
        books = {token: book for token in tokens if (book := self._source.book(token, now))}
        return {token: _text(book.middle) for token, book in books.items() if book.middle is not None}

    def prices_history(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /prices-history; the history of an unknown token is empty."""
        token, start, end = params.text("market"), params.integer("startTs"), params.integer("endTs")
        if token is None or start is None:
            raise clob_error(400, "invalid filters: 'market' and 'startTs' are required")
        last, minutes = now if end is None else end * SECOND, params.integer("fidelity", 1) or 1
        points = self._source.prices(token, PriceTimes(start * SECOND, last, minutes * MINUTE), now)
        return {"history": [{"t": seconds, "p": price} for seconds, price in points]}

    def market(self, params: Params, path: dict[str, str], now: int) -> Any:
        """Serve GET /markets/{condition_id}."""
        market = self._source.clob_market(path["condition_id"], now)
        if market is None:
            raise clob_error(404, "market not found")
        return market


def _answer(handle: Callable[[], Any]) -> Response:
    try:
        return Response(orjson.dumps(handle()), media_type="application/json")
    except VenueRefusal as refusal:
        return refusal.response()


def _text(price: Decimal) -> str:
    """Format a price without trailing zeros."""
    return f"{price.normalize():f}"


def _tokens(content: bytes) -> list[str]:
    """Parse the tokens of a batch: a JSON array of objects with `token_id`."""
    try:
        tokens = [str(item["token_id"]) for item in orjson.loads(content)]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise clob_error(400, "Invalid payload") from None
    if len(tokens) > MOST_TOKENS:
        raise clob_error(400, "Payload exceeds the limit")
    return list(dict.fromkeys(tokens))
