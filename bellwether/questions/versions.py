"""Versions of a release. The first build fixes its questions; if the lake has changed, a new version can be built.

The first build fixes texts, prices, outcomes and base rates of the questions, as known at that time.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.questions.build import build
from bellwether.questions.release import FILE, ReleaseName, digest, release
from bellwether.tables.benchmark import HORIZONS, QUESTIONS
from bellwether.tables.clean import MARKETS, PRICES

#: Columns that distinguish two versions of a question.
_CONTENT = (
    "id",
    "question",
    "description",
    "category",
    "ground_truth",
    "market_probability",
    "series_ticker",
    "event_id",
    "cluster",
    "open_time",
    "close_time",
    "settled_at",
    *(column for name in HORIZONS for column in (f"price_{name}", f"price_{name}_at")),
    *("base_n", "base_yes", "base_category_n", "base_category_yes"),
)


def load_fixed(lake: Lake, name: str) -> pl.DataFrame | None:
    """Load the fixed questions of a release in stored order; None if the release was not built or has no questions."""
    manifest = lake.manifest(QUESTIONS, (name,))
    if manifest is None or not manifest.rows or manifest.version != QUESTIONS.version:
        return None
    return lake.slice(QUESTIONS, [(name,)]).read()


def require_questions(name: str, questions: pl.DataFrame) -> None:
    """Raise `ConfigError` with the recipe of the release called `name` if it has no questions. questions: its rows of benchmark/questions."""
    if not questions.is_empty():
        return
    recipe = release(name)
    until = f" to {recipe.until:%Y-%m-%d %H:%M}" if recipe.until else ""
    categories = f" of the categories {', '.join(recipe.categories)}" if recipe.categories else ""
    raise ConfigError(
        f"release {name} has no questions: the lake has no market of {', '.join(recipe.venues)}{categories} that was settled after "
        f"{recipe.cutoff:%Y-%m-%d %H:%M}{until} UTC and fits the recipe. Pull these days (`bellwether pull`), or change the entry in {FILE}"
    )


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


def find_new_version(lake: Lake, base: str) -> str | None:
    """Return the name of the version that a build would add; None if its questions would be those of the newest version.

    base: name of the first version. Raises `ConfigError` for a release that was not built.
    """
    versions = list_versions(lake, base)
    if not versions:
        raise ConfigError(f"building a new version: {base} was not built yet; `bellwether release {base}` builds it")
    name = str(ReleaseName(base, len(versions) + 1))
    stored, drawn = (draw(lake, version).select(_CONTENT).sort("id") for version in (versions[-1].name, name))
    return None if stored.equals(drawn) else name
