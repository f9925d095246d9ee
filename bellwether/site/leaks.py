"""Section of a release's page about its leaks: questions that reveal outcomes, documents that state them, and what models may remember."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bellwether.pages import charts, columns
from bellwether.pages.columns import build_column, build_table, estimate_column
from bellwether.pages.model import Note, Part
from bellwether.pages.values import percent, text
from bellwether.site.paths import forecaster_path, question_path

_SCORES, _LEAKS = "benchmark/leak_scores", "benchmark/leaks"
_DAYS, _JUMP = "days:", "jump"
#: Distance of a point of the knowledge curve from the edge of an interval without a second edge, in days.
_BEYOND = 90.0


def leak_parts(release: str, questions: pl.DataFrame, leaks: pl.DataFrame, scores: pl.DataFrame, colours: Mapping[str, str]) -> list[Part]:
    """Build the section.

    Args:
        release: name of the release.
        questions: its rows of benchmark/questions.
        leaks: its rows of benchmark/leaks.
        scores: its rows of benchmark/leak_scores.
        colours: of the forecasters.
    """
    if scores.is_empty():
        return [Note("This release was not audited: the warehouse has no rows of benchmark.leak_scores for it.")]
    affected = leaks["question_id"].n_unique() / max(questions.height, 1)
    parts: list[Part] = [Note(f"{percent(affected, 1).text} of the questions have a leak.")]
    is_day, is_jump = pl.col("part").str.starts_with(_DAYS), pl.col("part") == _JUMP
    estimates = scores.select("part", "lower", "upper", name="forecaster", value="brier")
    jumps = estimates.filter(is_jump, pl.col("lower").is_finite()).to_dicts()
    if jumps:
        title = "Jump of the Brier score at the knowledge cutoff; above 0 the forecaster may remember outcomes"
        parts.append(charts.intervals(title, "jump", jumps, colours, reference=0.0))
    curve = estimates.filter(is_day).with_columns(x=pl.col("part").map_elements(_middle, pl.Float64)).sort("name", "x")
    if curve.height:
        title = "Brier score by days from the knowledge cutoff to the close; shaded: 95 % intervals over clusters"
        points = curve.select("name", "x", "lower", "upper", y="value").to_dicts()
        parts.append(charts.lines(title, "days", "Brier score", points, colours, time=False, banded=True))
    return [*parts, _score_table(release, scores.filter(~is_day, ~is_jump)), _leak_table(release, questions, leaks)]


def _middle(part: str) -> float:
    """Return the middle of an interval of days such as `days:-90..0`."""
    low, dots, high = part.removeprefix(_DAYS).partition("..")
    if dots:
        return (float(low) + float(high)) / 2
    return float(low.lstrip("<>=")) + (_BEYOND if low.startswith(">") else -_BEYOND)


def _score_table(release: str, scores: pl.DataFrame) -> Part:
    rows = scores.rename({name: f"brier_{name}" for name in ("lower", "upper", "reason")}).iter_rows(named=True)
    return build_table(
        _SCORES,
        "Scores with and without leaks",
        rows,
        *("forecaster", ("part", "Questions")),
        estimate_column(f"Brier score {columns.LEVEL}", "brier", columns.definition(_SCORES, "brier")),
        *("share", "n"),
        links={"forecaster": lambda row: forecaster_path(release, row["forecaster"])},
        filters=("Forecaster", "Questions"),
        name="leak-scores",
    )


def _leak_table(release: str, questions: pl.DataFrame, leaks: pl.DataFrame) -> Part:
    texts = dict(questions.select("id", "question").iter_rows())
    return build_table(
        _LEAKS,
        "Questions with a leak",
        leaks.iter_rows(named=True),
        build_column("Question", lambda row: text(texts[row["question_id"]], question_path(release, row["question_id"]))),
        *("kind", ("evidence", "Other question, or statement"), "source", ("other", "Id"), "similarity", ("published_at", "Published")),
        filters=("Kind",),
        search=("Question",),
        name="leaks",
        empty="No question of this release has a leak.",
    )
