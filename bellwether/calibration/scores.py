"""Scores of forecasts in benchmark tables: metrics, reliability, comparisons and leaderboard, by the scoring rules `RULES`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.answers import ALL, COULD_KNOW, Answers, ClusterUnit, common_scopes, own_scopes
from bellwether.calibration.bootstrap import FEW_CLUSTERS, MIN_CLUSTERS, Inference
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.comparison import Comparison, Loss, Panel, compare_panel
from bellwether.calibration.evaluation import Scores, evaluate_forecasts, find_used
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.metrics import AGAINST_MARKET
from bellwether.calibration.reliability import bins_of
from bellwether.errors import ScoringError
from bellwether.tables.benchmark import COMPARISONS, ENSEMBLES, LEADERBOARD, RELIABILITY, SCORES

#: Version of the scoring rules; raise it with every change of a number on the same forecasts.
RULES = "strict/6"

#: Minimum coverage of a ranked forecaster; unanswered questions are rarely a random sample.
COVERAGE_FLOOR = 0.9

#: Factor of the logit of the extremised mean: the square root of 3.
EXTREMISING = 3**0.5


def score(
    forecasts: pl.DataFrame,
    questions: pl.DataFrame,
    *,
    resolutions: pl.DataFrame | None = None,
    known_at: datetime | None = None,
    clusters: ClusterUnit = "cluster",
    replicates: int = Inference().replicates,
    seed: int = Inference().seed,
) -> pl.DataFrame:
    """Compute every metric of every forecaster of one release, over all questions and over parts of them: table benchmark/scores.

    Questions that a forecaster could have known are in the scope `could_know` and in no other. The samples of one question count as one forecast:
    the mean or median of p_yes, as the rows state, and the majority's answer.

    Args:
        forecasts: rows of benchmark/forecasts, of one forecaster or several.
        questions: all rows of the release in benchmark/questions.
        resolutions: rows of the release in benchmark/resolutions; without them the published outcomes are final.
        known_at: when the scores became known; by default the latest time of the given rows.
        clusters: unit that intervals treat as independent: the release's own choice, "series" or "event".
        replicates: of the tests of calibration, which cover all questions and not parts.
        seed: of these tests and of the intervals.

    Raises `SchemaError` for frames of another shape and `ScoringError` for rows that cannot be scored, naming the row.
    """
    answers = Answers.of(forecasts, questions, clusters, resolutions)
    stamp = _stamp(answers, known_at) | {"seed": seed}
    rows: list[Mapping[str, Any]] = []
    for forecaster in answers.names:
        for scopes, part in _scopes(answers.sheet(forecaster)):
            plan = Inference(replicates=replicates if ALL in scopes else 0, seed=seed)
            metrics = list(_score_part(scopes[0], part, plan))
            rows += [stamp | {"forecaster": forecaster, "scope": scope} | metric for scope in scopes for metric in metrics]
    return SCORES.validate(SCORES.frame(rows).sort(SCORES.order))


def reliability(
    forecasts: pl.DataFrame, questions: pl.DataFrame, *, known_at: datetime | None = None, clusters: ClusterUnit = "cluster"
) -> pl.DataFrame:
    """Compute the reliability of every forecaster of one release in ten bins: table benchmark/reliability.

    Only forecasts on questions that the forecaster could not have known count. Arguments and errors are those of `score`.
    """
    answers = Answers.of(forecasts, questions, clusters)
    stamp = _stamp(answers, known_at)
    rows: list[Mapping[str, Any]] = []
    for name in answers.names:
        counting = _scored_rows(answers.sheet(name))
        bins = bins_of(_forecasts(counting), _clusters(counting))
        rows += [stamp | {"forecaster": name} | row for row in bins.iter_rows(named=True)]
    return RELIABILITY.validate(RELIABILITY.frame(rows).sort(RELIABILITY.order))


def score_ensembles(answers: Answers, members: Sequence[str], *, seed: int = Inference().seed) -> pl.DataFrame:
    """Compute the metrics of the mean of all forecasts of a release, and of the extremised mean: table benchmark/ensembles.

    A member counts where it has a forecast and could not have known the outcome. The extremised mean has `EXTREMISING` times the logit of the mean
    (Neyman and Roughgarden, 2022). No rows with fewer than two members. seed: of the intervals.
    """
    if len(members) < 2:
        return ENSEMBLES.empty()
    sheet = answers.average(members).filter(pl.col("p").is_not_null()).with_columns(answer=pl.lit(None, pl.String))
    odds = (pl.col("p") / (1 - pl.col("p"))) ** EXTREMISING
    extremised = pl.when(pl.col("p") < 1).then(odds / (1 + odds)).otherwise(pl.col("p"))
    stamp = _stamp(answers, None) | {"seed": seed, "members": len(members), "n_questions": answers.questions.height}
    rows: list[Mapping[str, Any]] = []
    for name, part in (("mean", sheet), ("extremised mean", sheet.with_columns(p=extremised))):
        scored, grouped = _forecasts(part), _clusters(part)
        scores = evaluate_forecasts(scored, grouped, answers.questions.height, Inference(replicates=0, seed=seed))
        rows += [stamp | {"ensemble": name} | row for row in _rows(scores, scored, grouped)]
    names = ENSEMBLES.names
    return ENSEMBLES.validate(ENSEMBLES.frame([{name: row[name] for name in names} for row in rows]).sort(ENSEMBLES.order))


def compare_forecasters(answers: Answers, *, seed: int = Inference().seed) -> Comparison:
    """Compare all forecasters of one release, each pair on the questions that both answered and neither could have known.

    The loss is the Brier score. Holm's correction covers all pairs. Only forecasters at or above the coverage floor, with forecasts in at least
    three clusters, take part in the ranking, that is in the confidence set and the groups. seed: of the intervals and tests.
    """
    compared = answers.questions
    size = (compared.height, len(answers.names))
    p, right = np.full(size, np.nan), np.zeros(size, dtype=bool)
    for column, name in enumerate(answers.names):
        sheet = answers.sheet(name).with_columns(counts=~pl.col("could_know") & pl.col("p").is_not_null())
        at = sheet["counts"].to_numpy()
        scored = _forecasts(sheet.filter("counts"))
        p[at, column], right[at, column] = scored.p, scored.decision == (scored.y == 1)
    clustered, present = _clusters(compared), ~np.isnan(p)
    enough = np.array([clustered.take(column).count >= MIN_CLUSTERS for column in present.T], dtype=bool)
    ranked = enough & (present.mean(axis=0) >= COVERAGE_FLOOR) if compared.height else np.zeros(size[1], dtype=bool)
    panel = Panel(tuple(answers.names), p, right, compared["y"].cast(pl.Float64).to_numpy(), np.ones(compared.height), clustered)
    return compare_panel(panel, ranked, loss=Loss.BRIER, plan=Inference(seed=seed))


def comparison_table(comparison: Comparison, *, release: str, known_at: datetime) -> pl.DataFrame:
    """Build rows of benchmark/comparisons from a comparison of one release."""
    stamped = comparison.pairs.with_columns(
        release=pl.lit(release), known_at=pl.lit(known_at).cast(COMPARISONS.schema["known_at"]), rules=pl.lit(RULES)
    )
    return COMPARISONS.validate(stamped.select(COMPARISONS.names).sort(COMPARISONS.order))


def leaderboard(
    scores: pl.DataFrame,
    kinds: Mapping[str, str],
    *,
    comparison: Comparison | None = None,
    questions_digest: str | None = None,
) -> pl.DataFrame:
    """Rank forecasters by Brier score over the questions that they could not have known: table benchmark/leaderboard.

    Args:
        scores: rows of benchmark/scores.
        kinds: kind of each forecaster in the registry.
        comparison: of the same release; source of groups and confidence set.
        questions_digest: of the release's questions, repeated in every row.

    Equal scores share a rank. Forecasters below the coverage floor, with fewer than three clusters or without a score have no rank and come last,
    with the reason. Computed by sql/benchmark/leaderboard.sql. Raises `ScoringError` for a forecaster without a
    kind, and for a comparison with the scores of several releases.
    """
    SCORES.validate(scores)
    unknown = sorted({*scores["forecaster"]} - {*kinds})
    if unknown:
        raise ScoringError(f"ranking forecasters: scores contain {', '.join(unknown)} without a kind; register it in forecasters.toml")
    if comparison is not None and scores["release"].n_unique() > 1:
        raise ScoringError("ranking forecasters: the scores are of several releases; rank one release at a time")
    from bellwether.lake.sql import run_sql

    inputs = {
        "scores": scores,
        "kinds": pl.DataFrame({"forecaster": list(kinds), "kind": list(kinds.values())}, schema_overrides={"kind": pl.String()}),
        "standing": _rank_certainty(comparison),
    }
    parameters = {
        "floor": COVERAGE_FLOOR,
        "min_clusters": MIN_CLUSTERS,
        "few_clusters": FEW_CLUSTERS,
        "questions_digest": questions_digest,
        "rules": RULES,
    }
    return run_sql(LEADERBOARD, inputs, parameters)


def _scopes(sheet: pl.DataFrame) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Yield (scopes, rows of the sheet) for each part to score; a scope is the name of a part. Scopes that equal the whole sheet are one item, so
    that they are scored once.
    """
    own = {scope: part for scope, part in own_scopes(sheet) if part.height}
    parts = {**dict(common_scopes(sheet)), **own}
    whole = [scope for scope, part in parts.items() if scope != COULD_KNOW and part.height == sheet.height and part["y"].equals(sheet["y"])]
    yield whole, sheet
    yield from (([scope], part) for scope, part in parts.items() if scope not in whole)


def _score_part(scope: str, part: pl.DataFrame, plan: Inference) -> Iterator[dict[str, Any]]:
    """Yield a row per metric for one part of a forecaster's sheet."""
    counting = _scored_rows(part) if scope != COULD_KNOW else part.filter(pl.col("p").is_not_null())
    forecasts, clusters = _forecasts(counting), _clusters(counting)
    scores = evaluate_forecasts(forecasts, clusters, part.height, plan)
    yield from ({**row, "n_questions": part.height} for row in _rows(scores, forecasts, clusters))


def _rows(scores: Scores, forecasts: Forecasts, clusters: Clusters) -> Iterator[dict[str, Any]]:
    """Yield a row per metric."""
    for metric, estimate in scores.items():
        used = find_used(metric, forecasts) if metric in AGAINST_MARKET else None
        yield {
            "metric": metric,
            **asdict(estimate),
            "n": scores.n if used is None else int(used.sum()),
            "n_clusters": scores.n_clusters if used is None else clusters.take(used).count,
        }


def _scored_rows(sheet: pl.DataFrame) -> pl.DataFrame:
    """Select the rows that count: with a forecast, on questions that the forecaster could not have known."""
    return sheet.filter(pl.col("p").is_not_null() & ~pl.col("could_know"))


def _clusters(rows: pl.DataFrame) -> Clusters:
    """Build the clusters of rows from their column `cluster`."""
    return Clusters.of_groups(Grouping.of(rows["cluster"].to_numpy().astype(np.intp)))


def _forecasts(rows: pl.DataFrame) -> Forecasts:
    columns = {name: rows[name].to_numpy() for name in ("market", "sell", "buy")}
    return Forecasts.of(rows["p"].to_numpy(), rows["y"].to_numpy(), answer=rows["answer"].to_list(), **columns)


def _rank_certainty(comparison: Comparison | None) -> pl.DataFrame:
    """Return the columns of the ranking that the leaderboard shows; no rows without a comparison."""
    columns = ["forecaster", "group", "in_mcs", "mcs_p"]
    if comparison is None:
        schema = {name: LEADERBOARD.schema[name] for name in columns}
        return pl.DataFrame(schema=schema)
    return comparison.ranking.select(columns)


def _stamp(answers: Answers, known_at: datetime | None) -> dict[str, Any]:
    """Return the columns release, known_at and rules, which are equal in all rows of a table."""
    return {"release": answers.release, "known_at": known_at or answers.known_at, "rules": RULES}
