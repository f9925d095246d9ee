"""Compiled: the events of the tape, one after the other, in every account: books, prints, halts, closes and settlements.

An event costs its decoding, one store, the upkeep of the best bid, and a look whether anything of the agent's is concerned.
`core` is the engine's state (`arena`), `k` the offset of a ticker's row in it, times in ns UTC.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_ACCOUNTS,
    H_BOOK,
    H_CROSSING,
    H_CURSOR,
    H_FILLS,
    H_FLAGGED,
    H_FULL,
    H_MARKS,
    H_ROOM,
    H_STIRRED,
    H_TAKEN,
    H_TICKERS,
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
    NO_BOOK_YET,
)
from bellwether.replay.engine.codes import Reason, TickerStatus
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.money import reserve_side, settle
from bellwether.replay.engine.queues import book_valid_again, crossed, leave_all, level_changed, lower_best, printed
from bellwether.replay.tape.layout import CLOSE, HALT, INVALID, OPEN, PRICES, PRINT, SETTLE, TRADED, VALID, VOID
from bellwether.replay.units import DOLLAR

#: Most fills that one event can add, apart from one per own order: a level each.
LEVELS_ROOM = 2200

_CLOSED_BIT, _SETTLED_BIT, _HALTED_BIT = int(TickerStatus.CLOSED), int(TickerStatus.SETTLED), int(TickerStatus.HALTED)
_NO_BOOK_BIT, _INVALID_BIT, _PAID_BIT = int(TickerStatus.NO_BOOK), int(TickerStatus.INVALID), int(TickerStatus.PAID)
_CLOSED = int(Reason.CLOSED)


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


@inlined
def has_room(core, fills, own):
    """Return whether the fills of one more event or order fit."""
    return core[H_FILLS] + own + LEVELS_ROOM <= fills.shape[1]


@inlined
def _concerns_nobody(core):
    """Return whether the agent has no order and no consumption anywhere, and every market has had its book: then events move books alone."""
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
    """Position at which the loop of `events` continues after events that affect no account."""
    for a in range(cores[0, H_ACCOUNTS]):
        if not _concerns_nobody(cores[a]):
            return i
    end = i
    for a in range(cores[0, H_ACCOUNTS]):
        end = _books_only(event, cores[a], i, stop)
    return end


@compiled
def stop_for_room(cores, i, own):
    """Stop before event `i`: the fills must grow first."""
    main = cores[0]
    main[H_FULL], main[H_ROOM] = 1, own + LEVELS_ROOM
    for a in range(main[H_ACCOUNTS]):
        cores[a, H_CURSOR] = i


@inlined
def _print_fits(cores, fills, k, side, price):
    """Effect of a print on the accounts: -1 none, 0 enough room for its fills, otherwise the number of own orders without room."""
    found = -1
    for a in range(cores[0, H_ACCOUNTS]):
        if price <= cores[a, k + K_TOP + side]:
            found = max(found, 0)
            own = cores[a, k + K_OWN + side]
            if not has_room(cores[a], fills, own):
                found = max(found, own)
    return found


@compiled
def _stirs(ts, main, i, stop):
    """Event `i` may have changed own orders: where an agent is told of that, the loop of `events` stops at the end of its instant."""
    if main[H_WATCH] == 0:
        return stop
    main[H_STIRRED] = 1
    return min(stop, after(ts, i, ts[i]))


@compiled
def events(ts, event, cores, orders, fills, stop):
    """Process the tape up to index `stop`, but for the crossings of its last instant; where own orders are watched, up to the end of the first instant
    that may have changed one. False when an array must grow first; calling again goes on.
    """
    main = cores[0]
    accounts, book, marks = main[H_ACCOUNTS], main[H_BOOK], main[H_MARKS] - main[H_BOOK]
    flagged = False
    for a in range(accounts):
        flagged |= cores[a, H_FLAGGED] == 1
    i = main[H_CURSOR]
    if main[H_STIRRED] == 1:
        stop = min(stop, after(ts, i, ts[i - 1]))
    if not flagged:
        i = _books_alone(event, cores, i, stop)
    while i < stop:
        word = event[i]
        kind = word & 0xF
        if flagged and (kind >= HALT or ts[i] != ts[i - 1]):
            if not cross_all(cores, orders, fills, i, ts[i - 1]):
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
                    if core[k + K_BEST + side] > best and _may_cross(core, k) and _flag(core, k):
                        flagged = True
                        stop = _stirs(ts, main, i, stop)
        elif kind == PRINT:
            fits = _print_fits(cores, fills, k, side, price)
            if fits > 0:
                stop_for_room(cores, i, fits)
                return False
            if fits == 0:
                for a in range(accounts):
                    if price <= cores[a, k + K_TOP + side]:
                        printed(cores[a], orders[a], fills[a], k, side, price, word >> 29, ts[i])
                stop = _stirs(ts, main, i, stop)
        else:
            for a in range(accounts):
                flagged |= _lifecycle(cores[a], orders[a], k, kind, word >> 29, ts[i])
            stop = _stirs(ts, main, i, stop)
        i += 1
    for a in range(accounts):
        cores[a, H_CURSOR] = i
    return True


@compiled
def cross_all(cores, orders, fills, i, ts):
    """Crossing checks of all accounts before event `i`. False when the fills must grow first."""
    for a in range(cores[0, H_ACCOUNTS]):
        if cores[a, H_FLAGGED] == 1:
            short = cross_flagged(cores[a], orders[a], fills, a, ts)
            if short >= 0:
                stop_for_room(cores, i, short)
                return False
    return True


@inlined
def _may_cross(core, k):
    """Return whether some own order of a ticker and a bid of the other side meet."""
    return core[k + K_TOP] + core[k + K_BEST + 1] >= DOLLAR or core[k + K_TOP + 1] + core[k + K_BEST] >= DOLLAR


@compiled
def _own_level(core, orders, k, side, price, at, shown, value, traded):
    """Apply a change of a marked level to the agent: own consumption ends, queue positions move."""
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
def cross_flagged(core, orders, fills, a, ts):
    """Crossing checks of an account at the end of an instant, tickers in the order of their codes. -1 when done; else the fills must grow first, by
    more than this number.
    """
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
