"""Rankings and pairwise comparisons of families (competitors). Live, reconstructed and contaminated cohorts (whose models may know outcomes) are
ranked in separate groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from bellwether.arena.rankings.difficulty import AdjustedScores, Losses, adjust_scores
from bellwether.arena.rankings.equity import compute_equity_tables
from bellwether.arena.rankings.estimates import (
    OF_EVENTS,
    OF_FORECASTS,
    MetricRow,
    compute_bet_metrics,
    compute_coverage_metrics,
    compute_forecast_metrics,
    compute_money_metrics,
    size_slope,
)
from bellwether.arena.rankings.inputs import Imputation, RankingInputs, build_forecasts, explain_exclusions, explain_too_few_events
from bellwether.arena.rankings.pairs import PairComparison, compare_pairs
from bellwether.arena.rankings.price_noise import Exposure
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.forecasts import Floats
from bellwether.calibration.inference import Inference
from bellwether.calibration.intervals import UNDEFINED
from bellwether.calibration.reliability import reliability_bins
from bellwether.tables.arena_rankings import CALIBRATION, GROUP, PAIRS, RANKINGS
from bellwether.tables.schema import Table


@dataclass(frozen=True, slots=True)
class _RankingGroup:
    """Agents and submitted forecasters that are ranked together. agents, bets, profits: of agents only. submitted: of submitted forecasters only.

    due: rows of both kinds. questions: of the group's cohort-weeks, with a probability stated by an agent of any group of these cohorts.
    """

    key: Mapping[str, Any]
    families: tuple[str, ...]
    excluded: Mapping[str, str]
    agents: pl.DataFrame
    due: pl.DataFrame
    bets: pl.DataFrame
    submitted: pl.DataFrame
    profits: pl.DataFrame
    questions: pl.DataFrame

    @property
    def stated(self) -> pl.DataFrame:
        """Stated forecasts: bets with a probability, and submitted forecasts."""
        return pl.concat([self.bets.filter(pl.col("p").is_not_null()), self.submitted])

    def ranked(self, rows: pl.DataFrame | None) -> list[bool]:
        """Return for each family whether it can be ranked by a metric. rows: family and event of the metric's values; None if the metric needs no
        minimum number of events.
        """
        events = {} if rows is None else dict(rows.group_by("family").agg(pl.col("event").n_unique()).iter_rows())
        enough = [rows is None or explain_too_few_events(events.get(name, 0)) is None for name in self.families]
        return [is_enough and name not in self.excluded for is_enough, name in zip(enough, self.families, strict=True)]

    def forecasts(self, imputation: Imputation) -> pl.DataFrame:
        """Return stated and imputed forecasts. Of submitted forecasters, only missing forecasts of YES/NO questions are imputed."""
        family = pl.col("family").is_in(self.agents["family"].unique().sort().implode())
        own = build_forecasts(self.bets.filter(pl.col("p").is_not_null()), self.due.filter(family), self.questions, imputation)
        return pl.concat([own, build_forecasts(self.submitted, self.due.filter(~family), self.questions.filter("binary"), imputation)])


def compute_rankings(inputs: RankingInputs, plan: Inference | None = None) -> dict[str, pl.DataFrame]:
    """Compute rows of arena/rankings, arena/pairs, arena/equity_by_day, arena/equity_by_age and arena/calibration, by table.

    plan: level of the intervals, and replicates of simulations. The order of input rows has no effect.
    """
    settings = plan or Inference()
    estimates, pairs, bins = list[dict[str, Any]](), list[pl.DataFrame](), list[pl.DataFrame]()
    for group in _split_groups(inputs):
        tested = _compare_families(group, settings)
        pairs += [comparison.pairs.with_columns(metric=pl.lit(name), **_literal_columns(group.key)) for name, comparison in tested.items()]
        estimates += _ranking_rows(group, inputs, tested, settings)
        bins += list(_reliability_tables(group, settings))
    by_day, by_age = compute_equity_tables(inputs)
    return {
        "arena/rankings": RANKINGS.validate(RANKINGS.frame(list(estimates)).sort(RANKINGS.order)),
        "arena/pairs": _concat_rows(PAIRS, pairs),
        "arena/equity_by_day": by_day,
        "arena/equity_by_age": by_age,
        "arena/calibration": _concat_rows(CALIBRATION, bins),
    }


def _literal_columns(key: Mapping[str, Any]) -> dict[str, pl.Expr]:
    return {name: pl.lit(value) for name, value in key.items()}


def _concat_rows(table: Table, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if not parts:
        return table.empty()
    columns = [pl.col(name).cast(dtype) for name, dtype in table.schema.items()]
    return table.validate(pl.concat([part.select(columns) for part in parts]).sort(table.order))


def _split_groups(inputs: RankingInputs) -> Iterator[_RankingGroup]:
    due_of_all = pl.concat([inputs.due, inputs.submitted_due.select(inputs.due.columns)], how="vertical_relaxed")
    for values in sorted(pl.concat([inputs.entrants, due_of_all], how="diagonal_relaxed").select(GROUP).unique().iter_rows()):
        key = dict(zip(GROUP, values, strict=True))
        frames = (inputs.entrants, due_of_all, inputs.bets, inputs.submitted, inputs.profits)
        agents, due, bets, submitted, profits = (_filter_key(rows, key) for rows in frames)
        families = tuple(sorted({*agents["family"], *due["family"]}))
        questions = _filter_key(inputs.questions, {name: value for name, value in key.items() if name != "contaminated"})
        exclusions = explain_exclusions(due, questions, submitted, agents["family"].unique().to_list())
        yield _RankingGroup(key, families, exclusions, agents, due, bets, submitted, profits, questions)


def _filter_key(rows: pl.DataFrame, key: Mapping[str, Any]) -> pl.DataFrame:
    return rows.filter([pl.col(name) == value for name, value in key.items()])


def _compare_families(group: _RankingGroup, plan: Inference) -> dict[str, PairComparison]:
    """Return the pairwise comparison of all families of the group, by metric."""
    return {
        name: compare_pairs(
            rows, group.families, group.ranked(None if name == "return" else rows), higher_is_better=name == "return", level=plan.level
        )
        for name, rows in _pair_values(group).items()
    }


def _pair_values(group: _RankingGroup) -> dict[str, pl.DataFrame]:
    """Return the values that `compare_pairs` compares (its argument `outcomes`), by metric."""
    cells, columns = ["family", "cohort", "week"], ["y", "price", "market", "event"]
    p, y, price = pl.col("p"), pl.col("y"), pl.col("price")

    def mean(rows: pl.DataFrame, value: pl.Expr, slope: pl.Expr) -> pl.DataFrame:
        share = pl.len().over(cells)
        return rows.select(*cells, *columns, value=value / share, slope=slope / share).sort(*cells, *columns)

    cash = group.agents.select("family", "cohort", "initial_cash")
    earned = group.due.select(cells).join(group.profits, on=cells, how="left").join(cash, on=["family", "cohort"])
    return {
        "brier_stated": mean(group.stated, (p - y) ** 2, 1 - 2 * p),
        "brier_vs_price": mean(group.stated, (p - y) ** 2 - (price - y) ** 2, 2 * (price - p)),
        "brier_size": mean(group.bets.filter(pl.col("size").is_not_null()), pl.col("size"), size_slope()),
        "return": earned.select(
            *cells,
            *columns[1:],
            value=pl.col("profit").fill_null(0.0) / pl.col("initial_cash"),
            slope=pl.col("exposed") / pl.col("initial_cash"),
            y=price + pl.col("profit") / pl.col("exposed"),
        ).sort(*cells, *columns[1:]),
    }


def _ranking_rows(
    group: _RankingGroup, inputs: RankingInputs, tested: Mapping[str, PairComparison], plan: Inference
) -> Iterator[dict[str, Any]]:
    """Yield the rows of arena/rankings of one group."""
    by_family: dict[str, list[MetricRow]] = {name: [] for name in group.families}
    for name in group.families:
        mine = pl.col("family") == name
        agents = group.agents.filter(mine)
        if agents.is_empty():
            by_family[name] += compute_coverage_metrics(group.due.filter(mine))
            continue
        own = pl.col("agent_id").is_in(agents["agent_id"].to_list())
        by_family[name] += compute_bet_metrics(group.bets.filter(mine), plan)
        by_family[name] += compute_money_metrics(
            agents, group.due.filter(mine), inputs.trades.filter(own), group.profits.filter(mine), inputs.portfolios.filter(own), plan=plan
        )
    for imputation in Imputation:
        rows = group.forecasts(imputation)
        alone = imputation is Imputation.NONE
        simulated = plan if alone else replace(plan, replicates=0)
        metrics = {name: list(compute_forecast_metrics(rows.filter(pl.col("family") == name), simulated)) for name in group.families}
        fitted = _fit_difficulty(rows, group, simulated)
        scored = _fit_agents(rows, group, fitted, plan)
        first = {"brier_stated": fitted.first_raw, "brier_adjusted": fitted.first.copy()} if fitted else {}
        for index, name in enumerate(group.families):
            row = _adjusted_row(rows, name, scored.get(name, fitted), index)
            if fitted and row.estimate.value is None:
                first["brier_adjusted"][index] = np.nan
            metrics[name] += [row, *(by_family[name] if alone else [])]
        yield from _metric_rows(group, imputation, metrics, tested if alone else {}, first)


def _fit_difficulty(rows: pl.DataFrame, group: _RankingGroup, plan: Inference) -> AdjustedScores | None:
    """Fit difficulty-adjusted scores of the group's families; None without forecasts. rows: forecasts."""
    if rows.is_empty():
        return None
    questions = rows.select("question", "event").unique(subset="question").sort("question").with_row_index("number")
    numbered = rows.join(questions.select("question", "number"), on="question", how="left", maintain_order="left")
    losses = Losses(
        np.square(rows["p"].to_numpy() - rows["y"].to_numpy()),
        rows["family"].cast(pl.Enum(group.families)).to_physical().to_numpy().astype(np.intp),
        numbered["number"].to_numpy().astype(np.intp),
        Grouping.of(questions["event"].rank("dense").to_numpy().astype(np.intp)),
        len(group.families),
        1 - 2 * rows["p"].to_numpy(),
        Exposure.of(*(rows[name].to_numpy() for name in ("price", "market", "event"))),
    )
    return adjust_scores(losses, np.array(group.ranked(group.stated), dtype=bool), plan)


def _fit_agents(
    rows: pl.DataFrame, group: _RankingGroup, fitted: AdjustedScores | None, plan: Inference
) -> dict[str, AdjustedScores | None]:
    """Return the difficulty-adjusted scores of agents' families, fitted without submitted forecasts, by family. fitted: the fit to all forecasts,
    used if none was submitted.
    """
    agents = group.agents["family"].unique().sort()
    if not group.submitted.height:
        return dict.fromkeys(agents, fitted)
    own = rows.filter(pl.col("family").is_in(agents.implode()))
    return dict.fromkeys(agents, _fit_difficulty(own, group, replace(plan, replicates=0)))


def _adjusted_row(rows: pl.DataFrame, family: str, fitted: AdjustedScores | None, index: int) -> MetricRow:
    mine = rows.filter(pl.col("family") == family)
    if fitted is None or mine.is_empty():
        return MetricRow("brier_adjusted", "lower", Estimate(None, reason=UNDEFINED), 0)
    value = float(fitted.score[index])
    estimate = replace(fitted.bounds[index], value=None if np.isnan(value) else value)
    return MetricRow("brier_adjusted", "lower", estimate, mine.height, mine["event"].n_unique(), int(mine["imputed"].sum()))


def _metric_rows(
    group: _RankingGroup,
    imputation: Imputation,
    metrics: Mapping[str, Sequence[MetricRow]],
    tested: Mapping[str, PairComparison],
    first: Mapping[str, Floats],
) -> Iterator[dict[str, Any]]:
    stated = dict(group.stated.group_by("family").agg(pl.col("event").n_unique()).iter_rows())
    exclusions = {
        (row.metric, name): _explain_unranked(group, name, row, stated.get(name, 0)) for name in group.families for row in metrics[name]
    }
    ranks = _rank_families(group, metrics, exclusions)
    for number, name in enumerate(group.families):
        for row in metrics[name]:
            pairs, shares = tested.get(row.metric), first.get(row.metric)
            is_simulated = shares is not None and row.estimate.value is not None and not np.isnan(shares[number])
            yield {
                **group.key,
                "imputation": str(imputation),
                "family": name,
                "metric": row.metric,
                **{field: getattr(row.estimate, field) for field in Estimate.__dataclass_fields__},
                "n": row.n,
                "n_events": row.n_events,
                "imputed": row.imputed,
                "better": row.better,
                "rank": ranks.get((row.metric, name)),
                "unranked_because": exclusions[row.metric, name],
                "share_first": float(shares[number]) if shares is not None and is_simulated else None,
                "mcs_p": pairs.mcs_p[number] if pairs else None,
                "in_mcs": pairs.in_mcs[number] if pairs else None,
                "letters": pairs.letters[number] if pairs else None,
            }


def _explain_unranked(group: _RankingGroup, name: str, row: MetricRow, stated: int) -> str | None:
    """Return why a family has no rank by a metric; None if it has one. stated: number of events with a stated probability."""
    if row.better == "neither":
        return "no order is better"
    if row.estimate.value is None:
        return "no value"
    if name in group.excluded:
        return group.excluded[name]
    events = stated if row.metric in OF_FORECASTS else row.n_events
    return explain_too_few_events(events) if row.metric in OF_EVENTS else None


def _rank_families(
    group: _RankingGroup, metrics: Mapping[str, Sequence[MetricRow]], exclusions: Mapping[tuple[str, str], str | None]
) -> dict[tuple[str, str], int]:
    """Return the rank of each family that is not excluded, by (metric, family): 1 plus the number of strictly better families. exclusions: reason
    by (metric, family).
    """
    values: dict[str, dict[str, float]] = {}
    for name in group.families:
        for row in metrics[name]:
            if exclusions[row.metric, name] is None and row.estimate.value is not None:
                sign = 1 if row.better == "lower" else -1
                values.setdefault(row.metric, {})[name] = sign * row.estimate.value
    return {
        (metric, name): 1 + sum(other < own for other in scores.values())
        for metric, scores in values.items()
        for name, own in scores.items()
    }


def _reliability_tables(group: _RankingGroup, plan: Inference) -> Iterator[pl.DataFrame]:
    """Yield the reliability table of each family with stated probabilities."""
    for name in group.families:
        rows = group.stated.filter(pl.col("family") == name)
        if rows.height:
            table = reliability_bins(rows["p"].to_numpy(), rows["y"].to_numpy(), rows["event"], level=plan.level)
            yield table.with_columns(family=pl.lit(name), **_literal_columns(group.key))
