"""Random valid tapes, and an agent that makes every call; both from explicit seeds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np

from bellwether.replay.tape.build import allowed_levels, level_words
from bellwether.replay.tape.layout import CLOSE, GRID, HALT, INVALID, LEVEL, OPEN, PRINT, SETTLE, TRADED, VALID, VOID, Tape, pack
from bellwether.replay.units import DOLLAR, MAX_LOTS

SECOND = 1_000_000_000
IOC, GTC, POST_ONLY, FOK, GTD = range(5)


@dataclass(frozen=True)
class Shape:
    """Parameters of a random tape.

    Attributes:
        tick: distance of prices in $0.0001.
        tapered: tick below 10 and above 90 cents, if different.
        later: tick of each market after the first third of the tape, if different.
        lot: sizes are multiples of it.
        spread_out: maximum distance of levels from the touch, in ticks.
        tempo: largest step between instants, in quarters of a second.
        busy: largest number of events in one instant.
        largest: largest level or print, in contracts.
        crossed: chance of a level on the wrong side.
        drift: chance that the price moves by a tick.
        trades: share of trades in events.
        floods: chance that a trade is huge and takes many levels.
        fees: terms of every ticker.
    """

    tickers: int = 2
    instants: int = 400
    tick: int = 100
    tapered: int = 0
    later: int = 0
    lot: int = 100
    spread_out: int = 6
    tempo: int = 8
    busy: int = 4
    largest: int = 60
    lifecycle: bool = True
    crossed: float = 0.02
    drift: float = 0.03
    trades: float = 0.3
    floods: float = 0.0
    fees: tuple[int, ...] = (1, 7, 100, 1, 7, 400, 0)

    @property
    def grids(self) -> tuple[tuple[int, ...], ...]:
        return (prices_of(self.tick, self.tapered), *([prices_of(self.later, 0)] if self.later else []))


@cache
def prices_of(tick: int, tapered: int) -> tuple[int, ...]:
    """Return the prices of a grid in $0.0001."""
    ends = range(tapered, 1_000, tapered) if tapered else range(tick, 1_000, tick)
    return (
        *ends,
        *range(-(-1_000 // tick) * tick, 9_001, tick),
        *sorted(price for price in (DOLLAR - end for end in ends) if price > 9_000),
    )


@dataclass
class _Ticker:
    """The recorded state of a ticker while the tape is generated. `grid`: its prices; `middle`: index of the midpoint."""

    code: int
    grid: tuple[int, ...]
    middle: int
    levels: list[dict[int, int]] = field(default_factory=lambda: [{}, {}])
    halted: bool = False
    valid: bool = True
    over: bool = False

    def best(self, side: int) -> int:
        return max((price for price, lots in self.levels[side].items() if lots), default=0)


class FastRandom(Random):
    """Faster `Random` without checks of arguments."""

    def randint(self, a: int, b: int) -> int:
        return a + self._below(b - a + 1)

    def choice(self, seq: Any) -> Any:
        return seq[self._below(len(seq))]

    def _below(self, limit: int) -> int:
        bits = limit.bit_length()
        while (number := self.getrandbits(bits)) >= limit:
            pass
        return number


def random_tape(seed: int, shape: Shape) -> Tape:
    """Return a tape of that shape. Times are whole quarters of a second, so that events coincide with decisions, arrivals, samples and
    expiries.
    """
    return _Maker(FastRandom(seed), shape).tape()


class _Maker:
    def __init__(self, rng: Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        self.now = 1_700_000_000 * SECOND
        self.start = self.now
        self.ts: list[int] = []
        self.words: list[int] = []
        count = len(shape.grids[0])
        self.tickers = [_Ticker(code, shape.grids[0], rng.randint(count // 5, count * 4 // 5)) for code in range(shape.tickers)]

    def tape(self) -> Tape:
        for number in range(self.shape.instants):
            self._instant(number)
        self.now += SECOND
        self._lifecycle_at_the_end()
        names = tuple(f"T{ticker.code}" for ticker in self.tickers)
        grids = [[np.array(grid, np.int64) for grid in self.shape.grids]] * len(names)
        event, levels = level_words(np.array(self.words, np.int64), grids)
        return Tape(
            ts=np.array(self.ts, np.int64),
            event=event,
            tickers=names,
            start=self.start,
            end=self.now,
            levels=levels,
            grids=allowed_levels(levels, grids),
            fees=np.array([self.shape.fees] * len(names), np.int64),
            digest="0" * 64,
        )

    def _say(self, kind: int, ticker: _Ticker, side: int = 0, price: int = 0, value: int = 0) -> None:
        self.ts.append(self.now)
        self.words.append(pack(kind, ticker.code, side, price, value))

    def _instant(self, number: int) -> None:
        self.now += self.rng.randint(1, self.shape.tempo) * SECOND // 4 if number else 0
        live = [ticker for ticker in self.tickers if not ticker.over]
        for _ in range(self.rng.randint(1, self.shape.busy)):
            if live:
                self._something(self.rng.choice(live))
        if self.shape.later and number == self.shape.instants // 3:
            for ticker in self.tickers:
                self._change_grid(ticker)
        for ticker in live:
            if self.shape.lifecycle and self.rng.random() < (0.2 if ticker.halted else 0.01):
                self._lifecycle(ticker, late=number > 0.7 * self.shape.instants)

    def _something(self, ticker: _Ticker) -> None:
        ticker.middle += self.rng.choice((-1, 1)) if self.rng.random() < self.shape.drift else 0
        ticker.middle = min(max(ticker.middle, 2), len(ticker.grid) - 3)
        chance = self.rng.random()
        if self.shape.lifecycle and chance < (0.01 if ticker.valid else 0.25):
            self._gap(ticker)
        elif chance < self.shape.trades:
            self._trades(ticker)
        else:
            for _ in range(self.rng.randint(1, 5)):
                self._move(ticker)

    def _lots(self) -> int:
        return self.shape.lot * self.rng.randint(1, 100 * self.shape.largest // self.shape.lot)

    def _price(self, ticker: _Ticker, side: int) -> int:
        """Draw a price near the midpoint, usually on the side of the book where bids belong."""
        middle = ticker.middle if side == 0 else len(ticker.grid) - 2 - ticker.middle
        away = self.rng.randint(0, self.shape.spread_out) if self.rng.random() >= self.shape.crossed else -self.rng.randint(1, 3)
        return ticker.grid[min(max(middle - away, 0), len(ticker.grid) - 1)]

    def _change_grid(self, ticker: _Ticker) -> None:
        middle = ticker.grid[ticker.middle]
        ticker.grid = self.shape.grids[1]
        ticker.middle = bisect_left(ticker.grid, middle)
        self._say(GRID, ticker, value=len(self.tickers) + ticker.code)

    def _move(self, ticker: _Ticker) -> None:
        side = self.rng.randint(0, 1)
        price = self._price(ticker, side)
        shown = ticker.levels[side].get(price, 0)
        lots = self.rng.choice((0, shown, self.shape.lot * (shown // self.shape.lot // 2), self._lots(), shown + self._lots()))
        self._level(ticker, side, price, lots)
        # Quotes that the new level would cross are usually removed.
        crossed = DOLLAR - price
        for other in [p for p, n in ticker.levels[1 - side].items() if p >= crossed and n] if lots else ():
            if self.rng.random() >= self.shape.crossed:
                self._level(ticker, 1 - side, other, 0)

    def _level(self, ticker: _Ticker, side: int, price: int, lots: int, kind: int = LEVEL) -> None:
        lots = min(lots, MAX_LOTS)
        ticker.levels[side][price] = lots
        self._say(kind, ticker, side, price, lots)

    def _trades(self, ticker: _Ticker) -> None:
        """Let a taker walk the bids of a side. Prints precede their cuts."""
        side, wanted = self.rng.randint(0, 1), -(-self._lots() // self.rng.choice((1, 4, 4, 16)) // self.shape.lot) * self.shape.lot
        if self.rng.random() < self.shape.floods:
            far = bisect_left(ticker.grid, self._price(ticker, side)) - self.shape.spread_out
            self._print(ticker, side, ticker.grid[max(far, 0)], 500 * wanted)
            return
        if self.rng.random() < 0.1:
            self._print(ticker, side, self._price(ticker, side), wanted)
            return
        for price in sorted((price for price, lots in ticker.levels[side].items() if lots), reverse=True)[:3]:
            shown = ticker.levels[side][price]
            lots = min(shown, wanted)
            self._print(ticker, side, price, lots)
            wanted -= lots
            if self.rng.random() < 0.8:
                self._level(ticker, side, price, shown - lots, TRADED)
            if self.rng.random() < 0.2:
                self._level(ticker, side, price, (shown - lots) // 2 // self.shape.lot * self.shape.lot)
            if wanted == 0:
                return

    def _print(self, ticker: _Ticker, side: int, price: int, lots: int) -> None:
        self._say(PRINT, ticker, side, price, min(lots, MAX_LOTS))

    def _gap(self, ticker: _Ticker) -> None:
        """Invalidate the book, or rebuild it from scratch."""
        if ticker.valid:
            self._say(INVALID, ticker)
        else:
            for side in (0, 1):
                for price in [price for price, lots in ticker.levels[side].items() if lots]:
                    self._level(ticker, side, price, self.rng.choice((0, self._lots())))
            self._say(VALID, ticker)
        ticker.valid = not ticker.valid

    def _lifecycle(self, ticker: _Ticker, *, late: bool) -> None:
        if ticker.halted or self.rng.random() < 0.8:
            self._say(OPEN if ticker.halted else HALT, ticker)
            ticker.halted = not ticker.halted
        elif late and sum(not other.over for other in self.tickers) > 1:
            self._end(ticker)

    def _lifecycle_at_the_end(self) -> None:
        for ticker in self.tickers:
            if not ticker.over and self.rng.random() < 0.8:
                self._end(ticker)

    def _end(self, ticker: _Ticker) -> None:
        ticker.over = True
        if self.rng.random() < 0.5:
            self._say(CLOSE, ticker)
            if self.rng.random() < 0.3:
                return
        if self.rng.random() < 0.15:
            self._say(VOID, ticker)
        else:
            self._say(SETTLE, ticker, value=self.rng.choice((0, 1_000_000, 1_000_000, 437_219)))


@dataclass(frozen=True)
class Behaviour:
    """Parameters of a random agent.

    Attributes:
        orders: largest number per decision.
        stacks: chance of a pile of `stack` orders at one price.
        largest: largest order, in contracts.
        odd_lots, huge, sweeps, passive, wild, cancels, amends, quotes, clears: chances of each kind of call. Huge orders have 2,500 contracts, and sweeps are
            market orders.
        turns: seconds after which an agent that wants one side changes it; 0: wants both.
    """

    orders: int = 4
    stacks: float = 0.05
    stack: int = 20
    largest: int = 20
    odd_lots: float = 0.1
    huge: float = 0.01
    sweeps: float = 0.1
    passive: float = 0.8
    wild: float = 0.03
    cancels: float = 0.2
    quotes: float = 0.0
    clears: float = 0.005
    turns: int = 0


class RandomAgent:
    """Decide from own random numbers and the plain engine's state. `act` returns the calls as (name, arguments)."""

    def __init__(self, seed: int, shape: Shape, temper: Behaviour) -> None:
        self.rng, self.shape, self.temper = FastRandom(seed), shape, temper
        self._last: dict[tuple[int, int], int] = {}

    def act(self, engine: Any) -> list[tuple[str, tuple[int, ...]]]:
        calls: list[tuple[str, tuple[int, ...]]] = []
        rng = self.rng
        for _ in range(rng.randint(0, self.temper.orders)):
            order = self._order(engine)
            copies = self.temper.stack if rng.random() < self.temper.stacks else 1
            calls += [("place", order)] * copies
        resting = engine.resting()
        while rng.random() < self.temper.cancels and resting:
            number = rng.choice(resting)
            if rng.random() < 0.5:
                calls.append(("cancel", (number,)))
            else:
                calls.append(("amend", (number, *self._amended(engine.orders[number]))))
        if engine.orders and rng.random() < self.temper.wild:
            calls.append(("cancel", (rng.randrange(len(engine.orders)),)))
        if rng.random() < self.temper.clears:
            calls.append(("cancel_all", (rng.randint(-1, self.shape.tickers - 1),)))
        if rng.random() < self.temper.quotes:
            calls.append(self._quotes(engine))
        rng.shuffle(calls)
        return calls

    def _quotes(self, engine: Any) -> tuple[str, tuple[int, ...]]:
        ticker = self.rng.randrange(self.shape.tickers)
        prices = [self.rng.choice((self._near(engine, ticker, side, 0), self._last.get((ticker, side), 0), -1, 0)) for side in (0, 1)]
        self._last |= {(ticker, side): price for side, price in enumerate(prices) if price > 0}
        return "quote", (ticker, *prices, 100 * self.rng.choice((2, 2, 3)))

    def _near(self, engine: Any, ticker: int, side: int, away: int) -> int:
        """Draw a price some ticks below the best bid of a side, on the market's grid."""
        grid = sorted_prices(engine.grid[ticker])
        best = engine.markets[ticker].best(side) or self.rng.choice(grid)
        return grid[min(max(bisect_left(grid, best) - away, 0), len(grid) - 1)]

    def _amended(self, order: Any) -> tuple[int, int]:
        price = order.price + self.rng.choice((0, 0, 0, 1, -1, 2)) * self.shape.tick
        lots = self.rng.choice((order.remaining, max(1, order.remaining // 2), self._lots(), order.remaining + 100))
        return price, 0 if self.rng.random() < self.temper.wild else lots

    def _lots(self) -> int:
        chance = self.rng.random()
        if chance < self.temper.huge:
            return 250_000
        if chance < self.temper.huge + self.temper.odd_lots:
            return self.rng.randint(1, 99)
        return 100 * self.rng.randint(1, self.temper.largest)

    def _order(self, engine: Any) -> tuple[int, ...]:
        rng = self.rng
        ticker, side, action = rng.randrange(self.shape.tickers), rng.randint(0, 1), rng.randint(0, 1)
        if self.temper.turns:
            action = (side + engine.now // (self.temper.turns * SECOND)) % 2
        if rng.random() < self.temper.wild:
            return self._wild(engine, ticker, side, action)
        tif = rng.choice((IOC, GTC, GTC, GTC, POST_ONLY, POST_ONLY, FOK, GTD))
        away = rng.choice((0, 0, 0, 1, 1, 2, -1, -3)) if rng.random() < self.temper.passive else rng.randint(-8, 0)
        near = self._near(engine, ticker, side if action == 0 else 1 - side, away)
        price = near if action == 0 else DOLLAR - near
        if rng.random() < self.temper.sweeps:
            return ticker, side, action, 0, self._lots() * 10, rng.choice((IOC, IOC, FOK)), 0
        expires = engine.now + rng.randint(0, 80) * SECOND // 4 if tif == GTD else 0
        return ticker, side, action, price, self._lots(), tif, expires

    def _wild(self, engine: Any, ticker: int, side: int, action: int) -> tuple[int, ...]:
        """Draw an order that may be wrong in any field."""
        rng = self.rng
        return (
            rng.choice((ticker, ticker, self.shape.tickers, -1)),
            side,
            action,
            rng.choice((-1, 0, 1, 50, 5000, 5030, 5025, 9990, 10_000, 50_000)),
            rng.choice((0, -5, 1, 99, 100, 10**9, 10**9 + 1)),
            rng.choice((IOC, GTC, POST_ONLY, FOK, GTD)),
            rng.choice((0, engine.now, engine.now + 1, engine.now + 10 * SECOND)),
        )


@cache
def sorted_prices(grid: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(grid))
