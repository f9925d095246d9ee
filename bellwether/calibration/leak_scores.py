"""Scores by class of leak: with and without leaking questions, by days from the knowledge cutoff, and their jump at the cutoff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.answers import Answers, ClusterUnit
from bellwether.calibration.bootstrap import MIN_CLUSTERS, Bounds, Inference, Statistic, bootstrap
from bellwether.calibration.clusters import Clusters, Grouping
from bellwether.calibration.forecasts import Bools, Floats
from bellwether.tables.benchmark import LEAK_SCORES

#: Version of the rules: raise it with every change of a number.
RULES = "leaks/2"
#: Edges of the knowledge curve: days from the knowledge cutoff to the close of a question.
CURVE = (-365, -180, -90, 0, 90, 180, 365)
#: Days on either side of the cutoff whose questions enter the jump.
WINDOW = 365
_DAY = 86_400_000_000
_FEW = f"fewer than {MIN_CLUSTERS} clusters on a side of the cutoff"
_SEPARATE = "the dates of close do not distinguish a jump from a trend"


def score_leaks(
    forecasts: pl.DataFrame,
    questions: pl.DataFrame,
    leaks: pl.DataFrame,
    *,
    searched: bool,
    clusters: ClusterUnit = "cluster",
    seed: int = Inference().seed,
) -> pl.DataFrame:
    """Compute Brier scores of every forecaster of one release by class of leak: table benchmark/leak_scores.

    Args:
        forecasts: rows of benchmark/forecasts, of one forecaster or several.
        questions: all rows of the release in benchmark/questions.
        leaks: rows of the release in benchmark/leaks.
        searched: whether a corpus was searched for outcomes; without one there are no parts `document` and `no document`.
        clusters: unit that intervals treat as independent.
        seed: of the intervals.
    """
    answers = Answers.of(forecasts, questions, clusters)
    has_document = pl.col("kind") == "document"
    by_class = {"sibling": leaks.filter(~has_document), **({"document": leaks.filter(has_document)} if searched else {})}
    stamp = {
        "release": answers.release,
        "seed": seed,
        "known_at": answers.known_at,
        "rules": RULES,
    }
    rows: list[Mapping[str, Any]] = []
    for name in answers.names:
        sheet = answers.sheet(name).filter(pl.col("p").is_not_null())
        if sheet.height:
            leaking = {kind: sheet["id"].is_in(found["question_id"].implode()).to_numpy() for kind, found in by_class.items()}
            rows += [stamp | {"forecaster": name} | row for row in _score_parts(sheet, leaking, Inference(seed=seed))]
    return LEAK_SCORES.validate(LEAK_SCORES.frame(rows).sort(LEAK_SCORES.order))


def _score_parts(sheet: pl.DataFrame, leaking: Mapping[str, Bools], plan: Inference) -> Iterator[dict[str, Any]]:
    """Yield one row per part of a forecaster's forecasts. leaking: whether the question of each forecast leaks, by class."""
    p, y = sheet["p"].to_numpy(), sheet["y"].cast(pl.Float64).to_numpy()
    losses = np.stack([np.square(p - outcome) for outcome in (y, np.zeros(len(y)), np.ones(len(y)))])
    clusters = Clusters.of_groups(Grouping.of(sheet["cluster"].to_numpy().astype(np.intp)))
    scored = ~sheet["could_know"].to_numpy()
    parts = {"all": scored}
    for kind, mask in leaking.items():
        parts |= {kind: scored & mask, f"no {kind}": scored & ~mask}
    parts["no leak"] = scored & ~np.any(list(leaking.values()), axis=0)
    statistics = {name: _mean(losses, mask) for name, mask in parts.items()}
    wholes = dict.fromkeys(parts, int(scored.sum()))
    days, jump_reason = _days(sheet), None
    if days is not None:
        curve = _split_curve(days)
        parts |= curve
        wholes |= dict.fromkeys(curve, len(y))
        statistics |= {name: _mean(losses, mask) for name, mask in curve.items()}
        near = np.abs(days) <= WINDOW
        jump = jump_statistic(losses, days)
        sides = near & (days > 0), near & (days <= 0)
        parts["jump"] = near
        if min(clusters.take(side).count for side in sides) < MIN_CLUSTERS:
            jump_reason = _FEW
        elif jump is None:
            jump_reason = _SEPARATE
        else:
            statistics["jump"] = jump
    bounds = dict(zip(statistics, bootstrap(statistics.values(), np.ones(len(y)), clusters, plan), strict=True))
    for name, mask in parts.items():
        bound = bounds.get(name) or Bounds(None, reason=jump_reason)
        n = int(mask.sum())
        yield {
            "part": name,
            "share": n / wholes[name] if wholes.get(name) else None,
            "brier": bound.value,
            "lower": bound.lower,
            "upper": bound.upper,
            "reason": bound.reason,
            "n": n,
            "n_clusters": clusters.take(mask).count,
        }


def _days(sheet: pl.DataFrame) -> Floats | None:
    """Return the days from the knowledge cutoff to the close of each question; None without a cutoff."""
    cutoff = sheet["knowledge_cutoff"].first()
    if cutoff is None:
        return None
    return (sheet["close_time"] - cutoff).dt.total_microseconds().cast(pl.Float64).to_numpy() / _DAY


def _split_curve(days: Floats) -> dict[str, Bools]:
    """Return the non-empty intervals of the knowledge curve by name, open on the left."""
    edges = (-np.inf, *CURVE, np.inf)
    names = [f"days:<={CURVE[0]}", *(f"days:{low}..{high}" for low, high in pairwise(CURVE)), f"days:>{CURVE[-1]}"]
    masks = ((days > low) & (days <= high) for low, high in pairwise(edges))
    return {name: mask for name, mask in zip(names, masks, strict=True) if mask.any()}


def _mean(losses: Floats, mask: Bools) -> Statistic:
    """Build the mean loss of some forecasts. losses: as observed and under each possible outcome, (3, N)."""
    numerators = (losses * mask)[:, None]
    return Statistic(numerators, np.broadcast_to(mask.astype(float), numerators.shape))


def jump_statistic(losses: Floats, days: Floats) -> Statistic | None:
    """Build the jump of the mean loss at the knowledge cutoff, after it less before it; None if the days do not determine one.

    The jump is the coefficient of "closed after the cutoff" in a linear regression of the loss with a trend of its own on either side (regression
    discontinuity, Imbens and Lemieux 2008), over questions that closed within `WINDOW` days of the cutoff. It is written as a ratio of sums by its
    linearisation: the regressor's residual on the other columns weights the losses.

    losses: as observed and under each possible outcome, (3, N). days: from the cutoff to the close, (N,).
    """
    near = np.abs(days) <= WINDOW
    after, time = (days > 0).astype(float), days / WINDOW
    others = (np.stack([np.ones(len(days)), time, after * time], axis=1))[near]
    if not near.any():
        return None
    residual = np.zeros(len(days))
    residual[near] = after[near] - others @ np.linalg.lstsq(others, after[near], rcond=None)[0]
    spread = np.square(residual)
    if spread.sum() < 1e-3:
        return None
    design = np.column_stack([others, after[near]])
    coefficients = np.linalg.lstsq(design, losses[0, near], rcond=None)[0]
    fitted = np.zeros(len(days))
    fitted[near] = design @ coefficients
    numerators = residual * (losses - fitted) + coefficients[-1] * spread
    return Statistic(numerators[:, None], np.broadcast_to(spread, numerators.shape)[:, None])
