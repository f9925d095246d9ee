"""Export of a release as a folder that the library `datasets` of Hugging Face can load: Parquet, a dataset card and Croissant metadata."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bellwether.calibration.answers import Answers
from bellwether.errors import ConfigError
from bellwether.files import atomic_folder
from bellwether.places import is_stored, place
from bellwether.publish.card import CARD, DATA, FORECASTS, SCORES, Part, card, citation, is_export, resolve_license
from bellwether.publish.croissant import CROISSANT, EVAL_RESULTS, croissant, eval_results
from bellwether.questions.release import Release
from bellwether.settings import World
from bellwether.tables import Table, benchmark
from bellwether.tables.benchmark import HORIZONS, QUESTIONS

#: Columns of a KalshiBench dataset, in its order; additional columns follow.
SHARED = ("id", "question", "description", "category", "close_time", "ground_truth", "market_probability", "series_ticker", "source")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_PRICES = tuple(f"{column}_{name}" for column in ("price", "bid", "ask") for name in HORIZONS)
#: Columns of exported forecasts, by the names that `bellwether score` reads.
_FORECASTS = {
    "forecaster": "name of the forecaster",
    "question_id": "id of the question",
    "probability": "forecast probability of yes that counts, samples combined; null if missing or if the outcome could be known",
    "outcome": "outcome of the question, yes or no",
    "cluster": "unit of resampling for intervals",
    "market_price": "latest market price at as_of; null without one",
    "as_of": "time up to which information was used; null without a forecast",
    "could_know": "whether the forecaster may have known the outcome, so that the forecast does not count",
}


@dataclass(frozen=True, slots=True)
class ExportedDataset:
    """Folder with an exported release. rows: number of questions."""

    folder: Path
    release: str
    rows: int


def export(
    questions: pl.DataFrame,
    folder: Path | str,
    *,
    forecasts: pl.DataFrame | None = None,
    scores: pl.DataFrame | None = None,
    world: World,
    recipe: Release | None = None,
    license_id: str | None = None,
    repository: str | None = None,
) -> ExportedDataset:
    """Write one release to `folder`. The same rows give the same files; the folder is replaced as a whole.

    questions: rows of benchmark/questions, of one release. forecasts, scores: its rows of these tables, both or neither. world: their origin, stated
    on the card. recipe: the release's entry in the registry, described on the card if it made these questions. license_id: in the Hub's spelling, by
    default that of their origin, or mit. repository: dataset of the Hub, OWNER/NAME, for the metadata; by default bellwether/RELEASE.
    An existing folder is replaced if it is empty or an earlier export. Raises `SchemaError` for rows of another shape, `ConfigError` for no
    or several releases, an invalid licence and a folder with other contents, and `BellwetherError` if the folder cannot be written.
    """
    questions = QUESTIONS.validate(questions).sort("ordinal")
    names = questions["release"].unique().to_list()
    if len(names) != 1:
        raise ConfigError(f"exporting questions: they are of {len(names)} releases; give the questions of exactly one")
    license_id = resolve_license(questions, license_id)
    if not _LICENSE.fullmatch(license_id):
        raise ConfigError(f"exporting {names[0]}: the licence {license_id!r} is not an identifier of the Hub; use mit, cc-by-4.0, other, …")
    rows = dataset_rows(questions)
    parts = [Part("questions", DATA, rows, _describe_columns(QUESTIONS))]
    if forecasts is not None and scores is not None and not forecasts.is_empty():
        parts.append(Part("forecasts", FORECASTS, forecast_rows(forecasts, questions), _FORECASTS))
        sorted_scores = benchmark.SCORES.validate(scores).sort(benchmark.SCORES.order)
        parts.append(Part("scores", SCORES, sorted_scores, _describe_columns(benchmark.SCORES)))
    dataset = repository or f"bellwether/{names[0]}"
    target = place(folder)
    target = target if is_stored(target) else target.expanduser().absolute()
    _require_replaceable(target)
    with atomic_folder(target, CARD) as draft:
        texts = {CARD: card(questions, parts, world=world, recipe=recipe, license_id=license_id)}
        for part in parts:
            (draft / part.file).parent.mkdir(parents=True)
            part.rows.write_parquet(draft / part.file, compression="zstd", statistics=True)
        url = f"https://huggingface.co/datasets/{dataset}"
        texts[CROISSANT] = croissant(parts, draft, citation=citation(questions), license_id=license_id, url=url)
        if len(parts) > 1:
            (draft / EVAL_RESULTS).mkdir()
            texts |= {f"{EVAL_RESULTS}/{name}": text for name, text in eval_results(parts[-1].rows, dataset).items()}
        for name, text in texts.items():
            (draft / name).write_text(text, encoding="utf-8")
    return ExportedDataset(target, names[0], rows.height)


def _describe_columns(table: Table) -> dict[str, str]:
    return {column.name: column.description for column in table.columns}


def forecast_rows(forecasts: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Convert rows of benchmark/forecasts for export: one row per forecaster and question, also without a forecast, in the release's order."""
    answers = Answers.of(forecasts, questions)
    facts = questions.select("id", "cluster", outcome="ground_truth")
    counts = pl.when(~pl.col("could_know")).then("p")
    return pl.concat(
        answers.sheet(name)
        .drop("cluster")
        .join(facts, on="id", how="left", maintain_order="left")
        .select(
            pl.lit(name).alias("forecaster"),
            pl.col("id").alias("question_id"),
            counts.alias("probability"),
            "outcome",
            "cluster",
            pl.col("market").alias("market_price"),
            "as_of",
            "could_know",
        )
        for name in answers.names
    )


def dataset_rows(questions: pl.DataFrame) -> pl.DataFrame:
    """Convert rows of benchmark/questions for export: the columns of KalshiBench come first, close times become text, prices become floats."""
    closes = pl.col("close_time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    others = [name for name in QUESTIONS.names if name not in SHARED]
    return questions.with_columns(closes, pl.col(_PRICES).cast(pl.Float64)).select(*SHARED, *others)


def _require_replaceable(target: Path) -> None:
    """Raise `ConfigError` unless the target is missing, an empty folder, or an earlier export."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ConfigError(f"exporting to {target}: it is a file; name a folder")
    try:
        is_ours = not any(target.iterdir()) or is_export(target)
    except OSError as error:
        raise ConfigError(f"exporting to {target}: the folder cannot be read ({error.strerror}); name another") from None
    if not is_ours:
        raise ConfigError(f"exporting to {target}: the folder contains something that is no earlier export; name another, or empty it")
