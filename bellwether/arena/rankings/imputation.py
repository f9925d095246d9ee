"""Forecasts of a group, imputation of missing ones, and eligibility for a rank.

The questions of a cohort's week are those on which any of its agents stated a probability. An agent that was due to decide and stated none on such a
question, because it bet on others, gave no probability, or gave no usable answer, lacks a forecast there. Stated bets count unchanged, each by itself.
A rank needs usable answers, coverage of the questions, and enough events.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import polars as pl

from bellwether.calibration.scores import COVERAGE_FLOOR
from bellwether.formatting import floor_percent


class Imputation(StrEnum):
    """What stands for a missing forecast. NONE: nothing, only what was stated counts. PRICE: the market's price then. HALF: one half."""

    NONE = "none"
    PRICE = "price"
    HALF = "half"


def forecasts(stated: pl.DataFrame, due: pl.DataFrame, asked: pl.DataFrame, imputation: Imputation) -> pl.DataFrame:
    """The forecasts of one group: columns family, cohort, week, event, market, question, p, y, price and imputed.

    stated: rows of `Inputs.bets`, or of submitted forecasts, that have a p. due: rows of `Inputs.due` of the same forecasters. asked: rows of `Inputs.asked` that
    they could answer. Every stated bet is a forecast; with imputation there is one more for each question of a due decision on which nothing was stated.
    """
    names = ["family", "cohort", "week", "event", "market", "question", "p", "y", "price"]
    own = stated.select(*names, imputed=pl.lit(value=False))
    if imputation is Imputation.NONE:
        return own
    filled = pl.col("price") if imputation is Imputation.PRICE else pl.lit(0.5)
    missing = (
        due.select("family", "cohort", "week")
        .unique()
        .join(asked, on=["cohort", "week"])
        .join(own, on=["family", "cohort", "week", "question"], how="anti")
        .select(*(pl.col(name) if name != "p" else filled.alias("p") for name in names), imputed=pl.lit(value=True))
    )
    return pl.concat([own, missing]).sort("family", "cohort", "week", "question", maintain_order=True)


#: Events that a score needs to be ranked: fewer are an anecdote.
MINIMUM_EVENTS = 10
_CELL = ("cohort", "week")


def excluded(due: pl.DataFrame, asked: pl.DataFrame, submitted: pl.DataFrame, agents: Sequence[str]) -> dict[str, str]:
    """Why families have no rank by any metric, by name.

    due: decisions that were due. asked: questions of cohort-weeks. submitted: submitted forecasts; agents: the families that trade, which choose their questions
    and owe decisions alone.
    """
    found = dict[str, str]()
    for family, finished, decisions in due.group_by("family").agg((pl.col("kind") == "finished").sum(), decisions=pl.len()).iter_rows():
        if (reason := _below(finished, decisions, "usable answers in", "decisions")) is not None:
            found[family] = reason
    others = due.filter(~pl.col("family").is_in(list(agents)))
    questions = others.join(asked.filter("binary"), on=_CELL).group_by("family").agg(pl.len().alias("asked"))
    answered = submitted.select("family", *_CELL, "question").unique().group_by("family").agg(pl.len().alias("answered"))
    for family, total, known in questions.join(answered, on="family", how="left").iter_rows():
        if (reason := _below(known or 0, total, "forecasts of", "questions")) is not None:
            found[family] = reason
    return found


def too_few_events(events: int) -> str | None:
    """Why a score over so many events has no rank; None where it has."""
    return None if events >= MINIMUM_EVENTS else f"scored on {events} event{'' if events == 1 else 's'}; a rank needs {MINIMUM_EVENTS}"


def _below(part: int, whole: int, what: str, of: str) -> str | None:
    if part >= COVERAGE_FLOOR * whole:
        return None
    return f"{what} {part} of {whole} {of} ({floor_percent(part / whole)}); a rank needs {COVERAGE_FLOOR:.0%}"
