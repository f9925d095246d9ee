"""Prepared episodes and portfolios: the tape (all events, in the simulator's integers) with the fees of the rules, and the description for
agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from bellwether.replay.agents.records import EpisodeInfo
from bellwether.replay.rules import RuleSet
from bellwether.replay.tape import Tape
from bellwether.replay.tape.layout import KIND_MASK, PRINT, freeze, unpack
from bellwether.replay.units import DOLLAR, YES

if TYPE_CHECKING:
    from bellwether.replay.episode.content import Content, Trades


@dataclass(frozen=True, eq=False)
class Prepared:
    """Episode or portfolio that is ready for a replay.

    Attributes:
        info: Description for agents.
        digest: SHA-256 of the content.
        rules: Rule set.
        tape: Tape, with the fees of the rules.
        execution: Execution mode of the episode.
        exogenous: Times (ns UTC) and values of each exogenous series, by name.
        default_fees: The rules use fee terms, and those of at least one market are not stated.
        read_trades: Function that reads the episode's trades; a tape alone uses its prints.
        world: World in which the episode was recorded; empty if unknown.
        content: Books, trades and settlements, which a replay under PredictionMarketBench's rules reads; None under other rules.
        parts: Episodes of a portfolio.
    """

    info: EpisodeInfo
    digest: str
    rules: RuleSet
    tape: Tape
    execution: str = "maker_taker"
    exogenous: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    default_fees: bool = False
    read_trades: Callable[[], Trades] | None = None
    world: str = ""
    content: Content | None = None
    parts: tuple[Prepared, ...] = ()

    @cached_property
    def trades(self) -> np.ndarray:
        """Recorded trades by time, int64[n, 5]: ns UTC, ticker code, price of YES ($0.0001), lots, side that the taker bought.

        They are read on first use. Prints of the tape may be earlier than the feed reported them, so agents see the episode's own trades.
        """
        if self.parts:
            return merge_trades(self.parts)
        if self.read_trades is None:
            tape = self.tape
            prints = np.flatnonzero(tape.event & KIND_MASK == PRINT)
            _, ticker, side, level, lots = unpack(tape.event[prints])
            price = tape.prices[tape.starts[ticker] + level]
            rows = np.column_stack([tape.ts[prints], ticker, np.where(side == YES, price, DOLLAR - price), lots, 1 - side])
        else:
            trades = self.read_trades()
            rows = np.column_stack([trades.ts, trades.ticker, trades.price, trades.lots, trades.taker]).astype(np.int64, copy=False)
        return freeze(rows)


def merge_trades(parts: Sequence[Prepared]) -> np.ndarray:
    """Merge the trades of all episodes of a portfolio by time, as rows of `Prepared.trades`. Trades of one instant are in the order of `parts`."""
    codes = accumulate((len(part.tape.tickers) for part in parts), initial=0)
    rows = np.concatenate([part.trades + np.array([0, code, 0, 0, 0]) for part, code in zip(parts, codes, strict=False)])
    return freeze(rows[np.argsort(rows[:, 0], kind="stable")])
