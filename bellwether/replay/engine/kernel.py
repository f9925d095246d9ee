"""Compiled: what agents and strategies call. A strategy is `@strategy def f(sim, params): while next_step(sim): ...`.

`sim` is the whole replay; `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in mills of the side, sizes in lots, money in
micro-dollars, times in ns UTC. A strategy keeps its state in local variables or in `params`; when an array of the engine turns out too small, the engine
starts it again from where it began, with room: it must do the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.replay.engine.arena import (
    H_BOOK,
    H_CASH,
    H_NOW,
    H_RESERVED,
    H_STEP,
    H_TICKERS,
    HEADER,
    K_BEST,
    K_COLS,
    K_HEAD,
    K_OWN,
    K_POSITION,
    K_STATUS,
    W_CORES,
    W_ORDERS,
)
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    NONE,
    O_COLS,
    O_COUNT,
    O_FILLED,
    O_NEXT,
    O_PRICE,
    O_STATUS,
    PLACE,
    QUOTE,
    STEP,
    VALUE,
)
from bellwether.replay.engine.compiling import compiled, compiled_alone, inlined
from bellwether.replay.engine.words import ask, load
from bellwether.replay.tape.layout import PRICES


def strategy(function: Callable[..., Any]) -> Any:
    """Compile a strategy, or a function that it calls, as the engine's own are: cached, and without counting references, which would take half of
    the time. So it cannot make arrays: a function under `@njit(cache=True)`, which counts, can make them and hand them to one under this."""
    return compiled_alone(function)


@inlined
def _header(sim, column):
    return load(sim[W_CORES], column)


@inlined
def _of_ticker(sim, ticker, column):
    return load(sim[W_CORES], HEADER + ticker * K_COLS + column)


@inlined
def _of_order(sim, order, column):
    return load(sim[W_ORDERS], order * O_COLS + column) if order >= 0 else NONE


@compiled
def next_step(sim):
    """Go on to the next decision; False when none is left, and the tape is then processed to its end."""
    return ask(sim, STEP, 0, 0, 0, 0, 0, 0, 0) != 0


@compiled
def place(sim, ticker, side, action, price, lots, tif, expires):
    """Send an order; returns its number, also of one that is rejected, or -1 where nothing is logged. Price 0: market order."""
    return ask(sim, PLACE, ticker, side, action, price, lots, tif, expires)


@compiled
def cancel(sim, order):
    """Cancel an order: 1 if it rests (or, with latency, may rest when this arrives), 0 if not, FULL if an array must grow first."""
    return ask(sim, CANCEL, order, 0, 0, 0, 0, 0, 0)


@compiled
def amend(sim, order, price, lots):
    """Change a resting order to `lots` remaining at `price`: 0, the code of the reason why it stays as it was, or FULL. With latency 0 means sent."""
    return ask(sim, AMEND, order, price, lots, 0, 0, 0, 0)


@compiled
def cancel_all(sim, ticker):
    """Cancel every resting order of a ticker, or of all for -1; returns how many rest, or FULL."""
    return ask(sim, CANCEL_ALL, ticker, 0, 0, 0, 0, 0, 0)


@compiled
def quote(sim, ticker, yes_price, no_price, lots):
    """Have one post-only bid of `lots` per side, or none for NO_QUOTE, or what there is for AS_IT_IS.

    A quote that is on its way or rests at its price stays and keeps its place. Those at other prices are cancelled before new ones are sent. 1 when
    done; else 0 when the calls are used up, or FULL, with nothing done, when an array must grow first.
    """
    return ask(sim, QUOTE, ticker, yes_price, no_price, lots, 0, 0, 0)


@compiled
def tickers(sim):
    """How many tickers there are."""
    return _header(sim, H_TICKERS)


@compiled
def now(sim):
    """Time of the decision, ns UTC."""
    return _header(sim, H_NOW)


@compiled
def step_index(sim):
    """Number of the decision, from 0."""
    return _header(sim, H_STEP) - 1


@compiled
def cash(sim):
    """Micro-dollars."""
    return _header(sim, H_CASH)


@compiled
def available(sim):
    """Cash that no resting order needs, micro-dollars."""
    return _header(sim, H_CASH) - _header(sim, H_RESERVED)


@compiled
def equity(sim):
    """Cash and positions at the liquidation side, micro-dollars."""
    return ask(sim, VALUE, 0, 0, 0, 0, 0, 0, 0)


@compiled
def best_bid(sim, ticker, side):
    """Mills of a side's best displayed bid, 0 when there is none. The other side's ask is 1000 less it."""
    return _of_ticker(sim, ticker, K_BEST + side)


@compiled
def displayed(sim, ticker, side, price):
    """Lots displayed at a bid price of a side, less own consumption."""
    return load(sim[W_CORES], _header(sim, H_BOOK) + (ticker * 2 + side) * PRICES + price)


@compiled
def position(sim, ticker, side):
    """Lots held of a side."""
    return _of_ticker(sim, ticker, K_POSITION + side)


@compiled
def ticker_status(sim, ticker):
    """Bits of `TickerStatus`; 0: open with a book."""
    return _of_ticker(sim, ticker, K_STATUS)


@compiled
def order_status(sim, order):
    """`Status` of an order."""
    return _of_order(sim, order, O_STATUS)


@compiled
def order_price(sim, order):
    """Mills of the side as sent."""
    return _of_order(sim, order, O_PRICE)


@compiled
def remaining(sim, order):
    """Lots of an order that are not filled."""
    return _of_order(sim, order, O_COUNT) - _of_order(sim, order, O_FILLED)


@compiled
def resting_count(sim, ticker):
    """How many own orders rest in a ticker, or in all for -1."""
    count = 0
    for t in range(_header(sim, H_TICKERS)):
        if ticker < 0 or t == ticker:
            count += _of_ticker(sim, t, K_OWN) + _of_ticker(sim, t, K_OWN + 1)
    return count


@compiled
def first_resting(sim, ticker, bid_side):
    """The resting order with priority on a canonical side (bids of YES, or of NO), -1 for none."""
    return _of_ticker(sim, ticker, K_HEAD + bid_side)


@compiled
def next_resting(sim, order):
    """The resting order behind another one, -1 for none."""
    return _of_order(sim, order, O_NEXT)
