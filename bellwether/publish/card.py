"""The card of a published release: what Hugging Face reads of it, and what a person should know before using it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bellwether.formatting import number, percent
from bellwether.questions.digest import digest
from bellwether.questions.release import Release
from bellwether.report import markdown
from bellwether.settings import World
from bellwether.tables.benchmark import HORIZONS, QUESTIONS

CARD = "README.md"
DATA = "data/test-00000-of-00001.parquet"
#: What every card of ours holds, so that only an earlier export is ever replaced.
MARK = "<!-- bellwether-release -->"

#: Names of dtypes in the Hub's language.
_FEATURES: Mapping[pl.DataType, str] = {
    pl.String(): "string",
    pl.Float64(): "float64",
    pl.Int32(): "int32",
    pl.Int64(): "int64",
    pl.Datetime("us", "UTC"): "timestamp[us, tz=UTC]",
}
#: The Hub's size classes: fewer rows than this.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"))
_DAY = "%Y-%m-%d"

_WORLDS = {
    World.SANDBOX: "**Generated.** The questions come from Bellwether's sandbox: events, prices and outcomes are drawn from a seed and are about nothing real.",
    World.PLAYBACK: "**Recorded.** The questions come from recordings of the venues' interfaces.",
    World.LIVE: "The questions come from the venues' public interfaces.",
}


def is_export(folder: Path) -> bool:
    """Whether a folder is an exported release."""
    written = folder / CARD
    return (folder / DATA).is_file() and written.is_file() and MARK in written.read_text(encoding="utf-8", errors="replace")


def card(questions: pl.DataFrame, schema: pl.Schema, *, world: World, recipe: Release | None, license_id: str) -> str:
    """The card in Markdown with its YAML header.

    questions: rows of benchmark/questions of one release. schema: of the published file. recipe: described where it made these questions.
    """
    return "\n".join([*_header(questions, schema, license_id), "", MARK, "", *_text(questions, schema, world, recipe)])


# --- for the Hub -------------------------------------------------------------------------------------------------------


def _header(questions: pl.DataFrame, schema: pl.Schema, license_id: str) -> list[str]:
    size = next((name for limit, name in _SIZES if questions.height < limit), "100K<n<1M")
    features = [line for name, dtype in schema.items() for line in (f"  - name: {name}", f"    dtype: {json.dumps(_FEATURES[dtype])}")]
    return [
        "---",
        f"license: {license_id}",
        "language:",
        "- en",
        f"pretty_name: {json.dumps('Bellwether ' + questions['release'][0])}",
        "task_categories:",
        "- text-classification",
        "size_categories:",
        f"- {size}",
        "tags:",
        "- forecasting",
        "- calibration",
        "- prediction-markets",
        "configs:",
        "- config_name: default",
        "  data_files:",
        "  - split: test",
        "    path: data/test-*",
        "dataset_info:",
        "  features:",
        *features,
        "  splits:",
        "  - name: test",
        f"    num_examples: {questions.height}",
        "---",
    ]


# --- for people --------------------------------------------------------------------------------------------------------


def _text(questions: pl.DataFrame, schema: pl.Schema, world: World, recipe: Release | None) -> list[str]:
    name, rules = questions["release"][0], questions["rules"][0]
    first, last = sorted(questions["close_time"])[0], sorted(questions["close_time"])[-1]
    known = sorted(questions["known_at"])[-1]
    made = recipe if recipe is not None and recipe.version == rules else None
    return [
        f"# {markdown.text('Bellwether ' + name)}",
        "",
        f"{questions.height:,} settled yes-or-no questions of prediction markets with their outcomes, to measure how well forecasts are calibrated.",
        "",
        _WORLDS[world],
        "",
        "## Use",
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'questions = load_dataset("this/folder", split="test")  # or its name on the Hub',
        "```",
        "",
        f"or, without a further package, `polars.read_parquet({json.dumps(DATA)})`.",
        "",
        "## How it was made",
        "",
        f"- Cutoff: every question closed and settled after {questions['cutoff'][0]:%Y-%m-%d %H:%M} UTC.",
        f"- Closes: {first:{_DAY}} to {last:{_DAY}} (UTC). The newest fact in the data became known at {known:%Y-%m-%d %H:%M} UTC.",
        f"- Version {questions['version'][0]} of the release. SHA-256 of its questions: `{digest(questions)}`.",
        f"- Version of the rules and of the recipe: `{markdown.text(rules)}`. Other questions have another version.",
        *_recipe(made),
        "- A market becomes a question when it is binary, settled as yes or no, and has a question and criteria to resolve it by. `ordinal` is the",
        "  order in which the questions were drawn: a smaller sample is the beginning of a larger one.",
        "",
        "## What is in it",
        "",
        *_counts(questions),
        *_categories(questions),
        "## Columns",
        "",
        *_columns(schema),
        "## Before you use it",
        "",
        "- **`market_probability` is the final price.** It is known after the fact and often is the outcome. It is not a forecast and no baseline;",
        "  `price_1h` to `price_7d` are the market's prices at fixed horizons before the close, each with its instant.",
        "- **A model may know the answers.** Compare `close_time` and `settled_at` with the end of its training data, and leave out what it could have",
        "  read; `open_time` after that end is the strictest test. An answer is often known before the market closes.",
        "- Questions of one series or event are not independent: resample whole clusters (`cluster`) for intervals.",
        "- Show a model the question and its description, and a date before the close; never the close, the settlement, a later price or the outcome.",
        "- Questions and descriptions are the venues' texts, unchanged but for their length. They are data: do not follow instructions in them.",
        "",
    ]


def _recipe(made: Release | None) -> list[str]:
    if made is None:
        return []
    drawn = f"at most {made.sample_size} questions" if made.sample_size else "all eligible questions"
    series = f", at most {made.per_series} per series" if made.per_series else ""
    until = f", settled until {made.until:{_DAY}}" if made.until else ""
    strict = ", opened after the cutoff too" if made.require_open_after_cutoff else ""
    return [f"- Recipe: {drawn}{series}{until}{strict}; drawn by the seed {made.seed}."]


def _counts(questions: pl.DataFrame) -> list[str]:
    horizons = [
        (f"with a market price {name} before the close", percent(1 - questions[f"price_{name}"].null_count() / questions.height))
        for name in HORIZONS
    ]
    return markdown.table(
        ("", "value"),
        [
            ("questions", number(questions.height)),
            ("answered yes", percent((questions["ground_truth"] == "yes").mean())),  # type: ignore[arg-type]
            ("series", number(questions["series_ticker"].n_unique())),
            ("events", number(questions["event_id"].n_unique())),
            ("clusters", number(questions["cluster"].n_unique())),
            *horizons,
        ],
    )


def _categories(questions: pl.DataFrame) -> list[str]:
    counted = (
        questions.group_by("source", "category")
        .agg(n=pl.len(), yes=(pl.col("ground_truth") == "yes").mean())
        .sort("n", "source", "category", descending=[True, False, False])
    )
    rows = [
        (f"{markdown.text(row['category'])} ({markdown.text(row['source'])})", number(row["n"]), percent(row["yes"]))
        for row in counted.iter_rows(named=True)
    ]
    return markdown.table(("category (venue)", "questions", "yes"), rows)


def _columns(schema: pl.Schema) -> list[str]:
    described = {column.name: column for column in QUESTIONS.columns}
    return [f"- `{name}` ({_FEATURES[dtype]}): {described[name].description}" for name, dtype in schema.items()] + [""]
