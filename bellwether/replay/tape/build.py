"""Conversion of an episode to its tape: book changes, prints, halts, closes and settlements in the order of processing.

A *word* is one event packed into 64 bits (`layout`), a *row* the words of one book message, a *print* a recorded trade. A taker's trade is
recorded twice: as a print, and as a *cut*, the level change that removed its size. Each print directly precedes the cuts of its instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from bellwether.replay.rules import fee_terms
from bellwether.replay.tape.layout import (
    CLOSE,
    GRID,
    HALT,
    INVALID,
    KIND_MASK,
    LEVEL,
    OPEN,
    PRICE_MASK,
    PRICE_SHIFT,
    PRICES,
    PRINT,
    SETTLE,
    TICKER_MASK,
    TICKER_SHIFT,
    TRADED,
    VALID,
    VALUE_SHIFT,
    VOID,
    Tape,
    freeze,
    pack,
    unpack,
)
from bellwether.replay.units import DOLLAR

if TYPE_CHECKING:
    from bellwether.replay.episode.content import BookColumns, Content
    from bellwether.replay.episode.folder import Episode
    from bellwether.replay.episode.model import Market, Settlement
    from bellwether.replay.rules import RuleSet

#: Sorted prices of a grid, in $0.0001, and the time from which it is valid, ns UTC.
Grid = tuple[int, np.ndarray]


def level_words(words: np.ndarray, grids: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Replace the price in each word by its number in the list of its market's levels. grids: prices of each market's grids.

    Returns the new words and each market's levels, ascending, int64[n + 2]: 0, all prices of its grids and of the words, and a dollar. For
    each price, a dollar less the price is also a level.
    """
    priced = words & KIND_MASK <= PRINT
    codes, stated = words >> TICKER_SHIFT & TICKER_MASK, words >> PRICE_SHIFT & PRICE_MASK
    numbers = np.zeros((len(grids), PRICES), np.int64)
    levels = []
    for code, own in enumerate(grids):
        prices = np.unique(np.concatenate([*own, stated[priced & (codes == code)]]))
        prices = prices[(prices > 0) & (prices < DOLLAR)]
        levels.append(np.unique(np.concatenate([[0], prices, DOLLAR - prices, [DOLLAR]])).astype(np.int64))
        numbers[code, levels[-1]] = np.arange(len(levels[-1]))
    return np.where(priced, words & ~(PRICE_MASK << PRICE_SHIFT) | numbers[codes, stated] << PRICE_SHIFT, words), tuple(levels)


def allowed_levels(levels: Sequence[np.ndarray], grids: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Mark the levels that each grid allows for orders, uint8[V, longest], one row per grid in the order of `Tape.grids`.

    levels: prices of each market's levels. grids: prices of each market's grids. Rows: the first grids of all markets, then later grids
    market by market.
    """
    rows = [(code, own[0]) for code, own in enumerate(grids)] + [(code, grid) for code, own in enumerate(grids) for grid in own[1:]]
    allowed = np.zeros((len(rows), max(map(len, levels), default=0)), np.uint8)
    for row, (code, grid) in zip(allowed, rows, strict=True):
        row[: len(levels[code])] = np.isin(levels[code], grid)
    return allowed


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
def _merge_words(
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


_PHASES = {"open": OPEN, "halt": HALT}
#: Times and packed words in the order of processing.
Events = list[tuple[int, int]]


def load_tape(episode: Episode, rules: RuleSet) -> Tape:
    """Build an episode's tape, with the fee terms of its markets under the rule set.

    Raises `ConfigError` for fee terms that the rules do not have.
    """
    fees = np.stack([fee_terms(rules, market.fee) for market in episode.metadata.markets])
    return replace(build_tape(episode.content, episode.digest), fees=fees)


def build_tape(content: Content, digest: str) -> Tape:
    """Build the tape of an episode's content, without fees. digest: SHA-256 of the content."""
    metadata = content.metadata
    grids = [market.price_grids() for market in metadata.markets]
    prices = [[grid for _, grid in own] for own in grids]
    words, trades = content.book.words, content.trades
    # Prints without their lots.
    prints = pack(PRINT, trades.ticker.astype(np.int64), *trades.passive, 0)
    numbered, levels = level_words(np.concatenate([words, prints]), prices)
    content = replace(content, book=_add_first_books(replace(content.book, words=numbered[: len(words)])))
    ts, event = _merge_events(content, numbered[len(words) :], _grid_changes(grids), max(map(len, levels), default=0))
    return Tape(
        ts=ts,
        event=event,
        tickers=metadata.tickers,
        start=metadata.start,
        end=metadata.end,
        levels=levels,
        grids=allowed_levels(levels, prices),
        digest=digest,
    )


def _grid_changes(grids: Sequence[Sequence[Grid]]) -> Events:
    """Build the events that change a market's price grid. grids: the grids of each market over time, the first valid from the start.

    The value of an event is the row of its grid in `Tape.grids`.
    """
    later = [(at, code) for code, own in enumerate(grids) for at, _ in own[1:]]
    return [(at, pack(GRID, code, 0, 0, len(grids) + place)) for place, (at, code) in enumerate(later)]


def _add_first_books(book: BookColumns) -> BookColumns:
    """Add a level of size 0 to each market's first book row if the row has no levels, so that an empty book counts as known."""
    is_book = np.flatnonzero(~_is_only_lost(book))
    _, first = np.unique(book.ticker[is_book], return_index=True)
    rows = np.sort(is_book[first])
    levels = np.concatenate([[0], np.cumsum(book.words & KIND_MASK == LEVEL)])
    rows = rows[levels[book.end[rows]] == levels[book.end[rows] - book.counts[rows]]]
    if not len(rows):
        return book
    codes = book.ticker[rows].astype(np.int64)
    words = np.insert(book.words, book.end[rows] - book.counts[rows], pack(LEVEL, codes, 0, 1, 0))
    return replace(book, words=words, end=book.end + np.searchsorted(rows, np.arange(len(book.ts)), side="right"))


def _is_only_lost(book: BookColumns) -> np.ndarray:
    """Return for each book row whether its only change is that the book becomes invalid, bool[r]."""
    only_lost = np.zeros(len(book.ts), bool)
    single = np.flatnonzero(book.counts == 1)
    only_lost[single] = book.words[book.end[single] - 1] & KIND_MASK == INVALID
    return only_lost


def _merge_events(content: Content, prints: np.ndarray, changes: Events, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Merge the events by time, each print directly before the level reductions that it caused. Returns (ts, event).

    A print is never moved to a later time than recorded. No event of a market follows its close. prints: words without lots. changes: of
    the price grids. levels: maximum number of levels of a market.
    """
    metadata, book, trades = content.metadata, content.book, content.trades
    tickers = len(metadata.markets)
    closes = np.array([closing_time(m, s, metadata.end) for m, s in zip(metadata.markets, content.settlements, strict=True)], np.int64)
    words, end = _cut_at_close(book, closes)
    _, ticker, side, level, _ = unpack(prints)
    match_word, match_print, match_lots, remaining, before = match_prints(
        book.ts, book.ticker, end, words, trades.ts, trades.ticker, freeze(side), freeze(level), trades.lots, tickers, levels
    )
    remaining[trades.ts > closes[ticker]] = 0
    # A print before its cut stays: moved later, it would fill orders sent after it.
    early = trades.ts[match_print] < book.ts[np.searchsorted(end, match_word, side="right")]
    np.add.at(remaining, match_print[early], match_lots[early])
    match_print[early] = -1
    order = np.argsort(match_word, kind="stable")
    life = [
        event
        for m in zip(range(tickers), metadata.markets, content.settlements, closes, strict=True)
        for event in _lifecycle_events(metadata.start, *m)
    ]
    life = sorted(life + changes, key=lambda event: (event[0], event[1] & KIND_MASK))
    life_ts, life_words = (np.array([event[column] for event in life], np.int64) for column in (0, 1))
    return _merge_words(
        (freeze(book.ts), freeze(end), freeze(words)),
        freeze(before),
        (freeze(prints), freeze(trades.ts), freeze(remaining)),
        (freeze(match_word[order]), freeze(match_print[order]), freeze(match_lots[order])),
        (freeze(life_ts), freeze(life_words)),
    )


def closing_time(market: Market, settlement: Settlement, end: int) -> int:
    """Return the end of a market's trading, ns UTC: its close, its settlement, or `end` (of the recording), whichever is first."""
    settled = settlement.at if settlement.is_known else None
    return min(at for at in (market.close, settled, end) if at is not None)


def _lifecycle_events(start: int, code: int, market: Market, settlement: Settlement, close: int) -> Events:
    """Build the halts, openings, close and settlement of a market as (ts, word). code: of its ticker. close: end of its trading."""
    phases = [phase for phase in market.lifecycle if phase.event in _PHASES and phase.at < close]
    events = [(phase.at, pack(_PHASES[phase.event], code, 0, 0, 0)) for phase in phases]
    first = market.lifecycle[0] if market.lifecycle else None
    opening = first.at if first and first.event == "open" else market.open_time
    if opening is not None and start < opening and start < close:
        events.append((start, pack(HALT, code, 0, 0, 0)))
        if opening < close and not (phases and phases[0].at == opening):
            events.append((opening, pack(OPEN, code, 0, 0, 0)))
    settles = [_settlement_event(code, settlement)] if settlement.is_known else []
    # A settlement at the close also closes the market.
    closes = [] if settles and settles[0][0] == close else [(close, pack(CLOSE, code, 0, 0, 0))]
    return events + closes + settles


def _settlement_event(code: int, settlement: Settlement) -> tuple[int, int]:
    """Build the event (ts, word) that pays a market's positions, or refunds them if the market is void. code: of its ticker."""
    assert settlement.at is not None
    if settlement.value is None:
        return settlement.at, pack(VOID, code, 0, 0, 0)
    return settlement.at, pack(SETTLE, code, 0, 0, settlement.value)


def _cut_at_close(book: BookColumns, closes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Remove the book rows after each market's close, and those at the close that empty the book. Returns words and the end of each row."""
    keep, at_close = book.ts <= closes[book.ticker], book.ts == closes[book.ticker]
    of_row = np.repeat(np.arange(len(book.ts)), book.counts)
    for code in np.unique(book.ticker[at_close]):
        own = book.words[(keep & (book.ticker == code))[of_row]]
        own = own[own & KIND_MASK == LEVEL][::-1]
        _, last = np.unique(own & (1 << VALUE_SHIFT) - 1, return_index=True)
        if not (own[last] >> VALUE_SHIFT).any():
            keep &= ~(at_close & (book.ticker == code))
    kept_words = keep[of_row]
    counts = np.concatenate([[0], np.cumsum(kept_words)])
    return freeze(book.words[kept_words]), freeze(counts[book.end])
