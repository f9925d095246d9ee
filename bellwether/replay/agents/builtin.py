"""Built-in agents: baselines, agents that trade on price signals, and one that buys pairs of YES and NO for less than a dollar."""

from __future__ import annotations

from collections import deque
from fractions import Fraction

from bellwether.errors import ConfigError
from bellwether.replay.agents.agent import Agent, cents, contracts
from bellwether.replay.agents.arguments import SIDES
from bellwether.replay.agents.context import AgentContext
from bellwether.replay.agents.records import EpisodeInfo, Fill, OrderUpdate
from bellwether.replay.agents.views import Market, Order
from bellwether.replay.units import CENT, CENT_MICROS, CONTRACT, DOLLAR, NO, YES, cost
from bellwether.units import CentiCents, Lots


class Passive(Agent):
    """Agent that never trades. Its P&L is 0."""

    def act(self, ctx: AgentContext) -> None:
        """Do nothing."""


class BuyAndHold(Agent):
    """Agent that buys one side of every market at the best ask, and holds it until settlement.

    side: yes or no. size: contracts per market. Later decisions buy the unfilled remainder, once the fills of the previous order are known.
    """

    def __init__(self, side: str = "yes", size: float = 10) -> None:
        if side not in ("yes", "no"):
            raise ConfigError(f"making the agent BuyAndHold: side is {side!r:.60}; give yes or no")
        self._side, self._size = (YES if side == "yes" else NO), contracts(size, "size")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set the size to buy in each market."""
        self._left: dict[str, int] = dict.fromkeys(episode.tickers, self._size)
        self._sent: dict[str, Order] = {}

    def act(self, ctx: AgentContext) -> None:
        """Buy the remaining size of each market at the best ask."""
        if not self._left:
            return
        for market in ctx.markets():
            lots = self._remaining_lots(market.ticker)
            ask = market.yes_ask if self._side == YES else market.no_ask
            if lots and ask is not None and market.is_active:
                self._sent[market.ticker] = ctx.buy(market.ticker, self._side, lots, ask, "ioc")

    def _remaining_lots(self, ticker: str) -> int:
        """Return the lots to buy in a market now; 0 while an order is pending."""
        order = self._sent.get(ticker)
        if order is None:
            return self._left.get(ticker, 0)
        if order.status == "pending":
            return 0
        del self._sent[ticker]
        self._left[ticker] -= order.filled
        if not self._left[ticker]:
            del self._left[ticker]
        return self._left.get(ticker, 0)


class RandomAgent(Agent):
    """Agent that sends a small market order on a random side of a random quoted market (PredictionMarketBench, section 5.2).

    trade_probability: probability of an order per decision. max_position: position, in contracts, from which the agent sells a side.
    max_size: maximum contracts of an order. The agent sends no order with less than a dollar of cash.
    """

    def __init__(self, trade_probability: float = 0.1, max_position: float = 10, max_size: int = 3) -> None:
        if not 0 <= trade_probability <= 1 or max_size < 1:
            raise ConfigError(
                f"making the agent RandomAgent: trade_probability is {trade_probability}, max_size {max_size}; "
                "give a probability from 0 to 1, and a size of 1 or more"
            )
        self._probability, self._most, self._max_size = trade_probability, contracts(max_position, "max_position"), max_size

    def act(self, ctx: AgentContext) -> None:
        """Send at most one random order."""
        draw = ctx.random
        if draw.random() > self._probability or ctx.cash < 100 * CENT_MICROS:
            return
        quoted = [market for market in ctx.markets() if market.spread is not None]
        if not quoted:
            return
        market = draw.choice(quoted)
        side = YES if draw.random() < 0.5 else NO
        position = market.yes_position if side == YES else market.no_position
        if position < self._most:
            ctx.buy(market.ticker, side, self._size(ctx))
        elif position > -self._most:
            ctx.sell(market.ticker, side, self._size(ctx))

    def _size(self, ctx: AgentContext) -> int:
        return contracts(ctx.random.randint(1, self._max_size))


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


class Pairs(Agent):
    """Agent that joins the best bids for YES and NO where a pair costs at most a limit, and completes each pair after a fill.

    A complete pair pays a dollar. After a fill of one side, the bid for the other side is raised to the limit less the price of the fill; it
    may trade at once. Bids of markets with an incomplete pair stay unchanged. size: contracts of a bid. most_cents: maximum cost of a pair.
    """

    def __init__(self, *, size: float = 5, most_cents: float = 98) -> None:
        self._size, self._most = contracts(size, "size"), cents(most_cents, "most_cents")
        if self._size < 1 or not 2 <= self._most < DOLLAR:
            raise ConfigError(f"making the agent Pairs: found {self.params}; size is above 0, most_cents below a dollar")

    def start(self, ctx: AgentContext, episode: EpisodeInfo) -> None:
        """Set up the register of the agent's bids."""
        self._bids: dict[tuple[str, int], Order] = {}

    def act(self, ctx: AgentContext) -> None:
        """In each market without an incomplete pair, join the best bids for YES and NO, or cancel the agent's bids if a pair costs too much."""
        for market in ctx.markets():
            if market.yes_position != market.no_position:
                continue
            best = (market.yes_bid or 0, market.no_bid or 0)
            wanted = market.is_active and min(best) > 0 and sum(best) <= self._most
            for side in (YES, NO):
                self._bid(ctx, market.ticker, side, best[side] if wanted else 0)

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        """Bid for the opposite side to complete the pair, at the limit less the price of the fill."""
        other = NO if SIDES[fill.side] == YES else YES
        position = ctx.position(fill.ticker)
        missing = abs(position.yes_lots - position.no_lots)
        if missing and (position.yes_lots < position.no_lots) == (other == YES):
            self._cancel(ctx, fill.ticker, other)
            self._bids[fill.ticker, other] = ctx.buy(fill.ticker, other, missing, self._most - fill.price)

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        """Remove a bid that has ended from the register."""
        side = SIDES[update.side]
        bid = self._bids.get((update.ticker, side))
        if bid is not None and bid.id == update.order and update.status != "resting":
            del self._bids[update.ticker, side]

    def _bid(self, ctx: AgentContext, ticker: str, side: int, price: int) -> None:
        """Keep a bid at a price; 0 cancels the bid."""
        bid = self._bids.get((ticker, side))
        if bid is not None and bid.price == price:
            return
        self._cancel(ctx, ticker, side)
        if price:
            self._bids[ticker, side] = ctx.buy(ticker, side, self._size, price, "post_only")

    def _cancel(self, ctx: AgentContext, ticker: str, side: int) -> None:
        bid = self._bids.pop((ticker, side), None)
        if bid is not None:
            ctx.cancel(bid)
