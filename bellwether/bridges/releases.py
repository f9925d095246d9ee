"""Imported releases: questions of other benchmarks in the lake, and their recipes in releases.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl

from bellwether import checks
from bellwether.errors import ConfigError
from bellwether.files import atomic_file, locked
from bellwether.lake import Lake
from bellwether.questions.release import FILE, Release, ReleaseName, releases
from bellwether.questions.versions import load_fixed
from bellwether.registry import NAME, NAME_RULE
from bellwether.settings import World
from bellwether.tables.benchmark import BASE_RATES, QUESTIONS


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
        raise ConfigError(f"importing a release: {name!r} is not a valid name of a release; {NAME_RULE}")
    if registry is None:
        raise ConfigError("importing a release: BELLWETHER_REGISTRY names no folder for its entry; create a folder and set it")
    recipe = Release(
        name=named.base, description=description, cutoff=cutoff, seed=0, per_series=0, venues=(venue,), cluster="event", worlds=(world,)
    )
    with locked(registry / f".{FILE}.lock"):
        known = releases(registry).get(named.base)
        if known is not None and (known.venues, known.cutoff) != (recipe.venues, recipe.cutoff):
            raise ConfigError(f"importing {name}: {FILE} has a release {named.base} of other questions; choose another name")
        questions = _store_questions(lake, named, known or recipe, rows)
        if known is None:
            _add_recipe(registry / FILE, recipe)
        return questions


def _store_questions(lake: Lake, name: ReleaseName, recipe: Release, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Store the questions of a release unless they are stored, and return them."""
    columns: dict[str, Any] = dict.fromkeys(QUESTIONS.schema) | {
        "release": str(name),
        "source": recipe.venues[0],
        "version": name.number,
        "cutoff": recipe.cutoff,
        "known_at": lake.clock(),
        "rules": recipe.version,
        **{f"{prefix}_{part}": 0 for prefix in BASE_RATES for part in ("n", "yes")},
    }
    whole = [columns | {**row, "ordinal": place} for place, row in enumerate(rows)]
    questions = QUESTIONS.validate(pl.DataFrame(whole, schema=QUESTIONS.schema))
    checks.require("benchmark/questions", questions.lazy())
    stored = load_fixed(lake, str(name))
    if stored is None:
        lake.write(QUESTIONS, (str(name),), questions, run_id=f"import-{uuid4().hex[:12]}")
    elif not stored.drop("known_at").equals(questions.drop("known_at")):
        raise ConfigError(f"importing {name}: it exists with other questions or outcomes; import them as {name.base}.v{name.number + 1}")
    return questions


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
