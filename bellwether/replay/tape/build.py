"""Conversion of an episode to its tape: book changes, prints, halts, closes and settlements in the order of processing. Tapes are cached as
Arrow streams with a checksum, written atomically and memory-mapped on read.

A *print* is a recorded trade. Each print directly precedes the level changes of its instant that it caused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from bellwether.files import atomic_file, checked, with_checksum
from bellwether.replay.arrow import array_of, values_of
from bellwether.replay.rules import fee_terms
from bellwether.replay.tape import kernels
from bellwether.replay.tape.layout import (
    CLOSE,
    GRID,
    HALT,
    INVALID,
    KIND_MASK,
    LAYOUT_VERSION,
    LEVEL,
    OPEN,
    PRINT,
    SETTLE,
    VALUE_SHIFT,
    VOID,
    Tape,
    freeze,
    pack,
    unpack,
)
from bellwether.replay.tape.levels import Grid, allowed_levels, level_words

if TYPE_CHECKING:
    from bellwether.replay.episode.content import BookColumns, Content
    from bellwether.replay.episode.model import Market, Settlement
    from bellwether.replay.episode.reader import Episode
    from bellwether.replay.rules import RuleSet

_PHASES = {"open": OPEN, "halt": HALT}
_COLUMNS = ("ts", "event", "grids", "prices")
#: Times and packed words in the order of processing.
Events = list[tuple[int, int]]


def load_tape(episode: Episode, rules: RuleSet, cache: Path | None = None) -> Tape:
    """Load an episode's tape, with the fee terms of its markets under the rule set.

    cache: folder of tapes by content; a missing tape is built and stored there. Raises `ConfigError` for fee terms that the rules do not
    have.
    """
    fees = np.stack([fee_terms(rules, market.fee) for market in episode.metadata.markets])
    path = None if cache is None else cache_path(cache, episode.digest)
    tape = None if path is None else read_tape(path, episode.digest)
    if tape is None:
        tape = build_tape(episode.content, episode.digest)
        if path is not None:
            write_tape(path, tape)
    return replace(tape, fees=fees)


def cache_path(cache: Path, digest: str) -> Path:
    """Return the path of a tape's file in the folder `cache`. digest: of the episode's content."""
    return cache / f"{digest}-{LAYOUT_VERSION}.arrow"


def write_tape(path: Path, tape: Tape) -> None:
    """Write a tape, without its fees, to a file. Equal tapes give equal bytes."""
    about = {
        "tickers": tape.tickers,
        "start": tape.start,
        "end": tape.end,
        "digest": tape.digest,
        "levels": [len(levels) for levels in tape.levels],
    }
    arrays = [array_of(getattr(tape, name).reshape(-1)) for name in _COLUMNS]
    # One row of lists, because the columns differ in length.
    lists = [pa.LargeListArray.from_arrays(array_of(np.array([0, len(array)])), array) for array in arrays]
    batch = pa.record_batch(lists, names=list(_COLUMNS)).replace_schema_metadata({"tape": orjson.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with atomic_file(path) as draft:
        draft.write_bytes(with_checksum(memoryview(sink.getvalue())))


def read_tape(path: Path, digest: str) -> Tape | None:
    """Map a tape's file into memory. None if the file is missing or damaged, or the tape has another digest than `digest`."""
    try:
        # Arrow and the engine trust lengths and offsets, so nothing is parsed before its checksum is verified.
        content = checked(memoryview(pa.memory_map(str(path)).read_buffer()))
        if content is None:
            return None
        reader = pa.ipc.open_stream(pa.py_buffer(content))
        batch, about = reader.read_next_batch(), orjson.loads(reader.schema.metadata[b"tape"])
        if about["digest"] != digest:
            return None
        columns: dict[str, np.ndarray] = {name: values_of(batch.column(name).values) for name in _COLUMNS}
        longest = max(about["levels"], default=0)
        columns["grids"] = columns["grids"].reshape(-1, longest) if longest else columns["grids"].reshape(0, 0)
        levels = tuple(np.split(columns.pop("prices"), np.cumsum(about["levels"])[:-1]))
        return Tape(tickers=tuple(about["tickers"]), start=about["start"], end=about["end"], digest=digest, levels=levels, **columns)
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError):
        return None


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
    match_word, match_print, match_lots, remaining, before = kernels.match_prints(
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
    return kernels.merge_events(
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
