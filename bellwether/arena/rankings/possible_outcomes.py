"""Values of bets under the observed and the possible outcomes of their questions, as statistics of questions for `bellwether.calibration.bootstrap`.

A question is a market's outcome in all weeks and cohorts, so that all bets on it have one result. Questions of one event are one cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bellwether.calibration.bootstrap import Bounds
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Floats, Ints
from bellwether.calibration.formulas import CLIP

#: Brier score of stated probabilities minus that of the price, on the same questions.
RELATIVE = "brier_vs_price"
SOLD = "positions were sold, so that their payoffs have no known bounds"
_ROUNDING = 1e-12

_P, _PRICE, _WON = pl.col("p"), pl.col("price"), pl.col("won")


def _wins(y: pl.Expr) -> pl.Expr:
    """Return an expression for whether the bought side wins if the outcome of the question is y."""
    return pl.when(pl.col("direction") > 0).then(y).otherwise(1 - y)


def _log_loss(y: pl.Expr) -> pl.Expr:
    clipped = _P.clip(CLIP, 1 - CLIP)
    return -(y * clipped.log() + (1 - y) * (1 - clipped).log())


#: Value of a bet (row of `RankingInputs.bets`) by metric, as a function of the outcome of its question. Metrics are means over bets.
_SCORES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "brier_stated": lambda y: (_P - y) ** 2,
    "brier_market": lambda y: (_PRICE - y) ** 2,
    RELATIVE: lambda y: (_P - y) ** 2 - (_PRICE - y) ** 2,
    "log_loss": _log_loss,
    # The confidence is known from the score: (confidence - won)².
    "brier_size": lambda y: ((_WON - pl.col("size").sqrt()).abs() - _wins(y)) ** 2,
    "brier_price": lambda y: (pl.col("paid") - _wins(y)) ** 2,
    "win_rate": _wins,
}
_KEYS = ("family", "cohort", "week", "market", "event")


def score_outcomes(bets: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return the value of each bet by a metric, as read by `compare_pairs`: observed, no, yes, and size (1 per bet). bets: of `RankingInputs`."""
    outcomes = {"observed": pl.col("y"), "no": pl.lit(0.0), "yes": pl.lit(1.0)}
    values = {name: _SCORES[metric](y) for name, y in outcomes.items()}
    return bets.select(*_KEYS, **values, size=pl.lit(1.0), sold=pl.lit(value=False))


def profit_outcomes(profits: pl.DataFrame) -> pl.DataFrame:
    """Return the profit of each position like `score_outcomes`; its size is the stake in dollars. profits: of `RankingInputs`."""
    return profits.select(*_KEYS, "no", "yes", "sold", observed="profit", size="stake")


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions of N bets.

    of_bets: question of each bet. events: cluster of each question. values: value of each bet as observed, with the outcome NO, and with YES,
    float64 (3, N). size: of each bet, float64 (N,). weight: total size of the bets on each question, float64 (questions,).
    """

    of_bets: Grouping
    events: Clusters
    values: Floats
    size: Floats
    weight: Floats

    @classmethod
    def of(cls, outcomes: pl.DataFrame) -> Questions:
        """Build the questions of bets. outcomes: from `score_outcomes` or `profit_outcomes`."""
        markets, first, index = np.unique(outcomes["market"].to_numpy(), return_index=True, return_inverse=True)
        values = np.stack([outcomes[name].to_numpy() for name in ("observed", "no", "yes")])
        events = Clusters.of(outcomes["event"].gather(first), len(markets))
        of_bets, size = Grouping(index.astype(np.intp), len(markets)), outcomes["size"].to_numpy()
        weight = of_bets.sums(size)
        return cls(of_bets, events, values, size, np.where(weight > 0, weight, 1.0))

    def sums(self, rows: Ints | slice = slice(None)) -> tuple[Floats, Floats]:
        """Sum values, float64 (3, questions), and sizes, float64 (questions,), of the bets at `rows` by question."""
        chosen = Grouping(self.of_bets.index[rows], self.of_bets.count)
        return np.stack([chosen.sums(value[rows]) for value in self.values]), chosen.sums(self.size[rows])


def limit_ends(bounds: Bounds, possible: Floats) -> Bounds:
    """Limit an interval to the sums that are attainable.

    possible: what each question adds to the sum under each of its outcomes, float64 (outcomes, questions).
    """
    if bounds.value is None or bounds.lower is None or bounds.upper is None:
        return bounds
    least, most = float(possible.min(axis=0).sum()), float(possible.max(axis=0).sum())
    lower, upper = max(bounds.lower, min(least, bounds.value)), min(bounds.upper, max(most, bounds.value))
    return replace(bounds, lower=lower, upper=upper, p=0.0 if least > _ROUNDING or most < -_ROUNDING else bounds.p)


def leave_out_interval(bounds: Bounds, reason: str) -> Bounds:
    """Return the value without interval and test, for a reason."""
    return Bounds(bounds.value, n_clusters=bounds.n_clusters, reason=reason)
