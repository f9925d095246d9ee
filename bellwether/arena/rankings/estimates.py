"""Metrics of one family (competitor), with intervals over events (docs/metrics.md describes the method)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bellwether.arena.marks import drawdown
from bellwether.arena.rankings.possible_outcomes import (
    RELATIVE,
    SOLD,
    Questions,
    leave_out_interval,
    limit_ends,
    profit_outcomes,
    score_outcomes,
)
from bellwether.calibration.bootstrap import FEW_CLUSTERS, MIN_CLUSTERS, MIN_REPLICATES, UNDEFINED, Bounds, Inference, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.evaluation import Estimate, evaluate_forecasts
from bellwether.calibration.forecasts import Forecasts
from bellwether.tables.arena_rankings import RANKED

#: Minimum return: the initial cash is lost.
RUINED = -1.0
COUNTED = "counted of all, not estimated"
NO_POSITION = "no position was opened"
NO_TRADES = "it states probabilities and does not trade"
PATH = "an extreme of a path, which events do not add up to"

#: Mean scores of stated probabilities, and direction.
STATED = (("brier_stated", "lower"), ("log_loss", "lower"), (RELATIVE, "lower"))
#: Mean scores of bets, and direction. Those in `SIZED` need a bet's size.
SIZED, SCORED = (("brier_size", "lower"),), (("brier_price", "lower"), ("win_rate", "higher"))
#: Metrics of trades, and direction.
TRADED = (
    *SIZED,
    *SCORED,
    ("return", "higher"),
    ("drawdown", "lower"),
    ("turnover", "neither"),
    ("cost", "lower"),
)
#: Metrics that are means over events, which need enough events for a rank.
OF_EVENTS = frozenset(RANKED) - {"return"}
#: Replicates of the calibration test per family.
TESTS = MIN_REPLICATES
#: Coverage metrics: shares of the due decisions.
COVERAGE = ("finished", "invalid", "failed", "missing")


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of a family. better: lower, higher or neither. n: number of values behind the estimate. n_events: number of their events.

    cohorts: value in each cohort; only of a return with positions.
    """

    metric: str
    better: str
    estimate: Estimate
    n: int
    n_events: int = 0
    cohorts: tuple[float, ...] = ()


def leading_metrics(rows: pl.DataFrame, primary: Sequence[str]) -> tuple[str, ...]:
    """Return the two metrics that lead the ranking of a group; the first determines the order.

    They are the gain over the price and the return. Without a probability stated by an agent other than a baseline they are the scores of the
    published methodology, the size-implied Brier score and the return.

    Args:
        rows: rows of arena/rankings of one group.
        primary: primary metrics of its methodology, in its order.
    """
    stated = rows.filter(pl.col("metric") == RELATIVE, pl.col("value").is_not_null(), ~pl.col("baseline"))
    if stated.height:
        return RELATIVE, "return"
    published = ("brier_size", "return")
    return tuple(dict.fromkeys([*(name for name in primary if name in published), *published]))


def compute_forecast_metrics(rows: pl.DataFrame, plan: Inference) -> Iterator[MetricRow]:
    """Yield the metrics of a family's stated probabilities. rows: forecasts with a p; without rows the metrics have no value."""
    n, events = rows.height, rows["event"].n_unique()
    yield from compute_mean_scores(rows, STATED, plan)
    yield MetricRow("skill_price", "higher", _skill(rows, events, plan), n, events)
    yield MetricRow("ece", "lower", _calibration_error(rows, plan), n, events)


def compute_mean_scores(rows: pl.DataFrame, metrics: Sequence[tuple[str, str]], plan: Inference) -> Iterator[MetricRow]:
    """Yield mean scores of bets. metrics: name and direction of each."""
    scores = [Questions.of(score_outcomes(rows, name)) for name, _ in metrics]
    weight, events = scores[0].weight, scores[0].events
    statistics = (Statistic.mean([*(questions.sums()[0] / weight)]) for questions in scores)
    for (name, better), bounds in zip(metrics, bootstrap(statistics, weight, events, plan), strict=True):
        yield MetricRow(name, better, _to_estimate(bounds), rows.height, events.count)


def _skill(rows: pl.DataFrame, events: int, plan: Inference) -> Estimate:
    """Estimate 1 - Σ(p - y)² / Σ(price - y)²."""
    if 0 < events < MIN_CLUSTERS:
        return Estimate(None, reason=FEW_CLUSTERS)
    own, price = (Questions.of(score_outcomes(rows, name)) for name in ("brier_stated", "brier_market"))
    weight = own.weight
    losses, references = (side.sums()[0][:, None] / weight for side in (own, price))
    statistic = Statistic(references - losses, references, relative=True)
    return _to_estimate(bootstrap([statistic], weight, own.events, plan)[0])


def _calibration_error(rows: pl.DataFrame, plan: Inference) -> Estimate:
    if rows.is_empty():
        return Estimate(None, reason=UNDEFINED)
    forecasts = Forecasts.of(rows["p"].to_numpy(), rows["y"].to_numpy())
    clusters = Clusters.of(rows["event"], rows.height)
    return evaluate_forecasts(forecasts, clusters, rows.height, replace(plan, replicates=min(TESTS, plan.replicates)))["ece"]


def _to_estimate(bounds: Bounds) -> Estimate:
    return Estimate(bounds.value, bounds.lower, bounds.upper, bounds.reason)


def compute_bet_metrics(bets: pl.DataFrame, plan: Inference) -> Iterator[MetricRow]:
    """Yield the metrics of a family's scored bets: Brier scores of the confidence implied by bet sizes and of the prices paid, and the win rate."""
    yield from compute_mean_scores(bets.filter(pl.col("size").is_not_null()), SIZED, plan)
    yield from compute_mean_scores(bets, SCORED, plan)


def compute_money_metrics(
    agents: pl.DataFrame, due: pl.DataFrame, trades: pl.DataFrame, profits: pl.DataFrame, portfolios: pl.DataFrame, *, plan: Inference
) -> Iterator[MetricRow]:
    """Yield return, drawdown, turnover, cost and coverage (shares of due decisions by kind) of a family.

    agents, due, profits: rows of `RankingInputs`. trades, portfolios: rows of their tables for these agents.
    """
    initial, cohorts = float(agents["initial_cash"].sum()), agents.height
    yield compute_return(agents, profits, plan)
    start = dict(agents.select("agent_id", "initial_cash").iter_rows())
    curves = portfolios.sort("agent_id", "at").group_by("agent_id", maintain_order=True).agg(pl.col("total").cast(pl.Float64))
    falls = [drawdown([round(value * 1e6) for value in (start[name], *totals)]) or 0.0 for name, totals in curves.iter_rows()]
    yield MetricRow("drawdown", "lower", Estimate(max(falls, default=0.0), reason=PATH), cohorts)
    traded = float(trades["amount"].cast(pl.Float64).sum())
    yield MetricRow("turnover", "neither", Estimate(traded / initial, reason=COUNTED), trades.height)
    cost = None if due["cost"].null_count() else float(due["cost"].sum())
    yield MetricRow("cost", "lower", Estimate(cost, reason=COUNTED), due.height)
    yield from _coverage_metrics(due)


def _coverage_metrics(due: pl.DataFrame) -> Iterator[MetricRow]:
    counts = dict(due["kind"].value_counts().iter_rows())
    for kind in COVERAGE:
        share = counts.get(kind, 0) / due.height if due.height else None
        yield MetricRow(kind, "higher" if kind == "finished" else "lower", Estimate(share, reason=COUNTED), due.height)


def compute_coverage_metrics(due: pl.DataFrame) -> Iterator[MetricRow]:
    """Yield coverage (shares of due decisions by kind) of a forecaster that does not trade, and the metrics of trades without a value."""
    for name, better in TRADED:
        yield MetricRow(name, better, Estimate(None, reason=NO_TRADES), 0)
    yield from _coverage_metrics(due)


def compute_return(agents: pl.DataFrame, profits: pl.DataFrame, plan: Inference) -> MetricRow:
    """Return the metric return: profit divided by initial cash. Its interval is limited to the results that the positions can have.

    agents, profits: rows of `RankingInputs` of one family.
    """
    if profits.is_empty():
        return MetricRow("return", "higher", Estimate(0.0, reason=NO_POSITION), agents.height)
    initial, questions = float(agents["initial_cash"].sum()), Questions.of(profit_outcomes(profits))
    (values, stakes), weight = questions.sums(), questions.weight
    denominators = np.broadcast_to(stakes / weight, values.shape)[:, None]
    statistic = Statistic(values[:, None] / weight, denominators, (float(stakes.sum()) / initial,))
    bounds = replace(bootstrap([statistic], weight, questions.events, plan)[0], value=float(profits["profit"].sum()) / initial)
    by_cohort = agents.join(profits.group_by("cohort").agg(pl.col("profit").sum()), on="cohort", how="left").sort("cohort")
    cohorts = tuple((by_cohort["profit"].fill_null(0.0) / by_cohort["initial_cash"]).to_list())
    if profits["sold"].any():
        bounds = leave_out_interval(bounds, SOLD)
    bounds = limit_ends(bounds, values[1:] / initial)
    if bounds.value is not None and bounds.lower is not None:
        # A correction can leave a debt; then the return itself is the minimum.
        bounds = replace(bounds, lower=max(bounds.lower, min(RUINED, bounds.value)))
    return MetricRow("return", "higher", _to_estimate(bounds), agents.height, profits["event"].n_unique(), cohorts)
