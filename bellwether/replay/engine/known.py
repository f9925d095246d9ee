"""Compiled: what the agent knows of its orders and its account where answers take longer than market data.

`seen` is a state like an account's, of which orders, money and positions are as of the last answer that has come; its books are not kept. Where nothing
takes longer it is the chosen account itself. A row of `ledgers` has the money and positions after something had changed, and when that is learned.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_CASH,
    H_DATA_LATENCY,
    H_FILLS,
    H_L_CASH,
    H_L_FILLS,
    H_L_HEAD,
    H_L_REALISED,
    H_L_RESERVED,
    H_L_TAIL,
    H_REALISED,
    H_RESERVED,
    H_RESPONSE_LATENCY,
    H_TICKERS,
    H_TIME,
    H_U_HEAD,
    H_U_TAIL,
    H_U_TOLD,
    H_WATCH,
    HEADER,
    K_BASIS,
    K_BEST,
    K_COLS,
    K_PAID,
    K_POSITION,
    K_REALISED,
    WATCH_LATE,
    WATCH_ORDERS,
)
from bellwether.replay.engine.codes import (
    O_ACTION,
    O_BID_PRICE,
    O_COST,
    O_COUNT,
    O_ENDED,
    O_FEES,
    O_FILLED,
    O_PRICE,
    O_QUEUED,
    O_REASON,
    O_STATUS,
    U_COST,
    U_COUNT,
    U_FEES,
    U_FILLED,
    U_ORDER,
    U_PRICE,
    U_QUEUED,
    U_REASON,
    U_STATUS,
    Status,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.money import value_account
from bellwether.replay.engine.queues import link, unlink
from bellwether.replay.engine.words import cores_of, ledgers_of, seen_of, seen_orders_of, series_of, updates_of
from bellwether.replay.units import DOLLAR

_RESTING = int(Status.RESTING)

#: Columns of `ledgers`: when it is learned (engine time, ns), updates and fills by then, money; then for each ticker POSITION, BASIS, REALISED, PAID.
L_LEARNED, L_UPDATES, L_FILLS, L_CASH, L_RESERVED, L_TICKERS = range(6)
L_PER_TICKER = 6


@inlined
def is_late(core):
    """Return whether answers may take longer than market data."""
    return core[H_WATCH] & WATCH_LATE != 0


@compiled
def carried(series, column, time):
    """Arrival time of a message sent at `time`, interpolated linearly between `column` of the series (sent) and the next column (arrived)."""
    last = series.shape[0] - 1
    if time <= series[0, column]:
        return time + series[0, column + 1] - series[0, column]
    if time >= series[last, column]:
        return time + series[last, column + 1] - series[last, column]
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if series[middle, column] <= time:
            low = middle
        else:
            high = middle
    rise, run = series[high, column + 1] - series[low, column + 1], series[high, column] - series[low, column]
    return series[low, column + 1] + _part(rise, time - series[low, column], run)


@compiled
def _part(rise, along, run):
    """Rise x along // run for 0 <= along < run, binary digit by digit: the product may have 124 bits."""
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
def learned(core, series, time):
    """Engine time at which the agent learns of what happened to its orders at `time`: never before the market data of that instant."""
    comes = carried(series, 1, time) if series.shape[0] > 0 else time + core[H_RESPONSE_LATENCY]
    return max(time, comes - core[H_DATA_LATENCY])


@inlined
def is_known_to_have_ended(core, series, order):
    """Return whether the agent knows by now of the end of an order that has ended."""
    return not is_late(core) or learned(core, series, order[O_ENDED]) <= core[H_TIME]


@compiled
def remember(sim, time, changed):
    """Add a ledger where money or fills are not those of the last one, or `changed` says that orders are not; the caller has seen that it fits."""
    core, ledgers = cores_of(sim)[0], ledgers_of(sim)
    changed |= core[H_CASH] != core[H_L_CASH] or core[H_FILLS] != core[H_L_FILLS]
    changed |= core[H_REALISED] != core[H_L_REALISED] or core[H_RESERVED] != core[H_L_RESERVED]
    if not changed:
        return
    core[H_L_CASH], core[H_L_FILLS], core[H_L_REALISED], core[H_L_RESERVED] = (
        core[H_CASH],
        core[H_FILLS],
        core[H_REALISED],
        core[H_RESERVED],
    )
    row = ledgers[core[H_L_TAIL]]
    core[H_L_TAIL] += 1
    row[L_LEARNED], row[L_UPDATES], row[L_FILLS] = learned(core, series_of(sim), time), core[H_U_TAIL], core[H_FILLS]
    row[L_CASH], row[L_RESERVED] = core[H_CASH], core[H_RESERVED]
    for t in range(core[H_TICKERS]):
        k, at = HEADER + t * K_COLS, L_TICKERS + t * L_PER_TICKER
        row[at], row[at + 1] = core[k + K_POSITION], core[k + K_POSITION + 1]
        row[at + 2], row[at + 3] = core[k + K_BASIS], core[k + K_BASIS + 1]
        row[at + 4], row[at + 5] = core[k + K_REALISED], core[k + K_PAID]


@compiled
def learn(sim, time):
    """Let the agent know what it learns by `time`."""
    main, seen, seen_orders = cores_of(sim)[0], seen_of(sim)[0], seen_orders_of(sim)
    ledgers, updates = ledgers_of(sim), updates_of(sim)
    while main[H_L_HEAD] < main[H_L_TAIL] and ledgers[main[H_L_HEAD], L_LEARNED] <= time:
        row = ledgers[main[H_L_HEAD]]
        main[H_L_HEAD] += 1
        for u in range(seen[H_U_TAIL], row[L_UPDATES]):
            _learn_of_order(seen, seen_orders, updates[u])
        seen[H_U_TAIL], seen[H_FILLS], seen[H_CASH], seen[H_RESERVED] = row[L_UPDATES], row[L_FILLS], row[L_CASH], row[L_RESERVED]
        for t in range(seen[H_TICKERS]):
            k, at = HEADER + t * K_COLS, L_TICKERS + t * L_PER_TICKER
            seen[k + K_POSITION], seen[k + K_POSITION + 1] = row[at], row[at + 1]
            seen[k + K_BASIS], seen[k + K_BASIS + 1] = row[at + 2], row[at + 3]
            seen[k + K_REALISED], seen[k + K_PAID] = row[at + 4], row[at + 5]
    if main[H_WATCH] & WATCH_ORDERS == 0:
        main[H_U_HEAD] = seen[H_U_TAIL]
        rewind(main, seen)


@inlined
def rewind(main, seen):
    """Begin the updates and the ledgers anew once all of them are told or known."""
    if main[H_L_HEAD] == main[H_L_TAIL]:
        main[H_L_HEAD] = main[H_L_TAIL] = 0
        if main[H_U_HEAD] == main[H_U_TAIL]:
            main[H_U_HEAD] = main[H_U_TAIL] = main[H_U_TOLD] = seen[H_U_TAIL] = 0


@inlined
def _learn_of_order(seen, orders, update):
    """An order becomes what an update says; one that joined a queue anew goes to the back of its list."""
    o = update[U_ORDER]
    order = orders[o]
    rested, rests = order[O_STATUS] == _RESTING, update[U_STATUS] == _RESTING
    stays = rested and rests and order[O_QUEUED] == update[U_QUEUED] and order[O_PRICE] == update[U_PRICE]
    if rested and not stays:
        unlink(seen, orders, o)
    order[O_STATUS], order[O_REASON], order[O_PRICE], order[O_COUNT] = update[U_STATUS], update[U_REASON], update[U_PRICE], update[U_COUNT]
    order[O_FILLED], order[O_COST], order[O_FEES], order[O_QUEUED] = update[U_FILLED], update[U_COST], update[U_FEES], update[U_QUEUED]
    if rests and not stays:
        order[O_BID_PRICE] = order[O_PRICE] if order[O_ACTION] == 0 else DOLLAR - order[O_PRICE]
        link(seen, orders, o)


@compiled
def value_of_what_is_known(sim):
    """Equity of the account as the agent knows it, at the prices that it sees."""
    main, seen = cores_of(sim)[0], seen_of(sim)[0]
    if is_late(main):
        for t in range(main[H_TICKERS]):
            best = HEADER + t * K_COLS + K_BEST
            seen[best], seen[best + 1] = main[best], main[best + 1]
    return value_account(seen)
