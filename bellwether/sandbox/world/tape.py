"""Quotes and trades of one market (its tape), drawn around the traders' probability.

A tape has one row per slot of half an hour. A mill is a tenth of a cent. A market's price grid lists the prices that orders may have.

Traders nearly know the truth: their probability is the latent probability p plus 0.03 * 4p(1 - p) * z. z is standard normal, independent of p, and
mean-reverting: an autoregression whose correlation falls to 1/e within a day.

Quotes always have both sides, and each side has orders behind its best price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bellwether.sandbox.timestamps import DAY
from bellwether.sandbox.world.latent_paths import SLOT, Floats, PathClaim
from bellwether.sandbox.world.random_draws import RandomDraws, create_generator

#: Prices are integers of a tenth of a cent, sizes integers of a hundredth of a contract.
DOLLAR = 1000
#: Bid and ask of a market that does not trade.
NO_BID, NO_ASK = 0, DOLLAR

#: Standard deviation of the traders' error at even odds, in dollars.
ERROR = 0.03
#: Share of the error that one slot passes on to the next.
_KEPT = math.exp(-SLOT / DAY)
#: Maximum error in standard deviations, so that the traders' probability stays between 0 and 1.
_LARGEST_ERROR = 4.0

#: Dollars for which either side of a market can be bought at the level behind its best price, or at the best price if there is no lower one.
RESERVE = 3_000
#: Maximum price levels of a side.
LEVELS = 6

Ints = NDArray[np.integer[Any]]
#: Price in mills, size in hundredths of a contract.
Level = tuple[int, int]

#: Price grids: name -> (start, end, step) of each range. Every grid is symmetric: if it has a price, it has one dollar minus the price.
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


def floor_to_grid(grid: str, dollars: Floats) -> Ints:
    """Round each price in dollars down to a price of the grid, in mills."""
    mills = np.floor(dollars * DOLLAR).astype(np.int64).clip(0, DOLLAR)
    below = np.zeros_like(mills)
    for start, _, step in GRIDS[grid]:
        below = np.where(mills >= start, mills // step * step, below)
    return below


def reserve_size(mills: int) -> int:
    """Return the size that costs `RESERVE` at a price, on its cheaper side."""
    return RESERVE * 100 * DOLLAR // min(mills, DOLLAR - mills)


def list_bids(grid: str, best: int, size: int) -> list[Level]:
    """List the bids of a side, best first: `size` at the price `best`, more at each level behind it, and the reserve at the second level.

    The asks of a side are the bids of the other outcome, at one dollar minus their price.
    """
    levels = [(best, size)]
    while len(levels) < LEVELS:
        price = levels[-1][0]
        lower = price - next(step for start, end, step in GRIDS[grid] if start < price <= end)
        if lower <= 0:
            break
        reserve = reserve_size(lower) if len(levels) == 1 else 0
        levels.append((lower, size * (len(levels) + 1) + reserve))
    return levels


@dataclass(frozen=True, slots=True)
class TradingProfile:
    """Parameters by which the quotes and trades of a market are drawn.

    Attributes:
        entropy: seed of its quotes and trades.
        grid: name of its price grid.
        half_spread: mean distance of a quote from the traders' probability, in dollars; less below 0.1 and above 0.9.
        requote: probability per slot that quotes are renewed; they are also renewed when p moves by about the half spread.
        trades: probability per slot of a trade.
        size: scale of the contracts per trade and per quote.
    """

    entropy: tuple[int, ...]
    grid: str
    half_spread: float
    requote: float
    trades: float
    size: int


#: From deep markets to those without trades: cumulative share of the markets, range of the half spread, and the other parameters of the profile.
_LIQUIDITY = (
    (0.25, (0.004, 0.010), 0.95, 0.80, 60),
    (0.68, (0.008, 0.020), 0.70, 0.16, 18),
    (0.93, (0.020, 0.050), 0.09, 0.012, 6),
    (1.00, (0.030, 0.060), 0.03, 0.0, 3),
)


def draw_trading(entropy: tuple[int, ...], grid: str, draw: RandomDraws) -> TradingProfile:
    """Draw how liquid a market is. entropy: seed of its quotes and trades."""
    luck = draw.unit()
    _, half_spread, requote, trades, size = next(kind for kind in _LIQUIDITY if luck < kind[0])
    return TradingProfile(entropy, grid, draw.uniform(*half_spread), requote, trades, size)


@dataclass(frozen=True, slots=True)
class MarketTape:
    """Quote and trade of a market at the start of each slot since `opens`. Prices are in mills, sizes in 1/100 contract.

    price, size: the trade; 0 without a trade. last: price of the last trade. volume: traded contracts so far.
    """

    opens: int
    bid: Ints
    ask: Ints
    bid_size: Ints
    ask_size: Ints
    price: Ints
    size: Ints
    last: Ints
    volume: Ints

    @property
    def times(self) -> Ints:
        """Start of each slot."""
        return self.opens + SLOT * np.arange(len(self.price), dtype=np.int64)

    @property
    def open_interest(self) -> Ints:
        """Contracts that are held: half of those traded so far."""
        return self.volume // 2

    def at(self, instant: int) -> int:
        """Return the index of the slot that contains an instant; after the close the last one, before the opening -1."""
        return min(max((instant - self.opens) // SLOT, -1), len(self.price) - 1)

    def volume_at(self, instant: int) -> int:
        """Return the volume up to an instant, in hundredths of a contract."""
        slot = self.at(instant)
        return int(self.volume[slot]) if slot >= 0 else 0


def draw_traders_error(generator: np.random.Generator, slots: int) -> Floats:
    """Draw z, the traders' error in standard deviations, at the start of each slot."""
    error = generator.standard_normal(slots)
    error[1:] *= math.sqrt(1.0 - _KEPT**2)
    # Adds the discounted earlier shocks, twice as many with each step.
    lag, factor = 1, _KEPT
    while lag < slots:
        error[lag:] += factor * error[:-lag]
        lag, factor = 2 * lag, factor * factor
    return error.clip(-_LARGEST_ERROR, _LARGEST_ERROR)


def _renewals(truth: Floats, trading: TradingProfile, noise: Floats) -> Ints:
    """Draw the slots at which quotes are renewed: at random, and whenever the latent probability has moved by about half a spread.

    Moves are measured on the arcsine scale, on which a move near 0 or 1 counts more.
    """
    cell = np.floor(np.arcsin(np.sqrt(truth)) / trading.half_spread)
    return np.flatnonzero((noise < trading.requote) | (np.diff(cell, prepend=-1.0) != 0))


def _quotes(claim: PathClaim, trading: TradingProfile, noise: Floats, error: Floats) -> dict[str, Ints]:
    """Draw the quotes and their sizes by slot. A quote stays until it is renewed. error: z by slot."""
    truth = claim.probabilities().clip(0.0, 1.0)
    at = _renewals(truth, trading, noise[0])
    doubt = 4.0 * truth[at] * (1.0 - truth[at])
    fair = truth[at] + ERROR * doubt * error[at]
    half = trading.half_spread * (0.6 + 0.8 * noise[1, at]) * np.minimum(doubt / 0.36, 1.0)
    lowest = GRIDS[trading.grid][0][2]
    bid = floor_to_grid(trading.grid, fair - half).clip(lowest, DOLLAR - 2 * lowest)
    ask = (DOLLAR - floor_to_grid(trading.grid, 1.0 - (fair + half))).clip(2 * lowest, DOLLAR - lowest)
    share = 9 * noise[2, at]
    bid_size = (100 * trading.size * (1 + share)).astype(np.int64)
    ask_size = (100 * trading.size * (10 - share)).astype(np.int64)
    bid_size[bid == lowest] += reserve_size(lowest)
    ask_size[ask == DOLLAR - lowest] += reserve_size(lowest)
    standing = np.searchsorted(at, np.arange(len(truth)), "right") - 1
    quotes = {"bid": bid, "ask": ask, "bid_size": bid_size, "ask_size": ask_size}
    return {name: values[standing] for name, values in quotes.items()}


@lru_cache(maxsize=192)
def record_tape(claim: PathClaim, trading: TradingProfile) -> MarketTape:
    """Draw all quotes and trades of a market from its opening to its close. claim: what determines its probability."""
    generator = create_generator(*trading.entropy)
    noise, error = generator.random((5, claim.slots)), draw_traders_error(generator, claim.slots)
    quotes = _quotes(claim, trading, noise, error)
    traded = noise[3] < trading.trades
    price = np.where(traded, np.where(noise[3] < trading.trades / 2, quotes["ask"], quotes["bid"]), 0)
    # A ratio of a constant and a uniform has the heavy tail of real trade sizes, without a function whose last digit differs by machine.
    size = np.where(traded, (20 * trading.size / (noise[4] + 0.004)).astype(np.int64) + 1, 0)
    latest = np.maximum.accumulate(np.where(traded, np.arange(len(price)), 0))
    return MarketTape(claim.opens, price=price, size=size, last=price[latest], volume=np.cumsum(size), **quotes)
