"""Verbatim messages of Kalshi's WebSocket and their fields that are read on receipt; subscriptions, error codes and ends of subscriptions; and
the status of markets by lifecycle messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from bellwether.venues.wire.times import END_SECOND

#: Types of messages about an order book: a complete book, and the change of one level.
SNAPSHOT, DELTA = "orderbook_snapshot", "orderbook_delta"
TRADE, TICKER = "trade", "ticker"
#: Types of messages about the lifecycle of a market: of ordinary ones, and of combos (multivariate markets).
LIFECYCLE, COMBO_LIFECYCLE = "market_lifecycle_v2", "multivariate_market_lifecycle"
LIFECYCLES = frozenset({LIFECYCLE, COMBO_LIFECYCLE})
#: Types of the frames that `KalshiPolling` builds: a page of order books and a page of trades.
REST_BOOKS, REST_TRADES = "orderbook_rest", "trade_rest"
#: Prefix of the tickers of combos.
COMBO_PREFIX = "KXMVE"
#: Type of a frame added by Bellwether: the price of a market's underlying, `{"name": "SPX", "value": "4079.3899"}`.
REFERENCE = "reference_price"


class Frame(NamedTuple):
    """Verbatim message of a stream, and its position in the recording.

    received_at: nanoseconds since 1970, UTC, by the receiver's clock; None if a capture does not state it. connection: ordinal of the
    connection within its recording, from 1. ordinal: place in order of arrival within the recording, from 0. data: the message's bytes.
    """

    received_at: int | None
    connection: int
    ordinal: int
    data: bytes


class StreamStart(NamedTuple):
    """Position at which a stream continues a recording: the ordinals of its first connection and of its first frame."""

    connection: int = 1
    ordinal: int = 0


START = StreamStart()


class Envelope(NamedTuple):
    """Type of a message, number of its subscription, and sequence number; a missing field is None."""

    kind: str | None
    sid: int | None
    seq: int | None


def parse_message(data: bytes) -> dict[str, Any]:
    """Parse a message as a JSON object; return an empty dictionary for other text."""
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return message if type(message) is dict else {}


def read_envelope(message: dict[str, Any]) -> Envelope:
    """Return the type, subscription and sequence number of a parsed message."""
    return Envelope(_text(message.get("type")), _number(message.get("sid")), _number(message.get("seq")))


def read_body(message: dict[str, Any]) -> dict[str, Any]:
    """Return the object under `msg` of a parsed message; an empty dictionary if it is not an object."""
    body = message.get("msg")
    return body if type(body) is dict else {}


def read_ticker(body: dict[str, Any]) -> str | None:
    """Return the market's ticker in a message's body; None if missing."""
    return _text(body.get("market_ticker"))


def _text(value: object) -> str | None:
    return value if type(value) is str else None


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


#: Channels of selected markets, and all channels.
MARKET_CHANNELS = (DELTA, TRADE, TICKER)
CHANNELS = (*MARKET_CHANNELS, LIFECYCLE)
#: Default channels. The lifecycle of combos has a channel of its own, which `LIFECYCLE` includes if there are combos.
USUAL = (DELTA, TRADE, LIFECYCLE)


@dataclass(frozen=True, slots=True)
class StreamSubscription:
    """Markets and channels to subscribe to. Lifecycle messages always arrive for all markets. NO levels are requested in prices of YES, the
    format that the venue will keep.
    """

    tickers: tuple[str, ...]
    channels: tuple[str, ...] = USUAL

    def subscriptions(self) -> list[dict[str, Any]]:
        """Return the parameters of the subscribe commands: one for the selected markets, one for the channels of all markets."""
        markets = [channel for channel in self.channels if channel in MARKET_CHANNELS]
        others = self._lifecycle_channels() if LIFECYCLE in self.channels else []
        selected = [{"channels": markets, "market_tickers": list(self.tickers), "use_yes_price": True}] if markets else []
        return [*selected, {"channels": others}] if others else selected

    def _lifecycle_channels(self) -> list[str]:
        """Return the lifecycle channels of the markets: combos have another one than all other markets."""
        return sorted({COMBO_LIFECYCLE if ticker.startswith(COMBO_PREFIX) else LIFECYCLE for ticker in self.tickers})


#: Error codes that end a subscription, and all documented codes. An unknown error of a subscription is assumed to end it.
_TERMINAL, _DOCUMENTED = frozenset({10, 25}), frozenset(range(1, 29))
#: Error codes after which only a new connection helps: the subscription has ended, or the venue is busy. Error code of an invalid key.
RENEWING, NO_KEY = _TERMINAL | {1, 18, 27}, 9


#: Types of messages that may end a subscription.
ENDING = frozenset({"unsubscribed", "error"})


class SubscriptionEnd(NamedTuple):
    """End of a subscription, stated by the venue.

    sid: number of the subscription; None if the message does not state it. markets: those that the message names; if empty, all of the
    subscription. cause: `unsubscribed`, or `error` with its code.
    """

    sid: int | None
    markets: frozenset[str]
    cause: str


def read_subscription_end(message: dict[str, Any]) -> SubscriptionEnd | None:
    """Return the end of a subscription that a message states; None for any other message, such as the refusal of a command."""
    kind, sid, _ = read_envelope(message)
    if kind not in ENDING:
        return None
    body = read_body(message)
    if sid is None:
        sid = read_envelope(body).sid
    code = body.get("code")
    if kind == "error" and not _is_terminal(code, is_response=message.get("id") is not None, has_subscription=sid is not None):
        return None
    named = body.get("market_tickers")
    markets = [read_ticker(body), *(named if isinstance(named, list) else [])]
    cause = f"error {code}" if kind == "error" and type(code) is int else kind
    return SubscriptionEnd(sid, frozenset(market for market in markets if type(market) is str), cause)


def _is_terminal(code: object, *, is_response: bool, has_subscription: bool) -> bool:
    """Return True if an error ends a subscription. is_response: it answers a command, and without a subscription only refuses that."""
    if type(code) is int and code in _TERMINAL:
        return has_subscription or not is_response
    return has_subscription and not is_response and not (type(code) is int and code in _DOCUMENTED)


_ENDS = frozenset({"determined", "settled"})


class TradingStatus:
    """Markets that still trade, updated by lifecycle messages.

    A market ends when it is determined or settled, or deactivated after its close. closes: close time (aware) by ticker, which a message
    may replace.
    """

    def __init__(self, tickers: Iterable[str], closes: Mapping[str, datetime]) -> None:
        self.open = set(tickers)
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
