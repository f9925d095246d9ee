"""Rankings and pairwise comparisons of families (competitors). Live, reconstructed and contaminated cohorts (whose models may know outcomes) are
ranked in separate groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.arena.rankings.estimates import (
    NO_POSITION,
    OF_EVENTS,
    MetricRow,
    compute_bet_metrics,
    compute_coverage_metrics,
    compute_forecast_metrics,
    compute_money_metrics,
)
from bellwether.arena.rankings.inputs import BASELINE, FAMILY, RankingInputs, explain_exclusions, explain_too_few_events
from bellwether.arena.rankings.pairs import PairComparison, compare_pairs
from bellwether.arena.rankings.possible_outcomes import profit_outcomes, score_outcomes
from bellwether.calibration.bootstrap import FEW_CLUSTERS, MIN_CLUSTERS, Inference
from bellwether.calibration.evaluation import Estimate
from bellwether.calibration.reliability import reliability_bins
from bellwether.tables.arena_rankings import CALIBRATION, EQUITY_BY_AGE, EQUITY_BY_DAY, GROUP, PAIRS, RANKINGS
from bellwether.tables.schema import Table

#: Decimals of a value that determine its rank; values that differ by rounding errors are tied.
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class _RankingGroup:
    """Agents and submitted forecasters that are ranked together. agents, bets, profits: of agents only. submitted: of submitted forecasters only.

    due: rows of both kinds. excluded: reasons of families that have no rank by any metric. baselines: those of them that state the price.
    """

    key: Mapping[str, Any]
    families: tuple[str, ...]
    excluded: Mapping[str, str]
    baselines: set[str]
    agents: pl.DataFrame
    due: pl.DataFrame
    bets: pl.DataFrame
    submitted: pl.DataFrame
    profits: pl.DataFrame

    @property
    def stated(self) -> pl.DataFrame:
        """Stated forecasts: bets with a probability, and submitted forecasts."""
        return pl.concat([self.bets.filter(pl.col("p").is_not_null()), self.submitted])

    def ranked(self, metric: str, rows: pl.DataFrame) -> list[bool]:
        """Return for each family whether it can be ranked by a metric. rows: family and event of the metric's values."""
        events = dict(rows.drop_nulls("event").group_by("family").agg(pl.col("event").n_unique()).iter_rows())
        return [name not in self.excluded and _explain_events(metric, events.get(name, 0)) is None for name in self.families]


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
        baselines = {*_filter_key(inputs.baselines, key)["family"]}
        exclusions |= dict.fromkeys(baselines, BASELINE)
        yield _RankingGroup(key, families, exclusions, baselines, agents, due, bets, submitted, profits)


def _filter_key(rows: pl.DataFrame, key: Mapping[str, Any]) -> pl.DataFrame:
    return rows.filter([pl.col(name) == value for name, value in key.items()])


def _compare_families(group: _RankingGroup, plan: Inference) -> dict[str, PairComparison]:
    """Return the pairwise comparison of all families of the group, by metric."""
    return {
        name: compare_pairs(rows, cells, group.families, group.ranked(name, rows), plan, higher_is_better=name == "return")
        for name, (rows, cells) in _pair_values(group).items()
    }


def _pair_values(group: _RankingGroup) -> dict[str, tuple[pl.DataFrame, pl.DataFrame]]:
    """Return the first two arguments of `compare_pairs` by metric."""
    cells = ("family", "cohort", "week")
    sized = group.bets.filter(pl.col("size").is_not_null())
    scores = {"brier_stated": group.stated, "brier_vs_price": group.stated, "brier_size": sized}
    cash = group.agents.select("family", "cohort", "initial_cash")
    due = group.due.select(cells).unique().join(cash, on=["family", "cohort"])
    return {
        **{name: (score_outcomes(rows, name), rows.select(cells).unique()) for name, rows in scores.items()},
        "return": (profit_outcomes(group.profits), due),
    }


def _ranking_rows(
    group: _RankingGroup, inputs: RankingInputs, tested: Mapping[str, PairComparison], plan: Inference
) -> Iterator[dict[str, Any]]:
    """Yield the rows of arena/rankings of one group."""
    metrics: dict[str, list[MetricRow]] = {}
    for name in group.families:
        mine = pl.col("family") == name
        agents, due = group.agents.filter(mine), group.due.filter(mine)
        metrics[name] = list(compute_forecast_metrics(group.stated.filter(mine), plan))
        if agents.is_empty():
            metrics[name] += compute_coverage_metrics(due)
            continue
        own = pl.col("agent_id").is_in(agents["agent_id"].to_list())
        trades, portfolios = inputs.trades.filter(own), inputs.portfolios.filter(own)
        metrics[name] += compute_bet_metrics(group.bets.filter(mine), plan)
        metrics[name] += compute_money_metrics(agents, due, trades, group.profits.filter(mine), portfolios, plan=plan)
    exclusions = {(row.metric, name): _explain_unranked(group, name, row) for name in group.families for row in metrics[name]}
    ranks = _rank_families(group, metrics, exclusions)
    for number, name in enumerate(group.families):
        for row in metrics[name]:
            pairs = tested.get(row.metric)
            yield {
                **group.key,
                "family": name,
                "metric": row.metric,
                **{field: getattr(row.estimate, field) for field in Estimate.__dataclass_fields__},
                "n": row.n,
                "n_events": row.n_events,
                "cohort_low": min(row.cohorts) if len(row.cohorts) > 1 else None,
                "cohort_high": max(row.cohorts) if len(row.cohorts) > 1 else None,
                "better": row.better,
                "baseline": name in group.baselines,
                "rank": ranks.get((row.metric, name)),
                "unranked_because": exclusions[row.metric, name],
                "mcs_p": pairs.mcs_p[number] if pairs else None,
                "in_mcs": pairs.in_mcs[number] if pairs else None,
                "letters": pairs.letters[number] if pairs else None,
            }


def _explain_unranked(group: _RankingGroup, name: str, row: MetricRow) -> str | None:
    """Return why a family has no rank by a metric; None if it has one."""
    if name in group.excluded:
        return group.excluded[name]
    if row.estimate.value is None:
        return FEW_CLUSTERS if row.estimate.reason == FEW_CLUSTERS else "no value"
    return _explain_events(row.metric, row.n_events)


def _explain_events(metric: str, events: int) -> str | None:
    """Return why a metric over a number of events has no rank; None if it has one."""
    if metric in OF_EVENTS:
        return explain_too_few_events(events)
    if metric != "return":
        return "counted, not ranked"
    return NO_POSITION if not events else FEW_CLUSTERS if events < MIN_CLUSTERS else None


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
                values.setdefault(row.metric, {})[name] = sign * round(row.estimate.value, _DIGITS)
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


_MILLIONTHS = pl.Decimal(38, 6)


def mean_total() -> pl.Expr:
    """Return an expression for the exact mean of the column total (initial_cash where total is null) in dollars, rounded half to even to a
    millionth.
    """
    totals = pl.coalesce(pl.col("total").cast(_MILLIONTHS), pl.col("initial_cash").round(6).cast(_MILLIONTHS))
    summed, n = (totals * 1_000_000).cast(pl.Int128).sum(), pl.len().cast(pl.Int128)
    whole, twice = summed // n, 2 * (summed % n)
    up = (twice > n) | ((twice == n) & (whole % 2 == 1))
    return (whole + up.cast(pl.Int128)).cast(_MILLIONTHS) / 1_000_000


def compute_equity_tables(inputs: RankingInputs) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build rows of arena/equity_by_day and arena/equity_by_age.

    Every agent counts from the day of its cohort to the last day with a portfolio row of any agent. Its portfolio is constant between rows.
    """
    portfolios = inputs.portfolios
    if portfolios.is_empty():
        return EQUITY_BY_DAY.empty(), EQUITY_BY_AGE.empty()
    newest = portfolios["at"].max().date()  # type: ignore[union-attr]
    ends = (
        portfolios.sort("agent_id", "at")
        .group_by("agent_id", day=pl.col("at").dt.date(), maintain_order=True)
        .agg(pl.col("total").last())
        .sort("day")
    )
    days = (
        inputs.entrants.filter(pl.col("cohort") <= newest)
        .with_columns(day=pl.date_ranges("cohort", pl.lit(newest)))
        .explode("day")
        .sort("day")
        .join_asof(ends, on="day", by="agent_id", check_sortedness=False)
        .with_columns(age=(pl.col("day") - pl.col("cohort")).dt.total_days().cast(pl.Int32))
    )
    return tuple(
        declared.validate(
            days.group_by(*FAMILY, column)
            .agg(n=pl.len().cast(pl.Int64), total=mean_total().cast(declared.schema["total"]))
            .select(declared.names)
            .sort(declared.order)
        )
        for column, declared in (("day", EQUITY_BY_DAY), ("age", EQUITY_BY_AGE))
    )  # type: ignore[return-value]
