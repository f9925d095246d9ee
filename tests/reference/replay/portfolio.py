"""Several recordings merged by time according to docs/replay-rules.md, each market under its own rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HALT, GRID = 5, 10


@dataclass(frozen=True)
class Recording:
    """Input of the plain engine. events: (ns, kind, ticker, side, price in $0.0001, value). grids: allowed prices; the first ones are each ticker's initial grid.

    fees: terms of each ticker. begins, market_rules: of each ticker, or those of all.
    """

    events: list[tuple[int, int, int, int, int, int]]
    tickers: tuple[str, ...]
    start: int
    grids: Sequence[frozenset[int]]
    fees: Sequence[Sequence[int]]
    begins: tuple[int, ...] = ()
    market_rules: tuple[Any, ...] = ()


def portfolio(episodes: Sequence[tuple[Recording, Any]]) -> Recording:
    """Merge (recording, rules) pairs. Within an instant, books and prints of all recordings come first, then halts, closes and settlements."""
    happened = []
    grids: list[frozenset[int]] = [grid for one, _ in episodes for grid in one.grids[: len(one.tickers)]]
    first = 0
    for number, (one, _) in enumerate(episodes):
        later = len(grids) - len(one.tickers)
        grids += one.grids[len(one.tickers) :]
        for ts, kind, ticker, side, price, value in one.events:
            # Later grids follow all initial ones.
            row = value + (later if kind == GRID and value >= len(one.tickers) else first if kind == GRID else 0)
            happened.append(((ts, kind >= HALT, number), (ts, kind, ticker + first, side, price, row)))
        first += len(one.tickers)
    happened.sort(key=lambda event: event[0])
    return Recording(
        events=[event for _, event in happened],
        tickers=tuple(ticker for one, _ in episodes for ticker in one.tickers),
        start=min(one.start for one, _ in episodes),
        grids=grids,
        fees=[terms for one, _ in episodes for terms in one.fees],
        begins=tuple(one.start for one, _ in episodes for _ in one.tickers),
        market_rules=tuple(rules for one, rules in episodes for _ in one.tickers),
    )
