"""Which of the markets listened to still trade, by its lifecycle messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from bellwether.venues.kalshi.stream.frame import body_of, ticker_of
from bellwether.venues.wire.times import END_SECOND

_ENDS = frozenset({"determined", "settled"})


class TradingStatus:
    """Follows messages of market_lifecycle_v2. A market has ended when it is determined or settled, or deactivated from its close on.

    closes: when each market is to close (aware), as far as known; what the venue says of a new close replaces it.
    in_doubt: messages may have been lost, so that a market that counts as open may have ended.
    """

    def __init__(self, tickers: Iterable[str], closes: Mapping[str, datetime]) -> None:
        self.open = set(tickers)
        self.in_doubt = False
        self._closes = {ticker: at.timestamp() for ticker, at in closes.items()}

    @property
    def are_over(self) -> bool:
        """Whether no market trades any more."""
        return not self.open

    def ended(self, tickers: Iterable[str]) -> None:
        """Take in that these markets trade no more."""
        self.open.difference_update(tickers)

    def take(self, found: dict[str, Any]) -> None:
        """Take in a message."""
        body = body_of(found)
        market, kind = ticker_of(body), str(body.get("event_type"))
        if market not in self.open:
            return
        close = body.get("close_ts")
        if type(close) is int and 0 <= close < END_SECOND:
            self._closes[market] = float(close)
        if kind in _ENDS or (kind == "deactivated" and self._has_closed(market, found)):
            self.open.discard(market)

    def _has_closed(self, market: str, found: dict[str, Any]) -> bool:
        sent = found.get("sending_ts_ms")
        now = sent / 1000 if type(sent) is int and 0 <= sent < END_SECOND * 1000 else time.time()
        closes = self._closes.get(market)
        return closes is not None and now >= closes
