"""Lower limit of the CPU time of a replay: one compiled pass that does for each event only what every replay must do.

At a change, the pass writes the level, keeps the best price of the side, and checks whether an order rests at the level; a trade shortens the queue
there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bellwether.replay.tape.layout import PRINT, TRADED, Tape, unpack


def touch_once(tape: Tape) -> int:
    """Run the pass over a tape (episode in integers). Returns a sum over the final books, so that the compiler cannot remove any work."""
    book = np.zeros((len(tape.tickers), 2, max(map(len, tape.levels))), np.int64)
    ahead = np.zeros_like(book)
    best = np.zeros((len(tape.tickers), 2), np.int64)
    return int(_touch(tape.event, book, ahead, best))


@njit(cache=True, nogil=True)
def _touch(event, book, ahead, best):
    for word in event:
        kind, ticker, side, price, value = unpack(word)
        if kind <= TRADED:
            book[ticker, side, price] = value
            if value > 0:
                if price > best[ticker, side]:
                    best[ticker, side] = price
            elif price == best[ticker, side]:
                while price > 0 and book[ticker, side, price] == 0:
                    price -= 1
                best[ticker, side] = price
            if ahead[ticker, side, price] > value:
                ahead[ticker, side, price] = value
        elif kind == PRINT and ahead[ticker, side, price] > 0:
            ahead[ticker, side, price] -= min(value, ahead[ticker, side, price])
    return best.sum() + book.sum()
