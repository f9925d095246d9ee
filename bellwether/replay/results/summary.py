"""Comparisons of agents over their episodes: the episodes that count, winners, and White's reality check of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from bellwether.formatting import NOTHING, money
from bellwether.replay.units import MICROS


def select_counted(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that summaries count: settled runs of single episodes (those of several if an agent has only these)."""
    is_joined = pl.col("episode").str.contains("+", literal=True)
    return rows.filter(is_joined == is_joined.min().over("agent", "rules")).filter(~pl.col("unsettled"))


def sort_by_pnl(rows: pl.DataFrame) -> pl.DataFrame:
    """Sort rows of replay/summary or replay/backtests by P&L, the highest first, agents without an order last."""
    keys = ["agent", *(name for name in ("rules",) if name in rows.columns)]
    return rows.sort(pl.col("orders") == 0, "pnl", *keys, descending=[False, True, *[False] * len(keys)])


def find_winners(rows: pl.DataFrame, metric: str) -> list[dict[str, Any]]:
    """Return the rows with the highest value of a metric among agents that sent an order, several for a tie. rows: as in `sort_by_pnl`."""
    active = rows.filter(pl.col("orders") > 0, pl.col(metric).is_not_null())
    return active.filter(pl.col(metric) == pl.col(metric).max()).sort("agent").to_dicts()


def describe_winners(rows: pl.DataFrame, winners: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return a sentence on a comparison without a single winner. rows, winners, metric: arguments and result of `find_winners`."""
    if not winners:
        return "No agent traded" if rows.height else NOTHING
    return f"No winner: {len(winners)} agents tie at ${money(winners[0][metric])}"


#: Minimum number of episodes for the reality check: with 4, the smallest p-value is 1/16, above 5 %.
_LEAST_CHECKED = 5
_ALL_FLIPS = 10
_FLIPS = 9_999
#: Maximum size of a matrix of statistics.
_CHUNK = 4_000_000
#: Relative tolerance for equal statistics.
_ROUNDING = 1e-12

Floats = np.ndarray


@dataclass(frozen=True, slots=True)
class RealityCheck:
    """Result of a reality check: best agent of a sweep, its P&L over all counted episodes in dollars, and the p-value. reason: why the
    p-value is None.
    """

    agents: int
    episodes: int
    best: str | None
    pnl: Decimal | None
    p_value: float | None
    reason: str | None

    def row(self) -> dict[str, Any]:
        """Return the fields by name, and as `meaning` the sentence that describes them."""
        return {**asdict(self), "meaning": self.meaning()}

    def meaning(self) -> str:
        """Describe the result in a sentence."""
        if self.p_value is None:
            return f"Reality check: none ({self.reason})."
        return (
            f"Reality check: p = {self.p_value:.2g}. If none of the {self.agents:,} had an edge, the best of them would do as well as "
            f"{self.best} ({money(self.pnl or Decimal(0), sign='+')}) in {self.p_value:.1%} of sweeps over {self.episodes:,} episodes."
        )

    def frame(self) -> pl.DataFrame:
        """Return the result as a frame with one row."""
        text, count = pl.String(), pl.Int64()
        schema = {"agents": count, "episodes": count, "best": text, "pnl": pl.Decimal(38, 6), "p_value": pl.Float64()}
        return pl.DataFrame([self.row()], schema={**schema, "reason": text, "meaning": text})


def reality_check(backtests: pl.DataFrame) -> RealityCheck:
    """Compute the reality check from rows of replay/backtests. An agent under two rule sets counts as two agents. Episodes with an unsettled
    position are excluded.

    Null hypothesis: no agent earns more than 0 per episode. Under it, P&L of x and -x are equally likely, so the signs of whole episodes
    may be exchanged for all agents at once. The p-value is the share of such exchanges in which any agent reaches the best agent's
    statistic, for its total P&L (White, "A Reality Check for Data Snooping", Econometrica 68, 2000) and for its mean over its standard
    error (Hansen, "A Test for Superior Predictive Ability", JBES 23, 2005); the larger of the two counts. Exchanges replace the bootstrap,
    which rejects too often with few episodes. If all agents share one favourite at 0.9 and none has an edge, p is at most 0.05 in 43 % of sweeps
    over 8 episodes and in 25 % over 12. See docs/metrics.md for the simulated error rates and the limits.
    """
    rows = select_counted(backtests)
    agents, episodes = rows.select("agent", "rules").unique().sort("agent", "rules"), rows["episode"].unique().sort()
    every = backtests.select("agent", "rules").n_unique()
    if rows.is_empty():
        return RealityCheck(every, 0, None, None, None, "no settled episode")
    pnl = np.zeros((len(episodes), len(agents)))
    column = rows.join(agents.with_row_index("column"), on=("agent", "rules"), how="left", maintain_order="left")["column"]
    place = rows.join(episodes.to_frame().with_row_index("place"), on="episode", how="left", maintain_order="left")["place"]
    pnl[place.to_numpy(), column.to_numpy()] = (rows["pnl"] * MICROS).cast(pl.Int64()).to_numpy()
    best = int(pnl.sum(0).argmax())
    name, total = agents["agent"][best], Decimal(rows["pnl"].filter(column == best).sum())
    if len(episodes) < _LEAST_CHECKED:
        reason = f"{len(episodes)} episode{'' if len(episodes) == 1 else 's'}; it needs {_LEAST_CHECKED}"
        return RealityCheck(every, len(episodes), name, total, None, reason)
    return RealityCheck(every, len(episodes), name, total, p_value(pnl), None)


def p_value(pnl: Floats) -> float:
    """Compute the p-value of the agent with the largest total P&L. pnl: float64[episodes, agents], whole micro-dollars, so that sums are exact.

    The mean over its standard error increases with the sum over the root of the sum of squares, which exchanges leave unchanged. That ratio
    is compared instead, up to rounding, because it loses no digits.
    """
    roots = np.sqrt(np.maximum((pnl * pnl).sum(0), 1))

    def statistics(sums: Floats) -> Floats:
        return np.stack((sums, sums / roots))

    totals = pnl.sum(0)
    observed = statistics(totals)[:, totals.argmax(), None]
    observed -= _ROUNDING * np.abs(observed)
    reached, flips = np.zeros(2, np.int64), _flips(len(pnl))
    length = max(1, _CHUNK // len(totals))
    for start in range(0, len(flips), length):
        reached += (statistics(flips[start : start + length] @ pnl).max(axis=2) >= observed).sum(axis=1)
    return float(reached.max() / len(flips))


def _flips(episodes: int) -> Floats:
    """Return the signs (±1, by exchange and episode) with which exchanges multiply the P&L of episodes: all combinations, or a fixed
    sample. The first exchange changes nothing.
    """
    if episodes <= _ALL_FLIPS:
        bits = np.arange(2**episodes)[:, None] >> np.arange(episodes) & 1
    else:
        bits = np.random.default_rng(episodes).integers(0, 2, (1 + _FLIPS, episodes))
        bits[0] = 0
    return np.where(bits == 0, 1.0, -1.0)
