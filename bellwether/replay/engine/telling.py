"""Compiled: what the callbacks of a compiled agent are called for, one after the other: fills, updates of orders, trades, books that changed.

What became known since the last look is told as one batch, in that order; what the callbacks themselves cause is the next batch.
"""

from __future__ import annotations

from bellwether.replay.engine.arena import (
    H_AT_NEWS,
    H_BOOKS_AT,
    H_BY_ROWS,
    H_CALLBACKS,
    H_FILLS,
    H_FILLS_AT,
    H_FILLS_END,
    H_NEWS,
    H_STEP,
    H_TICKERS,
    H_TIME,
    H_TOLD,
    H_TRADES_AT,
    H_TRADES_END,
    H_U_END,
    H_U_HEAD,
    H_U_TAIL,
    H_U_TOLD,
    HEADER,
    K_BEST,
    K_COLS,
    K_MOVED,
    K_TOLD,
)
from bellwether.replay.engine.compiling import compiled, inlined
from bellwether.replay.engine.known import rewind
from bellwether.replay.engine.words import cores_of, seen_of, trades_of

#: Callbacks, in the order of calls; the bits of H_CALLBACKS are 1 << these.
ON_FILL, ON_ORDER, ON_TRADE, ON_BOOK = range(4)
#: What `next_news` answers when there is no more.
NOTHING = -1


@inlined
def _hears(core, what):
    return core[H_CALLBACKS] & (1 << what) != 0


@compiled
def next_news(sim):
    """Return the next callback, with the number in H_NEWS of a fill, an update, a trade or a ticker; NOTHING after the last one."""
    core = cores_of(sim)[0]
    if core[H_STEP] + core[H_AT_NEWS] == 0:
        # Before the first stop nothing is known.
        return NOTHING
    what = _next_of_batch(core)
    return _next_of_batch(core) if what == NOTHING and _new_batch(core, seen_of(sim)[0], trades_of(sim)) else what


@inlined
def _next_of_batch(core):
    if core[H_FILLS_AT] < core[H_FILLS_END]:
        core[H_NEWS] = core[H_FILLS_AT]
        core[H_FILLS_AT] += 1
        return ON_FILL
    if core[H_U_HEAD] < core[H_U_END]:
        core[H_NEWS] = core[H_U_HEAD]
        core[H_U_HEAD] += 1
        return ON_ORDER
    if core[H_TRADES_AT] < core[H_TRADES_END]:
        core[H_NEWS] = core[H_TRADES_AT]
        core[H_TRADES_AT] += 1
        return ON_TRADE
    while core[H_BOOKS_AT] < core[H_TICKERS]:
        ticker = core[H_BOOKS_AT]
        core[H_BOOKS_AT] += 1
        if core[HEADER + ticker * K_COLS + K_MOVED] == 1:
            core[H_NEWS] = ticker
            return ON_BOOK
    return NOTHING


@inlined
def _new_batch(core, seen, trades):
    """Take in what is new since the last batch; whether there is anything."""
    found = False
    if _hears(core, ON_FILL):
        core[H_FILLS_END] = core[H_TOLD] = seen[H_FILLS]
        found |= core[H_FILLS_AT] < core[H_FILLS_END]
    if _hears(core, ON_ORDER):
        rewind(core, seen)
        core[H_U_END] = core[H_U_TOLD] = seen[H_U_TAIL]
        found |= core[H_U_HEAD] < core[H_U_END]
    if _hears(core, ON_TRADE):
        end = core[H_TRADES_END]
        # Where decisions stand before the prints of their instant, these are not known yet.
        last = core[H_TIME] - (1 if core[H_BY_ROWS] == 1 and core[H_AT_NEWS] == 0 else 0)
        while end < trades.shape[0] and trades[end, 0] <= last:
            end += 1
        core[H_TRADES_END] = end
        found |= core[H_TRADES_AT] < end
    if _hears(core, ON_BOOK) and _books_moved(core):
        core[H_BOOKS_AT] = 0
        found = True
    return found


@inlined
def _books_moved(core):
    """Mark the tickers whose best prices are not those last told; whether there are any."""
    found = False
    for t in range(core[H_TICKERS]):
        k = HEADER + t * K_COLS
        moved = core[k + K_BEST] != core[k + K_TOLD] or core[k + K_BEST + 1] != core[k + K_TOLD + 1]
        core[k + K_MOVED] = 1 if moved else 0
        core[k + K_TOLD], core[k + K_TOLD + 1] = core[k + K_BEST], core[k + K_BEST + 1]
        found |= moved
    return found
