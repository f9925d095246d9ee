"""Compiled passes over book rows: messages and full snapshots into changes, and what is wrong with them.

Arrays are copied element by element: for a slice as a whole, numba compiles what words the error of one that does not fit, for seconds.
The book is dense: int64[tickers, 2, 1001], lots displayed. A result's `row` is the row of the file that is at fault, or -1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bellwether.replay.tape.layout import INVALID, LEVEL, PRICES, VALID, pack, unpack
from bellwether.replay.units import MAX_LOTS

#: Kinds of native rows.
SET, START, LOST = 0, 1, 2
#: What is wrong with a row: nothing; one level is set twice; a snapshot does not begin its message; a size below 0 or too large; a price off the grid.
FINE, TWICE, LATE_START, NEGATIVE, TOO_LARGE, OFF_GRID = range(6)


@njit(cache=True, nogil=True)
def _grown(words: np.ndarray, need: int) -> np.ndarray:
    if need <= len(words):
        return words
    larger = np.empty(max(2 * len(words), need), np.int64)
    for k in range(len(words)):
        larger[k] = words[k]
    return larger


@njit(cache=True, nogil=True)
def _place(word: int) -> int:
    _, _, side, price, _ = unpack(word)
    return side * PRICES + price


@njit(cache=True, nogil=True)
def _sort_changes(words: np.ndarray, start: int, end: int) -> None:
    """Insertion sort by side and price of the few changes of one row; all are of one ticker."""
    for i in range(start + 1, end):
        word = words[i]
        j = i - 1
        while j >= start and _place(words[j]) > _place(word):
            words[j + 1] = words[j]
            j -= 1
        words[j + 1] = word


@njit(cache=True, nogil=True)
def messages(
    ts: np.ndarray,
    sequence: np.ndarray,
    ticker: np.ndarray,
    kind: np.ndarray,
    side: np.ndarray,
    price: np.ndarray,
    lots: np.ndarray,
    tickers: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Native rows as messages: (first file row of each, end of each in words, words, error, row)."""
    n = len(ts)
    book = np.zeros((tickers, 2, PRICES), np.int64)
    seen = np.full((tickers, 2, PRICES), -1, np.int64)
    invalid = np.zeros(tickers, np.bool_)
    firsts, ends = np.empty(n, np.int64), np.empty(n, np.int64)
    words = np.empty(n + 1024, np.int64)
    count, size, i = 0, 0, 0
    while i < n:
        first, t, snapshot, was_invalid = i, ticker[i], False, invalid[ticker[i]]
        start = size
        while i < n and ts[i] == ts[first] and sequence[i] == sequence[first] and ticker[i] == t:
            words = _grown(words, size + 2 * PRICES + 4)
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
                s, p = side[i], price[i]
                if seen[t, s, p] == first:
                    return firsts[:count], ends[:count], words[:size], TWICE, i
                seen[t, s, p] = first
                if book[t, s, p] != lots[i]:
                    book[t, s, p] = lots[i]
                    words[size] = pack(LEVEL, t, s, p, lots[i])
                    size += 1
            i += 1
        if snapshot:
            for s in range(2):
                for p in range(PRICES):
                    if book[t, s, p] != 0 and seen[t, s, p] != first:
                        book[t, s, p] = 0
                        words[size] = pack(LEVEL, t, s, p, 0)
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
def snapshots(
    row: int,
    ticker: np.ndarray,
    offsets: tuple[np.ndarray, np.ndarray],
    prices: tuple[np.ndarray, np.ndarray],
    sizes: tuple[np.ndarray, np.ndarray],
    price_unit: int,
    size_unit: int,
    grid: np.ndarray,
    book: np.ndarray,
    seen: np.ndarray,
    active: np.ndarray,
    shown: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int, int, int, int]:
    """A batch of full-snapshot rows as changes: (end of each row in words, words, error, row in the batch, side, level in the flattened list).

    row: number of the batch's first row in the file. offsets, prices, sizes: of the flattened lists of levels, YES and NO; price_unit, size_unit: mills
    and lots in one of them, the same in every batch. Levels of size 0 are no levels. grid: bool[tickers, 1001]. book, seen, active (int16[tickers, 2,
    2002], prices with a size, in mills), shown (int64[tickers, 2, 1001], their sizes as given), counts (int64[tickers, 2]): the state, carried from
    batch to batch.
    """
    n = len(ticker)
    ends = np.empty(n, np.int64)
    words = np.empty(8 * n + 1024, np.int64)
    size = 0
    most, highest = MAX_LOTS // size_unit, (PRICES - 1) // price_unit
    for i in range(n):
        t, start = ticker[i], size
        words = _grown(words, size + 4 * PRICES)
        for s in range(2):
            # The new prices are kept behind the old ones until the levels that vanished are known.
            before = counts[t, s]
            fresh = before
            low, high = offsets[s][i], offsets[s][i + 1]
            if high - low == before and _same_prices(
                prices[s][low:high], sizes[s][low:high], price_unit, np.uint64(highest), np.uint64(most), active[t, s]
            ):
                for k in range(before):
                    number = sizes[s][low + k]
                    if number != shown[t, s, k]:
                        shown[t, s, k] = number
                        p = int(active[t, s, k])
                        book[t, s, p] = number * size_unit
                        words[size] = pack(LEVEL, t, s, p, book[t, s, p])
                        size += 1
                continue
            for k in range(low, high):
                number = sizes[s][k]
                if number == 0:
                    continue
                p, error = _level(prices[s][k], number, price_unit, highest, most, grid[t])
                if error == FINE and seen[t, s, p] == row + i:
                    error = TWICE
                if error != FINE:
                    return ends, words[:size].copy(), error, i, s, k
                seen[t, s, p] = row + i
                active[t, s, fresh] = p
                shown[t, s, fresh - before] = number
                fresh += 1
                if book[t, s, p] != number * size_unit:
                    book[t, s, p] = number * size_unit
                    words[size] = pack(LEVEL, t, s, p, book[t, s, p])
                    size += 1
            for k in range(before):
                p = int(active[t, s, k])
                if seen[t, s, p] != row + i:
                    book[t, s, p] = 0
                    words[size] = pack(LEVEL, t, s, p, 0)
                    size += 1
            for k in range(fresh - before):
                active[t, s, k] = active[t, s, before + k]
            counts[t, s] = fresh - before
        _sort_changes(words, start, size)
        ends[i] = size
    return ends, words[:size].copy(), FINE, -1, 0, 0


@njit(cache=True, nogil=True)
def _same_prices(prices: np.ndarray, sizes: np.ndarray, price_unit: int, highest: np.uint64, most: np.uint64, active: np.ndarray) -> bool:
    """Return whether a side lists the prices of the row before, which were found to be fine, with sizes above 0 that are fine too."""
    wrong = False
    for k in range(len(prices)):
        # Compared as unsigned, a negative number is too high; a price too high to be multiplied is none that was fine.
        wrong |= (prices[k] * price_unit != active[k]) | (np.uint64(prices[k]) > highest) | (np.uint64(sizes[k] - 1) >= most)
    return not wrong


@njit(cache=True, nogil=True)
def _level(price: int, number: int, price_unit: int, highest: int, most: int, grid: np.ndarray) -> tuple[int, int]:
    """(price in mills, what is wrong with the level). highest, most: the largest price and size, in their units."""
    if number < 0:
        return 0, NEGATIVE
    if number > most:
        return 0, TOO_LARGE
    if price < 0 or price > highest or not grid[price * price_unit]:
        return 0, OFF_GRID
    return price * price_unit, FINE


@njit(cache=True, nogil=True)
def crossings(ts: np.ndarray, ticker: np.ndarray, end: np.ndarray, words: np.ndarray, tickers: int) -> tuple[int, int, int, int, int, int]:
    """Books at the end of each instant whose bids cross (YES + NO above a dollar) or lock (exactly), but for those that are not valid.

    Returns (crossed, first crossed row, its best YES bid, its best NO bid, locked, first locked row).
    """
    book = np.zeros((tickers, 2, PRICES), np.int64)
    best = np.zeros((tickers, 2), np.int64)
    invalid = np.zeros(tickers, np.bool_)
    touched, touched_row, touches = np.empty(tickers, np.int64), np.full(tickers, -1, np.int64), 0
    crossed, first_crossed, yes, no, locked, first_locked = 0, -1, 0, 0, 0, -1
    n, at = len(ts), 0
    for i in range(n):
        t = ticker[i]
        if touched_row[t] < 0:
            touched[touches] = t
            touches += 1
        touched_row[t] = i
        while at < end[i]:
            kind, _, s, p, size = unpack(words[at])
            at += 1
            if kind == INVALID:
                invalid[t] = True
            elif kind == VALID:
                invalid[t] = False
            else:
                book[t, s, p] = size
                if book[t, s, p] > 0:
                    best[t, s] = max(best[t, s], p)
                else:
                    while best[t, s] > 0 and book[t, s, best[t, s]] == 0:
                        best[t, s] -= 1
        if i + 1 < n and ts[i + 1] == ts[i]:
            continue
        for k in range(touches):
            t = touched[k]
            if not invalid[t] and best[t, 0] > 0 and best[t, 1] > 0:
                total = best[t, 0] + best[t, 1]
                if total > PRICES - 1:
                    crossed += 1
                    if first_crossed < 0:
                        first_crossed, yes, no = touched_row[t], best[t, 0], best[t, 1]
                elif total == PRICES - 1:
                    locked += 1
                    if first_locked < 0:
                        first_locked = touched_row[t]
            touched_row[t] = -1
        touches = 0
    return crossed, first_crossed, yes, no, locked, first_locked


@njit(cache=True, nogil=True)
def locks(ts: np.ndarray, ticker: np.ndarray, end: np.ndarray, words: np.ndarray, tickers: int) -> tuple[np.ndarray, np.ndarray]:
    """(row, whether it is locked then): the last row of each instant that leaves a book locked (YES and NO bids of a dollar together), or no longer so."""
    book = np.zeros((tickers, 2, PRICES), np.int64)
    locked = np.zeros(tickers, np.bool_)
    last = np.full(tickers, -1, np.int64)
    rows, found = np.empty(len(ts), np.int64), 0
    states = np.empty(len(ts), np.bool_)
    at, first = 0, 0
    for i in range(len(ts)):
        last[ticker[i]] = i
        while at < end[i]:
            kind, t, s, p, size = unpack(words[at])
            at += 1
            if kind == LEVEL:
                book[t, s, p] = size
        if i + 1 < len(ts) and ts[i + 1] == ts[i]:
            continue
        for j in range(first, i + 1):
            t = ticker[j]
            if last[t] != j:
                continue
            now = _best(book[t, 0]) + _best(book[t, 1]) == PRICES - 1
            if now != locked[t]:
                rows[found], states[found] = j, now
                found += 1
                locked[t] = now
        first = i + 1
    return rows[:found], states[:found]


@njit(cache=True, nogil=True)
def _best(sizes: np.ndarray) -> int:
    for price in range(PRICES - 1, 0, -1):
        if sizes[price] > 0:
            return price
    return -PRICES


@njit(cache=True, nogil=True)
def hits(
    ts: np.ndarray,
    end: np.ndarray,
    words: np.ndarray,
    tickers: int,
    at: np.ndarray,
    ticker: np.ndarray,
    side: np.ndarray,
    price: np.ndarray,
    window: int,
) -> np.ndarray:
    """bool[n]: whether each trade's passive (side, price) showed a size within `window` ns up to the trade, or at its instant.

    at, ticker, side, price: of the trades, at non-decreasing. A level that was cut to nothing within the window counts: the cut is often the trade's.
    """
    book = np.zeros((tickers, 2, PRICES), np.int64)
    until = np.full((tickers, 2, PRICES), np.iinfo(np.int64).min, np.int64)
    found = np.zeros(len(at), np.bool_)
    row, word_at = 0, 0
    for i in range(len(at)):
        while row < len(ts) and ts[row] <= at[i]:
            while word_at < end[row]:
                kind, t, s, p, size = unpack(words[word_at])
                word_at += 1
                if kind == LEVEL:
                    if book[t, s, p] > 0:
                        until[t, s, p] = ts[row]
                    book[t, s, p] = size
            row += 1
        t, s, p = ticker[i], side[i], price[i]
        found[i] = book[t, s, p] > 0 or until[t, s, p] >= at[i] - window
    return found


@njit(cache=True, nogil=True)
def as_messages(
    ticker: np.ndarray, end: np.ndarray, words: np.ndarray, restated: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Book rows as native ones: (book row, kind, side, price, lots) of each. A row that changed nothing states the YES
    level at the ticker's price in `restated` as it was.
    """
    book = np.zeros((len(restated), 2, PRICES), np.int64)
    room = len(words) + len(end) + 1024
    found = np.empty((5, room), np.int64)
    size, at = 0, 0
    for row in range(len(end)):
        t, start = ticker[row], size
        need = size + end[row] - at + 2 * PRICES + 2
        if need > found.shape[1]:
            larger = np.empty((5, 2 * need), np.int64)
            for column in range(5):
                for k in range(size):
                    larger[column, k] = found[column, k]
            found = larger
        whole = end[row] > at and unpack(words[end[row] - 1])[0] == VALID
        while at < end[row]:
            kind, _, s, p, lots = unpack(words[at])
            at += 1
            if kind == LEVEL:
                book[t, s, p] = lots
            if (kind == LEVEL and not whole) or kind == INVALID:
                found[0, size], found[1, size] = row, SET if kind == LEVEL else LOST
                found[2, size], found[3, size], found[4, size] = s, p, lots
                size += 1
        if whole:
            found[0, size], found[1, size], found[2, size], found[3, size], found[4, size] = row, START, 0, 0, 0
            size += 1
            for s in range(2):
                for p in range(PRICES):
                    if book[t, s, p] > 0:
                        found[0, size], found[1, size] = row, SET
                        found[2, size], found[3, size], found[4, size] = s, p, book[t, s, p]
                        size += 1
        elif size == start:
            found[0, size], found[1, size], found[2, size], found[3, size], found[4, size] = (
                row,
                SET,
                0,
                restated[t],
                book[t, 0, restated[t]],
            )
            size += 1
    return found[0, :size], found[1, :size], found[2, :size], found[3, :size], found[4, :size]


@njit(cache=True, nogil=True)
def _same(text: np.ndarray, first: int, first_end: int, second: int, second_end: int) -> bool:
    length = first_end - first
    if length != second_end - second:
        return False
    same = 0
    while same < length and text[first + same] == text[second + same]:
        same += 1
    return same == length


@njit(cache=True, nogil=True)
def repeated(offsets: np.ndarray, text: np.ndarray) -> tuple[int, int]:
    """The first text that is there again, and where it was first; (-1, -1) for none. Empty texts do not count.

    offsets: int64[n + 1] into the bytes of `text`. An exact comparison behind an open hash table of 4 bytes a slot.
    """
    n = len(offsets) - 1
    bits = 4
    while 1 << bits < 2 * n:
        bits += 1
    slots = np.full(1 << bits, -1, np.int32)
    for i in range(n):
        low, high = offsets[i], offsets[i + 1]
        if low == high:
            continue
        found = np.uint64(high - low)
        for k in range(low, high):
            found = (found ^ np.uint64(text[k])) * np.uint64(0x9E3779B97F4A7C15)
            found ^= found >> np.uint64(29)
        slot = np.int64(found & np.uint64((1 << bits) - 1))
        while slots[slot] >= 0:
            j = slots[slot]
            if _same(text, offsets[j], offsets[j + 1], low, high):
                return i, j
            slot = (slot + 1) & ((1 << bits) - 1)
        slots[slot] = i
    return -1, -1
