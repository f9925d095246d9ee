"""Agents that trade on price signals: momentum, spread capture and Bollinger bands."""

from __future__ import annotations

from collections import deque
from fractions import Fraction

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, cents, contracts
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.agents.views import Market, Order
from bellwether.replay.units import CENT, CONTRACT, NO, YES, cost
from bellwether.units import CentiCents, Lots


class Momentum(Agent):
    """Agent that buys YES after the mid price has risen, and sells its YES after the mid price has fallen.

    lookback: decisions over which the change is measured, per market. threshold_cents: minimum change.
    max_position: maximum contracts of YES. Orders are market orders of one contract; a buy needs twice the price in cash. The mid price is
    rounded down to whole cents, as in the original.
    """

    def __init__(self, lookback: int = 10, threshold_cents: float = 3, max_position: float = 5) -> None:
        if lookback < 2:
            raise ConfigError(f"making the agent Momentum: lookback is {lookback}; it is 2 or more")
        self._lookback, self._threshold = lookback, cents(threshold_cents, "threshold_cents")
        self._most = contracts(max_position, "max_position")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set up the windows of mid prices."""
        self._mids: dict[str, deque[int]] = {ticker: deque(maxlen=self._lookback) for ticker in episode.tickers}

    def act(self, ctx: AgentContext) -> None:
        """Buy or sell in each market by the change of its mid price over the window."""
        for market in ctx.markets():
            bid, ask = market.yes_bid, market.yes_ask
            if bid is None or ask is None:
                continue
            mids = self._mids[market.ticker]
            mids.append((bid + ask) // (2 * CENT) * CENT)
            if len(mids) == self._lookback:
                self._trade(ctx, market, mids[-1] - mids[0], ask)

    def _trade(self, ctx: AgentContext, market: Market, change: int, ask: CentiCents) -> None:
        position = market.yes_position
        if change >= self._threshold and position < self._most and ctx.cash >= 2 * cost(ask, Lots(CONTRACT)):
            ctx.buy(market.ticker, YES, CONTRACT)
        elif change <= -self._threshold and position > 0:
            ctx.sell(market.ticker, YES, min(CONTRACT, position))


class SpreadCapture(Agent):
    """Agent that buys one contract of YES at the ask in markets with a wide spread. It pays the spread, as does PredictionMarketBench's example.

    min_spread_cents: minimum spread. limit: maximum number of markets with a position; the original states 5 without a unit. Orders are IOC.
    """

    def __init__(self, min_spread_cents: float = 10, limit: int = 5) -> None:
        if limit < 1:
            raise ConfigError(f"making the agent SpreadCapture: limit is {limit}; it is 1 or more")
        self._min_spread, self._limit = cents(min_spread_cents, "min_spread_cents"), limit

    def act(self, ctx: AgentContext) -> None:
        """Buy in each market with a wide spread and without a position."""
        count = int((ctx.positions[:, YES] > 0).sum())
        for market in ctx.markets():
            if count >= self._limit:
                return
            spread = market.spread
            if spread is not None and spread >= self._min_spread and market.yes_position == 0:
                order = ctx.buy(market.ticker, YES, CONTRACT, market.yes_ask, "ioc")
                count += order.filled > 0 or order.status == "pending"


class BollingerBands(Agent):
    """Mean-reversion agent: buys when the mid price crosses the lower Bollinger band, sells when it crosses the upper one.

    period: decisions in the moving average. k: standard deviations between average and band. size: contracts of an order. max_position: maximum
    contracts of a side.

    A crossing is a mid price outside the bands after one inside them. At the lower band the agent sells its NO at the best NO ask, or else
    buys YES at the best YES bid. At the upper band it sells its YES, or else buys NO. Orders are GTC limits at the agent's own side of the
    best prices, so they make and do not take. Resting orders are cancelled at the market's next crossing and when the mid price returns to
    the average.

    The deviation is that of the population, as in Bollinger's book. Sums are integers, so rounding never decides a crossing. PredictionMarketBench
    (section 5.3) states the period, k, the crossing rule and the kind of order; the other rules are chosen here.
    """

    def __init__(self, period: int = 20, k: float = 2, size: float = 10, max_position: float = 100) -> None:
        if period < 2 or not k > 0:
            raise ConfigError(f"making the agent BollingerBands: period is {period}, k {k}; they are 2 or more, and above 0")
        self._period, self._k2 = period, Fraction(str(k)) ** 2
        self._size, self._most = contracts(size, "size"), contracts(max_position, "max_position")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set up the bands of each market."""
        self._bands = {ticker: _Bands(self._period, self._k2) for ticker in episode.tickers}
        self._orders: dict[str, Order] = {}

    def act(self, ctx: AgentContext) -> None:
        """Trade in markets whose mid price has just left the bands. Cancel orders of markets whose mid price is back at the average."""
        for market in ctx.markets():
            bid, ask = market.yes_bid, market.yes_ask
            if bid is None or ask is None:
                continue
            bands = self._bands[market.ticker]
            was_inside = bands.place == 0
            bands.add(bid + ask)
            if bands.place and was_inside:
                self._cancel(ctx, market)
                self._enter(ctx, market, YES if bands.place < 0 else NO)
            elif bands.is_back and market.ticker in self._orders:
                self._cancel(ctx, market)

    def _cancel(self, ctx: AgentContext, market: Market) -> None:
        order = self._orders.pop(market.ticker, None)
        if order is not None and order.is_resting:
            ctx.cancel(order)

    def _enter(self, ctx: AgentContext, market: Market, side: int) -> None:
        """Sell the position in the opposite side at that side's best ask; without such a position, buy `side` at its best bid."""
        own, other = market.yes_position, market.no_position
        bid, opposite_ask = market.yes_bid, market.no_ask
        if side == NO:
            own, other, bid, opposite_ask = other, own, market.no_bid, market.yes_ask
        if other > 0:
            self._orders[market.ticker] = ctx.sell(market.ticker, 1 - side, min(self._size, other), opposite_ask, "gtc")
        elif own < self._most:
            self._orders[market.ticker] = ctx.buy(market.ticker, side, min(self._size, self._most - own), bid, "gtc")


class _Bands:
    """Bollinger bands of recent values.

    place: last value relative to the bands: -1 below, 1 above, 0 inside or with too few values. is_back: since it last left the bands, the
    value has returned to the average.
    """

    def __init__(self, period: int, k2: Fraction) -> None:
        self._values: deque[int] = deque(maxlen=period)
        self._k2, self._sum, self._squares, self._left = k2, 0, 0, 0
        self.place, self.is_back = 0, False

    def add(self, value: int) -> None:
        """Add the next value, and update `place` (below, inside or above the bands) and `is_back` (returned to the average)."""
        if len(self._values) == self._values.maxlen:
            oldest = self._values[0]
            self._sum, self._squares = self._sum - oldest, self._squares - oldest * oldest
        self._values.append(value)
        self._sum, self._squares = self._sum + value, self._squares + value * value
        count = len(self._values)
        away = count * value - self._sum
        spread = count * self._squares - self._sum**2
        # |value - mean| > k deviations, both sides times the count and squared.
        is_outside = count == self._values.maxlen and away * away * self._k2.denominator > self._k2.numerator * spread
        self.place = (away > 0) - (away < 0) if is_outside else 0
        self._left = self.place or self._left
        self.is_back = self._left * away <= 0
