"""Leaderboard of a release, for the site and the terminal."""

from __future__ import annotations

from typing import Any

import polars as pl

from bellwether.formatting import rounded_down
from bellwether.pages import columns
from bellwether.pages.columns import Row, Shown, build_column, build_table, estimate_column, hidden_columns
from bellwether.pages.model import Cell, Note, PageTable
from bellwether.pages.values import percent, rank, text
from bellwether.site.paths import forecaster_path

#: Title of all questions of a release, and beginnings of the titles of some of them.
_WHOLE = "all questions"
_SCOPES = {"category": "category: ", "horizon": "days before the close: ", "distance": "days after the knowledge cutoff: "}
_BOARD = "benchmark/leaderboard"
#: Scopes of the scores under other resolutions, with their titles.
RESOLVED = {"known_now": "outcomes as known now", "undisputed": "without outcomes in doubt"}


def leaderboard(release: str, lines: pl.DataFrame) -> PageTable | Note:
    """Build the leaderboard of a release over all questions, and over some of them by a filter. lines: rows of `sql/site/leaderboard.sql`."""
    kind = build_column("Kind", lambda row: text(_kind(row) or None), columns.definition(_BOARD, "kind"), hidden=True)
    scope = build_column("Questions", lambda row: text(scope_title(row["scope"])), "all of the release, or some of them", hidden=True)
    return build_table(
        _BOARD,
        f"Leaderboard of {release}",
        lines.iter_rows(named=True),
        *_leading_columns(release, lines),
        estimate_column(
            f"Gain over the price {columns.LEVEL}",
            "skill_vs_market",
            "1 - Brier score / Brier score of the market price at the time of the forecast; above 0 is better than the market",
            2,
        ),
        build_column("Cost", lambda row: columns.cost(row["cost"]), "dollars per question, of all samples", numeric=True),
        build_column("Coverage", _coverage, columns.definition(_BOARD, "coverage"), numeric=True),
        estimate_column(
            f"Adds to the market {columns.LEVEL}",
            "pool_weight",
            "weight of the forecast in the best mixture with the market price; 0 adds nothing to the price",
            2,
        ),
        *hidden_columns(_BOARD, "brier_skill", "log_loss", "roc_auc", "accuracy", "ece", "ece_p_calibrated", "n", "could_know"),
        kind,
        scope,
        filters=("Kind", "Questions"),
        search=("Forecaster",),
        name="board",
        size=50,
        leading=3,
        initial={"Questions": _WHOLE},
        empty=f"No forecaster of {release} has been scored yet.",
    )


def describe_submitted(lines: pl.DataFrame) -> str | None:
    """Return a sentence that names the submitted forecasters of a leaderboard; None without one. lines: rows of `sql/site/leaderboard.sql`."""
    names = lines.filter(pl.col("scope") == "all", pl.col("kind") == "submitted")["forecaster"].sort().to_list()
    if not names:
        return None
    return f"Submitted forecasts, at the unverified times of their files: {', '.join(names)}."


def leaders(release: str, lines: pl.DataFrame, most: int) -> PageTable | Note:
    """Build the beginning of a leaderboard with only its leading columns. most: maximum of forecasters."""
    ranked = lines.filter(pl.col("scope") == "all", pl.col("rank").is_not_null()).head(most)
    return build_table(
        _BOARD,
        f"Leaders of {release}",
        ranked.iter_rows(named=True),
        *_leading_columns(release, lines),
        empty=f"No forecaster of {release} is ranked.",
    )


def _leading_columns(release: str, lines: pl.DataFrame) -> list[Shown]:
    ranks = lines.filter(pl.col("scope") == "all")["rank"].to_list()

    def place(row: Row) -> Cell:
        return rank(row["rank"], ranks, row["unranked_because"])._replace(note=row["group"] or "")

    def name(row: Row) -> Cell:
        return text(row["forecaster"], forecaster_path(release, row["forecaster"]))._replace(note=row["provider"] or _kind(row))

    return [
        build_column("Rank", place, "by Brier score; those that share a letter do not differ significantly", numeric=True),
        build_column("Forecaster", name, "name, and provider of the model or kind of baseline; leads to every forecast"),
        score_column(),
    ]


def _kind(row: Row) -> str:
    return (row["kind"] or "").replace("_", " ")


def _coverage(row: Row) -> Cell:
    return percent(rounded_down(row["coverage"]), 1)


def score_column(title: str = f"Brier score {columns.LEVEL}") -> Shown:
    """Build the column of Brier scores with drawn intervals, on the scale of those over all questions."""
    meaning = "mean squared distance between probability and outcome: 0 is perfect, 0.25 is always forecasting 0.5"
    return estimate_column(title, "brier", meaning, drawn=True, scale=lambda row: row.get("scope", "all") == "all")


def scope_title(scope: Any) -> str:
    """Return the title of some questions of a release. scope: as in benchmark/scores; `category:Sports` becomes `category: Sports`."""
    kind, colon, rest = str(scope).partition(":")
    titles = {"all": _WHOLE, "could_know": "known outcomes, not scored", **RESOLVED}
    return f"{_SCOPES.get(kind, kind)}{rest}" if colon else titles.get(kind, kind.replace("_", " "))
