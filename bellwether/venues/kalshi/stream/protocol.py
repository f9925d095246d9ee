"""Commands and error codes of Kalshi's WebSocket, and the status of markets by its lifecycle messages."""

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

#: Channels of selected markets, and all channels.
MARKET_CHANNELS = (DELTA, TRADE, TICKER)
CHANNELS = (*MARKET_CHANNELS, LIFECYCLE)
#: Default channels.
USUAL = (DELTA, TRADE, LIFECYCLE)


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """Markets and channels to subscribe to. Lifecycle messages always arrive for all markets.

    yes_prices: request NO levels in prices of YES, the format that the venue will keep.
    """

    tickers: tuple[str, ...]
    channels: tuple[str, ...] = USUAL
    yes_prices: bool = True

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the parameters of the subscribe commands: one for the selected markets, one for the channels of all markets."""
        markets = [channel for channel in self.channels if channel in MARKET_CHANNELS]
        others = [channel for channel in self.channels if channel not in MARKET_CHANNELS]
        selected = [{"channels": markets, "market_tickers": list(self.tickers), "use_yes_price": self.yes_prices}] if markets else []
        return [*selected, {"channels": others}] if others else selected


class ErrorMeaning(Enum):
    """Meaning of an error response: the API key is invalid, the command was refused, or the connection must be replaced."""

    KEY = "authentication"
    REFUSED = "refused"
    RENEW = "renew"


#: Error codes after which only a new connection helps: the subscription has ended, or the venue is busy.
_RENEWING = frozenset({1, 10, 18, 25, 27})
_NO_KEY = 9


def classify_error(code: object) -> ErrorMeaning:
    """Return the meaning of an error code."""
    if code == _NO_KEY:
        return ErrorMeaning.KEY
    return ErrorMeaning.RENEW if code in _RENEWING else ErrorMeaning.REFUSED


def format_command(number: int, name: str, params: dict[str, Any] | None = None) -> str:
    """Format a command as JSON text."""
    return orjson.dumps({"id": number, "cmd": name} | ({} if params is None else {"params": params})).decode()


def get_snapshot(number: int, sid: int, tickers: Sequence[str]) -> str:
    """Format the command that requests complete books. sid: number of the subscription. tickers: its markets."""
    return format_command(number, "update_subscription", {"sids": [sid], "market_tickers": list(tickers), "action": "get_snapshot"})


def unsubscribe(number: int, sids: Iterable[int]) -> str:
    """Format the command that ends subscriptions. sids: their numbers."""
    return format_command(number, "unsubscribe", {"sids": list(sids)})


def list_subscriptions(number: int) -> str:
    """Format the command that lists subscriptions; its response shows that the connection works."""
    return format_command(number, "list_subscriptions")


_ENDS = frozenset({"determined", "settled"})


class TradingStatus:
    """Markets that still trade, updated by messages of the channel market_lifecycle_v2.

    A market ends when it is determined or settled, or deactivated after its close. closes: close time (aware) by ticker, which a message
    may replace. in_doubt: messages may have been lost, so that a market that counts as open may have ended.
    """

    def __init__(self, tickers: Iterable[str], closes: Mapping[str, datetime]) -> None:
        self.open = set(tickers)
        self.in_doubt = False
        self._closes = {ticker: at.timestamp() for ticker, at in closes.items()}

    @property
    def is_over(self) -> bool:
        """True if no market trades any longer."""
        return not self.open

    def remove(self, tickers: Iterable[str]) -> None:
        """Remove markets that no longer trade."""
        self.open.difference_update(tickers)

    def process(self, message: dict[str, Any]) -> None:
        """Update the status by a lifecycle message."""
        body = read_body(message)
        market, kind = read_ticker(body), str(body.get("event_type"))
        if market not in self.open:
            return
        close = body.get("close_ts")
        if type(close) is int and 0 <= close < END_SECOND:
            self._closes[market] = float(close)
        if kind in _ENDS or (kind == "deactivated" and self._has_closed(market, message)):
            self.open.discard(market)

    def _has_closed(self, market: str, message: dict[str, Any]) -> bool:
        """Return True if a message was sent after the known close of the market."""
        sent = message.get("sending_ts_ms")
        now = sent / 1000 if type(sent) is int and 0 <= sent < END_SECOND * 1000 else time.time()
        closes = self._closes.get(market)
        return closes is not None and now >= closes
