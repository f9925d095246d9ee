"""Polling of a venue in a function: no trade is missed at any time."""

from __future__ import annotations

import json

import httpx

from bellwether.venues.kalshi.stream.polling import KalshiPolling
from tests.venues.venue import answer, client

TICKER = "KXA-26MAR20-B1"
LAST_TRADE = {"trade_id": "last", "ticker": TICKER, "created_time": "2026-03-20T08:30:01Z"}


class Closing:
    """A market that trades once more after a request of its trades, and is closed at the next look-up."""

    def __init__(self) -> None:
        self._is_over = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/markets/orderbooks"):
            return answer({"orderbooks": [{"ticker": TICKER, "orderbook_fp": {}}]})
        if path.endswith("/markets/trades"):
            return answer({"trades": [LAST_TRADE] if self._is_over else [], "cursor": ""})
        self._is_over = True
        return answer({"markets": [{"ticker": TICKER, "status": "closed"}], "cursor": ""})


async def test_what_is_traded_just_before_the_close_is_recorded() -> None:
    async with client(Closing()) as venue:
        frames = [json.loads(frame.data) async for frame in KalshiPolling(venue, (TICKER,), interval=0.001).frames()]
    assert [frame["type"] for frame in frames] == ["orderbook_rest", "trade_rest"]
    assert frames[-1]["msg"]["trades"] == [LAST_TRADE]
