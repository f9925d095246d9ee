"""Several tapes as one: their events in one order of processing, each market with its own code, grid, fees and units."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from bellwether.errors import ConfigError
from bellwether.replay.tape.layout import HALT, KIND_MASK, MAX_TICKERS, TICKER_SHIFT, Tape


def merge_tapes(tapes: Sequence[Tape]) -> Tape:
    """The tape of several, whose codes follow one another.

    Of an instant come the books and prints of each tape in the order of `tapes`, then the halts, closes and settlements of each. Each tape names its
    units; rows of books, which only the original's clock needs, are left out. Raises `ConfigError` for more markets than a tape has codes for.
    """
    first_codes = list(accumulate((len(tape.tickers) for tape in tapes), initial=0))
    if first_codes[-1] > MAX_TICKERS:
        raise ConfigError(f"merging tapes: they have {first_codes[-1]:,} markets; a replay has at most {MAX_TICKERS:,}")
    lifecycle = [tape.event & KIND_MASK >= HALT for tape in tapes]
    chosen = [(tape, code, ends == last) for last in (False, True) for tape, code, ends in zip(tapes, first_codes, lifecycle, strict=False)]
    ts = np.concatenate([tape.ts[rows] for tape, _, rows in chosen])
    event = np.concatenate([tape.event[rows] + (code << TICKER_SHIFT) for tape, code, rows in chosen])
    # Stable: of one instant, all books come before all that ends them, those of a tape in their order.
    order = np.argsort(ts, kind="stable")
    return Tape(
        ts=ts[order],
        event=event[order],
        tickers=tuple(ticker for tape in tapes for ticker in tape.tickers),
        start=min(tape.start for tape in tapes),
        end=max(tape.end for tape in tapes),
        grid=np.concatenate([tape.grid for tape in tapes]),
        fees=np.concatenate([tape.fees for tape in tapes]),
        digest=hashlib.sha256("\n".join(tape.digest for tape in tapes).encode()).hexdigest(),
        units=np.concatenate([tape.units for tape in tapes]),
        begins=np.concatenate([tape.begins for tape in tapes]),
    )


def with_units(tape: Tape, units: Sequence[int]) -> Tape:
    """The tape with the same sizes and units for each of its markets, a row of `Tape.units`."""
    return replace(tape, units=np.tile(np.array(units, np.int64), (len(tape.tickers), 1)))
