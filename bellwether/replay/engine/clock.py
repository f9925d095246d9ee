"""Clock of a replay: advances over the tape from one stop to the next, and processes its events.

Decisions and samples of equity are scheduled in advance. Arrivals of messages, expiries, timers and *news* (fills and updates of own orders
that the agent asked to be called for) are further stops. An *own* order is the agent's. A *crossing check* fills own orders that a book
crosses. `noted` contains the open orders as of the last call of `record_updates`.

`sim` is the whole replay, `m` a market, `s` a side (2 × market + side of the bid), `level` the number of one of its prices, `i` the index
of an event, `ts` ns UTC.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.account import pay_positions, update_reserves, value_account
from bellwether.replay.engine.book import lower_best
from bellwether.replay.engine.codes import REASON, STATUS, TICKER_STATUS
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.matching import amend_now, cancel_now, cancel_resting, expire_orders, process_arrival
from bellwether.replay.engine.queue import apply_level_change, apply_print, end_all_orders, fill_crossed, restore_book
from bellwether.replay.engine.schedule import DECISION, WAKE
from bellwether.replay.engine.state import (
    AMEND_MESSAGE,
    CANCEL_MESSAGE,
    NEVER,
    NO_BOOK_YET,
    PLACE_MESSAGE,
    WATCH_FILLS,
    WATCH_ORDERS,
    event_of,
    markets_of,
    marks_of,
    messages_of,
    noted_of,
    orders_of,
    prices_of,
    samples_of,
    schedule_of,
    shown_of,
    sides_of,
    state_of,
    taken_of,
    ts_of,
    updates_of,
)
from bellwether.replay.tape.layout import CLOSE, GRID, HALT, INVALID, OPEN, PRINT, SETTLE, TRADED, VALID, VOID

_EXPIRY, _ARRIVAL, _TIMER, _SCHEDULED = range(4)

#: Results of `advance`: a decision, news for which the agent is called at once, or its timer.
AT_DECISION, AT_NEWS, AT_TIMER = (np.int64(result) for result in (1, 2, 3))


@inlined
def is_watching_orders(state):
    """Return True if order updates are recorded."""
    return state.watch & WATCH_ORDERS != 0


@compiled
def record_updates(sim, time):
    """Append an update at `time` for each order changed since this function last ran."""
    state, orders, noted = state_of(sim), orders_of(sim), noted_of(sim)
    for o in range(state.noted, state.orders):
        row = noted[state.open]
        row.order, row.status, row.filled, row.price, row.count = o, STATUS.PENDING, 0, orders[o].price, orders[o].count
        state.open += 1
    state.noted = state.orders
    still_open = 0
    for i in range(state.open):
        row = noted[i]
        o = row.order
        order = orders[o]
        if order.status != row.status or order.filled != row.filled or order.price != row.price or order.count != row.count:
            _add_update(sim, order, o, time)
        if order.status <= STATUS.RESTING:
            row = noted[still_open]
            row.order, row.status, row.filled, row.price, row.count = o, order.status, order.filled, order.price, order.count
            still_open += 1
    state.open = still_open


@inlined
def _add_update(sim, order, o, time):
    state = state_of(sim)
    if state.update_tail == len(updates_of(sim)):
        state.full = 1
        return
    row = updates_of(sim)[state.update_tail]
    row.time, row.order, row.status, row.reason = time, o, order.status, order.reason
    row.price, row.count, row.filled = order.price, order.count, order.filled
    row.market, row.side, row.action = order.market, order.side, order.action
    state.update_tail += 1


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

    If own orders are watched, stop after the first instant that may have changed one.
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
            check_crossings(sim, ts[i - 1])
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
                    if level >= side.meets or sides[s ^ 1].best >= sides[s ^ 1].meets:
                        _flag_crossing(sim, s >> 1)
                        flagged = True
                        stop = _stop_after_instant(sim, i, stop)
            elif level == best:
                lower_best(sim, s, level)
        elif kind == PRINT:
            if level <= sides[s].top:
                apply_print(sim, s, level, value, ts[i])
                stop = _stop_after_instant(sim, i, stop)
        else:
            _change_status(sim, s >> 1, kind, value, ts[i])
            flagged = state.flagged == 1
            stop = _stop_after_instant(sim, i, stop)
        i += 1
    state.cursor = i


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
    if marks_of(sim)[at] > 0 and market.status & TICKER_STATUS.INVALID == 0:
        apply_level_change(sim, s, level, recorded, value, traded, event)


@compiled
def _show_first_book(sim, m):
    """Open a market for orders, because its first book is displayed."""
    market, marks = markets_of(sim)[m], marks_of(sim)
    market.status &= ~TICKER_STATUS.NO_BOOK
    first = sides_of(sim)[2 * m].book
    for at in range(first, first + 2 * (market.levels + 2)):
        marks[at] -= NO_BOOK_YET


@compiled
def check_crossings(sim, ts):
    """Run the due crossing checks of the instant `ts`."""
    state, markets = state_of(sim), markets_of(sim)
    if state.flagged == 0:
        return
    for m in range(state.tickers):
        if markets[m].flagged == 0:
            continue
        markets[m].flagged = 0
        if markets[m].status == 0:
            fill_crossed(sim, m, ts)
    state.flagged = 0


@compiled
def _flag_crossing(sim, m):
    """Request a crossing check of a market at the end of the instant."""
    markets_of(sim)[m].flagged = 1
    state_of(sim).flagged = 1


@compiled
def _change_status(sim, m, kind, value, ts):
    """Process a halt, opening, close, settlement, gap or grid change of a market."""
    state, market = state_of(sim), markets_of(sim)[m]
    if kind == INVALID:
        market.status |= TICKER_STATUS.INVALID
    elif kind == VALID:
        if market.status & TICKER_STATUS.INVALID:
            market.status &= ~TICKER_STATUS.INVALID
            restore_book(sim, m)
        _flag_crossing(sim, m)
    elif kind == HALT:
        market.status |= TICKER_STATUS.HALTED
    elif kind == OPEN:
        market.status &= ~TICKER_STATUS.HALTED
        _flag_crossing(sim, m)
    elif kind == GRID:
        market.grid = value * state.grid_width
    elif kind == CLOSE:
        market.status |= TICKER_STATUS.CLOSED
        end_all_orders(sim, m, REASON.CLOSED, ts)
    elif kind in (SETTLE, VOID) and market.status & TICKER_STATUS.SETTLED == 0:
        end_all_orders(sim, m, REASON.CLOSED, ts)
        pay_positions(sim, m, value, kind == VOID)
        update_reserves(sim, m)
        market.status |= TICKER_STATUS.CLOSED | TICKER_STATUS.SETTLED


@compiled
def advance(sim):
    """Advance to the next decision, timer or news of own orders. Returns AT_DECISION, AT_TIMER or AT_NEWS; 0 at the end.

    Also returns 0 when an array is full.
    """
    ts, schedule, state = ts_of(sim), schedule_of(sim), state_of(sim)
    if state.over == 1 or state.failed == 1:
        return 0
    while state.full == 0:
        row = state.stop
        scheduled = row < len(schedule)
        index, time = (schedule[row].at, schedule[row].ts) if scheduled else (len(ts), NEVER)
        stop, index, time = _next_stop(sim, index, time)
        process_events(sim, index)
        cursor = state.cursor
        if state.stirred == 1 and (cursor == len(ts) or ts[cursor] != ts[cursor - 1]):
            check_crossings(sim, ts[cursor - 1])
            state.stirred = 0
            if _record_news(sim, ts[cursor - 1]):
                return _stop_at(sim, ts[cursor - 1], AT_NEWS)
            continue
        if index > 0:
            check_crossings(sim, ts[index - 1])
        if stop == _TIMER:
            state.timer, state.timer_at = NEVER, -1
            return _stop_at(sim, time, AT_TIMER)
        if stop == _SCHEDULED:
            if not scheduled:
                state.over, state.time = 1, state.last
                return 0
            result = _run_scheduled_stop(sim, row, time)
            if result != 0:
                return result
            continue
        if stop == _EXPIRY:
            expire_orders(sim, time)
        else:
            _deliver_messages(sim, time)
        if state.watch != 0 and _record_news(sim, time):
            return _stop_at(sim, time, AT_NEWS)
    return 0


@compiled
def _next_stop(sim, index, time):
    """Return (kind, tape index, time) of the next stop: the scheduled stop at (`index`, `time`), or an unscheduled earlier one.

    Timers, expiries and arrivals after the end of the tape are ignored.
    """
    ts, state = ts_of(sim), state_of(sim)
    stop = _SCHEDULED
    if state.timer <= state.last:
        if state.timer_at < 0:
            state.timer_at = first_after(ts, state.cursor, state.timer)
        if state.timer_at < index or (state.timer_at == index and state.timer < time):
            stop, index, time = _TIMER, state.timer_at, state.timer
    if state.message_head < state.message_tail:
        message = messages_of(sim)[state.message_head]
        if message.time <= state.last and (message.at < index or (message.at == index and message.time <= time)):
            stop, index, time = _ARRIVAL, message.at, message.time
    if state.expiry <= state.last:
        if state.expiry_at < 0:
            state.expiry_at = first_after(ts, state.cursor, state.expiry - 1)
        if state.expiry_at < index or (state.expiry_at == index and state.expiry <= time):
            stop, index, time = _EXPIRY, state.expiry_at, state.expiry
    return stop, index, time


@compiled
def _record_news(sim, time):
    """Record the order updates of the instant `time`. Returns True if the agent must be called for news."""
    state = state_of(sim)
    if is_watching_orders(state):
        record_updates(sim, time)
    if state.watch & WATCH_FILLS != 0 and state.fills > state.fills_reported:
        return True
    return state.watch & WATCH_ORDERS != 0 and state.update_tail > state.updates_reported


@compiled
def _stop_at(sim, time, stop):
    """Set the engine's and the agent's clock for a stop at `time`, mark the news as reported, and return `stop`, the kind."""
    state = state_of(sim)
    state.fills_reported, state.updates_reported, state.at_news = state.fills, state.update_tail, 1
    state.time, state.now = time, time + state.data_latency
    return stop


@compiled
def _run_scheduled_stop(sim, row, time):
    """Run stop `row` of the schedule. Returns AT_DECISION for a decision, AT_NEWS for a wake-up, 0 after a sample of equity."""
    state, stop = state_of(sim), schedule_of(sim)[row]
    decides, wakes = stop.kind == DECISION, stop.kind == WAKE
    state.stop, state.time = row + 1, time
    if not (decides or wakes):
        _record_sample(sim, time)
        return 0
    state.at_news = 1 if wakes else 0
    state.now = time + state.data_latency
    if wakes:
        return AT_NEWS
    state.step += 1
    state.fills_before, state.fills_then = state.fills_then, state.fills
    return AT_DECISION


@compiled
def _deliver_messages(sim, time):
    """Deliver the agent's messages that arrive at `time` to the market."""
    state, messages = state_of(sim), messages_of(sim)
    state.time = time
    while state.message_head < state.message_tail and messages[state.message_head].time == time:
        message = messages[state.message_head]
        kind, o = message.kind, message.order
        state.message_head += 1
        if kind == PLACE_MESSAGE:
            process_arrival(sim, o, time)
        elif kind == CANCEL_MESSAGE:
            cancel_now(sim, o, REASON.AGENT, time)
        elif kind == AMEND_MESSAGE:
            orders_of(sim)[o].amends -= 1
            amend_now(sim, o, message.price, message.lots, time)
        else:
            cancel_resting(sim, o, time)
        if is_watching_orders(state):
            record_updates(sim, time)
    if state.message_head == state.message_tail:
        state.message_head = state.message_tail = 0


@compiled
def _record_sample(sim, time):
    """Append a sample of cash and equity."""
    state, sides = state_of(sim), sides_of(sim)
    value_account(state, sides)
    sample = samples_of(sim)[state.samples]
    state.samples += 1
    sample.ts, sample.cash, sample.equity, sample.mid_equity = time, state.cash, state.equity, state.mid_equity
