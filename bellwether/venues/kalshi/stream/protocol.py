"""Commands of Kalshi's WebSocket, meanings of its error codes, and the state of markets by lifecycle messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import orjson

from bellwether.venues.kalshi.stream.frame import DELTA, LIFECYCLE, TICKER, TRADE, read_body, read_ticker
from bellwether.venues.wire.times import END_SECOND

#: Channels of selected markets, and those of all markets.
MARKET_CHANNELS = (DELTA, TRADE, TICKER)
CHANNELS = (*MARKET_CHANNELS, LIFECYCLE)
#: Channels by default.
USUAL = (DELTA, TRADE, LIFECYCLE)


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """Subscription to markets by ticker, and channels (of `CHANNELS`; lifecycle messages come for all markets at once).

    yes_prices: NO levels are sent in prices of YES, the format that the venue will keep.
    """

    tickers: tuple[str, ...]
    channels: tuple[str, ...] = USUAL
    yes_prices: bool = True

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the parameters of the subscribe commands: first for the selected markets, then for the channels of all markets."""
        markets = [channel for channel in self.channels if channel in MARKET_CHANNELS]
        others = [channel for channel in self.channels if channel not in MARKET_CHANNELS]
        asked = [{"channels": markets, "market_tickers": list(self.tickers), "use_yes_price": self.yes_prices}] if markets else []
        return [*asked, {"channels": others}] if others else asked


class ErrorMeaning(Enum):
    """Meaning of an error response: the command or key is wrong, a new connection is needed, or one command failed."""

    KEY = "authentication"
    REFUSED = "refused"
    RENEW = "renew"


#: Codes that end a subscription for good, or that say that the venue is busy: a new connection is the remedy.
_RENEWING = frozenset({1, 10, 18, 25, 27})
_NO_KEY = 9


def classify_error(code: object) -> ErrorMeaning:
    """Return the meaning of an error code for a command that must succeed."""
    if code == _NO_KEY:
        return ErrorMeaning.KEY
    return ErrorMeaning.RENEW if code in _RENEWING else ErrorMeaning.REFUSED


def format_command(number: int, name: str, params: dict[str, Any] | None = None) -> str:
    """Format a command as text."""
    return orjson.dumps({"id": number, "cmd": name} | ({} if params is None else {"params": params})).decode()


def get_snapshot(number: int, sid: int, tickers: Sequence[str]) -> str:
    """Build the command that requests full books of these markets, without changing the subscription."""
    return format_command(number, "update_subscription", {"sids": [sid], "market_tickers": list(tickers), "action": "get_snapshot"})


def unsubscribe(number: int, sids: Iterable[int]) -> str:
    """Build the command that ends subscriptions."""
    return format_command(number, "unsubscribe", {"sids": list(sids)})


def list_subscriptions(number: int) -> str:
    """Build a command that the venue must answer, as a probe of the connection."""
    return format_command(number, "list_subscriptions")


_ENDS = frozenset({"determined", "settled"})


class TradingStatus:
    """Status of markets by messages of market_lifecycle_v2. A market ends when determined or settled, or when deactivated after its close.

    closes: known close time (aware) of each market; a new close from the venue replaces it. in_doubt: messages may have been lost, so that
    a market that counts as open may have ended.
    """

    def __init__(self, tickers: Iterable[str], closes: Mapping[str, datetime]) -> None:
        self.open = set(tickers)
        self.in_doubt = False
        self._closes = {ticker: at.timestamp() for ticker, at in closes.items()}

    @property
    def are_over(self) -> bool:
        """True if no market trades any more."""
        return not self.open

    def ended(self, tickers: Iterable[str]) -> None:
        """Record that these markets no longer trade."""
        self.open.difference_update(tickers)

    def take(self, found: dict[str, Any]) -> None:
        """Process a message."""
        body = read_body(found)
        market, kind = read_ticker(body), str(body.get("event_type"))
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
