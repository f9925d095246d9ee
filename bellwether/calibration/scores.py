"""Benchmark frames in, benchmark frames out: scores, reliability and ranking of forecasters on a release, under the strict rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.bootstrap import Bootstrap, Clustered
from bellwether.calibration.evaluation import Scores, evaluate_together
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.metrics import METRICS
from bellwether.calibration.reliability import bins_of
from bellwether.errors import ScoringError
from bellwether.tables.benchmark import FORECASTS, LEADERBOARD, QUESTIONS, RELIABILITY, SCORES

#: Version of the rules that this package scores by; it changes when any number on the same forecasts would.
RULES = "strict/1"

#: The market's price that `skill_vs_market` compares with.
MARKET_PRICE = "price_24h"

#: A category gets intervals when the forecasts in it come from at least so many series.
CATEGORY_CLUSTERS = 5

#: Forecasters that answered a smaller share of the questions are listed and not ranked: what they left out is rarely a fair sample.
COVERAGE_FLOOR = 0.9

ALL = "all"


def score(
    forecasts: pl.DataFrame,
    questions: pl.DataFrame,
    *,
    known_at: datetime | None = None,
    replicates: int = Bootstrap().replicates,
    seed: int = Bootstrap().seed,
) -> pl.DataFrame:
    """Every metric of every forecaster of one release, over all questions and per category: table benchmark/scores.

    `forecasts` are rows of benchmark/forecasts (one forecaster or several), `questions` all rows of the release in benchmark/questions.
    The samples of one question count as one forecast: the mean of p_yes, and the majority's answer. A question without a forecast lowers
    the coverage and nothing else. The bootstrap draws from all series of the scope, so that forecasters scored apart are still paired.
    `known_at` is the latest of the given rows when left out. Raises `SchemaError` for frames of another shape and `ScoringError` for
    rows that cannot be scored, naming the row.
    """
    answers, asked = _prepare(forecasts, questions)
    stamp = _stamp(forecasts, questions, known_at)
    names = _names(forecasts)
    rows: list[Mapping[str, Any]] = []
    for scope, members in _scopes(asked):
        bootstrap = Bootstrap(replicates, seed, least_clusters=2 if scope == ALL else CATEGORY_CLUSTERS)
        samples = {name: _sample(answers, name, members) for name in names}
        for name, scores in evaluate_together(samples, members["cluster"].n_unique(), members.height, bootstrap).items():
            line = stamp | {"forecaster": name, "scope": scope, "n_questions": members.height, "seed": seed}
            rows += [line | row for row in _rows(scores, samples[name])]
    return SCORES.validate(SCORES.frame(rows).sort(SCORES.order))


def reliability(forecasts: pl.DataFrame, questions: pl.DataFrame, *, known_at: datetime | None = None) -> pl.DataFrame:
    """Ten bins per forecaster of one release: table benchmark/reliability. Arguments and errors as in `score`."""
    answers, asked = _prepare(forecasts, questions)
    stamp = _stamp(forecasts, questions, known_at)
    rows: list[Mapping[str, Any]] = []
    for name in _names(forecasts):
        bins = bins_of(_sample(answers, name, asked).forecasts)
        rows += [stamp | {"forecaster": name} | row for row in bins.iter_rows(named=True)]
    return RELIABILITY.validate(RELIABILITY.frame(rows).sort(RELIABILITY.order))


def leaderboard(scores: pl.DataFrame, kinds: Mapping[str, str], *, coverage_floor: float = COVERAGE_FLOOR) -> pl.DataFrame:
    """Rank forecasters by Brier score over all questions: table benchmark/leaderboard.

    `scores` are rows of benchmark/scores, `kinds` the kind of each forecaster in the registry. Equal scores share a rank. Forecasters below
    the coverage floor, or without a score, have no rank and come last. Raises `ScoringError` for a forecaster without a kind.
    """
    SCORES.validate(scores)
    unknown = sorted({*scores["forecaster"]} - {*kinds})
    if unknown:
        raise ScoringError(
            f"ranking forecasters: no kind is given for {', '.join(unknown)}, which the scores name; register it in forecasters.toml"
        )
    line = [pl.col("n", "n_questions", "n_clusters").filter(pl.col("metric") == "brier").first(), pl.col("known_at").max()]
    for metric in (name for name in METRICS if name in LEADERBOARD.names):
        for column, alias in (("value", metric), ("lower", f"{metric}_lower"), ("upper", f"{metric}_upper")):
            line.append(pl.col(column).filter(pl.col("metric") == metric).first().alias(alias))
    ranked = pl.when(pl.col("coverage") >= coverage_floor).then(pl.col("brier"))
    table = (
        scores.filter(pl.col("scope") == ALL)
        .group_by("release", "forecaster")
        .agg(line)
        .with_columns(
            rank=ranked.rank("min").over("release").cast(pl.Int32),
            kind=pl.col("forecaster").replace_strict(dict(kinds), return_dtype=pl.String),
            rules=pl.lit(RULES),
        )
    )
    return LEADERBOARD.validate(table.select(LEADERBOARD.names).sort(LEADERBOARD.order, nulls_last=True))


def _prepare(forecasts: pl.DataFrame, questions: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One row per forecaster and question answered (forecaster, id, p, answer), and one per question (id, ordinal, y, category, cluster, market)."""
    FORECASTS.validate(forecasts)
    QUESTIONS.validate(questions)
    _refuse(questions, pl.col("release") != pl.col("release").first(), ("release", "id"), "one release is scored at a time")
    _refuse(questions, ~pl.col("ground_truth").is_in(["yes", "no"]), ("id", "ground_truth"), "a question's ground truth is yes or no")
    _refuse(
        forecasts, ~pl.col("p_yes").is_between(0, 1), (*FORECASTS.key, "p_yes"), "p_yes lies in [0, 1], or is null with the reason in error"
    )
    _refuse(forecasts, ~pl.col("answer").is_in(["yes", "no"]), (*FORECASTS.key, "answer"), "an answer is yes, no or null")
    strangers = forecasts.join(questions, left_on=["release", "question_id"], right_on=["release", "id"], how="anti")
    _refuse(strangers, pl.lit(True), FORECASTS.key, "the release has no such question; score forecasts with the questions that they answer")
    asked = questions.select(
        "id",
        "ordinal",
        "category",
        "cluster",
        y=pl.col("ground_truth") == "yes",
        market=pl.col(MARKET_PRICE).cast(pl.Float64),
    )
    return combine_samples(forecasts), asked


def _refuse(frame: pl.DataFrame, bad: pl.Expr, show: tuple[str, ...], advice: str) -> None:
    found = frame.filter(bad)
    if found.height:
        raise ScoringError(
            f"scoring: {found.height} row{'s' if found.height > 1 else ''} cannot be scored, first {found.select(show).row(0, named=True)}; {advice}"
        )


def combine_samples(forecasts: pl.DataFrame) -> pl.DataFrame:
    """One forecast per forecaster and question answered (forecaster, id, p, answer), from the samples of each."""
    yes, no = ((pl.col("answer") == answer).sum().cast(pl.Int64) for answer in ("yes", "no"))
    return (
        forecasts.filter(pl.col("p_yes").is_not_null())
        .sort(FORECASTS.key)
        .group_by("forecaster", pl.col("question_id").alias("id"), maintain_order=True)
        .agg(p=pl.col("p_yes").mean(), lead=yes - no)
        .with_columns(answer=pl.when(pl.col("lead") > 0).then(pl.lit("yes")).when(pl.col("lead") < 0).then(pl.lit("no")))
        .drop("lead")
    )


def _scopes(asked: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    yield ALL, asked
    for category in sorted(asked["category"].unique()):
        yield f"category:{category}", asked.filter(pl.col("category") == category)


def _sample(answers: pl.DataFrame, forecaster: str, members: pl.DataFrame) -> Clustered:
    """The forecaster's answers on the questions `members`, with each one's cluster as its rank among theirs."""
    indexed = members.with_columns(index=pl.col("cluster").rank("dense").cast(pl.Int64) - 1)
    rows = answers.filter(pl.col("forecaster") == forecaster).join(indexed, on="id").sort("ordinal", "id")
    forecasts = Forecasts.of(rows["p"].to_numpy(), rows["y"].to_numpy(), answer=rows["answer"].to_list(), market=rows["market"].to_numpy())
    return Clustered(forecasts, rows["index"].to_numpy().astype(np.intp))


def _rows(scores: Scores, sample: Clustered) -> Iterator[dict[str, Any]]:
    priced = ~np.isnan(sample.forecasts.market)
    for metric, estimate in scores.items():
        with_price = metric == "skill_vs_market"
        yield {
            "metric": metric,
            "value": estimate.value,
            "lower": estimate.lower,
            "upper": estimate.upper,
            "n": int(priced.sum()) if with_price else scores.n,
            "n_clusters": len(np.unique(sample.cluster[priced])) if with_price else scores.n_clusters,
            "replicates": estimate.replicates,
        }


def _names(forecasts: pl.DataFrame) -> list[str]:
    return sorted(forecasts["forecaster"].unique())


def _stamp(forecasts: pl.DataFrame, questions: pl.DataFrame, known_at: datetime | None) -> dict[str, Any]:
    """What every row of the release carries."""
    latest = pl.concat([forecasts["known_at"], questions["known_at"]]).max()
    return {"release": questions["release"].first(), "known_at": known_at or latest, "rules": RULES}
