"""Compiled: what agents and strategies call. A strategy is `@strategy def f(sim, params): while next_step(sim): ...`. Its callbacks are
`@strategy def on_fill(sim, params, fill)`, `on_order(sim, params, update)`, `on_trade(sim, params, trade)` and `on_book(sim, params, ticker)`: their
numbers are read with `fill_order`, `update_order`, `trade_ticker` and the like, and are good until the callback returns.

`sim` is the whole replay; `ticker` a code, `side` YES 0 or NO 1, `action` BUY 0 or SELL 1. Prices in mills of the side, sizes in lots, money in
micro-dollars, times in ns UTC. A strategy keeps its state in local variables or in `params`; when an array of the engine turns out too small, the engine
starts it again from where it began, with room: it must do the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bellwether.replay.engine.arena import (
    H_BOOK,
    H_CALLBACKS,
    H_CASH,
    H_FAILED,
    H_FULL,
    H_NEWS,
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
    W_FILLS,
    W_SEEN,
    W_SEEN_ORDERS,
    W_TRADES,
    W_UPDATES,
)
from bellwether.replay.engine.callbacks import call
from bellwether.replay.engine.clock import AT_NEWS
from bellwether.replay.engine.codes import (
    AMEND,
    CANCEL,
    CANCEL_ALL,
    F_ACTION,
    F_COLS,
    F_FEE,
    F_LOTS,
    F_ORDER,
    F_PRICE,
    F_ROLE,
    F_SIDE,
    F_TICKER,
    F_TS,
    NEWS,
    NONE,
    O_COLS,
    O_COUNT,
    O_FILLED,
    O_NEXT,
    O_PRICE,
    O_SIDE,
    O_STATUS,
    O_TICKER,
    PLACE,
    QUOTE,
    STEP,
    TRADE_COLS,
    U_COLS,
    U_FILLED,
    U_ORDER,
    U_REASON,
    U_STATUS,
    U_TIME,
    VALUE,
)
from bellwether.replay.engine.compiling import compiled, compiled_alone, inlined
from bellwether.replay.engine.telling import NOTHING
from bellwether.replay.engine.words import ask, load
from bellwether.replay.tape.layout import PRICES


def strategy(function: Callable[..., Any]) -> Any:
    """Compile a strategy, or a function that it calls, as the engine's own are: cached, and without counting references, which would take half of
    the time. So it cannot make arrays: a function under `@njit(cache=True)`, which counts, can make them and hand them to one under this.
    """
    return compiled_alone(function)


@inlined
def _header(sim, column):
    return load(sim[W_CORES], column)


@inlined
def _of_ticker(sim, ticker, column):
    return load(sim[W_CORES], HEADER + ticker * K_COLS + column)


@inlined
def _known(sim, column):
    """Of the account, as far as the agent knows."""
    return load(sim[W_SEEN], column)


@inlined
def _known_of_ticker(sim, ticker, column):
    return load(sim[W_SEEN], HEADER + ticker * K_COLS + column)


@inlined
def _of_order(sim, order, column):
    return load(sim[W_SEEN_ORDERS], order * O_COLS + column) if order >= 0 else NONE


@compiled
def next_step(sim):
    """Go on to the next decision, and call the agent's callbacks on the way; False when none is left, and the tape is then processed to its end."""
    if _header(sim, H_CALLBACKS) == 0:
        return ask(sim, STEP, 0, 0, 0, 0, 0, 0, 0) != 0
    found = AT_NEWS
    while found == AT_NEWS:
        what = ask(sim, NEWS, 0, 0, 0, 0, 0, 0, 0)
        while what != NOTHING and _header(sim, H_FULL) + _header(sim, H_FAILED) == 0:
            call(sim, what, _header(sim, H_NEWS))
            what = ask(sim, NEWS, 0, 0, 0, 0, 0, 0, 0)
        found = ask(sim, STEP, 0, 0, 0, 0, 0, 0, 0)
    return found != 0


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
    """Number of tickers."""
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
    return _known(sim, H_CASH)


@compiled
def available(sim):
    """Cash that no resting order needs, micro-dollars."""
    return _known(sim, H_CASH) - _known(sim, H_RESERVED)


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
    return _known_of_ticker(sim, ticker, K_POSITION + side)


@compiled
def ticker_status(sim, ticker):
    """Bits of `TickerStatus`; 0: open with a book."""
    return _of_ticker(sim, ticker, K_STATUS)


@compiled
def order_status(sim, order):
    """`Status` of an order."""
    return _of_order(sim, order, O_STATUS)


@compiled
def order_ticker(sim, order):
    """The ticker of an order."""
    return _of_order(sim, order, O_TICKER)


@compiled
def order_side(sim, order):
    """YES 0 or NO 1, as sent."""
    return _of_order(sim, order, O_SIDE)


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
    """Number of own resting orders in a ticker, or in all for -1."""
    count = 0
    for t in range(_header(sim, H_TICKERS)):
        if ticker < 0 or t == ticker:
            count += _known_of_ticker(sim, t, K_OWN) + _known_of_ticker(sim, t, K_OWN + 1)
    return count


@compiled
def first_resting(sim, ticker, bid_side):
    """The resting order with priority on a canonical side (bids of YES, or of NO), -1 for none."""
    return _known_of_ticker(sim, ticker, K_HEAD + bid_side)


@compiled
def next_resting(sim, order):
    """The resting order behind another one, -1 for none."""
    return _of_order(sim, order, O_NEXT)


@inlined
def _of_fill(sim, fill, column):
    return load(sim[W_FILLS], fill * F_COLS + column)


@compiled
def fill_order(sim, fill):
    """The order that a fill is of."""
    return _of_fill(sim, fill, F_ORDER)


@compiled
def fill_ticker(sim, fill):
    """The ticker of a fill."""
    return _of_fill(sim, fill, F_TICKER)


@compiled
def fill_side(sim, fill):
    """YES 0 or NO 1, as sent."""
    return _of_fill(sim, fill, F_SIDE)


@compiled
def fill_action(sim, fill):
    """BUY 0 or SELL 1."""
    return _of_fill(sim, fill, F_ACTION)


@compiled
def fill_price(sim, fill):
    """Mills of the side as sent."""
    return _of_fill(sim, fill, F_PRICE)


@compiled
def fill_lots(sim, fill):
    """Lots of a fill."""
    return _of_fill(sim, fill, F_LOTS)


@compiled
def fill_fee(sim, fill):
    """Micro-dollars."""
    return _of_fill(sim, fill, F_FEE)


@compiled
def fill_role(sim, fill):
    """TAKER 0 or MAKER 1."""
    return _of_fill(sim, fill, F_ROLE)


@compiled
def fill_time(sim, fill):
    """Time of the fill, ns UTC."""
    return _of_fill(sim, fill, F_TS)


@inlined
def _of_update(sim, update, column):
    return load(sim[W_UPDATES], update * U_COLS + column)


@compiled
def update_order(sim, update):
    """The order that has changed; `order_status` and the like say what it is now."""
    return _of_update(sim, update, U_ORDER)


@compiled
def update_status(sim, update):
    """`Status` after the change."""
    return _of_update(sim, update, U_STATUS)


@compiled
def update_reason(sim, update):
    """`Reason` of a rejection or of a cancel, 0 otherwise."""
    return _of_update(sim, update, U_REASON)


@compiled
def update_filled(sim, update):
    """Lots filled by then."""
    return _of_update(sim, update, U_FILLED)


@compiled
def update_time(sim, update):
    """Time of the change, ns UTC."""
    return _of_update(sim, update, U_TIME)


@inlined
def _of_trade(sim, trade, column):
    return load(sim[W_TRADES], trade * TRADE_COLS + column)


@compiled
def trade_time(sim, trade):
    """Time of the trade, ns UTC."""
    return _of_trade(sim, trade, 0)


@compiled
def trade_ticker(sim, trade):
    """The ticker of a trade."""
    return _of_trade(sim, trade, 1)


@compiled
def trade_price(sim, trade):
    """Mills of YES."""
    return _of_trade(sim, trade, 2)


@compiled
def trade_lots(sim, trade):
    """Lots of a trade."""
    return _of_trade(sim, trade, 3)


@compiled
def trade_taker(sim, trade):
    """The side that the taker bought: YES 0 or NO 1."""
    return _of_trade(sim, trade, 4)
