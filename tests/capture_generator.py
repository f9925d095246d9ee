"""Generator of the sandbox's captures: frames of Kalshi's WebSocket about three events. `python -m tests.capture_generator` writes the files.

Each event follows a Brownian path. A market pays if the path ends in the market's interval, so its probability at any instant is exact.
Orders arrive and leave around this probability, takers consume levels, and quotes that the path has passed are taken or cancelled.
"""

from __future__ import annotations

import gzip
import math
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from statistics import NormalDist
from typing import Any

import orjson

from bellwether.sandbox.replayer import CAPTURES

Body = dict[str, Any]

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
BOOKS, TRADES, LIFECYCLE = "orderbook_delta", "trade", "market_lifecycle_v2"
CHANNELS = (BOOKS, TRADES, LIFECYCLE)
YES, NO = 0, 1
SIDES = ("yes", "no")
#: Delay from an event at the exchange to its receipt, in ms.
LATENCY = 25
#: Probability that a passed quote is taken instead of cancelled, and that a step has a taker.
TAKEN, TAKER = 0.4, 0.16
NORMAL = NormalDist()


@dataclass(frozen=True)
class MarketTerms:
    """Terms of a market: suffix of its ticker, label, interval of the path's end in which it pays, and half of its usual spread in cents."""

    suffix: str
    label: str
    low: float
    high: float
    half_spread: float


@dataclass(frozen=True)
class EventTerms:
    """Terms of an event. Times in ms since 1970.

    duration: of trading. horizon: of the path, whose end decides; beyond `duration`, the outcome is still open at the close. announced:
    time from the start to the announced close. pause: mean time between two steps. lost: time from the start to the loss of messages, and
    its duration.
    """

    ticker: str
    title: str
    seed: int
    start: int
    duration: int
    horizon: int
    announced: int
    pause: int
    markets: tuple[MarketTerms, ...]
    lost: tuple[int, int] = (0, 0)


def to_milliseconds(text: str) -> int:
    """Convert a time in UTC to ms since 1970."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


EVENTS = (
    EventTerms(
        "KXMLBGAME-26SEP282300NYYBOS",
        "New York Y vs Boston Winner?",
        12,
        to_milliseconds("2026-09-28T23:00:00"),
        3 * HOUR,
        3 * HOUR + 5 * MINUTE,
        14 * 24 * HOUR,
        2_600,
        (MarketTerms("NYY", "New York Y", 0.1, math.inf, 1.6), MarketTerms("BOS", "Boston", -math.inf, 0.1, 1.9)),
    ),
    EventTerms(
        "KXHIGHNY-26SEP29",
        "Highest temperature in NYC on Sep 29, 2026?",
        5,
        to_milliseconds("2026-09-29T15:00:00"),
        3 * HOUR,
        5 * HOUR,
        3 * HOUR,
        3_200,
        (
            MarketTerms("T68", "67° or below", -math.inf, -1.2, 1.2),
            MarketTerms("B68.5", "68° to 69°", -1.2, -0.4, 2.2),
            MarketTerms("B70.5", "70° to 71°", -0.4, 0.4, 6.2),
            MarketTerms("B72.5", "72° to 73°", 0.4, 1.2, 2.2),
            MarketTerms("T73", "74° or above", 1.2, math.inf, 1.2),
        ),
        (90 * MINUTE, 90 * SECOND),
    ),
    EventTerms(
        "KXBTC15M-26SEP301500",
        "BTC price up in next 15 mins?",
        28,
        to_milliseconds("2026-09-30T14:45:00"),
        15 * MINUTE,
        18 * MINUTE,
        15 * MINUTE,
        1_500,
        (MarketTerms("00", "Up", 0.0, math.inf, 1.4),),
    ),
)


@dataclass
class Stream:
    """Frames of one event's subscriptions, each with the time of its receipt, as in a list of frames."""

    terms: EventTerms
    frames: list[Body] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANNELS, 0))

    def is_lost(self, at: int) -> bool:
        """Return True if messages of this instant are lost."""
        since, duration = self.terms.lost
        return since <= at - self.terms.start < since + duration

    def confirm(self, at: int) -> None:
        """Add the confirmations of the subscriptions."""
        for sid, channel in enumerate(CHANNELS, 1):
            self._append(at, {"type": "subscribed", "msg": {"channel": channel, "sid": sid}})

    def add(self, at: int, channel: str, kind: str, body: Body) -> None:
        """Add a message with the next sequence number of its channel, unless it is lost."""
        self.numbers[channel] += 1
        if channel == LIFECYCLE or not self.is_lost(at):
            self._append(at, {"type": kind, "sid": 1 + CHANNELS.index(channel), "seq": self.numbers[channel], "msg": body})

    def _append(self, at: int, frame: Body) -> None:
        self.frames.append({"received_ms": at + LATENCY, "frame": frame})


def format_dollars(cents: int) -> str:
    """Format whole cents as dollars, like the venue."""
    return f"{cents / 100:.4f}"


def format_contracts(lots: int) -> str:
    """Format hundredths of a contract, like the venue."""
    return f"{lots / 100:.2f}"


def build_uuid(rng: Random) -> str:
    """Draw a UUID."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


class MarketFlow:
    """Order flow of one market. books: lots by price in cents, for the bids of YES and of NO. clock: number of the last change."""

    def __init__(self, stream: Stream, terms: MarketTerms, rng: Random) -> None:
        self.ticker = f"{stream.terms.ticker}-{terms.suffix}"
        self.books: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.clock = 0
        self._stream, self._terms, self._rng = stream, terms, rng
        self._id = build_uuid(rng)

    def probability(self, path: float, left: float) -> float:
        """Return the probability that the market pays, at a value of the path. left: standard deviation of the rest of the path."""
        return NORMAL.cdf((self._terms.high - path) / left) - NORMAL.cdf((self._terms.low - path) / left)

    def pays(self, end: float) -> bool:
        """Return True if the market pays at this end of the path."""
        return self._terms.low < end <= self._terms.high

    def best(self, side: int) -> int:
        """Return the highest bid of a side in cents; 0 without bids."""
        return max(self.books[side], default=0)

    def post_snapshot(self, at: int) -> None:
        """Add the complete book to the stream; a side without bids is left out."""
        levels = {
            f"{name}_dollars_fp": [[format_dollars(price), format_contracts(book[price])] for price in sorted(book)]
            for name, book in zip(SIDES, self.books, strict=True)
            if book
        }
        self._stream.add(at, BOOKS, "orderbook_snapshot", {**self._head(), **levels})

    def _head(self) -> Body:
        return {"market_ticker": self.ticker, "market_id": self._id, "clock": self.clock}

    def open(self, at: int, probability: float) -> None:
        """Fill the book, and add it to the stream."""
        for side in (YES, NO):
            for depth in range(6):
                if price := self._price(side, probability, depth):
                    self.books[side][price] = self._size() + 100 * 20 * depth
        self.post_snapshot(at)

    def close(self, at: int) -> None:
        """Empty the book, and add it to the stream."""
        for book in self.books:
            book.clear()
        self.post_snapshot(at)

    def step(self, at: int, probability: float) -> None:
        """Add the orders and trades of an instant."""
        rng = self._rng
        for side in (YES, NO):
            self._remove_passed(at, side, probability)
        if rng.random() < TAKER:
            self._take(at, rng.randrange(2), self._size())
        side = rng.randrange(2)
        if rng.random() < 0.55 and len(self.books[side]) > 4:
            price = rng.choice(sorted(self.books[side])[:-1])
            self._change(at, side, price, -max(1, round(self.books[side][price] * rng.random())))
        side = rng.randrange(2)
        depth = int(rng.expovariate(0.5))
        if price := self._price(side, probability, depth):
            self._change(at, side, price, self._size())

    def _price(self, side: int, probability: float, depth: int) -> int:
        """Return the price of a new bid, `depth` cents behind the usual best one; 0 if it is not possible."""
        fair = 100 * (probability if side == YES else 1 - probability)
        price = min(math.floor(fair - self._terms.half_spread), 99 - self.best(1 - side)) - depth
        return max(price, 0)

    def _size(self) -> int:
        """Draw the size of an order: mostly whole contracts."""
        lots = 100 * math.ceil(self._rng.lognormvariate(2.6, 1.0))
        return lots - 50 if self._rng.random() < 0.1 else lots

    def _change(self, at: int, side: int, price: int, lots: int) -> None:
        """Change a level, and add the delta to the stream."""
        self.clock += 1
        book = self.books[side]
        book[price] = book.get(price, 0) + lots
        if not book[price]:
            del book[price]
        moment = datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        sign = "-" if lots < 0 else ""
        body = {
            **self._head(),
            "price_dollars": format_dollars(price),
            "delta_fp": sign + format_contracts(abs(lots)),
            "side": SIDES[side],
            "ts": moment,
            "ts_ms": at,
        }
        self._stream.add(at, BOOKS, "orderbook_delta", body)

    def _remove_passed(self, at: int, side: int, probability: float) -> None:
        """Take or cancel the bids of a side that are no longer below the fair price."""
        fair = 100 * (probability if side == YES else 1 - probability)
        while self.best(side) > fair - 0.4 * self._terms.half_spread and self.best(side):
            price = self.best(side)
            if self._rng.random() < TAKEN:
                self._take(at, 1 - side, self.books[side][price])
            else:
                self._change(at, side, price, -self.books[side][price])

    def _take(self, at: int, taker: int, lots: int) -> None:
        """Trade an order of a taker, who buys the outcome `taker`, with the best bids of the other outcome: one or two levels."""
        passive = 1 - taker
        for price in sorted(self.books[passive], reverse=True)[:2]:
            fill = min(lots, self.books[passive][price])
            if not fill or len(self.books[passive]) < 2:
                return
            lots -= fill
            self._change(at, passive, price, -fill)
            self._print(at, taker, price if passive == YES else 100 - price, fill)

    def _print(self, at: int, taker: int, price: int, lots: int) -> None:
        body = {
            "trade_id": build_uuid(self._rng),
            "market_ticker": self.ticker,
            "yes_price_dollars": format_dollars(price),
            "no_price_dollars": format_dollars(100 - price),
            "count_fp": format_contracts(lots),
            "taker_side": SIDES[taker],
            "taker_outcome_side": SIDES[taker],
            "taker_book_side": "bid" if taker == YES else "ask",
            "is_block_trade": False,
            "ts": at // SECOND,
            "ts_ms": at,
        }
        self._stream.add(at, TRADES, "trade", body)


def generate_event(terms: EventTerms) -> list[Body]:
    """Generate the frames of an event, from the creation of its markets to their settlement."""
    rng = Random(terms.seed)
    stream = Stream(terms)
    flows = [MarketFlow(stream, market, rng) for market in terms.markets]
    close = terms.start + terms.duration
    stream.confirm(terms.start - 10 * MINUTE)
    for flow, market in zip(flows, terms.markets, strict=True):
        _add_lifecycle(stream, terms.start - 5 * MINUTE, flow, _describe(terms, market))
    for flow in flows:
        _add_lifecycle(stream, terms.start - MINUTE, flow, {"event_type": "activated", "is_deactivated": False})
    path, at, is_complete = 0.0, terms.start, True
    for flow in flows:
        flow.open(at, flow.probability(path, 1.0))
    while True:
        pause = max(1, round(rng.expovariate(1 / terms.pause)))
        path += math.sqrt(min(pause, close - at) / terms.horizon) * rng.gauss(0, 1)
        at += pause
        if at >= close:
            break
        if is_complete != (not stream.is_lost(at)):
            is_complete = not is_complete
            for flow in flows if is_complete else ():
                flow.post_snapshot(at)
        flow = rng.choice(flows)
        flow.step(at, flow.probability(path, math.sqrt((terms.horizon - at + terms.start) / terms.horizon)))
    end = path + math.sqrt((terms.horizon - terms.duration) / terms.horizon) * rng.gauss(0, 1)
    for flow in flows:
        flow.close(close)
    for flow in flows:
        if terms.announced != terms.duration:
            _add_lifecycle(stream, close, flow, {"event_type": "close_date_updated", "close_ts": close // SECOND})
        _add_lifecycle(stream, close, flow, {"event_type": "deactivated", "is_deactivated": True})
    for flow in flows:
        at = close + 4 * MINUTE
        result, value = ("yes", "1.0000") if flow.pays(end) else ("no", "0.0000")
        settlement = {"determination_ts": at // SECOND, "result": result, "settlement_value": value}
        _add_lifecycle(stream, at, flow, {"event_type": "determined", **settlement})
    for flow in flows:
        at = close + 6 * MINUTE
        _add_lifecycle(stream, at, flow, {"event_type": "settled", "settled_ts": at // SECOND})
    return stream.frames


def _add_lifecycle(stream: Stream, at: int, flow: MarketFlow, body: Body) -> None:
    stream.add(at, LIFECYCLE, LIFECYCLE, {"market_ticker": flow.ticker, **body})


def _describe(terms: EventTerms, market: MarketTerms) -> Body:
    """Return the body of the message about the creation of a market."""
    close = (terms.start + terms.announced) // SECOND
    return {
        "event_type": "created",
        "exchange_index": 0,
        "open_ts": (terms.start - MINUTE) // SECOND,
        "close_ts": close,
        "price_level_structure": "linear_cent",
        "price_ranges": [{"start": "0.0000", "end": "1.0000", "step": "0.0100"}],
        "additional_metadata": {
            "name": market.label,
            "title": f"{terms.title} — {market.label}",
            "yes_sub_title": market.label,
            "no_sub_title": market.label,
            "rules_primary": f"If the outcome is {market.label}, then the market resolves to Yes.",
            "rules_secondary": "",
            "can_close_early": terms.announced != terms.duration,
            "event_ticker": terms.ticker,
            "expected_expiration_ts": close,
        },
    }


def generate_capture(terms: EventTerms) -> bytes:
    """Generate the capture of an event, one frame per line."""
    return b'{"frames":[\n' + b",\n".join(map(orjson.dumps, generate_event(terms))) + b"\n]}\n"


if __name__ == "__main__":
    for event in EVENTS:
        (CAPTURES / f"{event.ticker}.json.gz").write_bytes(gzip.compress(generate_capture(event), mtime=0))
