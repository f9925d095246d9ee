"""Prepared episodes and portfolios: the tape with the fees of its rules, and the description for agents."""

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
    from bellwether.replay.episode.content import Trades


@dataclass(frozen=True, eq=False)
class Prepared:
    """Prepared episode or portfolio.

    digest: of the content. execution: the episode's own. exogenous: name -> (ts, values). default_fees: the rules use fee terms, and those
    of at least one market are not stated. read_trades: reads the episode's trades; a tape alone uses its prints. world: where it was
    recorded, empty if unknown. parts: episodes of a portfolio.
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
    parts: tuple[Prepared, ...] = ()

    @cached_property
    def trades(self) -> np.ndarray:
        """Trades by time, int64[n, 5]: ns UTC, ticker code, price of YES ($0.0001), lots, side that the taker bought; read on first use.

        A tape contains prints where they filled, which may be before the feed had them; agents see the episode's own trades.
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
            found = self.read_trades()
            rows = np.column_stack([found.ts, found.ticker, found.price, found.lots, found.taker]).astype(np.int64, copy=False)
        return freeze(rows)


def merge_trades(parts: Sequence[Prepared]) -> np.ndarray:
    """Merge the trades of all parts by time, as in `Prepared.trades`; in an instant in the order of the parts."""
    codes = accumulate((len(one.tape.tickers) for one in parts), initial=0)
    rows = np.concatenate([one.trades + np.array([0, code, 0, 0, 0]) for one, code in zip(parts, codes, strict=False)])
    return freeze(rows[np.argsort(rows[:, 0], kind="stable")])
