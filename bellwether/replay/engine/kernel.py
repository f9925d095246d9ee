"""Functions that compiled strategies call.

A strategy is `@strategy def f(sim, params): while next_step(sim): ...`. Its callbacks are `@strategy def on_fill(sim, params, fill)`,
`on_order(sim, params, update)`, `on_trade(sim, params, trade)`, `on_book(sim, params, ticker)` and `on_timer(sim, params, time)`. The
numbers that they receive are indices of `fills_of(sim)`, `updates_of(sim)` and `trades_of(sim)`, and are valid until the callback returns.

`orders_of(sim)` has the orders by number. `state` describes the fields of these records, which a strategy may read and not write.

`sim` is the whole replay; `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in $0.0001 of the side, sizes in lots of
0.01 contract, money in micro-dollars, times in ns UTC. A strategy keeps its state in local variables or in `params`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.errors import OrderError
from bellwether.replay.engine.book import level_of
from bellwether.replay.engine.callbacks import NOTHING, ON_TIMER, call
from bellwether.replay.engine.clock import AT_NEWS, AT_TIMER
from bellwether.replay.engine.codes import AMEND, CANCEL, CANCEL_ALL, NEWS, PLACE, QUOTE, STEP, VALUE
from bellwether.replay.engine.compilation import compiled, compiled_alone
from bellwether.replay.engine.state import (  # noqa: F401 - strategies import records from here
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
def first_resting(sim, ticker, bid_side):
    """Return the resting order with the highest price-time priority on a canonical side (bids for YES, or for NO), -1 for none."""
    return sides_of(sim)[2 * ticker + bid_side].head
