"""Compiled: the loop over the tape from one stop to the next. Stops are decisions and samples, which no agent moves, and arrivals and expiries.

Between stops an event costs its decoding, one store, the upkeep of the best bid, and a look whether anything of the agent's is concerned.
`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it, times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_BOOK,
    H_CASH,
    H_CROSSING,
    H_CURSOR,
    H_DATA_LATENCY,
    H_EQUITY,
    H_EXPIRY,
    H_EXPIRY_AT,
    H_FILLS,
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
    H_TRADE_AFTER,
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
from bellwether.replay.engine.money import reserve_side, settle, value_accounts
from bellwether.replay.engine.queues import book_valid_again, crossed, leave_all, level_changed, lower_best, printed
from bellwether.replay.engine.schedule import DECISION
from bellwether.replay.tape.layout import CLOSE, HALT, INVALID, OPEN, PRICES, PRINT, SETTLE, TRADED, VALID, VOID
from bellwether.replay.units import DOLLAR

#: Most fills that one event can add, apart from one per own order: a level each.
LEVELS_ROOM = 2200

_CLOSED_BIT, _SETTLED_BIT, _HALTED_BIT = int(TickerStatus.CLOSED), int(TickerStatus.SETTLED), int(TickerStatus.HALTED)
_NO_BOOK_BIT, _INVALID_BIT, _PAID_BIT = int(TickerStatus.NO_BOOK), int(TickerStatus.INVALID), int(TickerStatus.PAID)
_AGENT, _CLOSED = int(Reason.AGENT), int(Reason.CLOSED)

_EXPIRY, _ARRIVAL, _SCHEDULED = range(3)


@inlined
def has_room(core, fills, own):
    """Whether the fills of one more event or order fit; if not, the arrays are marked to grow."""
    if core[H_FILLS] + own + LEVELS_ROOM <= fills.shape[0]:
        return True
    core[H_FULL], core[H_ROOM] = 1, own + LEVELS_ROOM
    return False


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
def events(ts, event, core, orders, fills, stop):
    """Process the tape up to index `stop`, then the crossings of its last instant. False when an array must grow first; calling again goes on."""
    book, marks = core[H_BOOK], core[H_MARKS] - core[H_BOOK]
    flagged = core[H_FLAGGED] == 1
    i = core[H_CURSOR]
    if not flagged and _concerns_nobody(core):
        i = _books_only(event, core, i, stop)
    while i < stop:
        word = event[i]
        kind = word & 0xF
        if flagged and (kind >= HALT or ts[i] != ts[i - 1]):
            if not _cross_flagged(core, orders, fills, ts[i - 1]):
                core[H_CURSOR] = i
                return False
            flagged = False
        t = (word >> 15) & 0x3FFF
        side = (word >> 4) & 1
        price = (word >> 5) & 0x3FF
        k = HEADER + t * K_COLS
        if kind <= TRADED:
            value = word >> 29
            at = book + (t * 2 + side) * PRICES + price
            best = core[k + K_BEST + side]
            shown = core[at]
            _show(core, k, side, price, at, value)
            if core[k + K_BUSY] != 0:
                if core[at + marks] != 0 or core[k + K_BUSY] >= NO_BOOK_YET:
                    _own_level(core, orders, k, side, price, at, shown, value, kind == TRADED)
                if core[k + K_BEST + side] > best and _may_cross(core, k):
                    flagged |= _flag(core, k)
        elif kind == PRINT:
            if price <= core[k + K_TOP + side]:
                if not has_room(core, fills, core[k + K_OWN + side]):
                    core[H_CURSOR] = i
                    return False
                printed(core, orders, fills, k, side, price, word >> 29, ts[i])
        else:
            flagged |= _lifecycle(core, orders, k, kind, word >> 29, ts[i])
        i += 1
    core[H_CURSOR] = i
    return not flagged or _cross_flagged(core, orders, fills, ts[i - 1])


@inlined
def _may_cross(core, k):
    """Whether some own order of a ticker and a bid of the other side meet."""
    return core[k + K_TOP] + core[k + K_BEST + 1] >= DOLLAR or core[k + K_TOP + 1] + core[k + K_BEST] >= DOLLAR


@inlined
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
def _cross_flagged(core, orders, fills, ts):
    """Crossing checks at the end of an instant, tickers in the order of their codes. False when the fills must grow first."""
    for t in range(core[H_TICKERS]):
        k = HEADER + t * K_COLS
        if core[k + K_FLAG] == 0:
            continue
        if not has_room(core, fills, core[k + K_OWN] + core[k + K_OWN + 1]):
            return False
        core[k + K_FLAG] = 0
        if core[k + K_STATUS] == 0:
            crossed(core, orders, fills, k, ts)
    core[H_FLAGGED] = 0
    return True


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
    """Go on to the next decision. False when none is left, and the tape is then processed to its end, or when an array must grow first."""
    ts, event, grid, schedule, core, orders, fills, samples, messages, _ = sim
    if core[H_OVER] == 1:
        return False
    while core[H_FULL] == 0:
        row = core[H_STOP]
        scheduled = row < schedule.shape[0]
        index, time = (schedule[row, 0], schedule[row, 1]) if scheduled else (len(ts), NEVER)
        stop = _SCHEDULED
        if core[H_EXPIRY] != NEVER or core[H_M_HEAD] < core[H_M_TAIL]:
            stop, index, time = _earlier_stop(ts, core, messages, index, time)
        if not events(ts, event, core, orders, fills, index):
            return False
        if stop == _EXPIRY:
            expire(core, orders, time)
        elif stop == _ARRIVAL:
            if not _deliver(core, grid, orders, fills, messages, time):
                return False
        elif not scheduled:
            core[H_OVER], core[H_TIME] = 1, core[H_LAST]
            return False
        else:
            core[H_STOP], core[H_TIME] = row + 1, time
            if schedule[row, 2] == DECISION:
                core[H_NOW] = time + core[H_DATA_LATENCY]
                core[H_STEP] += 1
                return True
            _sample(core, samples, time, row + 1 == schedule.shape[0])
    return False


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


@inlined
def _deliver(core, grid, orders, fills, messages, time):
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
            arrive(core, grid, orders, fills, o, time)
        elif kind == M_CANCEL:
            cancel_now(core, orders, o, _AGENT, time)
        elif kind == M_AMEND:
            amend_now(core, grid, orders, fills, o, messages[message - 1, M_PRICE], messages[message - 1, M_LOTS], time)
        else:
            cancel_resting(core, orders, o, time)
    if message == tail:
        core[H_M_HEAD], core[H_M_TAIL] = 0, 0
    return True


@compiled
def _sample(core, samples, time, final):
    """Log cash and equity; the last row is cash alone where the rules say so."""
    value_accounts(core)
    n = core[H_SAMPLES]
    core[H_SAMPLES] = n + 1
    samples[n, S_TS], samples[n, S_CASH] = time, core[H_CASH]
    cash_only = final and core[H_FINAL_CASH] == 1
    samples[n, S_EQUITY] = core[H_CASH] if cash_only else core[H_EQUITY]
    samples[n, S_MID_EQUITY] = core[H_CASH] if cash_only else core[H_MID_EQUITY]
    samples[n, S_PESS] = core[H_CASH + 1] if cash_only else core[H_EQUITY + 1]
    samples[n, S_OPT] = core[H_CASH + 2] if cash_only else core[H_EQUITY + 2]
