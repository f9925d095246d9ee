"""Functions that compiled strategies call.

A strategy is `@strategy def f(sim, params): while next_step(sim): ...`. Its callbacks are `@strategy def on_fill(sim, params, fill)`,
`on_order(sim, params, update)`, `on_trade(sim, params, trade)`, `on_book(sim, params, ticker)` and `on_timer(sim, params, time)`. The
numbers that they receive are read with `fill_order`, `update_order`, `trade_ticker` and the like, and are valid until the callback returns.

`sim` is the whole replay; `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in $0.0001 of the side, sizes in lots of
0.01 contract, money in micro-dollars, times in ns UTC. A strategy keeps its state in local variables or in `params`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.errors import OrderError
from bellwether.replay.engine.book import count_resting, level_of
from bellwether.replay.engine.callbacks import NOTHING, ON_TIMER, call
from bellwether.replay.engine.clock import AT_NEWS, AT_TIMER
from bellwether.replay.engine.codes import AMEND, CANCEL, CANCEL_ALL, NEWS, NONE, PLACE, QUOTE, STEP, VALUE
from bellwether.replay.engine.compilation import compiled, compiled_alone
from bellwether.replay.engine.state import (
    call_engine,
    fills_of,
    markets_of,
    orders_of,
    shown_of,
    sides_of,
    state_of,
    trades_of,
    updates_of,
)


def strategy(function: Callable[..., Any]) -> Any:
    """Compile a strategy, or a function that a strategy calls, and cache it on disk.

    Compiled without reference counts, which would double the time.
    """
    return compiled_alone(function)


@compiled
def next_step(sim):
    """Advance to the next decision, and call the agent's callbacks on the way. Returns False at the end of the tape."""
    state = state_of(sim)
    if state.callbacks == 0:
        return call_engine(sim, STEP, 0, 0, 0, 0, 0, 0, 0) != 0
    stop = AT_NEWS
    while stop >= AT_NEWS:
        callback = call_engine(sim, NEWS, 0, 0, 0, 0, 0, 0, 0)
        while callback != NOTHING and state.full + state.failed == 0:
            call(sim, callback, state.news)
            callback = call_engine(sim, NEWS, 0, 0, 0, 0, 0, 0, 0)
        if stop == AT_TIMER and state.callbacks & (1 << ON_TIMER):
            call(sim, ON_TIMER, state.now)
        stop = call_engine(sim, STEP, 0, 0, 0, 0, 0, 0, 0)
    return stop != 0


@compiled
def set_timer(sim, time):
    """Request one call of `on_timer` at `time` (ns UTC, of the agent's clock), later than now. Replaces the timer set before.

    Raises `OrderError` for a time that is not later than now.
    """
    state = state_of(sim)
    if time <= state.now:
        raise OrderError("setting a timer: the time is not later than now; give a later time")
    state.timer, state.timer_at = time - state.data_latency, -1
    return time


@compiled
def set_tag(sim, order, tag):
    """Set the tag of an order: an integer of the agent's choice, shown in tables of orders."""
    if order >= 0:
        orders_of(sim)[order].tag = tag
    return order


@compiled
def tag_of(sim, order):
    """Return the tag of an order as set by `set_tag`, 0 for none."""
    return orders_of(sim)[order].tag if order >= 0 else 0


@compiled
def place(sim, ticker, side, action, price, lots, tif, expires):
    """Send an order; price 0 is a market order. Returns the order's number, even if it is rejected, or -1 if it is not recorded."""
    return call_engine(sim, PLACE, ticker, side, action, price, lots, tif, expires)


@compiled
def cancel(sim, order):
    """Cancel an order. Returns 1 if it rested (with latency: if it may still rest on arrival), 0 if not."""
    return call_engine(sim, CANCEL, order, 0, 0, 0, 0, 0, 0)


@compiled
def amend(sim, order, price, lots):
    """Change a resting order to `lots` remaining at `price`. Returns 0 if done or sent, a `Reason` if not."""
    return call_engine(sim, AMEND, order, price, lots, 0, 0, 0, 0)


@compiled
def cancel_all(sim, ticker):
    """Cancel all resting orders of a ticker, or of all tickers for -1. Returns how many rested."""
    return call_engine(sim, CANCEL_ALL, ticker, 0, 0, 0, 0, 0, 0)


@compiled
def quote(sim, ticker, yes_price, no_price, lots):
    """Keep one post-only bid of `lots` on each side. Price NO_QUOTE cancels a side's bid, AS_IT_IS leaves it unchanged.

    A quote that is in transit or rests at its price stays and keeps its queue position. Quotes at other prices are cancelled before new
    ones are sent.
    """
    return call_engine(sim, QUOTE, ticker, yes_price, no_price, lots, 0, 0, 0)


@compiled
def tickers(sim):
    """Return the number of tickers."""
    return state_of(sim).tickers


@compiled
def now(sim):
    """Return the time of the current decision or callback, ns UTC."""
    return state_of(sim).now


@compiled
def step_index(sim):
    """Return the number of the current decision, from 0."""
    return state_of(sim).step - 1


@compiled
def cash(sim):
    """Return the cash in micro-dollars."""
    return state_of(sim).cash


@compiled
def available(sim):
    """Return the cash not reserved for resting orders, in micro-dollars."""
    return state_of(sim).cash - state_of(sim).reserved


@compiled
def equity(sim):
    """Return cash plus positions at the liquidation side (bid if long, ask if short), in micro-dollars."""
    return call_engine(sim, VALUE, 0, 0, 0, 0, 0, 0, 0)


@compiled
def best_bid(sim, ticker, side):
    """Return the price of a side's best displayed bid, 0 without one. The other side's ask is DOLLAR minus this price."""
    return sides_of(sim)[2 * ticker + side].price


@compiled
def displayed(sim, ticker, side, price):
    """Return the lots displayed at a bid price of a side, less those that the agent took."""
    level = level_of(sim, ticker, price)
    return shown_of(sim)[sides_of(sim)[2 * ticker + side].book + level] if level > 0 else 0


@compiled
def position(sim, ticker, side):
    """Return the agent's position in a side, in lots."""
    return sides_of(sim)[2 * ticker + side].position


@compiled
def ticker_status(sim, ticker):
    """Return the `TickerStatus` bits of a ticker; 0: open with a book."""
    return markets_of(sim)[ticker].status


@compiled
def order_status(sim, order):
    """Return the `Status` of an order."""
    return orders_of(sim)[order].status if order >= 0 else NONE


@compiled
def order_ticker(sim, order):
    """Return the ticker of an order."""
    return orders_of(sim)[order].market if order >= 0 else NONE


@compiled
def order_side(sim, order):
    """Return the side of an order as sent: YES 0 or NO 1."""
    return orders_of(sim)[order].side if order >= 0 else NONE


@compiled
def order_price(sim, order):
    """Return the price of an order, in $0.0001 of its side as sent."""
    return orders_of(sim)[order].price if order >= 0 else NONE


@compiled
def remaining(sim, order):
    """Return the unfilled lots of an order."""
    return orders_of(sim)[order].count - orders_of(sim)[order].filled if order >= 0 else 0


@compiled
def resting_count(sim, ticker):
    """Return the number of the agent's resting orders in a ticker, or in all tickers for -1."""
    return count_resting(sim, ticker)


@compiled
def first_resting(sim, ticker, bid_side):
    """Return the resting order with the highest price-time priority on a canonical side (bids for YES, or for NO), -1 for none."""
    return sides_of(sim)[2 * ticker + bid_side].head


@compiled
def next_resting(sim, order):
    """Return the resting order that follows `order` in price-time priority on its canonical side, -1 for none."""
    return orders_of(sim)[order].next if order >= 0 else NONE


@compiled
def fill_order(sim, fill):
    """Return the order of a fill."""
    return fills_of(sim)[fill].order


@compiled
def fill_ticker(sim, fill):
    """Return the ticker of a fill."""
    return fills_of(sim)[fill].market


@compiled
def fill_side(sim, fill):
    """Return the side of a fill's order as sent: YES 0 or NO 1."""
    return fills_of(sim)[fill].side


@compiled
def fill_action(sim, fill):
    """Return the action of a fill's order: BUY 0 or SELL 1."""
    return fills_of(sim)[fill].action


@compiled
def fill_price(sim, fill):
    """Return the price of a fill, in $0.0001 of the order's side as sent."""
    return fills_of(sim)[fill].price


@compiled
def fill_lots(sim, fill):
    """Return the lots of a fill."""
    return fills_of(sim)[fill].lots


@compiled
def fill_fee(sim, fill):
    """Return the fee of a fill in micro-dollars."""
    return fills_of(sim)[fill].fee


@compiled
def fill_role(sim, fill):
    """Return the agent's role in a fill: TAKER 0 or MAKER 1."""
    return fills_of(sim)[fill].role


@compiled
def fill_time(sim, fill):
    """Return the time of a fill, ns UTC."""
    return fills_of(sim)[fill].ts


@compiled
def update_order(sim, update):
    """Return the order that an update concerns; `order_status` and the like return the order's current state."""
    return updates_of(sim)[update].order


@compiled
def update_status(sim, update):
    """Return the `Status` that an order had after an update."""
    return updates_of(sim)[update].status


@compiled
def update_reason(sim, update):
    """Return the `Reason` why an order was rejected or cancelled in an update, 0 for other updates."""
    return updates_of(sim)[update].reason


@compiled
def update_filled(sim, update):
    """Return how many lots of an order were filled in total after an update."""
    return updates_of(sim)[update].filled


@compiled
def update_time(sim, update):
    """Return the time of an update, ns UTC."""
    return updates_of(sim)[update].time


@compiled
def trade_time(sim, trade):
    """Return the time of a trade, ns UTC."""
    return trades_of(sim)[trade].ts


@compiled
def trade_ticker(sim, trade):
    """Return the ticker of a trade."""
    return trades_of(sim)[trade].market


@compiled
def trade_price(sim, trade):
    """Return the price of YES in a trade, in $0.0001."""
    return trades_of(sim)[trade].price


@compiled
def trade_lots(sim, trade):
    """Return the lots of a trade."""
    return trades_of(sim)[trade].lots


@compiled
def trade_taker(sim, trade):
    """Return the side that a trade's taker bought: YES 0 or NO 1."""
    return trades_of(sim)[trade].taker_side
