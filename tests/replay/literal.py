"""One account under one queue model, written from the text of docs/replay-rules.md alone: exact fractions of dollars, dictionaries and lists.

It knows one market, post-only bids of one size, cancels and quotes, under `kalshi-2025-07-01` with the fees of a series whose makers pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from bellwether.replay.tape.layout import CLOSE, LEVEL, PRINT, SETTLE, TRADED, Tape, unpack

DOLLAR = 1000
MAKER_COEFFICIENT = Fraction(175, 10_000)


@dataclass(eq=False)
class Bid:
    side: int
    price: int
    left: int
    ahead: int


class Literal:
    """`model`: trade_only or optimistic. Money in dollars, prices in mills, sizes in lots; side 0 YES, 1 NO."""

    def __init__(self, model: str, bankroll: int) -> None:
        self.model, self.cash, self.fees = model, Fraction(bankroll), Fraction(0)
        self.held = [0, 0]
        self.recorded: list[dict[int, int]] = [{}, {}]
        self.taken: dict[tuple[int, int], int] = {}
        self.bids: list[Bid] = []
        self.quotes: list[Bid | None] = [None, None]
        self.open = True

    # The book as displayed

    def shown(self, side: int, price: int) -> int:
        return self.recorded[side].get(price, 0) - self.taken.get((side, price), 0)

    def best(self, side: int) -> int:
        return max((price for price in self.recorded[side] if self.shown(side, price)), default=0)

    # What the agent asks for

    def place(self, side: int, price: int, lots: int) -> Bid:
        bid = Bid(side, price, lots, self.shown(side, price))
        own = max((other.price for other in self.bids if other.side != side), default=0)
        has_book = any(self.recorded)
        if has_book and self.open and max(self.best(1 - side), own) + price < DOLLAR:
            self.bids.append(bid)
        return bid

    def cancel(self, bid: Bid) -> None:
        if bid in self.bids:
            self.bids.remove(bid)

    def quote(self, prices: tuple[int, int], lots: int) -> None:
        for side, price in enumerate(prices):
            standing = self.quotes[side]
            if standing is not None and (standing not in self.bids or standing.price != price):
                self.cancel(standing)
                self.quotes[side] = None
        for side, price in enumerate(prices):
            if price and self.quotes[side] is None:
                self.quotes[side] = self.place(side, price, lots)

    # What was recorded

    def run(self, tape: Tape, cadence: int, act: Callable[[Literal, int], None]) -> Literal:
        """All events; after those up to each decision, `act` with its number."""
        events = [(ts, *unpack(word)) for ts, word in zip(tape.ts.tolist(), tape.event.tolist(), strict=True)]
        last = min((ts for ts, kind, *_ in events if kind in (CLOSE, SETTLE)), default=events[-1][0])
        decision, due = 0, tape.start
        for number, (ts, kind, _, side, price, value) in enumerate(events):
            while due < ts and due <= last:
                act(self, decision)
                decision, due = decision + 1, due + cadence
            self.event(kind, side, price, value)
            if number + 1 == len(events) or events[number + 1][0] != ts or events[number + 1][1] in (CLOSE, SETTLE):
                self.cross()
        while due <= last:
            act(self, decision)
            decision, due = decision + 1, due + cadence
        return self

    def event(self, kind: int, side: int, price: int, value: int) -> None:
        if kind in (LEVEL, TRADED):
            self.level(side, price, value, by_trade=kind == TRADED)
        elif kind == PRINT:
            self.trade(side, price, value)
        else:
            assert kind in (CLOSE, SETTLE)
            self.bids.clear()
            self.open = False
            if kind == SETTLE:
                pays = (Fraction(value, 10**6), 1 - Fraction(value, 10**6))
                self.cash += sum(Fraction(floor(each * lots * 10_000), 10**6) for each, lots in zip(pays, self.held, strict=True))
                self.held = [0, 0]

    def level(self, side: int, price: int, lots: int, *, by_trade: bool) -> None:
        before = self.recorded[side].get(price, 0)
        self.recorded[side][price] = lots
        self.taken.pop((side, price), None)
        for bid in self.bids:
            if (bid.side, bid.price) == (side, price) and self.model == "optimistic":
                cancelled = 0 if by_trade else max(0, before - lots)
                bid.ahead = min(max(0, bid.ahead - cancelled), lots)

    def trade(self, side: int, price: int, lots: int) -> None:
        left, gone = lots, 0
        for bid in self.queue(side):
            if bid.price > price:
                bid.ahead = 0
                left -= self.fill(bid, left)
            elif bid.price == price and left:
                waits = min(left, max(0, bid.ahead - gone))
                gone, left = gone + waits, left - waits
                left -= self.fill(bid, left)
        for bid in self.bids:
            if (bid.side, bid.price) == (side, price):
                bid.ahead = max(0, bid.ahead - gone)

    def cross(self) -> None:
        for side in (0, 1):
            # Levels at which the recorded book is itself locked or crossed fill nothing.
            highest = DOLLAR - 1 - self.best(side)
            for bid in self.queue(side):
                for price in sorted(self.recorded[1 - side], reverse=True):
                    if DOLLAR - bid.price <= price <= highest and (lots := self.fill(bid, self.shown(1 - side, price))):
                        self.taken[1 - side, price] = self.taken.get((1 - side, price), 0) + lots

    def queue(self, side: int) -> list[Bid]:
        """Best price first, then first come."""
        return sorted((bid for bid in self.bids if bid.side == side), key=lambda bid: -bid.price)

    # Money

    def fill(self, bid: Bid, most: int) -> int:
        lots = min(bid.left, most)
        if lots == 0:
            return 0
        contracts, price = Fraction(lots, 100), Fraction(bid.price, DOLLAR)
        fee = Fraction(ceil(MAKER_COEFFICIENT * contracts * price * (1 - price) * 100), 100)
        pairs = min(lots, self.held[1 - bid.side])
        self.cash += Fraction(pairs, 100) - contracts * price - fee
        self.fees += fee
        self.held[1 - bid.side] -= pairs
        self.held[bid.side] += lots - pairs
        bid.left -= lots
        if bid.left == 0:
            self.bids.remove(bid)
        return lots

    def equity(self) -> Fraction:
        """Cash, and what is held at its best displayed bid."""
        return self.cash + sum(Fraction(lots * self.best(side), 100 * DOLLAR) for side, lots in enumerate(self.held))
