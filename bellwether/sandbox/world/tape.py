"""Quotes and trades of one market (its tape), drawn around the traders' probability.

A tape has one row per slot of ten minutes. A mill is a tenth of a cent. A market's price grid lists the prices that orders may have.

Traders nearly know the truth: their probability is the latent probability p plus 0.03 * 4p(1 - p) * z. z is standard normal, independent of p, and
mean-reverting: an autoregression whose correlation falls to 1/e within a day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bellwether.sandbox.timestamps import DAY
from bellwether.sandbox.world.latent_paths import SLOT, Floats, Latent
from bellwether.sandbox.world.random_draws import Purpose, create_generator

#: Prices are integers of a tenth of a cent, sizes integers of a hundredth of a contract.
DOLLAR = 1000
NO_BID, NO_ASK = 0, DOLLAR

#: Standard deviation of the traders' error at even odds, in dollars.
ERROR = 0.03
#: Share of the error that one slot passes on to the next.
_KEPT = math.exp(-SLOT / DAY)
#: Maximum error in standard deviations, so that the traders' probability stays between 0 and 1.
_LARGEST_ERROR = 4.0
#: Widest spread in mills, with a missing side at 0 or one dollar, whose middle counts as the price.
_WIDEST = 100

#: Dollars for which either side of a market can be bought at the level behind its best price, or at the best price if there is no lower one.
RESERVE = 3_000

Ints = NDArray[np.integer[Any]]
Noise = NDArray[np.float32]

#: Price grids: name -> (start, end, step) of each range.
GRIDS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "linear_cent": ((0, 1000, 10),),
    "deci_cent": ((0, 1000, 1),),
    "tapered_deci_cent": ((0, 100, 1), (100, 900, 10), (900, 1000, 1)),
}


def list_price_ranges(grid: str) -> list[dict[str, str]]:
    """Return the ranges of a price grid and their steps, in the format of a market object."""
    return [
        {"end": f"{end / DOLLAR:.4f}", "start": f"{start / DOLLAR:.4f}", "step": f"{step / DOLLAR:.4f}"} for start, end, step in GRIDS[grid]
    ]


def reserve_size(mills: int, unit: int) -> int:
    """Return the size of `RESERVE` at a price, in hundredths of a contract. unit: hundredths of which the size is a multiple."""
    return RESERVE * 100 * DOLLAR // (min(mills, DOLLAR - mills) * unit) * unit


def floor_to_grid(grid: str, dollars: Floats) -> Ints:
    """Round each price in dollars down to a price of the grid, in mills."""
    mills = np.floor(dollars * DOLLAR).astype(np.int64).clip(0, DOLLAR)
    below = np.zeros_like(mills)
    for start, _, step in GRIDS[grid]:
        below = np.where(mills >= start, mills // step * step, below)
    return below


def ceil_to_grid(grid: str, dollars: Floats) -> Ints:
    """Round each price in dollars up to a price of the grid, in mills."""
    return DOLLAR - floor_to_grid(grid, 1.0 - dollars)


@dataclass(frozen=True, slots=True)
class TradingProfile:
    """Parameters by which the quotes and trades of a market are drawn.

    Attributes:
        entropy: seed of its quotes and trades.
        grid: name of its price grid.
        half_spread: mean distance of a quote from the traders' probability, in dollars; less below 0.1 and above 0.9.
        requote: probability per slot that quotes are renewed; they are also renewed when p moves by about the half spread.
        one_sided: probability that a renewed quote lacks one of its sides.
        trades: probability per slot of a trade.
        size: scale of the contracts per trade and per quote.
        whole: contracts trade in whole numbers only.
        kept: tenths of the traded contracts that increase the open interest.
    """

    entropy: tuple[int, ...]
    grid: str
    half_spread: float
    requote: float
    one_sided: float
    trades: float
    size: int
    whole: bool
    kept: int


@dataclass(frozen=True, slots=True)
class MarketTape:
    """Quote and trade of a market at the start of each slot since `opens`. Prices are in mills, sizes in 1/100 contract.

    twice_price: twice the mid price or, if a side is missing, twice the previous mid price, limited to the current quote. price, size: the
    trade; 0 without a trade. last: price of the last trade.
    """

    opens: int
    bid: Ints
    ask: Ints
    bid_size: Ints
    ask_size: Ints
    twice_price: Ints
    price: Ints
    last: Ints
    size: Ints
    volume: Ints
    open_interest: Ints

    @property
    def times(self) -> Ints:
        """Start of each slot."""
        return self.opens + SLOT * np.arange(len(self.price), dtype=np.int64)

    def at(self, instant: int) -> int:
        """Return the index of the slot that contains an instant; after the close the last one, before the opening -1."""
        return min(max((instant - self.opens) // SLOT, -1), len(self.price) - 1)

    def volume_at(self, instant: int) -> int:
        """Return the volume up to an instant, in hundredths of a contract."""
        slot = self.at(instant)
        return int(self.volume[slot]) if slot >= 0 else 0

    def part(self, cut: slice) -> MarketTape:
        """Return the slots of the tape that `cut` selects; `cut` must have a start."""
        columns: dict[str, Any] = {name: getattr(self, name)[cut] for name in MarketTape.__slots__ if name != "opens"}
        return MarketTape(self.opens + SLOT * cut.start, **columns)


def draw_traders_error(entropy: tuple[int, ...], slots: int) -> Floats:
    """Draw z, the traders' error in standard deviations, at the start of each slot. entropy: seed."""
    error = create_generator(*entropy, Purpose.ERROR).standard_normal(slots)
    error[1:] *= math.sqrt(1.0 - _KEPT**2)
    # Adds the discounted earlier shocks, twice as many with each step.
    lag, factor = 1, _KEPT
    while lag < slots:
        error[lag:] += factor * error[:-lag]
        lag, factor = 2 * lag, factor * factor
    return error.clip(-_LARGEST_ERROR, _LARGEST_ERROR)


def _renewals(latent: Floats, trading: TradingProfile, noise: Noise) -> Ints:
    """Draw the slots at which quotes are renewed: at random, and whenever the latent probability has moved by about half a spread.

    Moves are measured on the arcsine scale, on which a move near 0 or 1 counts more.
    """
    cell = np.floor(np.arcsin(np.sqrt(latent)) / trading.half_spread)
    renewed = (noise < trading.requote) | (np.diff(cell, prepend=-1.0) != 0)
    return np.flatnonzero(renewed)


def _quotes(latent: Latent, trading: TradingProfile, noise: Noise) -> dict[str, Ints]:
    """Draw the quotes and their sizes by slot. A quote stays until it is renewed; the first one has both sides."""
    truth = latent.probabilities().clip(0.0, 1.0)
    at = _renewals(truth, trading, noise[0])
    doubt = 4.0 * truth[at] * (1.0 - truth[at])
    fair = truth[at] + ERROR * doubt * draw_traders_error(trading.entropy, len(truth))[at]
    wide, luck, deep = noise[1, at].astype(np.float64), noise[2, at], noise[3, at]
    half = trading.half_spread * (0.6 + 0.8 * wide) * np.minimum(doubt / 0.36, 1.0)
    luck[0] = 1.0
    bid, ask = _quote_around(trading.grid, fair, half)
    bid[luck < trading.one_sided / 2] = NO_BID
    ask[(luck >= trading.one_sided / 2) & (luck < trading.one_sided)] = NO_ASK
    unit = 100 if trading.whole else 1
    scale = 100 * trading.size // unit
    bid_size = (scale * (1 + 9 * deep)).astype(np.int64) * unit
    ask_size = (scale * (10 - 9 * deep)).astype(np.int64) * unit
    lowest = GRIDS[trading.grid][0][2]
    bid_size[bid == lowest] += reserve_size(lowest, unit)
    ask_size[ask == DOLLAR - lowest] += reserve_size(lowest, unit)
    quotes = {
        "bid": bid,
        "ask": ask,
        "bid_size": np.where(bid == NO_BID, 0, bid_size),
        "ask_size": np.where(ask == NO_ASK, 0, ask_size),
        "twice_price": _twice_prices(bid, ask),
    }
    standing = np.searchsorted(at, np.arange(len(truth)), "right") - 1
    return {name: values.astype(np.int32)[standing] for name, values in quotes.items()}


def _quote_around(grid: str, fair: Floats, half: Floats) -> tuple[Ints, Ints]:
    """Compute bids and asks on the price grid. fair: the traders' probability. half: half the spread, in dollars.

    A side is missing only if its outcome is worth less than a fifth of a price step.
    """
    step = GRIDS[grid][0][2]
    bid = np.minimum(floor_to_grid(grid, fair - half), DOLLAR - step)
    ask = np.maximum(ceil_to_grid(grid, fair + half), step)
    low, high = ((sides == 0) & (worth * DOLLAR * 5 >= step) for sides, worth in ((bid, fair), (DOLLAR - ask, 1.0 - fair)))
    bid[low], ask[low] = step, np.maximum(ask[low], 2 * step)
    bid[high], ask[high] = np.minimum(bid[high], DOLLAR - 2 * step), DOLLAR - step
    return bid, ask


def _twice_prices(bid: Ints, ask: Ints) -> Ints:
    """Compute twice the mid price by slot; where a side is missing, the previous mid price is used, limited to the quote."""
    whole = ((bid > NO_BID) & (ask < NO_ASK)) | (ask - bid <= _WIDEST)
    whole[0] = True
    last = np.maximum.accumulate(np.where(whole, np.arange(len(bid)), 0))
    return (bid + ask)[last].clip(2 * bid, 2 * ask)


@lru_cache(maxsize=128)
def record_tape(latent: Latent, trading: TradingProfile) -> MarketTape:
    """Draw all quotes and trades of a market from its opening to its close. latent: claim that determines its probability."""
    noise = create_generator(*trading.entropy).random((6, latent.slots), dtype=np.float32)
    quotes = _quotes(latent, trading, noise)
    buys = (noise[4] < trading.trades / 2) & (quotes["ask"] < NO_ASK)
    sells = (noise[4] >= trading.trades / 2) & (noise[4] < trading.trades) & (quotes["bid"] > NO_BID)
    price = np.where(buys, quotes["ask"], np.where(sells, quotes["bid"], 0))
    traded = price > 0
    at = np.flatnonzero(traded)
    # A ratio of a constant and a uniform has the heavy tail of real trade sizes, without a function whose last digit differs by machine.
    sizes = (20 * trading.size / (noise[5, at] + np.float32(0.004))).astype(np.int64) + 1
    if trading.whole:
        sizes = -(-sizes // 100) * 100
    size = np.zeros(len(price), np.int64)
    size[at] = sizes
    volumes = np.cumsum(sizes)
    unit = 100 if trading.whole else 1
    interests = volumes * trading.kept // (10 * unit) * unit
    counts = np.cumsum(traded, dtype=np.int64)
    last, volume, open_interest = (_fill_forward(values, counts) for values in (price[at], volumes, interests))
    return MarketTape(latent.opens, price=price, last=last, size=size, volume=volume, open_interest=open_interest, **quotes)


def _fill_forward(values: Ints, counts: Ints) -> Ints:
    """Return for each slot the value of the last trade so far; 0 before the first. values: by trade. counts: number of trades so far, by
    slot.
    """
    return np.concatenate((np.zeros(1, values.dtype), values))[counts]
