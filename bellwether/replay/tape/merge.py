"""Several tapes as one: their events in one order of processing, each market with its own code, grid, fees and units."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.tape.layout import HALT, KIND_MASK, MAX_TICKERS, PRINT, TICKER_SHIFT, Tape

#: What happens within an instant, in this order.
_BOOKS, _PRINTS, _LIFECYCLE = range(3)


def merge_tapes(tapes: Sequence[Tape], *, prints_last: bool = False) -> Tape:
    """The tape of several, whose codes follow one another.

    Of an instant come the books and prints of each tape in the order of `tapes`, then the halts, closes and settlements of each. prints_last: prints
    come between them, after the books of all tapes. Each tape names its units. Raises `ConfigError` for more markets than a tape has codes for.
    """
    first_codes = list(accumulate((len(tape.tickers) for tape in tapes), initial=0))
    if first_codes[-1] > MAX_TICKERS:
        raise ConfigError(f"merging tapes: they have {first_codes[-1]:,} markets; a replay has at most {MAX_TICKERS:,}")
    phases = [_phases(tape.event, prints_last=prints_last) for tape in tapes]
    chosen = [(tape, code, phase == what) for what in range(3) for tape, code, phase in zip(tapes, first_codes, phases, strict=False)]
    ts = np.concatenate([tape.ts[rows] for tape, _, rows in chosen])
    event = np.concatenate([tape.event[rows] + (code << TICKER_SHIFT) for tape, code, rows in chosen])
    # Stable: of one instant, all books come before all that end them, those of a tape in their order.
    order = np.argsort(ts, kind="stable")
    rows_ts, rows_end = _rows(tapes, phases, ts[order])
    return Tape(
        ts=ts[order],
        event=event[order],
        tickers=tuple(ticker for tape in tapes for ticker in tape.tickers),
        start=min(tape.start for tape in tapes),
        end=max(tape.end for tape in tapes),
        rows_ts=rows_ts,
        rows_end=rows_end,
        grid=np.concatenate([tape.grid for tape in tapes]),
        fees=np.concatenate([tape.fees for tape in tapes]),
        digest=hashlib.sha256("\n".join(tape.digest for tape in tapes).encode()).hexdigest(),
        units=np.concatenate([tape.units for tape in tapes]),
        begins=np.concatenate([tape.begins for tape in tapes]),
    )


def with_units(tape: Tape, units: Sequence[int]) -> Tape:
    """The tape with the same sizes and units for each of its markets, a row of `Tape.units`."""
    return replace(tape, units=np.tile(np.array(units, np.int64), (len(tape.tickers), 1)))


def _phases(event: np.ndarray, *, prints_last: bool) -> np.ndarray:
    kind = event & KIND_MASK
    return np.where(kind >= HALT, _LIFECYCLE, np.where((kind == PRINT) & prints_last, _PRINTS, _BOOKS))


def _rows(tapes: Sequence[Tape], phases: Sequence[np.ndarray], ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The book rows of all tapes in the order of the merged events, whose times are `ts`: their times, and where each ends."""
    times, ends = [], []
    books = [tape.ts[phase == _BOOKS] for tape, phase in zip(tapes, phases, strict=True)]
    for number, tape in enumerate(tapes):
        at = tape.rows_ts
        own = tape.rows_end - np.searchsorted(tape.ts, at, side="left")
        before = [np.searchsorted(other, at, side="right") - np.searchsorted(other, at, side="left") for other in books[:number]]
        times.append(at)
        ends.append(np.searchsorted(ts, at, side="left") + own + sum(before))
    all_times, all_ends = np.concatenate(times), np.concatenate(ends)
    order = np.lexsort((all_ends, all_times))
    return all_times[order], all_ends[order]
