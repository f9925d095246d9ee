"""A verbatim message of a stream, and its fields that are read on receipt."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

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
