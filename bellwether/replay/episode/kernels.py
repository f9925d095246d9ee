"""Compiled passes over book rows: messages to changes, best prices, and trades that hit a displayed level.

Arrays are copied element by element, because numba compiles the error message of slice assignment for seconds. The book is dense over the
numbered levels of `PriceLevels` (prices int64[k], number int64[10001]): int64[tickers, 2, k], lots displayed. A native row of a file sets
one level (SET), begins a snapshot (START) or makes the book invalid (LOST). A *message* is the native rows of equal time, number and
ticker; its changes are *words* (`tape.layout`), up to its `end`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bellwether.replay.tape.layout import INVALID, LEVEL, VALID, pack, unpack
from bellwether.replay.units import DOLLAR

#: Kinds of native rows.
SET, START, LOST = 0, 1, 2
#: Errors of a row: none; one level is set twice; a snapshot does not begin its message; a size below 0 or too large; a price off the grid.
FINE, TWICE, LATE_START, NEGATIVE, TOO_LARGE, OFF_GRID = range(6)


@njit(cache=True, nogil=True)
def _grow(words: np.ndarray, need: int) -> np.ndarray:
    """Return an array with the same words and room for at least `need`."""
    if need <= len(words):
        return words
    larger = np.empty(max(2 * len(words), need), np.int64)
    for k in range(len(words)):
        larger[k] = words[k]
    return larger


@njit(cache=True, nogil=True)
def _sort_key(word: int) -> int:
    _, _, side, price, _ = unpack(word)
    return side * (DOLLAR + 1) + price


@njit(cache=True, nogil=True)
def _sort_changes(words: np.ndarray, start: int, end: int) -> None:
    """Sort the few changes of one row, all of one ticker, by side and price with an insertion sort."""
    for i in range(start + 1, end):
        word = words[i]
        j = i - 1
        while j >= start and _sort_key(words[j]) > _sort_key(word):
            words[j + 1] = words[j]
            j -= 1
        words[j + 1] = word


def new_state(tickers: int, levels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build the state of empty books: lots of each level, row that last set each level, and whether each book is invalid."""
    shape = tickers, 2, levels
    return np.zeros(shape, np.int64), np.full(shape, -1, np.int64), np.zeros(tickers, np.bool_)


@njit(cache=True, nogil=True)
def build_messages(
    ts: np.ndarray,
    sequence: np.ndarray,
    ticker: np.ndarray,
    kind: np.ndarray,
    side: np.ndarray,
    level: np.ndarray,
    lots: np.ndarray,
    prices: np.ndarray,
    state: tuple[np.ndarray, np.ndarray, np.ndarray],
    offset: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Convert native rows to messages. Returns each message's first row and end in words, the words, an error code and the row in error.

    The code is FINE and the row -1 without an error. state: from `new_state`, carried from batch to batch. offset: number of rows in
    earlier batches. level: numbers of prices.
    """
    n, levels = len(ts), len(prices)
    book, set_by, invalid = state
    firsts, ends = np.empty(n, np.int64), np.empty(n, np.int64)
    words = np.empty(n + 1024, np.int64)
    count, size, i = 0, 0, 0
    while i < n:
        first, t, snapshot, was_invalid = i, ticker[i], False, invalid[ticker[i]]
        start = size
        while i < n and ts[i] == ts[first] and sequence[i] == sequence[first] and ticker[i] == t:
            words = _grow(words, size + 2 * levels + 4)
            if kind[i] == LOST:
                if snapshot or size > start:
                    return firsts[:count], ends[:count], words[:size], LATE_START, i
                if not invalid[t]:
                    invalid[t] = True
                    words[size] = pack(INVALID, t, 0, 0, 0)
                    size += 1
                    start = size
            elif kind[i] == START:
                if snapshot or size > start:
                    return firsts[:count], ends[:count], words[:size], LATE_START, i
                snapshot = True
            else:
                s, p = side[i], level[i]
                if set_by[t, s, p] == offset + first:
                    return firsts[:count], ends[:count], words[:size], TWICE, i
                set_by[t, s, p] = offset + first
                if book[t, s, p] != lots[i]:
                    book[t, s, p] = lots[i]
                    words[size] = pack(LEVEL, t, s, prices[p], lots[i])
                    size += 1
            i += 1
        if snapshot:
            for s in range(2):
                for p in range(levels):
                    if book[t, s, p] != 0 and set_by[t, s, p] != offset + first:
                        book[t, s, p] = 0
                        words[size] = pack(LEVEL, t, s, prices[p], 0)
                        size += 1
        _sort_changes(words, start, size)
        if snapshot and (was_invalid or invalid[t]):
            invalid[t] = False
            words[size] = pack(VALID, t, 0, 0, 0)
            size += 1
        firsts[count], ends[count] = first, size
        count += 1
    return firsts[:count], ends[:count], words[:size], FINE, -1


@njit(cache=True, nogil=True)
def compute_tops(
    ts: np.ndarray, ticker: np.ndarray, end: np.ndarray, words: np.ndarray, prices: np.ndarray, level_of: np.ndarray, tickers: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for each message: best YES and NO bid after it (0: none), whether the book is valid, whether the ticker's instant ends."""
    n = len(ts)
    book = np.zeros((tickers, 2, len(prices)), np.int64)
    best = np.full((tickers, 2), -1, np.int64)
    last = np.full(tickers, -1, np.int64)
    invalid = np.zeros(tickers, np.bool_)
    tops, is_valid, is_last = np.zeros((2, n), np.int64), np.empty(n, np.bool_), np.ones(n, np.bool_)
    at = 0
    for i in range(n):
        t = ticker[i]
        if last[t] >= 0 and ts[last[t]] == ts[i]:
            is_last[last[t]] = False
        last[t] = i
        while at < end[i]:
            kind, _, s, price, size = unpack(words[at])
            at += 1
            if kind == LEVEL:
                p = level_of[price]
                book[t, s, p] = size
                if size > 0:
                    best[t, s] = max(best[t, s], p)
                else:
                    while best[t, s] >= 0 and book[t, s, best[t, s]] == 0:
                        best[t, s] -= 1
            else:
                invalid[t] = kind == INVALID
        for s in range(2):
            if best[t, s] >= 0:
                tops[s, i] = prices[best[t, s]]
        is_valid[i] = not invalid[t]
    return tops[0], tops[1], is_valid, is_last


@njit(cache=True, nogil=True)
def find_hits(
    ts: np.ndarray,
    end: np.ndarray,
    words: np.ndarray,
    shape: tuple[int, int],
    level_of: np.ndarray,
    at: np.ndarray,
    ticker: np.ndarray,
    side: np.ndarray,
    level: np.ndarray,
    window: int,
) -> np.ndarray:
    """Return for each trade whether the level that it hit had a size at its time or within `window` ns before, bool[n].

    shape: tickers and levels. at, ticker, side, level (number of the price, -1 for no level): of the trades, at non-decreasing. A level
    that was reduced to 0 within the window counts, because the trade often caused the reduction.
    """
    tickers, levels = shape
    book = np.zeros((tickers, 2, levels), np.int64)
    until = np.full((tickers, 2, levels), np.iinfo(np.int64).min, np.int64)
    hits = np.zeros(len(at), np.bool_)
    row, word_at = 0, 0
    for i in range(len(at)):
        while row < len(ts) and ts[row] <= at[i]:
            while word_at < end[row]:
                kind, t, s, price, size = unpack(words[word_at])
                word_at += 1
                if kind == LEVEL:
                    p = level_of[price]
                    if book[t, s, p] > 0:
                        until[t, s, p] = ts[row]
                    book[t, s, p] = size
            row += 1
        t, s, p = ticker[i], side[i], level[i]
        hits[i] = p >= 0 and (book[t, s, p] > 0 or until[t, s, p] >= at[i] - window)
    return hits


@njit(cache=True, nogil=True)
def expand_messages(
    ticker: np.ndarray, end: np.ndarray, words: np.ndarray, restated: np.ndarray, prices: np.ndarray, level_of: np.ndarray
) -> np.ndarray:
    """Convert messages to native rows, int64[5, rows]: number of the message, kind, side, price, lots.

    A message without changes restates the YES level at the ticker's price in `restated`.
    """
    levels = len(prices)
    book = np.zeros((len(restated), 2, levels), np.int64)
    rows = np.empty((len(words) + len(end) + 1024, 5), np.int64)
    size, at = 0, 0
    for row in range(len(end)):
        t, start = ticker[row], size
        need = size + end[row] - at + 2 * levels + 2
        if need > len(rows):
            larger = np.empty((2 * need, 5), np.int64)
            for k in range(size):
                for column in range(5):
                    larger[k, column] = rows[k, column]
            rows = larger
        whole = end[row] > at and unpack(words[end[row] - 1])[0] == VALID
        while at < end[row]:
            kind, _, s, price, lots = unpack(words[at])
            at += 1
            if kind == LEVEL:
                book[t, s, level_of[price]] = lots
            if (kind == LEVEL and not whole) or kind == INVALID:
                _put_row(rows, size, row, SET if kind == LEVEL else LOST, s, price, lots)
                size += 1
        if whole:
            _put_row(rows, size, row, START, 0, 0, 0)
            size += 1
            for s in range(2):
                for p in range(levels):
                    if book[t, s, p] > 0:
                        _put_row(rows, size, row, SET, s, prices[p], book[t, s, p])
                        size += 1
        elif size == start:
            _put_row(rows, size, row, SET, 0, restated[t], book[t, 0, level_of[restated[t]]])
            size += 1
    return rows[:size].T


@njit(cache=True, nogil=True)
def _put_row(rows: np.ndarray, at: int, row: int, kind: int, side: int, price: int, lots: int) -> None:
    """Store a native row at index `at`."""
    rows[at, 0], rows[at, 1], rows[at, 2], rows[at, 3], rows[at, 4] = row, kind, side, price, lots
