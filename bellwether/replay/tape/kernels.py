"""Compiled code that merges an episode's events into one chronological sequence.

A *word* is one event packed into 64 bits (`layout`), a *row* the words of one book message, a *print* a recorded trade. A taker's trade is
recorded twice: as a print, and as a *cut*, the level change that removed its size. `match_prints` pairs them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bellwether.replay.tape.layout import INVALID, LEVEL, PRINT, TRADED, VALID, pack, unpack

Columns = tuple[np.ndarray, np.ndarray, np.ndarray]

#: Maximum distance of a print from its cut, in messages of their ticker and in ns.
MESSAGES, WITHIN = 40, 2_000_000_000


@njit(cache=True, nogil=True)
def _find_exact_cut(
    newest: int,
    lots: int,
    message: int,
    ts: int,
    cut_remaining: np.ndarray,
    earlier_cut: np.ndarray,
    cut_message: np.ndarray,
    cut_ts: np.ndarray,
) -> int:
    """Return the latest cut with exactly `lots` unmatched, at most MESSAGES and WITHIN before the print; without one, `newest`.

    message, ts: of the print. newest: the latest cut at the print's level, -1 for none.
    """
    k = newest
    while k >= 0 and message - cut_message[k] <= MESSAGES and ts - cut_ts[k] <= WITHIN:
        if cut_remaining[k] == lots:
            return k
        k = earlier_cut[k]
    return newest


@njit(cache=True, nogil=True)
def match_prints(
    row_ts: np.ndarray,
    row_ticker: np.ndarray,
    row_end: np.ndarray,
    words: np.ndarray,
    print_ts: np.ndarray,
    print_ticker: np.ndarray,
    print_side: np.ndarray,
    print_price: np.ndarray,
    print_lots: np.ndarray,
    tickers: int,
    levels: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Match prints with the cuts that they caused. Returns each match's word index, print index and lots, each print's unmatched lots, and
    the size of each word's level before it.

    Greedy, in the order of the feed: rows of an instant, then its prints; a message is a row or a print of the ticker. A print takes from
    earlier cuts at its (ticker, passive side, price): from the nearest of exactly its size, else from the nearest ones. Its remainder waits
    for later cuts; the print that waits longest is first. Cuts of an invalid book have many causes and match nothing.
    """
    rows, prints = len(row_ts), len(print_ts)
    displayed = np.zeros((tickers, 2, levels), np.int64)
    invalid = np.zeros(tickers, np.bool_)
    message = np.zeros(tickers, np.int64)
    # Linked lists per level: cuts, newest first, and waiting prints, oldest first.
    last_cut = np.full((tickers, 2, levels), -1, np.int64)
    first_wait = np.full((tickers, 2, levels), -1, np.int64)
    last_wait = np.full((tickers, 2, levels), -1, np.int64)
    before = np.zeros(len(words), np.int64)
    cut_word, cut_remaining = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    earlier_cut, cut_message, cut_ts = np.empty(len(words), np.int64), np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    remaining, wait_next = print_lots.copy(), np.full(prints, -1, np.int64)
    print_message = np.empty(prints, np.int64)
    # Each match uses up a cut or a print.
    match = np.empty((3, len(words) + prints), np.int64)
    cuts, matches, row, at, j = 0, 0, 0, 0, 0
    while row < rows or j < prints:
        if row < rows and (j >= prints or row_ts[row] <= print_ts[j]):
            t = row_ticker[row]
            message[t] += 1
            while at < row_end[row]:
                kind, _, s, p, size = unpack(words[at])
                at += 1
                if kind == LEVEL:
                    before[at - 1] = displayed[t, s, p]
                    cut, displayed[t, s, p] = displayed[t, s, p] - size, size
                    if cut <= 0 or invalid[t]:
                        continue
                    k = first_wait[t, s, p]
                    while k >= 0 and cut > 0:
                        if message[t] - print_message[k] <= MESSAGES and row_ts[row] - print_ts[k] <= WITHIN:
                            lots = min(cut, remaining[k])
                            match[0, matches], match[1, matches], match[2, matches] = at - 1, k, lots
                            matches += 1
                            cut -= lots
                            remaining[k] -= lots
                            if remaining[k] > 0:
                                break
                        k = wait_next[k]
                    first_wait[t, s, p] = k
                    if cut > 0:
                        cut_word[cuts], cut_remaining[cuts], earlier_cut[cuts] = at - 1, cut, last_cut[t, s, p]
                        cut_message[cuts], cut_ts[cuts] = message[t], row_ts[row]
                        last_cut[t, s, p] = cuts
                        cuts += 1
                elif kind == INVALID:
                    invalid[t] = True
                elif kind == VALID:
                    invalid[t] = False
            row += 1
            continue
        t, s, p = print_ticker[j], print_side[j], print_price[j]
        message[t] += 1
        print_message[j] = message[t]
        k = _find_exact_cut(last_cut[t, s, p], remaining[j], message[t], print_ts[j], cut_remaining, earlier_cut, cut_message, cut_ts)
        while k >= 0 and remaining[j] > 0 and message[t] - cut_message[k] <= MESSAGES and print_ts[j] - cut_ts[k] <= WITHIN:
            if cut_remaining[k] > 0:
                lots = min(cut_remaining[k], remaining[j])
                match[0, matches], match[1, matches], match[2, matches] = cut_word[k], j, lots
                matches += 1
                cut_remaining[k] -= lots
                remaining[j] -= lots
            k = earlier_cut[k]
        if remaining[j] > 0:
            if first_wait[t, s, p] < 0:
                first_wait[t, s, p] = j
            else:
                wait_next[last_wait[t, s, p]] = j
            last_wait[t, s, p] = j
        j += 1
    return match[0, :matches].copy(), match[1, :matches].copy(), match[2, :matches].copy(), remaining, before


@njit(cache=True, nogil=True)
def merge_events(
    rows: Columns,
    before: np.ndarray,
    printed: Columns,
    matches: Columns,
    life: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Merge book rows, prints and lifecycle events by time. Returns each event's ts and word.

    In an instant: book rows, then prints with unmatched lots, then lifecycle (halts, closes, settlements and the like).

    rows: ts, end in words, words. before: size of each word's level before it. printed: words with ticker, side and price only; ts; lots remaining. matches: word, print, lots, ordered
    by word: prints that made a cut directly precede it, and it is TRADED; a larger cut is split. Matches with a negative print are lots
    whose print is processed earlier, at its own time.
    """
    row_ts, row_end, words = rows
    prints, print_ts, remaining = printed
    match_word, match_print, match_lots = matches
    life_ts, life_words = life
    room = len(words) + 2 * len(match_word) + len(prints) + len(life_words)
    ts, event = np.empty(room, np.int64), np.empty(room, np.int64)
    n, at, match, row, j, k = 0, 0, 0, 0, 0, 0
    while row < len(row_ts) or j < len(prints) or k < len(life_ts):
        has_row = row < len(row_ts)
        if has_row and (j >= len(prints) or row_ts[row] <= print_ts[j]) and (k >= len(life_ts) or row_ts[row] <= life_ts[k]):
            while at < row_end[row]:
                _, t, s, p, size = unpack(words[at])
                first, shown = match, before[at]
                while match < len(match_word) and match_word[match] == at:
                    if match_print[match] >= 0:
                        ts[n], event[n] = row_ts[row], prints[match_print[match]] | pack(PRINT, 0, 0, 0, match_lots[match])
                        n += 1
                    shown -= match_lots[match]
                    match += 1
                if match > first:
                    ts[n], event[n] = row_ts[row], pack(TRADED, t, s, p, shown)
                    n += 1
                if match == first or shown != size:
                    ts[n], event[n] = row_ts[row], words[at]
                    n += 1
                at += 1
            row += 1
        elif j < len(prints) and (k >= len(life_ts) or print_ts[j] <= life_ts[k]):
            if remaining[j] > 0:
                ts[n], event[n] = print_ts[j], prints[j] | pack(PRINT, 0, 0, 0, remaining[j])
                n += 1
            j += 1
        else:
            ts[n], event[n] = life_ts[k], life_words[k]
            n += 1
            k += 1
    return ts[:n].copy(), event[:n].copy()
