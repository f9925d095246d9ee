"""Processing of the tape's events: books, prints, price grids, halts, closes and settlements.

`sim` is the whole replay, `m` a market, `s` a side (2 × market + side of the bid), `level` the number of one of its prices, `i` the index
of an event, `ts` ns UTC. An *own* order is the agent's. A *crossing check* fills own orders that a book crosses.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.accounts import pay_positions, update_reserves
from bellwether.replay.engine.book import lower_best
from bellwether.replay.engine.codes import Reason, TickerStatus
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import (
    event_of,
    fills_of,
    markets_of,
    marks_of,
    prices_of,
    shown_of,
    sides_of,
    state_of,
    taken_of,
    ts_of,
)
from bellwether.replay.engine.queue import apply_level_change, apply_print, end_all_orders, fill_crossed, restore_book
from bellwether.replay.engine.state import NO_BOOK_YET
from bellwether.replay.tape.layout import CLOSE, GRID, HALT, INVALID, OPEN, PRINT, SETTLE, TRADED, VALID, VOID

_CLOSED_BIT, _SETTLED_BIT, _HALTED_BIT = np.int64(TickerStatus.CLOSED), np.int64(TickerStatus.SETTLED), np.int64(TickerStatus.HALTED)
_NO_BOOK_BIT, _INVALID_BIT, _PAID_BIT = np.int64(TickerStatus.NO_BOOK), np.int64(TickerStatus.INVALID), np.int64(TickerStatus.PAID)
_CLOSED = np.int64(Reason.CLOSED)


@inlined
def first_after(ts, low, time):
    """Return the first index from `low` on whose time is later than `time`. Fast if the index is near `low`."""
    step, high = 1, low
    while high < len(ts) and ts[high] <= time:
        low = high + 1
        high += step
        step *= 2
    high = min(high, len(ts))
    while low < high:
        middle = (low + high) // 2
        if ts[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def has_room(sim, m):
    """Return True if the array of fills has room for the fills of one more event or order in market `m`; if not, request growth."""
    state, sides = state_of(sim), sides_of(sim)
    if m < 0:
        return True
    if state.fills + sides[2 * m].own + sides[2 * m + 1].own + 2 * markets_of(sim)[m].levels + 4 <= len(fills_of(sim)):
        return True
    state.full = 1
    return False


@compiled
def _stop_after_instant(sim, i, stop):
    """Return the index at which processing stops: `stop`, or the end of event `i`'s instant if the agent watches its orders.

    Marks that own orders may have changed in this instant.
    """
    state, ts = state_of(sim), ts_of(sim)
    if state.watch == 0:
        return stop
    state.stirred = 1
    return min(stop, first_after(ts, i, ts[i]))


@compiled
def process_events(sim, stop):
    """Process the tape's events up to index `stop`, except for the crossing checks of the last instant.

    If own orders are watched, stop after the first instant that may have changed one. Returns False when an array must grow first; the next
    call continues.
    """
    ts, event, state = ts_of(sim), event_of(sim), state_of(sim)
    sides, shown, marks, prices = sides_of(sim), shown_of(sim), marks_of(sim), prices_of(sim)
    flagged = state.flagged == 1
    i = state.cursor
    if state.stirred == 1:
        stop = min(stop, first_after(ts, i, ts[i - 1]))
    while i < stop:
        word = event[i]
        kind = word & 0xF
        if flagged and (kind >= HALT or ts[i] != ts[i - 1]):
            if not check_crossings(sim, i, ts[i - 1]):
                return False
            flagged = False
        s, level, value = (word >> 18) & 0x3FFE | (word >> 4) & 1, (word >> 5) & 0x3FFF, word >> 32
        if kind <= TRADED:
            side = sides[s]
            at, best = side.book + level, side.best
            if marks[at] != 0:
                _change_own_level(sim, s, level, value, kind == TRADED, i)
            shown[at] = value
            if value > 0:
                if level > best:
                    side.best, side.price = level, prices[side.prices + level]
                    if (level >= side.meets or sides[s ^ 1].best >= sides[s ^ 1].meets) and _flag_crossing(sim, s >> 1):
                        flagged = True
                        stop = _stop_after_instant(sim, i, stop)
            elif level == best:
                lower_best(sim, s, level)
        elif kind == PRINT:
            if level <= sides[s].top:
                if not has_room(sim, s >> 1):
                    state.cursor = i
                    return False
                apply_print(sim, s, level, value, ts[i])
                stop = _stop_after_instant(sim, i, stop)
        else:
            flagged |= _change_status(sim, s >> 1, kind, value, ts[i])
            stop = _stop_after_instant(sim, i, stop)
        i += 1
    state.cursor = i
    return True


@compiled
def _change_own_level(sim, s, level, value, traded, event):
    """Apply a recorded change of a level on which the agent rests or took lots: update queue positions, forget the taken lots."""
    side, market = sides_of(sim)[s], markets_of(sim)[s >> 1]
    at = side.book + level
    if marks_of(sim)[at] >= NO_BOOK_YET:
        _show_first_book(sim, s >> 1)
    taken = taken_of(sim)
    recorded = shown_of(sim)[at] + taken[at]
    if taken[at] > 0:
        taken[at] = 0
        marks_of(sim)[at] -= 1
    if marks_of(sim)[at] > 0 and market.status & _INVALID_BIT == 0:
        apply_level_change(sim, s, level, recorded, value, traded, event)


@compiled
def _show_first_book(sim, m):
    """Open a market for orders, because its first book is displayed."""
    market, marks = markets_of(sim)[m], marks_of(sim)
    market.status &= ~_NO_BOOK_BIT
    first = sides_of(sim)[2 * m].book
    for at in range(first, first + 2 * (market.levels + 2)):
        marks[at] -= NO_BOOK_YET


@compiled
def check_crossings(sim, i, ts):
    """Run the due crossing checks, before event `i`. Returns False when the array of fills must grow first."""
    state, markets = state_of(sim), markets_of(sim)
    if state.flagged == 0:
        return True
    for m in range(state.tickers):
        if markets[m].flagged == 0:
            continue
        if not has_room(sim, m):
            state.cursor = i
            return False
        markets[m].flagged = 0
        if markets[m].status == 0:
            fill_crossed(sim, m, ts)
    state.flagged = 0
    return True


@compiled
def _flag_crossing(sim, m):
    """Request a crossing check of a market at the end of the instant. Returns True."""
    markets_of(sim)[m].flagged = 1
    state_of(sim).flagged = 1
    return True


@compiled
def _change_status(sim, m, kind, value, ts):
    """Process a halt, opening, close, settlement, gap or grid change of a market. Returns True if a crossing check is due."""
    state, market = state_of(sim), markets_of(sim)[m]
    if kind == INVALID:
        market.status |= _INVALID_BIT
    elif kind == VALID:
        if market.status & _INVALID_BIT:
            market.status &= ~_INVALID_BIT
            restore_book(sim, m)
        return _flag_crossing(sim, m)
    elif kind == HALT:
        market.status |= _HALTED_BIT
    elif kind == OPEN:
        market.status &= ~_HALTED_BIT
        return _flag_crossing(sim, m)
    elif kind == GRID:
        market.grid = value * state.grid_width
    elif kind == CLOSE:
        market.status |= _CLOSED_BIT
        end_all_orders(sim, m, _CLOSED, ts)
    elif kind in (SETTLE, VOID) and market.status & _PAID_BIT == 0:
        end_all_orders(sim, m, _CLOSED, ts)
        pay_positions(sim, m, value, kind == VOID)
        update_reserves(sim, m)
        market.status |= _PAID_BIT | _CLOSED_BIT | _SETTLED_BIT
    return False
