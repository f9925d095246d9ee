"""Compiled: the loop over the tape from one stop to the next. Stops are decisions and samples, which no agent moves, and arrivals and expiries.

Between stops an event costs its decoding, one store, the upkeep of the best bid, and a look whether anything of the agent's is concerned.
`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it, times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_BOOK,
    H_CASH,
    H_CROSSING,
    H_CURSOR,
    H_DATA_LATENCY,
    H_EQUITY,
    H_EXPIRY,
    H_EXPIRY_AT,
    H_FILLS,
    H_FILLS_BEFORE,
    H_FILLS_THEN,
    H_FINAL_CASH,
    H_FLAGGED,
    H_FULL,
    H_LAST,
    H_M_HEAD,
    H_M_TAIL,
    H_MARKS,
    H_MID_EQUITY,
    H_NOW,
    H_OVER,
    H_ROOM,
    H_SAMPLES,
    H_STEP,
    H_STOP,
    H_TAKEN,
    H_TICKERS,
    H_TIME,
    H_TOLD,
    H_TRADE_AFTER,
    H_WATCH,
    HEADER,
    K_BEST,
    K_BUSY,
    K_COLS,
    K_FLAG,
    K_OWN,
    K_STATUS,
    K_TOP,
    M_AMEND,
    M_AT,
    M_CANCEL,
    M_KIND,
    M_LOTS,
    M_ORDER,
    M_PLACE,
    M_PRICE,
    M_TIME,
    NEVER,
    NO_BOOK_YET,
)
from bellwether.replay.engine.codes import S_CASH, S_EQUITY, S_MID_EQUITY, S_OPT, S_PESS, S_TS, Reason, TickerStatus
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.matching import amend_now, arrive, cancel_now, cancel_resting, expire
from bellwether.replay.engine.money import reserve_side, settle, value_account
from bellwether.replay.engine.queues import book_valid_again, crossed, leave_all, level_changed, lower_best, printed
from bellwether.replay.engine.schedule import DECISION, WAKE
from bellwether.replay.engine.words import (
    cores_of,
    event_of,
    fills_of,
    grid_of,
    messages_of,
    orders_of,
    samples_of,
    schedule_of,
    ts_of,
)
from bellwether.replay.tape.layout import CLOSE, HALT, INVALID, OPEN, PRICES, PRINT, SETTLE, TRADED, VALID, VOID
from bellwether.replay.units import DOLLAR

#: Most fills that one event can add, apart from one per own order: a level each.
LEVELS_ROOM = 2200

_CLOSED_BIT, _SETTLED_BIT, _HALTED_BIT = int(TickerStatus.CLOSED), int(TickerStatus.SETTLED), int(TickerStatus.HALTED)
_NO_BOOK_BIT, _INVALID_BIT, _PAID_BIT = int(TickerStatus.NO_BOOK), int(TickerStatus.INVALID), int(TickerStatus.PAID)
_AGENT, _CLOSED = int(Reason.AGENT), int(Reason.CLOSED)

_EXPIRY, _ARRIVAL, _SCHEDULED, _INSTANT = range(4)

#: What `advance` stops for: a decision, or what the agent is to be told at once.
AT_DECISION, AT_NEWS = 1, 2


@inlined
def has_room(core, fills, own):
    """Whether the fills of one more event or order fit."""
    return core[H_FILLS] + own + LEVELS_ROOM <= fills.shape[1]


@inlined
def _concerns_nobody(core):
    """Whether the agent has no order and no consumption anywhere, and every market has had its book: then events move books alone."""
    busy = 0
    for t in range(core[H_TICKERS]):
        busy |= core[HEADER + t * K_COLS + K_BUSY]
    return busy == 0


@inlined
def _show(core, k, side, price, at, value):
    """Display `value` lots at a price, whose place is `at`, and keep the best bid of the side."""
    best = core[k + K_BEST + side]
    core[at] = value
    if value > 0:
        if price > best:
            core[k + K_BEST + side] = price
    elif price == best:
        lower_best(core, k, side, price)


@compiled
def _books_only(event, core, i, stop):
    """Process book changes and prints that concern nobody, up to the next event of another kind; where the loop of `events` goes on."""
    book = core[H_BOOK]
    while i < stop:
        word = event[i]
        kind = word & 0xF
        if kind > PRINT:
            return i
        if kind <= TRADED:
            t, side, price, value = (word >> 15) & 0x3FFF, (word >> 4) & 1, (word >> 5) & 0x3FF, word >> 29
            k = HEADER + t * K_COLS
            _show(core, k, side, price, book + (t * 2 + side) * PRICES + price, value)
        i += 1
    return i


@inlined
def _books_alone(event, cores, i, stop):
    """Where the loop of `events` goes on after what concerns no account."""
    for a in range(cores[0, H_ACCOUNTS]):
        if not _concerns_nobody(cores[a]):
            return i
    end = i
    for a in range(cores[0, H_ACCOUNTS]):
        end = _books_only(event, cores[a], i, stop)
    return end


@compiled
def _stop_for_room(cores, i, own):
    """Stop before event `i`: the fills must grow first."""
    main = cores[0]
    main[H_FULL], main[H_ROOM] = 1, own + LEVELS_ROOM
    for a in range(main[H_ACCOUNTS]):
        cores[a, H_CURSOR] = i


@inlined
def _print_fits(cores, fills, k, side, price):
    """How a print concerns the accounts: -1 none, 0 there is room for its fills, else the own orders of one for which there is not."""
    found = -1
    for a in range(cores[0, H_ACCOUNTS]):
        if price <= cores[a, k + K_TOP + side]:
            found = max(found, 0)
            own = cores[a, k + K_OWN + side]
            if not has_room(cores[a], fills, own):
                found = max(found, own)
    return found


@compiled
def events(ts, event, cores, orders, fills, stop):
    """Process the tape up to index `stop`, but for the crossings of its last instant. False when an array must grow first; calling again goes on."""
    main = cores[0]
    accounts, book, marks = main[H_ACCOUNTS], main[H_BOOK], main[H_MARKS] - main[H_BOOK]
    flagged = False
    for a in range(accounts):
        flagged |= cores[a, H_FLAGGED] == 1
    i = main[H_CURSOR]
    if not flagged:
        i = _books_alone(event, cores, i, stop)
    while i < stop:
        word = event[i]
        kind = word & 0xF
        if flagged and (kind >= HALT or ts[i] != ts[i - 1]):
            if not _cross_all(cores, orders, fills, i, ts[i - 1]):
                return False
            flagged = False
        t = (word >> 15) & 0x3FFF
        side = (word >> 4) & 1
        price = (word >> 5) & 0x3FF
        k = HEADER + t * K_COLS
        if kind <= TRADED:
            value = word >> 29
            at = book + (t * 2 + side) * PRICES + price
            for a in range(accounts):
                core = cores[a]
                best = core[k + K_BEST + side]
                shown = core[at]
                _show(core, k, side, price, at, value)
                if core[k + K_BUSY] != 0:
                    if core[at + marks] != 0 or core[k + K_BUSY] >= NO_BOOK_YET:
                        _own_level(core, orders[a], k, side, price, at, shown, value, kind == TRADED)
                    if core[k + K_BEST + side] > best and _may_cross(core, k):
                        flagged |= _flag(core, k)
        elif kind == PRINT:
            fits = _print_fits(cores, fills, k, side, price)
            if fits > 0:
                _stop_for_room(cores, i, fits)
                return False
            if fits == 0:
                for a in range(accounts):
                    if price <= cores[a, k + K_TOP + side]:
                        printed(cores[a], orders[a], fills[a], k, side, price, word >> 29, ts[i])
        else:
            for a in range(accounts):
                flagged |= _lifecycle(cores[a], orders[a], k, kind, word >> 29, ts[i])
        i += 1
    for a in range(accounts):
        cores[a, H_CURSOR] = i
    return True


@compiled
def _cross_all(cores, orders, fills, i, ts):
    """Crossing checks of all accounts before event `i`. False when the fills must grow first."""
    for a in range(cores[0, H_ACCOUNTS]):
        if cores[a, H_FLAGGED] == 1:
            short = _cross_flagged(cores[a], orders[a], fills, a, ts)
            if short >= 0:
                _stop_for_room(cores, i, short)
                return False
    return True


@inlined
def _may_cross(core, k):
    """Whether some own order of a ticker and a bid of the other side meet."""
    return core[k + K_TOP] + core[k + K_BEST + 1] >= DOLLAR or core[k + K_TOP + 1] + core[k + K_BEST] >= DOLLAR


@compiled
def _own_level(core, orders, k, side, price, at, shown, value, traded):
    """What a change of a marked level means for the agent: own consumption ends, places move."""
    if core[k + K_BUSY] >= NO_BOOK_YET:
        core[k + K_BUSY] -= NO_BOOK_YET
        core[k + K_STATUS] &= ~_NO_BOOK_BIT
    taken = at - core[H_BOOK] + core[H_TAKEN]
    recorded = shown + core[taken]
    if core[taken] > 0:
        core[taken] = 0
        core[k + K_BUSY] -= 1
        core[at - core[H_BOOK] + core[H_MARKS]] -= 1
    if core[k + K_OWN + side] > 0 and core[k + K_STATUS] & _INVALID_BIT == 0:
        level_changed(core, orders, k, side, price, recorded, value, traded)


@inlined
def _flag(core, k):
    if core[H_CROSSING] == 0:
        return False
    core[k + K_FLAG] = 1
    core[H_FLAGGED] = 1
    return True


@compiled
def _cross_flagged(core, orders, fills, a, ts):
    """Crossing checks of an account at the end of an instant, tickers in the order of their codes. -1 when done; else the fills must grow first, by
    more than this number."""
    for t in range(core[H_TICKERS]):
        k = HEADER + t * K_COLS
        if core[k + K_FLAG] == 0:
            continue
        own = core[k + K_OWN] + core[k + K_OWN + 1]
        if not has_room(core, fills, own):
            return own
        core[k + K_FLAG] = 0
        if core[k + K_STATUS] == 0:
            crossed(core, orders, fills[a], k, ts)
    core[H_FLAGGED] = 0
    return -1


@compiled
def _lifecycle(core, orders, k, kind, value, ts):
    """INVALID to VOID. Returns whether a crossing check is due."""
    status = k + K_STATUS
    if kind == INVALID:
        core[status] |= _INVALID_BIT
    elif kind == VALID:
        if core[status] & _INVALID_BIT:
            core[status] &= ~_INVALID_BIT
            book_valid_again(core, orders, k)
        return _flag(core, k)
    elif kind == HALT:
        core[status] |= _HALTED_BIT
    elif kind == OPEN:
        core[status] &= ~_HALTED_BIT
        return _flag(core, k)
    elif kind == CLOSE:
        if core[H_TRADE_AFTER] == 0:
            core[status] |= _CLOSED_BIT
            leave_all(core, orders, k, _CLOSED, ts)
    elif kind in (SETTLE, VOID) and core[status] & _PAID_BIT == 0:
        leave_all(core, orders, k, _CLOSED, ts)
        settle(core, k, value, kind == VOID)
        reserve_side(core, orders, k, 0)
        reserve_side(core, orders, k, 1)
        core[status] |= _PAID_BIT
        if core[H_TRADE_AFTER] == 0:
            core[status] |= _CLOSED_BIT | _SETTLED_BIT
    return False


@inlined
def after(ts, low, time):
    """First index from `low` on with a later time than `time`; near ones are found fast."""
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
def advance(sim):
    """Go on to the next decision, AT_DECISION, or to news where they are stops too, AT_NEWS. 0 when none is left, and the tape is then processed
    to its end, or when an array must grow first."""
    ts, event, grid, schedule, messages = ts_of(sim), event_of(sim), grid_of(sim), schedule_of(sim), messages_of(sim)
    cores, orders, fills, samples = cores_of(sim), orders_of(sim), fills_of(sim), samples_of(sim)
    main = cores[0]
    if main[H_OVER] == 1:
        return 0
    watching = main[H_WATCH] == 1
    while main[H_FULL] == 0:
        row = main[H_STOP]
        scheduled = row < schedule.shape[0]
        index, time = (schedule[row, 0], schedule[row, 1]) if scheduled else (len(ts), NEVER)
        stop, whose = _SCHEDULED, 0
        for a in range(main[H_ACCOUNTS]):
            core = cores[a]
            if core[H_EXPIRY] != NEVER or core[H_M_HEAD] < core[H_M_TAIL]:
                earlier, index, time = _earlier_stop(ts, core, messages[a], index, time)
                if earlier != _SCHEDULED:
                    stop, whose = earlier, a
        cursor = main[H_CURSOR]
        if watching and cursor < index and not _concerns_nobody(main):
            end = after(ts, cursor, ts[cursor])
            if end <= index:
                stop, index, time = _INSTANT, end, ts[cursor]
        if not events(ts, event, cores, orders, fills, index):
            return 0
        if stop == _INSTANT:
            if not _cross_all(cores, orders, fills, index, time):
                return 0
            if main[H_FILLS] > main[H_TOLD]:
                return _news(cores, time)
            continue
        if stop == _SCHEDULED:
            if index > 0 and not _cross_all(cores, orders, fills, index, ts[index - 1]):
                return 0
            if not scheduled:
                _end(cores)
                return 0
            found = _scheduled(cores, samples, schedule, row, time)
            if found != 0:
                return found
            continue
        # An arrival or an expiry is of one account: the others go on with the instant.
        core = cores[whose]
        if core[H_FLAGGED] == 1:
            short = _cross_flagged(core, orders[whose], fills, whose, ts[index - 1])
            if short >= 0:
                _stop_for_room(cores, index, short)
                return 0
        if stop == _EXPIRY:
            expire(core, orders[whose], time)
        elif not _deliver(core, grid, orders[whose], fills, whose, messages[whose], time):
            _stop_for_room(cores, index, 0)
            return 0
        if watching and main[H_FILLS] > main[H_TOLD]:
            return _news(cores, time)
    return 0


@compiled
def _news(cores, time):
    """The agent is to be told of its fills of this instant."""
    main = cores[0]
    main[H_TOLD] = main[H_FILLS]
    for a in range(main[H_ACCOUNTS]):
        core = cores[a]
        core[H_TIME], core[H_NOW] = time, time + core[H_DATA_LATENCY]
    return AT_NEWS


@compiled
def _end(cores):
    for a in range(cores[0, H_ACCOUNTS]):
        cores[a, H_OVER], cores[a, H_TIME] = 1, cores[0, H_LAST]


@compiled
def _scheduled(cores, samples, schedule, row, time):
    """A decision, AT_DECISION; news, AT_NEWS; or a sample, 0."""
    decides, wakes = schedule[row, 2] == DECISION, schedule[row, 2] == WAKE
    for a in range(cores[0, H_ACCOUNTS]):
        core = cores[a]
        core[H_STOP], core[H_TIME] = row + 1, time
        if decides or wakes:
            core[H_NOW] = time + core[H_DATA_LATENCY]
            if decides:
                core[H_STEP] += 1
                core[H_FILLS_BEFORE], core[H_FILLS_THEN] = core[H_FILLS_THEN], core[H_FILLS]
        else:
            _sample(core, samples[a], time, row + 1 == schedule.shape[0])
    return AT_DECISION if decides else AT_NEWS if wakes else 0


@inlined
def _earlier_stop(ts, core, messages, index, time):
    """(what, index, time) of the expiry or arrival that comes before the scheduled stop at (index, time), if any does. None after the tape's end."""
    stop = _SCHEDULED
    if core[H_M_HEAD] < core[H_M_TAIL]:
        message = core[H_M_HEAD]
        at, then = messages[message, M_AT], messages[message, M_TIME]
        if then <= core[H_LAST] and (at < index or (at == index and then <= time)):
            stop, index, time = _ARRIVAL, at, then
    then = core[H_EXPIRY]
    if then <= core[H_LAST]:
        if core[H_EXPIRY_AT] < 0:
            core[H_EXPIRY_AT] = after(ts, core[H_CURSOR], then - 1)
        at = core[H_EXPIRY_AT]
        if at < index or (at == index and then <= time):
            stop, index, time = _EXPIRY, at, then
    return stop, index, time


@compiled
def _deliver(core, grid, orders, fills, a, messages, time):
    """Let the messages under way that come at `time` arrive. False when the fills must grow first."""
    message, tail = core[H_M_HEAD], core[H_M_TAIL]
    core[H_TIME] = time
    while message < tail and messages[message, M_TIME] == time:
        if not has_room(core, fills, 0):
            return False
        kind, o = messages[message, M_KIND], messages[message, M_ORDER]
        message += 1
        core[H_M_HEAD] = message
        if kind == M_PLACE:
            arrive(core, grid, orders, fills[a], o, time)
        elif kind == M_CANCEL:
            cancel_now(core, orders, o, _AGENT, time)
        elif kind == M_AMEND:
            amend_now(core, grid, orders, fills[a], o, messages[message - 1, M_PRICE], messages[message - 1, M_LOTS], time)
        else:
            cancel_resting(core, orders, o, time)
    if message == tail:
        core[H_M_HEAD], core[H_M_TAIL] = 0, 0
    return True


@compiled
def _sample(core, samples, time, final):
    """Log cash and equity; the last row is cash alone where the rules say so."""
    value_account(core)
    n = core[H_SAMPLES]
    core[H_SAMPLES] = n + 1
    samples[n, S_TS], samples[n, S_CASH] = time, core[H_CASH]
    cash_only = final and core[H_FINAL_CASH] == 1
    samples[n, S_EQUITY] = core[H_CASH] if cash_only else core[H_EQUITY]
    samples[n, S_MID_EQUITY] = core[H_CASH] if cash_only else core[H_MID_EQUITY]
    samples[n, S_PESS] = samples[n, S_OPT] = samples[n, S_EQUITY]
