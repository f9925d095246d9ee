"""The tables that compare families: a group at a time, so that live, reconstructed and contaminated cohorts never meet in one ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from bellwether.arena.rankings.difficulty import Adjusted, Losses, adjusted
from bellwether.arena.rankings.equity import equity
from bellwether.arena.rankings.estimates import Row, of_bets, of_forecasts, of_money, without_money
from bellwether.arena.rankings.imputation import Imputation, forecasts
from bellwether.arena.rankings.inputs import Inputs
from bellwether.arena.rankings.pairs import Compared, compared
from bellwether.arena.results import COVERED
from bellwether.calibration.clusters import Grouping
from bellwether.calibration.estimates import Estimate
from bellwether.calibration.forecasts import Floats
from bellwether.calibration.inference import Inference
from bellwether.calibration.intervals import UNDEFINED
from bellwether.calibration.reliability import reliability_bins
from bellwether.tables.arena_rankings import CALIBRATION, GROUP, PAIRS, RANKINGS
from bellwether.tables.schema import Table


@dataclass(frozen=True, slots=True)
class _Group:
    """What is ranked together. families: of agents, and submitted forecasters. due, stated: of both; agents, bets, profits: of agents.

    asked: the questions of its cohorts' weeks, whichever agents of these cohorts, of this group or not, stated a probability on them.
    """

    key: Mapping[str, Any]
    families: tuple[str, ...]
    ranked: tuple[bool, ...]
    agents: pl.DataFrame
    due: pl.DataFrame
    bets: pl.DataFrame
    submitted: pl.DataFrame
    profits: pl.DataFrame
    asked: pl.DataFrame

    @property
    def stated(self) -> pl.DataFrame:
        """Forecasts: bets with a stated probability, and submitted ones."""
        return pl.concat([self.bets.filter(pl.col("p").is_not_null()), self.submitted])

    def forecasts(self, imputation: Imputation) -> pl.DataFrame:
        """Forecasts and what stands for missing ones; of others than families only questions of YES and NO are asked."""
        family = pl.col("family").is_in(self.agents["family"].unique().sort().implode())
        own = forecasts(self.bets.filter(pl.col("p").is_not_null()), self.due.filter(family), self.asked, imputation)
        return pl.concat([own, forecasts(self.submitted, self.due.filter(~family), self.asked.filter("binary"), imputation)])


def rankings(inputs: Inputs, plan: Inference | None = None) -> dict[str, pl.DataFrame]:
    """Rows of arena/rankings, arena/pairs, arena/equity_by_day, arena/equity_by_age and arena/calibration by table.

    plan: level of the intervals, and replicates of what is simulated. The same rows give the same tables, in any order.
    """
    chosen = plan or Inference()
    estimates, pairs, bins = list[dict[str, Any]](), list[pl.DataFrame](), list[pl.DataFrame]()
    for group in _groups(inputs):
        tested = _pairs(group, chosen)
        pairs += [found.pairs.with_columns(metric=pl.lit(name), **_literals(group.key)) for name, found in tested.items()]
        estimates += _estimates(group, inputs, tested, chosen)
        bins += list(_reliability(group, chosen))
    by_day, by_age = equity(inputs)
    return {
        "arena/rankings": RANKINGS.validate(RANKINGS.frame(list(estimates)).sort(RANKINGS.order)),
        "arena/pairs": _joined(PAIRS, pairs),
        "arena/equity_by_day": by_day,
        "arena/equity_by_age": by_age,
        "arena/calibration": _joined(CALIBRATION, bins),
    }


def _literals(key: Mapping[str, Any]) -> dict[str, pl.Expr]:
    return {name: pl.lit(value) for name, value in key.items()}


def _joined(table: Table, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if not parts:
        return table.empty()
    columns = [pl.col(name).cast(dtype) for name, dtype in table.schema.items()]
    return table.validate(pl.concat([part.select(columns) for part in parts]).sort(table.order))


def _groups(inputs: Inputs) -> Iterator[_Group]:
    due_of_all = pl.concat([inputs.due, inputs.due_of_others.select(inputs.due.columns)], how="vertical_relaxed")
    for values in sorted(pl.concat([inputs.entrants, due_of_all], how="diagonal_relaxed").select(GROUP).unique().iter_rows()):
        key = dict(zip(GROUP, values, strict=True))
        frames = (inputs.entrants, due_of_all, inputs.bets, inputs.submitted, inputs.profits)
        agents, due, bets, submitted, profits = (_of(rows, key) for rows in frames)
        families = tuple(sorted({*agents["family"], *due["family"]}))
        usable = dict(due.group_by("family").agg((pl.col("kind") == "finished").mean()).iter_rows())
        ranked = tuple(usable.get(name, 0) >= COVERED for name in families)
        asked = _of(inputs.asked, {name: value for name, value in key.items() if name != "contaminated"})
        yield _Group(key, families, ranked, agents, due, bets, submitted, profits, asked)


def _of(rows: pl.DataFrame, key: Mapping[str, Any]) -> pl.DataFrame:
    return rows.filter([pl.col(name) == value for name, value in key.items()])


def _pairs(group: _Group, plan: Inference) -> dict[str, Compared]:
    """The tests of every metric that is compared pair by pair."""
    cells = ["family", "cohort", "week"]
    loss = (pl.col("p") - pl.col("y")) ** 2
    started = group.agents.select("family", "cohort", "initial_cash")
    earned = group.profits.group_by(cells).agg(pl.col("profit").sum())
    values = {
        "brier_stated": group.stated.group_by(cells).agg(value=loss.mean()),
        "brier_size": group.bets.filter(pl.col("size").is_not_null()).group_by(cells).agg(value=pl.col("size").mean()),
        "return": group.due.select(cells)
        .join(earned, on=cells, how="left")
        .join(started, on=["family", "cohort"])
        .select(*cells, value=pl.col("profit").fill_null(0.0) / pl.col("initial_cash")),
    }
    return {
        name: compared(rows.sort(cells), group.families, group.ranked, higher_is_better=name == "return", level=plan.level)
        for name, rows in values.items()
    }


def _estimates(group: _Group, inputs: Inputs, tested: Mapping[str, Compared], plan: Inference) -> Iterator[dict[str, Any]]:
    """Rows of arena/rankings of one group."""
    by_family: dict[str, list[Row]] = {name: [] for name in group.families}
    for name in group.families:
        mine = pl.col("family") == name
        agents = group.agents.filter(mine)
        if agents.is_empty():
            by_family[name] += without_money(group.due.filter(mine))
            continue
        own = pl.col("agent_id").is_in(agents["agent_id"].to_list())
        by_family[name] += of_bets(group.bets.filter(mine), plan)
        by_family[name] += of_money(
            agents, group.due.filter(mine), inputs.trades.filter(own), group.profits.filter(mine), inputs.portfolios.filter(own), plan=plan
        )
    for imputation in Imputation:
        rows = group.forecasts(imputation)
        alone = imputation is Imputation.NONE
        simulated = plan if alone else replace(plan, replicates=0)
        found = {name: list(of_forecasts(rows.filter(pl.col("family") == name), simulated)) for name in group.families}
        fitted = _fitted(rows, group, simulated)
        scored = _by_agents(rows, group, fitted, plan)
        first = {"brier_stated": fitted.first_raw, "brier_adjusted": fitted.first.copy()} if fitted else {}
        for index, name in enumerate(group.families):
            row = _adjusted(rows, name, scored.get(name, fitted), index)
            if fitted and row.estimate.value is None:
                first["brier_adjusted"][index] = np.nan
            found[name] += [row, *(by_family[name] if alone else [])]
        yield from _rows(group, imputation, found, tested if alone else {}, first)


def _fitted(rows: pl.DataFrame, group: _Group, plan: Inference) -> Adjusted | None:
    """Difficulty-adjusted scores of the group's families; None without a forecast."""
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
    )
    return adjusted(losses, np.array(group.ranked, dtype=bool), plan)


def _by_agents(rows: pl.DataFrame, group: _Group, fitted: Adjusted | None, plan: Inference) -> dict[str, Adjusted | None]:
    """The adjusted scores of the families of agents, by family: submitted forecasts do not say how difficult a question was for them."""
    agents = group.agents["family"].unique().sort()
    if not group.submitted.height:
        return dict.fromkeys(agents, fitted)
    own = rows.filter(pl.col("family").is_in(agents.implode()))
    return dict.fromkeys(agents, _fitted(own, group, replace(plan, replicates=0)))


def _adjusted(rows: pl.DataFrame, family: str, fitted: Adjusted | None, index: int) -> Row:
    mine = rows.filter(pl.col("family") == family)
    if fitted is None or mine.is_empty():
        return Row("brier_adjusted", "lower", Estimate(None, reason=UNDEFINED), 0)
    bounds, value = fitted.bounds[index], float(fitted.score[index])
    estimate = Estimate(None if np.isnan(value) else value, bounds.lower, bounds.upper, bounds.method, bounds.df, bounds.reason)
    return Row("brier_adjusted", "lower", estimate, mine.height, mine["event"].n_unique(), int(mine["imputed"].sum()))


def _rows(
    group: _Group,
    imputation: Imputation,
    found: Mapping[str, Sequence[Row]],
    tested: Mapping[str, Compared],
    first: Mapping[str, Floats],
) -> Iterator[dict[str, Any]]:
    ranks = _ranks(group, found)
    for number, name in enumerate(group.families):
        for row in found[name]:
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
                "share_first": float(shares[number]) if shares is not None and is_simulated else None,
                "mcs_p": pairs.mcs_p[number] if pairs else None,
                "in_mcs": pairs.in_mcs[number] if pairs else None,
                "letters": pairs.letters[number] if pairs else None,
            }


def _ranks(group: _Group, found: Mapping[str, Sequence[Row]]) -> dict[tuple[str, str], int]:
    """1 and the number of families that are strictly better, of those that are ranked and have the metric."""
    values: dict[str, dict[str, float]] = {}
    for name, ranked in zip(group.families, group.ranked, strict=True):
        for row in found[name] if ranked else ():
            if row.better != "neither" and row.estimate.value is not None:
                sign = 1 if row.better == "lower" else -1
                values.setdefault(row.metric, {})[name] = sign * row.estimate.value
    return {
        (metric, name): 1 + sum(other < own for other in known.values()) for metric, known in values.items() for name, own in known.items()
    }


def _reliability(group: _Group, plan: Inference) -> Iterator[pl.DataFrame]:
    """The reliability table of each family that stated probabilities."""
    for name in group.families:
        rows = group.stated.filter(pl.col("family") == name)
        if rows.height:
            table = reliability_bins(rows["p"].to_numpy(), rows["y"].to_numpy(), rows["event"], level=plan.level)
            yield table.with_columns(family=pl.lit(name), **_literals(group.key))
