"""Several recordings as one, from the text of docs/replay-rules.md: what happened, by time, each market under its own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TICKER_SHIFT, HALT = 15, 5


@dataclass(frozen=True)
class Portfolio:
    """What the plain engine reads of a tape. market_rules: the rules of each market. begins: when the recording of each begins."""

    ts: np.ndarray
    event: np.ndarray
    tickers: tuple[str, ...]
    start: int
    grid: np.ndarray
    fees: np.ndarray
    market_rules: tuple
    begins: tuple[int, ...]
    rows_ts: np.ndarray
    rows_end: np.ndarray


def portfolio(episodes: Sequence[tuple]) -> Portfolio:
    """Of (tape, rules) in the order in which they stand within an instant: books and prints of all, then halts, closes and settlements of all."""
    happened = []
    first = 0
    for number, (tape, _) in enumerate(episodes):
        for ts, word in zip(tape.ts.tolist(), tape.event.tolist(), strict=True):
            happened.append(((ts, word & 15 >= HALT, number), word + (first << TICKER_SHIFT)))
        first += len(tape.tickers)
    happened.sort(key=lambda event: event[0])
    none = np.zeros(0, np.int64)
    return Portfolio(
        ts=np.array([at for (at, *_), _ in happened], np.int64),
        event=np.array([word for _, word in happened], np.int64),
        tickers=tuple(ticker for tape, _ in episodes for ticker in tape.tickers),
        start=min(tape.start for tape, _ in episodes),
        grid=np.concatenate([tape.grid for tape, _ in episodes]),
        fees=np.concatenate([tape.fees for tape, _ in episodes]),
        market_rules=tuple(rules for tape, rules in episodes for _ in tape.tickers),
        begins=tuple(tape.start for tape, _ in episodes for _ in tape.tickers),
        rows_ts=none,
        rows_end=none,
    )
