"""The metrics of one family with their intervals over events, by the methods of docs/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bellwether.arena.returns import drawdown
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.evaluation import evaluate_forecasts
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.inference import LEAST_REPLICATES, Inference
from bellwether.calibration.intervals import UNDEFINED, Bounds, mean_interval, rate_interval
from bellwether.calibration.means import ClusterSums, mean_tests
from bellwether.calibration.metrics import Scale

#: Nobody loses more than the initial cash: the least return.
RUINED = -1.0
COUNTED = "counted of all, not estimated"
NO_TRADES = "it states probabilities and does not trade"
PATH = "an extreme of a path, which events do not add up to"

#: Metrics of stated probabilities: the name here, that of `bellwether.calibration`, and which is better.
STATED = (
    ("brier_stated", "brier", "lower"),
    ("log_loss", "log_loss", "lower"),
    ("brier_index", "brier_index", "higher"),
    ("skill_price", "skill_vs_market", "higher"),
    ("ece", "ece", "lower"),
)
#: Metrics of trades, and which is better.
TRADED = (
    ("brier_size", "lower"),
    ("brier_price", "lower"),
    ("win_rate", "higher"),
    ("return", "higher"),
    ("drawdown", "lower"),
    ("turnover", "neither"),
    ("cost", "lower"),
)
#: Replicates of the test of calibration, of each family.
TESTS = LEAST_REPLICATES
#: Names of the coverage metrics: shares of the decisions that were due.
COVERAGE = ("finished", "invalid", "failed", "missing")


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of a family."""

    metric: str
    better: str
    estimate: Estimate
    n: int
    n_events: int = 0
    imputed: int = 0


def of_forecasts(rows: pl.DataFrame, plan: Inference) -> Iterator[Row]:
    """Metrics of the probabilities that one family stated; null of none."""
    n, imputed = rows.height, int(rows["imputed"].sum() or 0)
    if not n:
        yield from (Row(name, better, Estimate(None, reason=UNDEFINED), 0) for name, _, better in STATED)
        return
    clusters = Clusters.of(rows["event"], n)
    found = Forecasts.of(rows["p"].to_numpy(), rows["y"].to_numpy(), market=rows["price"].to_numpy())
    scores = evaluate_forecasts(found, clusters, n, replace(plan, replicates=min(TESTS, plan.replicates)))
    for name, metric, better in STATED:
        yield Row(name, better, scores[metric], n, clusters.count, imputed)


def of_bets(bets: pl.DataFrame, plan: Inference) -> Iterator[Row]:
    """Brier scores of sizes and of prices paid, and the win rate, of one family's scored bets."""
    sized = bets.filter(pl.col("size").is_not_null())
    yield _mean("brier_size", sized, "size", plan)
    yield _mean("brier_price", bets.with_columns(loss=(pl.col("paid") - pl.col("won")) ** 2), "loss", plan)
    if not bets.height:
        yield Row("win_rate", "higher", Estimate(None, reason=UNDEFINED), 0)
        return
    clusters, won = Clusters.of(bets["event"], bets.height), bets["won"].to_numpy()
    yield Row("win_rate", "higher", _estimate(float(won.mean()), rate_interval(won, clusters, plan.level)), bets.height, clusters.count)


def _mean(name: str, rows: pl.DataFrame, column: str, plan: Inference) -> Row:
    if not rows.height:
        return Row(name, "lower", Estimate(None, reason=UNDEFINED), 0)
    clusters, values = Clusters.of(rows["event"], rows.height), rows[column].to_numpy()
    bounds = mean_interval(values, np.ones(len(values)), clusters, Scale.LOGIT, plan.level)
    return Row(name, "lower", _estimate(float(values.mean()), bounds), rows.height, clusters.count)


def _estimate(value: float, bounds: Bounds) -> Estimate:
    return Estimate(value, bounds.lower, bounds.upper, bounds.method, bounds.df, bounds.reason)


def of_money(
    agents: pl.DataFrame, due: pl.DataFrame, trades: pl.DataFrame, profits: pl.DataFrame, portfolios: pl.DataFrame, *, plan: Inference
) -> Iterator[Row]:
    """Return, drawdown, turnover, cost and coverage of one family.

    agents, due, profits: rows of `Inputs`. trades, portfolios: rows of their tables, of these agents.
    """
    initial, cohorts = float(agents["initial_cash"].sum()), agents.height
    yield _return(profits, initial, cohorts, plan)
    start = dict(agents.select("agent_id", "initial_cash").iter_rows())
    curves = portfolios.sort("agent_id", "at").group_by("agent_id", maintain_order=True).agg(pl.col("total").cast(pl.Float64))
    falls = [drawdown([round(value * 1e6) for value in (start[name], *totals)]) or 0.0 for name, totals in curves.iter_rows()]
    yield Row("drawdown", "lower", Estimate(max(falls, default=0.0), reason=PATH), cohorts)
    moved = float(trades["amount"].cast(pl.Float64).sum())
    yield Row("turnover", "neither", Estimate(moved / initial, reason=COUNTED), trades.height)
    cost = None if due["cost"].null_count() else float(due["cost"].sum())
    yield Row("cost", "lower", Estimate(cost, reason=COUNTED), due.height)
    yield from _coverage(due)


def _coverage(due: pl.DataFrame) -> Iterator[Row]:
    counts = dict(due["kind"].value_counts().iter_rows())
    for kind in COVERAGE:
        share = counts.get(kind, 0) / due.height if due.height else None
        yield Row(kind, "higher" if kind == "finished" else "lower", Estimate(share, reason=COUNTED), due.height)


def without_money(due: pl.DataFrame) -> Iterator[Row]:
    """The rows of `of_bets` and `of_money` for a forecaster that does not trade: coverage alone has a value."""
    for name, better in TRADED:
        yield Row(name, better, Estimate(None, reason=NO_TRADES), 0)
    yield from _coverage(due)


def _return(profits: pl.DataFrame, initial: float, cohorts: int, plan: Inference) -> Row:
    """Profit per dollar of initial cash: a sum over events, so that its interval is that of the mean profit of an event, as often as there are events.

    The interval ends at a return of -1 where it would go below.
    """
    total = float(profits["profit"].sum())
    by_event = profits.group_by("event").agg(pl.col("profit").sum()).sort("event")["profit"].to_numpy()
    if not len(by_event):
        return Row("return", "higher", Estimate(total / initial, reason="no position was opened"), cohorts)
    tested = mean_tests([ClusterSums(by_event[:, None], np.ones((len(by_event), 1)))], level=plan.level)
    reason, scale = tested.reason[0], len(by_event) / initial
    if reason is not None:
        return Row("return", "higher", Estimate(total / initial, reason=reason), cohorts, len(by_event))
    # What a correction takes back may be owed: then the return itself is the least.
    ends = max(float(tested.lower[0]) * scale, min(RUINED, total / initial)), float(tested.upper[0]) * scale
    return Row("return", "higher", Estimate(total / initial, *ends, tested.method[0], float(tested.df[0])), cohorts, len(by_event))
