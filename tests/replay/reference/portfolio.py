"""Several recordings as one, from the text of docs/replay-rules.md: what happened, by time, each market under its own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TICKER_SHIFT = 15
PRINT, HALT = 2, 5


@dataclass(frozen=True)
class Portfolio:
    """What the plain engine reads of a tape. market_rules: the rules of each market. begins: when the recording of each begins."""

    ts: np.ndarray
    event: np.ndarray
    tickers: tuple[str, ...]
    start: int
    rows_ts: np.ndarray
    rows_end: np.ndarray
    grid: np.ndarray
    fees: np.ndarray
    market_rules: tuple
    begins: tuple[int, ...]


def portfolio(episodes: Sequence[tuple]) -> Portfolio:
    """Of (tape, rules) in the order in which they stand within an instant."""
    moments = []
    first = 0
    for number, (tape, rules) in enumerate(episodes):
        events = list(zip(tape.ts.tolist(), tape.event.tolist(), strict=True))
        rows = list(zip(tape.rows_ts.tolist(), tape.rows_end.tolist(), strict=True))
        row = 0
        for place in range(len(events) + 1):
            while row < len(rows) and rows[row][1] == place:
                moments.append(((rows[row][0], 0, number), None))
                row += 1
            if place < len(events):
                ts, word = events[place]
                moments.append(((ts, _phase(word & 15, rules), number), word + (first << TICKER_SHIFT)))
        first += len(tape.tickers)
    moments.sort(key=lambda moment: moment[0])
    happened = [(at, word) for (at, *_), word in moments if word is not None]
    ends, seen = [], 0
    for (at, *_), word in moments:
        seen += word is not None
        if word is None:
            ends.append((at, seen))
    return Portfolio(
        ts=np.array([at for at, _ in happened], np.int64),
        event=np.array([word for _, word in happened], np.int64),
        tickers=tuple(ticker for tape, _ in episodes for ticker in tape.tickers),
        start=min(tape.start for tape, _ in episodes),
        rows_ts=np.array([at for at, _ in ends], np.int64),
        rows_end=np.array([end for _, end in ends], np.int64),
        grid=np.concatenate([tape.grid for tape, _ in episodes]),
        fees=np.concatenate([tape.fees for tape, _ in episodes]),
        market_rules=tuple(rules for tape, rules in episodes for _ in tape.tickers),
        begins=tuple(tape.start for tape, _ in episodes for _ in tape.tickers),
    )


def _phase(kind: int, rules) -> int:
    """Within an instant: books and prints, halts and closes and settlements; in the original's order books, then prints."""
    if kind >= HALT:
        return 2
    return 1 if kind == PRINT and rules.tie == "books_first" else 0
