"""Releases of the registry: cutoff, sample and limits of each question set."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from bellwether import registry
from bellwether.errors import ConfigError
from bellwether.forecasting import forecasters
from bellwether.settings import World, settings

FILE = "releases.toml"

#: Version of the rules in `bellwether.questions`; raise it when a release would get different questions.
RULES = "1"


def _instant(value: object) -> datetime:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("must be an instant with its offset, such as 2026-01-01T00:00:00Z, without quotes")
    return value.astimezone(UTC)


Instant = Annotated[datetime, BeforeValidator(_instant)]


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """Name of a release: `NAME`, `NAME.v2` for its second version, `NAME@200` for its first 200 questions."""

    base: str
    number: int = 1
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> ReleaseName:
        """Parse a release name. Raises `ConfigError` for an invalid size and for a written version below 2, such as `NAME.v1`."""
        whole, at, size = text.partition("@")
        if at and not re.fullmatch(r"[1-9][0-9]{0,5}", size):
            raise ConfigError(f"release {text}: {size!r} is not a number of questions; write {whole}@200")
        match = _VERSIONED.fullmatch(whole)
        base, number = (match["base"], int(match["number"])) if match else (whole, 1)
        if match and (number < 2 or match["number"] != str(number)):
            raise ConfigError(f"release {text}: versions are written from 2 on, as {base}.v2; the first is {base}")
        return cls(base, number, int(size) if at else None)

    def __str__(self) -> str:
        return f"{self.whole_name}@{self.size}" if self.size else self.whole_name

    @property
    def whole_name(self) -> str:
        """Name without the size."""
        return self.base if self.number == 1 else f"{self.base}.v{self.number}"

    @property
    def previous(self) -> ReleaseName | None:
        """Name of the previous version, without size; None for the first version."""
        return None if self.number == 1 else ReleaseName(self.base, self.number - 1)


_VERSIONED = re.compile(r"(?P<base>.+)\.v(?P<number>[0-9]+)")


class Release(BaseModel):
    """Recipe of a question set. It gives the same questions for the same lake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: StrictStr
    description: StrictStr = Field(min_length=1, description="one sentence for users")
    cutoff: Instant = Field(
        description="questions closed and settled strictly after this instant; by default the latest knowledge cutoff of `models`"
    )
    until: Instant | None = Field(None, description="questions settled at or before this instant")
    sample_size: StrictInt = Field(0, ge=0, description="maximum number of questions, drawn without replacement; 0 takes all")
    seed: StrictInt = Field(description="seed of all random choices")
    per_series: StrictInt = Field(2, ge=0, description="maximum number of questions per series, of different events first; 0 sets no limit")
    description_limit: StrictInt = Field(5000, ge=1, description="maximum characters of a description; longer ones are truncated")
    min_description: StrictInt = Field(10, ge=0, description="minimum characters of a description")
    question_limit: StrictInt = Field(
        2000, ge=1, description="maximum characters of a question; longer ones are left out, because truncation could change their meaning"
    )
    venues: tuple[StrictStr, ...] = Field(("kalshi",), min_length=1, description="venues of the markets")
    categories: tuple[StrictStr, ...] | None = Field(None, min_length=1, description="categories of the markets; by default all")
    require_open_after_cutoff: StrictBool = Field(
        False, description="questions must also open after the cutoff, so that training data cannot discuss them"
    )
    worlds: tuple[World, ...] = Field(tuple(World), min_length=1, description="worlds in which the release is built automatically")
    cluster: Literal["series", "event"] = Field(
        "series", description="unit of resampling for intervals: series, or events for releases with few series and many events"
    )
    models: tuple[StrictStr, ...] = Field((), description="forecasters whose knowledge cutoffs determine the default cutoff")

    @model_validator(mode="after")
    def _window_is_not_empty(self) -> Release:
        if self.until is not None and self.until <= self.cutoff:
            raise ValueError(f"until {self.until.isoformat()} is not after the cutoff {self.cutoff.isoformat()}")
        if self.min_description > self.description_limit:
            raise ValueError(f"min_description {self.min_description} exceeds description_limit {self.description_limit}")
        return self

    @property
    def number(self) -> int:
        """Number of the release's version, from 1; not part of the recipe."""
        return ReleaseName.parse(self.name).number

    @property
    def version(self) -> str:
        """Hash of the rules and of everything in the recipe that determines the questions."""
        recipe = self.model_dump_json(exclude={"name", "description", "models", "worlds"})
        return hashlib.sha256(f"{RULES}:{recipe}".encode()).hexdigest()[:12]


def releases(folder: Path | None = None) -> dict[str, Release]:
    """Return all releases by name: built-in ones, then those in `folder` (default: the registry folder of the settings).

    Raises `ConfigError` with file, field and value for an invalid entry.
    """
    folder = folder or settings().registry
    knowledge = {name: forecaster.knowledge_cutoff for name, forecaster in forecasters(folder).items()}
    return {name: _release(entry, knowledge) for name, entry in registry.read(FILE, folder).items()}


def releases_here() -> dict[str, Release]:
    """Return by name the releases that belong to this world (sandbox or live)."""
    return {name: release for name, release in releases().items() if settings().world in release.worlds}


def _release(entry: registry.Entry, knowledge: Mapping[str, datetime | None]) -> Release:
    if _VERSIONED.fullmatch(entry.name):
        raise ConfigError(f"{entry.file}: [{entry.name}] reads as a version of another release; give it a name without that suffix")
    latest = _latest_knowledge(entry, knowledge)
    if "cutoff" in entry.fields:
        release = entry.parse(Release)
    elif latest is not None:
        release = entry.parse(Release, cutoff=latest)
    else:
        raise entry.error("cutoff", "is missing, and no model named has a knowledge cutoff", "add it, or name the models that set it")
    if latest is not None and release.cutoff < latest:
        raise entry.error(
            "cutoff", f"lies before {latest.isoformat()}, when a named model's knowledge ends", "move it there or leave it out"
        )
    return release


def _latest_knowledge(entry: registry.Entry, knowledge: Mapping[str, datetime | None]) -> datetime | None:
    """Return the latest knowledge cutoff of the forecasters in the entry's field `models`; None without any."""
    named = entry.fields.get("models", ())
    if not isinstance(named, list):
        return None
    unknown = [name for name in named if not isinstance(name, str) or name not in knowledge]
    if unknown:
        raise entry.error("models", f"no forecaster is called {unknown[0]!r}", f"there are {', '.join(knowledge)}")
    return max((cutoff for name in named if (cutoff := knowledge[name]) is not None), default=None)


def release(name: str, folder: Path | None = None) -> Release:
    """Return the recipe of the release called `name`. Raises `ConfigError` with close matches for an unknown name.

    `NAME@N` is the release NAME with the first N questions of its sample. `NAME.v2` is its second version, with the same entry of the registry.
    """
    recipes, named = releases(folder), ReleaseName.parse(name)
    if named.base not in recipes:
        near = get_close_matches(named.base, recipes, n=2, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? There" if near else "there"
        raise ConfigError(
            f"no release is called {named.base!r}; {meant} are {', '.join(recipes)}, and {FILE} in your registry folder can add more"
        )
    recipe = recipes[named.base]
    if named.size and recipe.sample_size and named.size > recipe.sample_size:
        raise ConfigError(f"release {name}: {named.base} has {recipe.sample_size} questions at most; request fewer")
    size = {"sample_size": named.size} if named.size else {}
    return recipe.model_copy(update={"name": name, **size})


def digest(questions: pl.DataFrame) -> str:
    """Return the SHA-256 of a release's questions in their order, over all columns but release and version."""
    rows = questions.sort("ordinal").drop("release", "version").rows(named=True)
    text = json.dumps(rows, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
