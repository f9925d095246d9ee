"""Metrics of one family (competitor), with intervals over events (docs/metrics.md describes the methods)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bellwether.arena.marks import drawdown
from bellwether.arena.rankings.price_noise import Exposure, LinearMetric, PricedMeans
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.evaluation import evaluate_forecasts
from bellwether.calibration.forecasts import Floats, Forecasts
from bellwether.calibration.inference import MIN_REPLICATES, Inference
from bellwether.calibration.intervals import FEW_CLUSTERS, MIN_CLUSTERS, UNDEFINED
from bellwether.calibration.sufficient_statistics import CLIP, log_loss
from bellwether.tables.arena_rankings import RANKED

#: Minimum return: the initial cash is lost.
RUINED = -1.0
COUNTED = "counted of all, not estimated"
NO_POSITION = "no position was opened"
NO_TRADES = "it states probabilities and does not trade"
PATH = "an extreme of a path, which events do not add up to"

#: Metrics of stated probabilities: name, name in `bellwether.calibration`, and direction.
STATED = (
    ("brier_stated", "brier", "lower"),
    ("log_loss", "log_loss", "lower"),
    ("skill_price", "skill_vs_market", "higher"),
    ("ece", "ece", "lower"),
)
#: Brier score of stated probabilities minus that of the price, on the same questions.
RELATIVE = "brier_vs_price"
#: Metrics of trades, and direction.
TRADED = (
    ("brier_size", "lower"),
    ("brier_price", "lower"),
    ("win_rate", "higher"),
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
    """One metric of a family. better: lower, higher or neither. n: number of values behind the estimate. n_events: number of their events."""

    metric: str
    better: str
    estimate: Estimate
    n: int
    n_events: int = 0


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
    n = rows.height
    if not n:
        yield from (MetricRow(name, better, Estimate(None, reason=UNDEFINED), 0) for name, _, better in STATED)
        yield MetricRow(RELATIVE, "lower", Estimate(None, reason=UNDEFINED), 0)
        return
    clusters = Clusters.of(rows["event"], n)
    p, y, price = (rows[name].to_numpy() for name in ("p", "y", "price"))
    scores = evaluate_forecasts(Forecasts.of(p, y, market=price), clusters, n, replace(plan, replicates=min(TESTS, plan.replicates)))
    with_noise = compute_stated_scores(p, y, price, _priced_means(rows, plan))
    if clusters.count < MIN_CLUSTERS:
        with_noise["skill_price"] = Estimate(None, reason=FEW_CLUSTERS)
    for name, metric, better in STATED:
        yield MetricRow(name, better, with_noise.get(name, scores[metric]), n, clusters.count)
    yield MetricRow(RELATIVE, "lower", with_noise[RELATIVE], n, clusters.count)


def compute_stated_scores(p: Floats, y: Floats, price: Floats, means: PricedMeans) -> dict[str, Estimate]:
    """Return the mean scores of stated probabilities by metric, with intervals. p, y, price: probability, outcome and market price of each
    forecast.
    """
    clipped = np.clip(p, CLIP, 1 - CLIP)
    own, market = LinearMetric(np.square(p - y), 1 - 2 * p, 0.0, 1.0), LinearMetric(np.square(price - y), 1 - 2 * price, 0.0, 1.0)
    metrics = {
        "brier_stated": own,
        "log_loss": LinearMetric(log_loss(p, y), np.log((1 - clipped) / clipped), 0.0),
        RELATIVE: LinearMetric(own.values - market.values, own.slope - market.slope, -1.0, 1.0),
    }
    return {**means.estimates(metrics), "skill_price": means.skill(own, market)}


def _priced_means(rows: pl.DataFrame, plan: Inference) -> PricedMeans:
    exposure = Exposure.of(*(rows[name].to_numpy() for name in ("price", "market", "event")))
    return PricedMeans(exposure, plan.level)


def size_slope() -> pl.Expr:
    """Return an expression for the derivative of a bet's `brier_size` (Brier score of the confidence implied by its size) by the outcome of the
    question.
    """
    confidence = (pl.col("won") - pl.col("size").sqrt()).abs()
    return (1 - 2 * confidence) * pl.col("direction")


def compute_bet_metrics(bets: pl.DataFrame, plan: Inference) -> Iterator[MetricRow]:
    """Yield the metrics of a family's scored bets: Brier scores of the confidence implied by bet sizes and of the prices paid, and the win rate."""
    direction = pl.col("direction")
    metrics = (
        ("brier_size", "lower", bets.filter(pl.col("size").is_not_null()), pl.col("size"), size_slope()),
        ("brier_price", "lower", bets, (pl.col("paid") - pl.col("won")) ** 2, (1 - 2 * pl.col("paid")) * direction),
        ("win_rate", "higher", bets, pl.col("won"), direction),
    )
    for name, better, rows, value, slope in metrics:
        values, slopes = (rows.select(expression).to_series().to_numpy() for expression in (value, slope))
        estimates = _priced_means(rows, plan).estimates({name: LinearMetric(values, slopes, 0.0, 1.0)})
        yield MetricRow(name, better, estimates[name], rows.height, rows["event"].n_unique())


def compute_money_metrics(
    agents: pl.DataFrame, due: pl.DataFrame, trades: pl.DataFrame, profits: pl.DataFrame, portfolios: pl.DataFrame, *, plan: Inference
) -> Iterator[MetricRow]:
    """Yield return, drawdown, turnover, cost and coverage (shares of due decisions by kind) of a family.

    agents, due, profits: rows of `RankingInputs`. trades, portfolios: rows of their tables for these agents.
    """
    initial, cohorts = float(agents["initial_cash"].sum()), agents.height
    yield _return_metric(profits, initial, cohorts, plan)
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


def _return_metric(profits: pl.DataFrame, initial: float, cohorts: int, plan: Inference) -> MetricRow:
    """Return the metric return: profit divided by initial cash, with an interval over events that is cut at -1."""
    values, slopes = (profits[name].to_numpy() / initial for name in ("profit", "exposed"))
    if not len(values):
        return MetricRow("return", "higher", Estimate(0.0, reason=NO_POSITION), cohorts)
    # A correction can leave a debt; then the return itself is the minimum.
    total = _priced_means(profits, plan).total(LinearMetric(values, slopes, min(RUINED, float(values.sum()))))
    return MetricRow("return", "higher", total, cohorts, profits["event"].n_unique())
