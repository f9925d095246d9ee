"""Merge of several tapes to one in the order of processing. Each market keeps its price grid, fees, size limits and rounding units."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.tape.layout import GRID, HALT, KIND_MASK, MAX_TICKERS, TICKER_SHIFT, VALUE_SHIFT, Tape


def merge_tapes(tapes: Sequence[Tape]) -> Tape:
    """Merge tapes into one by time, and number their markets consecutively.

    An instant contains the books and prints of each tape in the order of `tapes`, then the halts, closes and settlements of each. Each tape
    must have units. Raises `ConfigError` if there are more markets than codes.
    """
    first_codes = list(accumulate((len(tape.tickers) for tape in tapes), initial=0))
    if first_codes[-1] > MAX_TICKERS:
        raise ConfigError(f"merging tapes: they have {first_codes[-1]:,} markets; a replay has at most {MAX_TICKERS:,}")
    lifecycle = [tape.event & KIND_MASK >= HALT for tape in tapes]
    chosen = [(tape, code, ends == last) for last in (False, True) for tape, code, ends in zip(tapes, first_codes, lifecycle, strict=False)]
    ts = np.concatenate([tape.ts[rows] for tape, _, rows in chosen])
    event = np.concatenate([_renumber_events(tape, code, tapes)[rows] for tape, code, rows in chosen])
    # Stable sort: in an instant all books precede all ends, and each tape keeps its order.
    order = np.argsort(ts, kind="stable")
    return Tape(
        ts=ts[order],
        event=event[order],
        tickers=tuple(ticker for tape in tapes for ticker in tape.tickers),
        start=min(tape.start for tape in tapes),
        end=max(tape.end for tape in tapes),
        levels=tuple(levels for tape in tapes for levels in tape.levels),
        grids=_stack_grids(tapes),
        fees=np.concatenate([tape.fees for tape in tapes]),
        digest=hashlib.sha256("\n".join(tape.digest for tape in tapes).encode()).hexdigest(),
        units=np.concatenate([tape.units for tape in tapes]),
        begins=np.concatenate([tape.begins for tape in tapes]),
    )


def _stack_grids(tapes: Sequence[Tape]) -> np.ndarray:
    """Stack the grids of all tapes: the first grid of every market, then tape by tape the grids that apply later."""
    longest = max((tape.grids.shape[1] for tape in tapes), default=0)
    padded = [np.pad(tape.grids, ((0, 0), (0, longest - tape.grids.shape[1]))) for tape in tapes]
    first = [grids[: len(tape.tickers)] for grids, tape in zip(padded, tapes, strict=True)]
    later = [grids[len(tape.tickers) :] for grids, tape in zip(padded, tapes, strict=True)]
    return np.concatenate([*first, *later])


def _renumber_events(tape: Tape, code: int, tapes: Sequence[Tape]) -> np.ndarray:
    """Return a tape's events with the market codes and grid rows of the merged tape. code: of the tape's first market there."""
    event = tape.event + (code << TICKER_SHIFT)
    count = sum(len(other.tickers) for other in tapes)
    # Later grids of the tapes before this one.
    earlier = sum(len(other.grids) - len(other.tickers) for other in tapes[: list(map(id, tapes)).index(id(tape))])
    changes = event & KIND_MASK == GRID
    event[changes] += (count - len(tape.tickers) + earlier) << VALUE_SHIFT
    return event


def replace_units(tape: Tape, units: Sequence[int]) -> Tape:
    """Return a tape whose markets all have these size limits and rounding units. units: a row of `Tape.units`."""
    return replace(tape, units=np.tile(np.array(units, np.int64), (len(tape.tickers), 1)))
