"""Clock of a replay: advances over the tape from one stop to the next.

Decisions and samples of equity are scheduled in advance. Arrivals of messages, expiries, timers and *news* (fills and updates of own orders
that the agent asked to be called for) are further stops. `sim` is the whole replay.
"""

from __future__ import annotations

import numpy as np

from bellwether.replay.engine.accounts import value_account
from bellwether.replay.engine.codes import Reason
from bellwether.replay.engine.compilation import compiled
from bellwether.replay.engine.events import check_crossings, first_after, has_room, process_events
from bellwether.replay.engine.matching import amend_now, cancel_now, cancel_resting, expire_orders, process_arrival
from bellwether.replay.engine.memory import (
    messages_of,
    orders_of,
    samples_of,
    schedule_of,
    sides_of,
    state_of,
    ts_of,
)
from bellwether.replay.engine.order_updates import has_room_for_updates, is_watching_orders, record_updates
from bellwether.replay.engine.schedule import DECISION, WAKE
from bellwether.replay.engine.state import (
    AMEND_MESSAGE,
    CANCEL_MESSAGE,
    NEVER,
    PLACE_MESSAGE,
    WATCH_FILLS,
    WATCH_ORDERS,
)

_AGENT = np.int64(Reason.AGENT)

_EXPIRY, _ARRIVAL, _TIMER, _SCHEDULED = range(4)

#: Results of `advance`: a decision, news for which the agent is called at once, or its timer.
AT_DECISION, AT_NEWS, AT_TIMER = (np.int64(result) for result in (1, 2, 3))


@compiled
def advance(sim):
    """Advance to the next decision, timer or news of own orders. Returns AT_DECISION, AT_TIMER or AT_NEWS; 0 at the end.

    Also returns 0 when an array must grow first.
    """
    ts, schedule, state = ts_of(sim), schedule_of(sim), state_of(sim)
    if state.over == 1 or state.failed == 1:
        return 0
    while state.full == 0:
        if is_watching_orders(state) and not has_room_for_updates(sim):
            state.full = 1
            return 0
        row = state.stop
        scheduled = row < len(schedule)
        index, time = (schedule[row].at, schedule[row].ts) if scheduled else (len(ts), NEVER)
        stop, index, time = _next_stop(sim, index, time)
        if not process_events(sim, index):
            return 0
        cursor = state.cursor
        if state.stirred == 1 and (cursor == len(ts) or ts[cursor] != ts[cursor - 1]):
            if not check_crossings(sim, cursor, ts[cursor - 1]):
                return 0
            state.stirred = 0
            if _record_news(sim, ts[cursor - 1]):
                return _stop_at(sim, ts[cursor - 1], AT_NEWS)
            continue
        if index > 0 and not check_crossings(sim, index, ts[index - 1]):
            return 0
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
        elif not _deliver_messages(sim, time):
            return 0
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
    """Deliver the agent's messages that arrive at `time` to the market. Returns False when an array must grow first."""
    state, messages = state_of(sim), messages_of(sim)
    state.time = time
    while state.message_head < state.message_tail and messages[state.message_head].time == time:
        watched = is_watching_orders(state)
        message = messages[state.message_head]
        kind, o = message.kind, message.order
        m = orders_of(sim)[o].market if kind in (PLACE_MESSAGE, AMEND_MESSAGE) else -1
        if not has_room(sim, m):
            return False
        if watched and not has_room_for_updates(sim):
            state.full = 1
            return False
        state.message_head += 1
        if kind == PLACE_MESSAGE:
            process_arrival(sim, o, time)
        elif kind == CANCEL_MESSAGE:
            cancel_now(sim, o, _AGENT, time)
        elif kind == AMEND_MESSAGE:
            orders_of(sim)[o].amends -= 1
            amend_now(sim, o, message.price, message.lots, time)
        else:
            cancel_resting(sim, o, time)
        if watched:
            record_updates(sim, time)
    if state.message_head == state.message_tail:
        state.message_head = state.message_tail = 0
    return True


@compiled
def _record_sample(sim, time):
    """Append a sample of cash and equity."""
    state, sides = state_of(sim), sides_of(sim)
    value_account(state, sides)
    sample = samples_of(sim)[state.samples]
    state.samples += 1
    sample.ts, sample.cash, sample.equity, sample.mid_equity = time, state.cash, state.equity, state.mid_equity
