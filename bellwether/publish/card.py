"""Dataset card of an exported release: metadata for the Hugging Face Hub, and notes for users."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError
from bellwether.pages.markdown import render
from bellwether.questions.release import Release, digest
from bellwether.settings import World
from bellwether.tables.benchmark import HORIZONS

CARD = "README.md"
DATA = "data/test-00000-of-00001.parquet"
FORECASTS = "forecasts/test-00000-of-00001.parquet"
SCORES = "scores/test-00000-of-00001.parquet"
#: Marker in every card, so that only earlier exports are replaced.
MARK = "<!-- bellwether-release -->"

#: Names of dtypes on the Hub.
_FEATURES: Mapping[pl.DataType, str] = {
    pl.String(): "string",
    pl.Float64(): "float64",
    pl.Int32(): "int32",
    pl.Int64(): "int64",
    pl.Boolean(): "bool",
    pl.Datetime("us", "UTC"): "timestamp[us, tz=UTC]",
}
#: The Hub's size classes by their upper limit of rows, exclusive.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_DAY = "%Y-%m-%d"

_WORLDS = {
    World.SANDBOX: "**Generated.** The questions come from Bellwether's sandbox: events, prices and outcomes are drawn from a seed and are about nothing real.",
    World.LIVE: "The questions come from the venues' public interfaces.",
}
#: Origin of imported releases by venue, and their licence if they have one.
_IMPORTED = {
    "forecastbench": (
        "The questions and outcomes are those of [ForecastBench](https://www.forecastbench.org), under CC BY-SA 4.0.",
        "cc-by-sa-4.0",
    ),
    "prophet-arena": ("The questions and outcomes are those of [Prophet Arena](https://prophetarena.co).", None),
}


def resolve_license(questions: pl.DataFrame, license_id: str | None) -> str:
    """Return the licence of an export: that of the questions' origin, else the given one, by default mit. Raises `ConfigError` if they differ."""
    required = next((_IMPORTED[venue][1] for venue in questions["source"].unique() if venue in _IMPORTED), None)
    if required and license_id not in (None, required):
        raise ConfigError(
            f"exporting {questions['release'][0]}: its texts are under {required}, which is not {license_id}; leave the licence out"
        )
    return required or license_id or "mit"


def describe_origin(questions: pl.DataFrame, world: World) -> str:
    """Describe where the questions of a release come from."""
    return next((_IMPORTED[venue][0] for venue in questions["source"].unique().sort() if venue in _IMPORTED), _WORLDS[world])


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Table of an exported dataset: the name of its configuration, its file, its rows, and the meaning of each column. The questions are first."""

    name: str
    file: str
    rows: pl.DataFrame
    columns: Mapping[str, str]


def is_export(folder: Path) -> bool:
    """Return True if a folder contains a release exported by Bellwether."""
    written = folder / CARD
    return (folder / DATA).is_file() and written.is_file() and MARK in written.read_text(encoding="utf-8", errors="replace")


def citation(questions: pl.DataFrame) -> str:
    """Return the BibTeX entry of a release. questions: its rows."""
    first = questions.row(0, named=True)
    key = "".join(character if character.isalnum() else "_" for character in first["release"])
    return f"""@misc{{bellwether_{key},
  title = {{Bellwether release {first["release"]}}},
  author = {{{{The Bellwether developers}}}},
  year = {{{max(questions["known_at"]):%Y}}},
  note = {{Version {first["version"]}, SHA-256 {digest(questions)}}}
}}"""


def card(questions: pl.DataFrame, parts: Sequence[Part], *, world: World, recipe: Release | None, license_id: str) -> str:
    """Render the dataset card (Markdown with a YAML header) of one release.

    questions: rows of benchmark/questions of one release. parts: tables of the dataset. recipe: described if it made these questions.
    """
    first, yes, closes = questions.row(0, named=True), questions["ground_truth"] == "yes", sorted(questions["close_time"])
    counted = questions.group_by("source", "category").agg(n=pl.len(), yes=(pl.col("ground_truth") == "yes").mean())
    context = {
        "license_id": license_id,
        "title": f"Bellwether {first['release']}",
        "quoted_title": json.dumps(f"Bellwether {first['release']}"),
        "size": next((name for limit, name in _SIZES if questions.height < limit), "100K<n<1M"),
        "parts": [
            {
                "name": part.name,
                "folder": part.file.partition("/")[0],
                "rows": part.rows.height,
                "bytes": part.rows.to_arrow(compat_level=pl.CompatLevel.oldest()).nbytes,
                "columns": [(name, _FEATURES[dtype], part.columns[name]) for name, dtype in part.rows.schema.items()],
            }
            for part in parts
        ],
        "citation": citation(questions),
        "rows": questions.height,
        "mark": MARK,
        "world": describe_origin(questions, world),
        "file": json.dumps(DATA),
        "cutoff": f"{first['cutoff']:%Y-%m-%d %H:%M}",
        "closes": [f"{instant:%Y-%m-%d}" for instant in (closes[0], closes[-1])],
        "known": f"{sorted(questions['known_at'])[-1]:%Y-%m-%d %H:%M}",
        "version": first["version"],
        "digest": digest(questions),
        "rules": first["rules"],
        "recipe": recipe if recipe is not None and recipe.version == first["rules"] else None,
        "yes": yes.mean(),
        "distinct": {name: questions[f"{name}"].n_unique() for name in ("series_ticker", "event_id", "cluster")},
        "priced": {name: 1 - questions[f"price_{name}"].null_count() / questions.height for name in HORIZONS},
        "categories": counted.sort("n", "source", "category", descending=[True, False, False]).to_dicts(),
    }
    return render("card.md", context)
