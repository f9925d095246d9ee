"""Imported releases: questions of other benchmarks in the lake, their recipes in releases.toml, and their times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import polars as pl
from pydantic import BeforeValidator

from bellwether import checks
from bellwether.errors import ConfigError
from bellwether.files import atomic_file, locked
from bellwether.lake import Lake
from bellwether.questions.release import FILE, Release, ReleaseName, releases
from bellwether.questions.versions import load_fixed
from bellwether.registry import NAME
from bellwether.settings import World
from bellwether.tables.benchmark import BASE_RATES, QUESTIONS


def _parse_instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a time as text, such as 2025-10-16T00:00:00+00:00")
    parsed = datetime.fromisoformat(value)
    try:
        return parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("must be a time of this era") from None


#: Time as ISO text, in UTC if it has no zone.
Instant = Annotated[datetime, BeforeValidator(_parse_instant)]


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raises `ValueError`, also for an object with a name twice and for a value that is nested too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"an object has {next(name for name in names if names.count(name) > 1)[:80]!r} twice")
    return found


def store_release(
    lake: Lake,
    registry: Path | None,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    venue: str,
    description: str,
    cutoff: datetime,
    world: World,
) -> pl.DataFrame:
    """Store questions as a release, and add its recipe to releases.toml in the folder `registry`. Returns the questions.

    name: of the release; NAME.v2 for other outcomes of a stored one. rows: columns of benchmark/questions, in their order; those of the release
    are added. Raises `ConfigError` for an invalid name, without a registry folder, and if the release exists with other questions.
    """
    named = ReleaseName.parse(name)
    if named.size or not NAME.fullmatch(named.base):
        raise ConfigError(
            f"importing a release: {name!r} is not a valid name of a release; use 1 to 64 lower-case letters, digits, dots, hyphens and underscores"
        )
    if registry is None:
        raise ConfigError("importing a release: BELLWETHER_REGISTRY names no folder for its entry; create a folder and set it")
    recipe = Release(
        name=named.base, description=description, cutoff=cutoff, seed=0, per_series=0, venues=(venue,), cluster="event", worlds=(world,)
    )
    with locked(registry / f".{FILE}.lock"):
        return _store(lake, registry, name, recipe, rows)


def _store(lake: Lake, registry: Path, name: str, recipe: Release, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    named, known, venue = ReleaseName.parse(name), releases(registry), recipe.venues[0]
    cutoff, recipe = recipe.cutoff, known.get(named.base, recipe)
    if recipe.venues != (venue,) or recipe.cutoff != cutoff:
        raise ConfigError(f"importing {name}: {FILE} has a release {named.base} of other questions; choose another name")
    columns: dict[str, Any] = dict.fromkeys(QUESTIONS.schema) | {
        "release": name,
        "source": venue,
        "version": named.number,
        "cutoff": cutoff,
        "known_at": lake.clock(),
        "rules": recipe.version,
        **{f"{prefix}_{part}": 0 for prefix in BASE_RATES for part in ("n", "yes")},
    }
    whole = [columns | {**row, "ordinal": place} for place, row in enumerate(rows)]
    questions = QUESTIONS.validate(pl.DataFrame(whole, schema=QUESTIONS.schema))
    checks.require("benchmark/questions", questions.lazy())
    stored = load_fixed(lake, name)
    if stored is None:
        lake.write(QUESTIONS, (name,), questions, run_id=f"import-{uuid4().hex[:12]}")
    elif not stored.drop("known_at").equals(questions.drop("known_at")):
        raise ConfigError(f"importing {name}: it exists with other questions or outcomes; import them as {named.base}.v{named.number + 1}")
    if named.base not in known:
        _add_recipe(registry / FILE, recipe)
    return questions


def combined_probability() -> pl.Expr:
    """Return the probability of a group of rows of benchmark/forecasts, the samples of a question: their mean or median, as its forecaster has it."""
    p = pl.col("p_yes")
    return pl.when(pl.col("combine").first() == "median").then(p.median()).otherwise(p.mean())


def _add_recipe(file: Path, recipe: Release) -> None:
    """Append a recipe to a file of releases."""
    entry = f"""[{recipe.name}]
description = "{recipe.description}"
cutoff = {recipe.cutoff:%Y-%m-%dT%H:%M:%SZ}
seed = {recipe.seed}
per_series = {recipe.per_series}
venues = ["{recipe.venues[0]}"]
cluster = "{recipe.cluster}"
worlds = ["{recipe.worlds[0]}"]
"""
    before = f"{file.read_text(encoding='utf-8').rstrip()}\n\n" if file.exists() else ""
    with atomic_file(file) as draft:
        draft.write_text(before + entry, encoding="utf-8")
