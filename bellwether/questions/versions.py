"""Versions of a release. The first build fixes its questions; if the lake has changed, a new version can be built.

The first build fixes texts, prices, outcomes and base rates of the questions, as known at that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.calibration.answers import Answers
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.questions.build import build
from bellwether.questions.release import ReleaseName, digest, release
from bellwether.tables.benchmark import FORECASTS, HORIZONS, QUESTIONS
from bellwether.tables.clean import MARKETS, PRICES

#: Aspects in which two versions of a question may differ: name -> columns.
ASPECTS: dict[str, tuple[str, ...]] = {
    "text": ("question", "description"),
    "outcome": ("ground_truth",),
    "dates": ("open_time", "close_time", "settled_at"),
    "prices": ("market_probability", *(column for name in HORIZONS for column in (f"price_{name}", f"price_{name}_at"))),
    "groups": ("category", "series_ticker", "event_id", "cluster"),
    "base rates": ("base_n", "base_yes", "base_category_n", "base_category_yes"),
}


def load_fixed(lake: Lake, name: str) -> pl.DataFrame | None:
    """Load the fixed questions of a release in stored order; None if the release was not built or has no questions."""
    manifest = lake.manifest(QUESTIONS, (name,))
    if manifest is None or not manifest.rows or manifest.version != QUESTIONS.version:
        return None
    return lake.slice(QUESTIONS, [(name,)]).read()


def draw(lake: Lake, name: str) -> pl.DataFrame:
    """Return the fixed questions of a release or, if it was not built, those that a build would fix now. Nothing is stored.

    `NAME@N` has the first N questions of NAME, which is drawn if it was not built. Raises `ConfigError` for a version whose predecessor is missing.
    """
    stored = load_fixed(lake, name)
    if stored is not None:
        return stored
    named, recipe = ReleaseName.parse(name), release(name)
    if named.size:
        rows = draw(lake, named.whole_name).filter(pl.col("ordinal") < named.size)
        return QUESTIONS.validate(rows.with_columns(release=pl.lit(name), rules=pl.lit(recipe.version)))
    if named.previous is not None and load_fixed(lake, str(named.previous)) is None:
        raise ConfigError(f"release {name}: its predecessor {named.previous} does not exist; build that first")
    return build(recipe, lake.slice(MARKETS).scan(), lake.slice(PRICES).scan())


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """Built version of a release: partition key, version number, number of questions, and their digest."""

    name: str
    version: int
    questions: int
    digest: str


def list_versions(lake: Lake, base: str) -> list[ReleaseVersion]:
    """List the built versions of a release, the first version first. base: name of the first version."""
    versions: list[ReleaseVersion] = []
    while (rows := load_fixed(lake, name := str(ReleaseName(base, len(versions) + 1)))) is not None:
        versions.append(ReleaseVersion(name, len(versions) + 1, rows.height, digest(rows)))
    return versions


@dataclass(frozen=True, slots=True)
class Difference:
    """Changes between two versions of a release.

    added, removed: ids of questions. changed: id -> the `ASPECTS` in which it differs. common: number of questions in both.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]
    common: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per added, removed or changed question: its id and the change."""
        return [
            *({"question": name, "change": "added"} for name in self.added),
            *({"question": name, "change": "removed"} for name in self.removed),
            *({"question": name, "change": f"other {', '.join(aspects)}"} for name, aspects in self.changed.items()),
        ]


def difference(old: pl.DataFrame, new: pl.DataFrame) -> Difference:
    """Compare two question sets (rows of benchmark/questions), ignoring order and `known_at`."""
    old_rows, new_rows = ({row["id"]: row for row in frame.sort("ordinal").rows(named=True)} for frame in (old, new))
    common = [name for name in old_rows if name in new_rows]
    changed = {}
    for name in common:
        was, becomes = old_rows[name], new_rows[name]
        aspects = tuple(aspect for aspect, columns in ASPECTS.items() if any(was[column] != becomes[column] for column in columns))
        if aspects:
            changed[name] = aspects
    added = tuple(name for name in new_rows if name not in old_rows)
    return Difference(added, tuple(name for name in old_rows if name not in new_rows), changed, len(common))


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Differences between a release's newest version and the one that a build would add. affected: rows of `score_effects`."""

    old_name: str
    new_name: str
    difference: Difference
    affected: list[dict[str, Any]]


def compare(lake: Lake, base: str) -> VersionComparison:
    """Compare a release's newest version with the version that a build would add. base: name of the first version. Raises `ConfigError` for
    a release that was not built.
    """
    versions = list_versions(lake, base)
    if not versions:
        raise ConfigError(f"comparing versions: {base} was not built yet; `bellwether release {base}` builds it")
    old_name, new_name = versions[-1].name, str(ReleaseName(base, len(versions) + 1))
    old, new = load_fixed(lake, old_name), draw(lake, new_name)
    assert old is not None
    changes = difference(old, new)
    return VersionComparison(old_name, new_name, changes, score_effects(lake, old, new, changes) if changes else [])


def score_effects(lake: Lake, old: pl.DataFrame, new: pl.DataFrame, changes: Difference) -> list[dict[str, Any]]:
    """Return how a new version would change the scores of the forecasters of the old version: a row per forecaster, sorted by name.

    Columns: `forecaster`; `unanswered`, the number of new or reworded questions without its answer; `brier`, of its forecasts on the old questions;
    `brier_new`, of the same forecasts on questions of the new version, by the new outcomes. Brier scores are null without forecasts.
    """
    release_name = old["release"][0]
    partitions = [partition for partition in lake.manifests(FORECASTS) if partition[0] == release_name]
    forecasts = lake.slice(FORECASTS, partitions).read()
    reworded = {name for name, aspects in changes.changed.items() if {"text", "dates"} & set(aspects)}
    old_answers, new_answers = (Answers.of(_select_forecasts(forecasts, questions), questions) for questions in (old, new))
    rows = []
    for name in old_answers.names:
        sheet = new_answers.sheet(name)
        unanswered = sheet.height - len(set(sheet.filter(pl.col("p").is_not_null())["id"]) - reworded)
        scores = {"brier": _brier(old_answers.sheet(name)), "brier_new": _brier(sheet)}
        rows.append({"forecaster": name, "unanswered": unanswered, **scores})
    return rows


def _select_forecasts(forecasts: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Select the forecasts on these questions, and set their release to that of the questions."""
    return forecasts.drop("release").join(questions.select("release", question_id="id"), on="question_id").select(FORECASTS.names)


def _brier(sheet: pl.DataFrame) -> float | None:
    score = sheet.filter(pl.col("p").is_not_null() & ~pl.col("could_know")).select(((pl.col("p") - pl.col("y")) ** 2).mean()).item()
    return None if score is None else float(score)
