"""Polymarket's events and markets in the generated world, with all later events of their lives.

A market's claim (`PathClaim`) determines its probability and outcome. The answer is the instant at which the outcome becomes known; from
then on quotes are next to the expected value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bellwether.sandbox.polymarket.resolution import HALF, YES, ResolutionStep
from bellwether.sandbox.world.latent_paths import SLOT, PathClaim
from bellwether.sandbox.world.model import Key
from bellwether.sandbox.world.tape import DOLLAR, GRIDS, Level, MarketTape, TradingProfile, list_bids, record_tape, reserve_size


@dataclass(frozen=True, slots=True)
class MarketFees:
    """Fees of a market since April 2026. type: name of the fee type; None without fees."""

    type: str | None = None
    rate: float = 0.0
    rebate: float = 0.0


@dataclass(frozen=True, slots=True)
class Quote:
    """Quote of YES: prices in tenths of a cent, sizes in hundredths of a share. last: price of the last trade; 0 without one."""

    bid: int
    ask: int
    bid_size: int
    ask_size: int
    last: int


@dataclass(frozen=True, slots=True, eq=False)
class ListedMarket:
    """Market whose outcome number `yes` (0 or 1) wins if its claim comes true.

    ends: announced end; None if it announces none. tokens: position ids on Protocol V2. lacks_token: its object states only one token,
    which is invalid.
    """

    key: Key
    number: int
    id: str
    condition_id: str
    question_id: str
    slug: str
    question: str
    description: str
    group_title: str
    outcomes: tuple[str, str]
    tokens: tuple[str, str]
    is_v2: bool
    yes: int
    claim: PathClaim
    trading: TradingProfile
    created: int
    ends: int | None
    steps: tuple[ResolutionStep, ...]
    fees: MarketFees
    lacks_token: bool

    @property
    def opens(self) -> int:
        """Instant at which trading starts."""
        return self.claim.opens

    @property
    def answered(self) -> int:
        """Instant at which the answer to the market's question becomes known."""
        return self.claim.closes

    @property
    def truth(self) -> int:
        """Final value of YES in tenths of a cent."""
        return self.steps[-1].value

    @property
    def closes(self) -> int:
        """Instant at which the market closes, and trading ends."""
        return next(step.at for step in self.steps if step.closed)

    @property
    def tick(self) -> int:
        """Price step in tenths of a cent."""
        return GRIDS[self.trading.grid][0][2]

    def step(self, at: int) -> ResolutionStep | None:
        """Return the state of the market's resolution at an instant; None before the first step, such as a proposal."""
        return next((step for step in reversed(self.steps) if step.at <= at), None)

    def closed(self, at: int) -> bool:
        """Return True if the market is closed at an instant."""
        return at >= self.closes

    def winner(self, at: int) -> int | None:
        """Return the number of the outcome that has won by an instant; None before the resolution, or if none has won."""
        step = self.step(at)
        if step is None or not step.final or step.value == HALF:
            return None
        return self.yes if step.value == YES else 1 - self.yes

    def tape(self) -> MarketTape:
        """Return the market's quotes and trades from its opening to the answer."""
        return record_tape(self.claim, self.trading)

    def _pins(self) -> list[tuple[int, int, int]]:
        """Return the changes of the quote from the answer on, as (instant, bid, ask): next to the correct value, then to the proposed one."""
        values = [(self.answered, self.truth), *((step.at, step.value) for step in self.steps)]
        tick = self.tick
        low, high = tick, DOLLAR - 2 * tick
        return [(at, bid, bid + tick) for at, value in values for bid in (min(max(value - tick, low), high),)]

    def quote(self, at: int) -> Quote | None:
        """Return the quote at an instant; None before the opening and from the close on."""
        if not self.opens <= at < self.closes:
            return None
        tape = self.tape()
        slot = tape.at(at)
        if at < self.answered:
            return Quote(*(int(getattr(tape, name)[slot]) for name in Quote.__slots__))
        _, bid, ask = next(pin for pin in reversed(self._pins()) if pin[0] <= at)
        size = 5_000 * self.trading.size + reserve_size(self.tick)
        return Quote(bid, ask, size, size, int(tape.last[slot]))

    def levels(self, at: int) -> tuple[list[Level], list[Level]]:
        """Return the bids and asks of YES at an instant, best first; empty without a quote."""
        quote = self.quote(at)
        if quote is None:
            return [], []
        grid = self.trading.grid
        asks = list_bids(grid, DOLLAR - quote.ask, quote.ask_size)
        return list_bids(grid, quote.bid, quote.bid_size), [(DOLLAR - price, size) for price, size in asks]

    def twice_prices(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return twice the mid price of YES at each of `times`, at which the market must trade."""
        tape = self.tape()
        slots = np.clip((times - self.opens) // SLOT, 0, len(tape.price) - 1)
        prices = (tape.bid + tape.ask)[slots]
        for at, bid, ask in self._pins():
            prices = np.where(times >= at, bid + ask, prices)
        return prices

    def turnover(self, at: int) -> int:
        """Return the dollars traded up to an instant, in 1/100000: a tenth of a cent times a hundredth of a share."""
        return _compute_turnover(self, min(at, self.answered))


@lru_cache(maxsize=8192)
def _compute_turnover(market: ListedMarket, at: int) -> int:
    tape = market.tape()
    end = tape.at(at) + 1
    return int((tape.price[:end] * tape.size[:end]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ListedEvent:
    """Event with its markets. exclusive: at most one of them is answered with yes. tag: its topic."""

    key: Key
    id: str
    slug: str
    title: str
    tag: str
    exclusive: bool
    created: int
    markets: tuple[ListedMarket, ...] = field(repr=False)

    @property
    def ends(self) -> int | None:
        """Announced end, the same for all markets."""
        return self.markets[0].ends

    @property
    def closes(self) -> int:
        """Instant at which its last market closes."""
        return max(market.closes for market in self.markets)

    @property
    def final(self) -> int:
        """Instant from which the event no longer changes."""
        return max(market.steps[-1].at for market in self.markets)
