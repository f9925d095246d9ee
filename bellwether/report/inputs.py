"""Inputs of a report: benchmark tables of one release, its recipe, and configurations of its forecasters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from bellwether.errors import ConfigError, suggestion
from bellwether.forecasting import registry
from bellwether.questions import ReleaseName, release, releases
from bellwether.tables import Table
from bellwether.tables.benchmark import COMPARISONS, DATASET_ANALYSIS, FORECASTS, LEADERBOARD, QUESTIONS, RELIABILITY, SCORES
from bellwether.tables.exports import redact_rows

TABLES: dict[str, Table] = {
    "questions": QUESTIONS,
    "forecasts": FORECASTS,
    "scores": SCORES,
    "reliability": RELIABILITY,
    "leaderboard": LEADERBOARD,
    "comparisons": COMPARISONS,
    "dataset_analysis": DATASET_ANALYSIS,
}


def latest_time(rows: pl.DataFrame) -> datetime:
    """Return the latest `known_at` of the rows (UTC)."""
    latest = rows["known_at"].max()
    assert isinstance(latest, datetime)
    return latest


def format_stamp(at: datetime) -> str:
    """Format an instant for use in file names."""
    return at.strftime("%Y%m%d_%H%M%S")


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """Benchmark rows of one release, in any order. Raises `ConfigError` if the release has no leaderboard, or if rows belong to several
    releases.

    Attributes:
        questions to dataset_analysis: rows of the benchmark tables of the same names, without credentials.
        recipe: registry entry of the release; empty if it is no longer registered.
        configurations: registry entries of forecasters by name; those no longer registered are absent.
    """

    questions: pl.DataFrame
    forecasts: pl.DataFrame
    scores: pl.DataFrame
    reliability: pl.DataFrame
    leaderboard: pl.DataFrame
    comparisons: pl.DataFrame
    dataset_analysis: pl.DataFrame
    recipe: Mapping[str, Any] = field(default_factory=dict)
    configurations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, table in TABLES.items():
            object.__setattr__(self, name, redact_rows(table.name, table.validate(getattr(self, name)).sort(table.key)))
        releases = sorted({release for name in TABLES for release in getattr(self, name)["release"].unique()})
        if self.leaderboard.is_empty():
            raise ConfigError("writing a report: the leaderboard is empty; materialize benchmark/leaderboard of the release first")
        if len(releases) > 1:
            raise ConfigError(f"writing a report: the rows are of the releases {', '.join(releases)}; give the rows of one")

    @property
    def release(self) -> str:
        """Name of the release."""
        return str(self.leaderboard["release"][0])

    @property
    def known_at(self) -> datetime:
        """Time of the report: `known_at` of the latest row in the leaderboard, UTC."""
        return latest_time(self.leaderboard)

    @property
    def stamp(self) -> str:
        """Time of the report as a text for file names; it depends only on the data."""
        return format_stamp(self.known_at)

    @property
    def forecasters(self) -> list[str]:
        """Names of the forecasters in the order of the leaderboard: ranked, best first, then unranked by name."""
        return self.leaderboard.sort("rank", "forecaster", nulls_last=True)["forecaster"].to_list()


def read_inputs(warehouse: Path | str, release: str) -> ReportInputs:
    """Read the tables of a release from a published warehouse, without recipe and configurations (see `add_registry`).

    Raises `LakeError` if the warehouse is missing, `ConfigError` if it has no leaderboard of the release.
    """
    from bellwether.lake.warehouse import query

    releases = query(warehouse, "SELECT DISTINCT release FROM benchmark.leaderboard ORDER BY release")["release"].to_list()
    if release not in releases:
        raise ConfigError(f"writing a report: the warehouse has no leaderboard of the release {release!r}; {suggestion(release, releases)}")
    frames: dict[str, Any] = {
        name: query(warehouse, f"FROM {table.group}.{table.short_name} WHERE release = $release", {"release": release}).cast(table.schema)
        for name, table in TABLES.items()
    }
    return ReportInputs(**frames)


def add_registry(inputs: ReportInputs) -> ReportInputs:
    """Add the release's recipe and the forecasters' configurations from the current registry to `inputs`; what is not registered is left
    out.
    """
    entries = registry.forecasters()
    recipe = release(inputs.release) if ReleaseName.parse(inputs.release).base in releases() else None
    return replace(
        inputs,
        recipe={} if recipe is None else recipe.model_dump(mode="json") | {"rules": recipe.version},
        configurations={name: configuration(entries[name]) for name in inputs.forecasters if name in entries},
    )


def configuration(entry: Any) -> dict[str, Any]:
    """Convert a forecaster's registry entry to values for JSON: kind, version and, for a model, its description and parameters or settings."""
    fields = entry if isinstance(entry, BaseModel) else entry.model
    return {"kind": entry.kind, "version": entry.version, **fields.model_dump(mode="json")}
