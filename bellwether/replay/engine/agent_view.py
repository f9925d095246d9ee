"""The agent's view of its orders and account when acknowledgements arrive later than market data.

`sim` is the whole replay, `state` its account and clock. `seen_*` are the state, sides, markets and orders as of the last acknowledgement
that the agent received; they contain no books. Without such a delay they are the account's own arrays. A *ledger* row contains money and
positions after a change, and the time at which the agent learns of the change.
"""

from __future__ import annotations

from bellwether.replay.engine.accounts import value_account
from bellwether.replay.engine.book import link, unlink
from bellwether.replay.engine.codes import Status
from bellwether.replay.engine.compilation import compiled, inlined
from bellwether.replay.engine.memory import (
    accounts_of,
    ledgers_of,
    markets_of,
    seen_markets_of,
    seen_orders_of,
    seen_sides_of,
    seen_state_of,
    series_of,
    sides_of,
    state_of,
    updates_of,
)
from bellwether.replay.engine.state import WATCH_LATE, WATCH_ORDERS

_RESTING = int(Status.RESTING)


@inlined
def has_late_acknowledgements(state):
    """Return True if acknowledgements may arrive later than market data of the same instant."""
    return state.watch & WATCH_LATE != 0


@compiled
def arrival_time(series, answers, time):
    """Return when a message sent at `time` arrives, interpolated in the recorded latencies. answers: the message is an acknowledgement."""
    last = len(series) - 1
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if (series[middle].arrived if answers else series[middle].sent) <= time:
            low = middle
        else:
            high = middle
    sent, arrives = _leg_times(series[low], answers)
    later, latest = _leg_times(series[high], answers)
    if time <= sent:
        return time + arrives - sent
    if time >= later:
        return time + latest - later
    return arrives + _multiply_divide(latest - arrives, time - sent, later - sent)


@inlined
def _leg_times(row, answers):
    """Return (sent, arrived) of a recorded order, or of its acknowledgement if `answers`."""
    return (row.arrived, row.answered) if answers else (row.sent, row.arrived)


@compiled
def _multiply_divide(rise, along, run):
    """Return rise × along // run for 0 <= along < run, bit by bit because the product may have 124 bits."""
    result, rest = 0, 0
    for bit in range(62, -1, -1):
        result, rest = 2 * result, 2 * rest
        if rest >= run:
            rest -= run
            result += 1
        if rise >> bit & 1:
            rest += along
            if rest >= run:
                rest -= run
                result += 1
    return result


@inlined
def acknowledgement_time(sim, time):
    """Return the engine time at which the agent learns of an order event at `time`: after the market data of that instant."""
    state, series = state_of(sim), series_of(sim)
    arrival = arrival_time(series, True, time) if len(series) > 0 else time + state.response_latency
    return max(time, arrival - state.data_latency)


@inlined
def is_known(sim, time):
    """Return True if the agent already knows of an order event at `time`."""
    state = state_of(sim)
    return not has_late_acknowledgements(state) or acknowledgement_time(sim, time) <= state.time


@compiled
def record_ledger(sim, time, changed):
    """Append a ledger row if money or fills differ from the last row, or `changed` (orders did). The caller ensures that it fits."""
    state, sides, markets = state_of(sim), sides_of(sim), markets_of(sim)
    changed |= state.cash != state.ledger_cash or state.fills != state.ledger_fills
    changed |= state.realised != state.ledger_realised or state.reserved != state.ledger_reserved
    if not changed:
        return
    state.ledger_cash, state.ledger_fills = state.cash, state.fills
    state.ledger_realised, state.ledger_reserved = state.realised, state.reserved
    n = state.ledger_tail
    state.ledger_tail = n + 1
    row = ledgers_of(sim)[n]
    row.learned, row.updates, row.fills = acknowledgement_time(sim, time), state.update_tail, state.fills
    row.cash, row.reserved = state.cash, state.reserved
    for m in range(state.tickers):
        account = accounts_of(sim)[n * state.tickers + m]
        account.yes, account.no = sides[2 * m].position, sides[2 * m + 1].position
        account.yes_basis, account.no_basis = sides[2 * m].basis, sides[2 * m + 1].basis
        account.realised, account.paid = markets[m].realised, markets[m].paid


@compiled
def apply_acknowledgements(sim, time):
    """Update the agent's view with all acknowledgements received by `time`."""
    state, seen, sides, markets = state_of(sim), seen_state_of(sim), seen_sides_of(sim), seen_markets_of(sim)
    ledgers, updates, accounts = ledgers_of(sim), updates_of(sim), accounts_of(sim)
    while state.ledger_head < state.ledger_tail and ledgers[state.ledger_head].learned <= time:
        n = state.ledger_head
        row = ledgers[n]
        state.ledger_head = n + 1
        for u in range(seen.update_tail, row.updates):
            _apply_update(sim, updates[u])
        seen.update_tail, seen.fills, seen.cash, seen.reserved = row.updates, row.fills, row.cash, row.reserved
        for m in range(seen.tickers):
            account = accounts[n * seen.tickers + m]
            sides[2 * m].position, sides[2 * m + 1].position = account.yes, account.no
            sides[2 * m].basis, sides[2 * m + 1].basis = account.yes_basis, account.no_basis
            markets[m].realised, markets[m].paid = account.realised, account.paid
    if state.watch & WATCH_ORDERS == 0:
        state.update_head = seen.update_tail
        reset_rows(state, seen)


@inlined
def reset_rows(state, seen):
    """Reuse the rows of order updates and ledgers from 0 on, once the agent has received all of them."""
    if state.ledger_head == state.ledger_tail:
        state.ledger_head = state.ledger_tail = 0
        if state.update_head == state.update_tail:
            state.update_head = state.update_tail = state.updates_reported = seen.update_tail = 0


@compiled
def _apply_update(sim, update):
    """Apply an update to the agent's view of an order. An order that joined its queue again moves behind all others at its level."""
    sides, orders = seen_sides_of(sim), seen_orders_of(sim)
    o = update.order
    order = orders[o]
    side = 2 * order.market + order.bid_side
    rested, rests = order.status == _RESTING, update.status == _RESTING
    stays = rested and rests and order.queued == update.queued and order.price == update.price
    if rested and not stays:
        unlink(sides, orders, o)
        sides[side].own -= 1
    order.status, order.reason, order.price, order.count = update.status, update.reason, update.price, update.count
    order.filled, order.cost, order.fees, order.queued = update.filled, update.cost, update.fees, update.queued
    if rests and not stays:
        order.bid_price, order.level = update.bid_price, update.level
        link(sides, orders, o)
        sides[side].own += 1


@compiled
def value_known_account(sim):
    """Compute equity from the cash and the positions that the agent knows of, at the displayed prices."""
    state, sides, known_sides = state_of(sim), sides_of(sim), seen_sides_of(sim)
    if has_late_acknowledgements(state):
        for s in range(2 * state.tickers):
            known_sides[s].best, known_sides[s].price = sides[s].best, sides[s].price
    return value_account(seen_state_of(sim), known_sides)


@compiled
def count_resting(sim, m):
    """Return how many of the agent's orders rest, as far as it knows, in a market (-1: in all markets)."""
    count, sides = 0, seen_sides_of(sim)
    for s in range(2 * seen_state_of(sim).tickers):
        if m < 0 or s >> 1 == m:
            count += sides[s].own
    return count
