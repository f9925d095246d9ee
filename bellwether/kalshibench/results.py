"""Reader of KalshiBench results in a folder and its subfolders: one JSON file per model, and summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from bellwether.calibration.compat import Number
from bellwether.errors import ConfigError
from bellwether.kalshibench.documents import Document, read_document

#: Beginnings of the names of files without predictions.
_BESIDE = ("summary_", "metadata_", "dataset_analysis_", "run_config")

#: Name of the benchmark in Bellwether's own result files; KalshiBench's result files have none.
OURS = "Bellwether"

#: Fields of a result file that are not metrics.
_NO_METRIC = {
    "model_name",
    "model_config",
    "timestamp",
    "predictions",
    "reliability_diagram",
    "per_category",
    "confusion_matrix",
    "repaired",
}

_BIN_FIELDS = ("avg_confidence", "avg_accuracy", "count")
_CATEGORY_FIELDS = ("accuracy", "brier_score", "count")

_PREDICTION = {
    "question_id": pl.String(),
    "predicted_answer": pl.String(),
    "p_yes": pl.Float64(),
    "raw_output": pl.String(),
    "error": pl.String(),
    "latency_ms": pl.Float64(),
    "input_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
    "ground_truth": pl.String(),
    "category": pl.String(),
    "cluster": pl.String(),
}


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """Contents of one result file.

    name: display name of the model, unique in the folder. source: path of the file, relative to the folder.
    published: every number of the file, under the names of `compat.Published.flat`.
    predictions: one row per entry, in the order of the file: question_id, predicted_answer (yes, no, null), p_yes (as stored, null without an answer),
    raw_output, error, latency_ms, input_tokens, output_tokens, and ground_truth, category and cluster if the file contains them.
    prices: dollars per million tokens of input and output, if the file states them.
    is_ours: Bellwether wrote the file, so its numbers are strict and its probabilities have one meaning.
    """

    name: str
    source: str
    timestamp: str
    published: Mapping[str, Number]
    predictions: pl.DataFrame
    prices: tuple[float, float] | None = None
    knowledge_cutoff: str | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Contents of a results folder: models in the order of their files, numbers of summaries, and skipped files.

    summaries: (model, source, numbers) for each model in a summary file. left_out: one sentence per file that was not used. damaged: one
    sentence per file that could not be read, with the fault.
    """

    folder: Path
    models: Sequence[ModelResult]
    summaries: Sequence[tuple[str, str, Mapping[str, Number]]] = ()
    left_out: Sequence[str] = ()
    damaged: Sequence[str] = ()

    def names(self) -> list[str]:
        """Return the names of the models."""
        return [model.name for model in self.models]


@dataclass(slots=True)
class _ResultsReader:
    """Reader that collects the contents of several result files."""

    models: list[ModelResult] = field(default_factory=list)
    summaries: list[tuple[str, str, Mapping[str, Number]]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    def add(self, path: Path, name: str) -> None:
        """Read one file. If it is invalid, the error is recorded in `damaged`."""
        try:
            document = read_document(path, name)
            if path.name.startswith("summary_"):
                self.summaries += list(_summary(document))
            elif path.name.startswith(_BESIDE):
                pass
            elif document.fields.get("predictions"):
                self.models.append(_model(document))
            else:
                self.left_out.append(f"{name} is passed over: it holds no prediction")
        except ConfigError as error:
            self.damaged.append(str(error))


def read_results(path: Path | str) -> Results:
    """Read the results of KalshiBench or Bellwether in a folder with its subfolders, or in a single file.

    A file with predictions is a model's result; if a folder has several of one model, the newest is used. Invalid files are skipped and listed in
    `Results.damaged`. Raises `ConfigError` if the path does not exist or has no readable result file.
    """
    root = Path(path)
    if not root.exists():
        raise ConfigError(f"reading KalshiBench results: there is no {root}; give a folder of result files or one of them")
    reading = _ResultsReader()
    for file in sorted(filter(Path.is_file, root.rglob("*.json"))) if root.is_dir() else [root]:
        reading.add(file, str(file.relative_to(root)) if root.is_dir() else file.name)
    if not reading.models:
        damage = f"; {len(reading.damaged)} could not be read, first: {reading.damaged[0]}" if reading.damaged else ""
        raise ConfigError(
            f"reading KalshiBench results: {root} {'holds' if root.is_dir() else 'is'} no result file "
            f"(JSON with model_name and predictions){damage or '; give another path'}"
        )
    newest, older = _newest(reading.models)
    distinct = _distinct(newest)
    names = {(_folder_of(model.source), model.name): renamed.name for model, renamed in zip(newest, distinct, strict=True)}
    summaries = [(names.get((_folder_of(source), name), name), source, numbers) for name, source, numbers in reading.summaries]
    return Results(root, distinct, summaries, [*reading.left_out, *older], reading.damaged)


def _model(document: Document) -> ModelResult:
    config = document.mapping("model_config", {})
    prices = tuple(config.number(f"price_per_1m_{side}", None) for side in ("input", "output"))
    return ModelResult(
        name=document.text("model_name"),
        source=document.name,
        timestamp=document.text("timestamp", ""),
        published=dict(_published(document)),
        predictions=_predictions(document),
        prices=None if None in prices else (float(prices[0] or 0), float(prices[1] or 0)),
        knowledge_cutoff=config.text("knowledge_cutoff", "") or None,
        is_ours=document.fields.get("benchmark") == OURS,
    )


def _published(document: Document) -> Iterator[tuple[str, Number]]:
    """Yield (name, number) for every published number of a result file, under the names of `compat.Published.flat`."""
    for name, value in document.fields.items():
        if name not in _NO_METRIC and _is_number(value):
            yield name, document.number(name, None)
    confusion = document.mapping("confusion_matrix", {})
    for name in confusion.fields:
        yield name, confusion.number(name)
    for row in document.rows("reliability_diagram", []):
        label = row.text("bin")
        for name in _BIN_FIELDS:
            yield f"reliability[{label}].{name}", row.number(name)
    categories = document.mapping("per_category", {})
    for category in categories.fields:
        row = categories.mapping(category)
        for name in _CATEGORY_FIELDS:
            yield f"category[{category}].{name}", row.number(name)


def _is_number(value: Any) -> bool:
    """Return True if a field's value can be a metric: a number, or null for an undefined metric."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _predictions(document: Document) -> pl.DataFrame:
    rows = []
    for row in document.rows("predictions"):
        answer = row.choice("predicted_answer", ("yes", "no"))
        p_yes = row.probability("predicted_probability")
        if answer is not None and p_yes is None:
            raise row.broken("predicted_probability", "an answered entry has a probability in [0, 1]")
        rows.append(
            {
                "question_id": row.text("question_id"),
                "predicted_answer": answer,
                "p_yes": None if answer is None else p_yes,
                "ground_truth": row.choice("ground_truth", ("yes", "no")),
                **{name: row.optional_text(name) for name in ("raw_output", "error", "category", "cluster")},
                "latency_ms": row.number("latency_ms", None),
                **{name: row.count(name) for name in ("input_tokens", "output_tokens")},
            }
        )
    return pl.DataFrame(rows, schema=_PREDICTION)


def _summary(document: Document) -> Iterator[tuple[str, str, Mapping[str, Number]]]:
    """Yield (model, file, numbers) for each model in a summary file."""
    models = document.mapping("models", {})
    for model in models.fields:
        row = models.mapping(model)
        numbers = {name: row.number(name, None) for name, value in row.fields.items() if name not in _NO_METRIC and _is_number(value)}
        yield model, document.name, numbers


def _newest(models: Sequence[ModelResult]) -> tuple[list[ModelResult], list[str]]:
    newest: dict[tuple[str, str], ModelResult] = {}
    left_out = []
    for model in models:
        key = (_folder_of(model.source), model.name)
        other = newest.get(key)
        if other is not None:
            older, newer = sorted((other, model), key=lambda result: (result.timestamp, result.source))
            left_out.append(f"{older.source} is passed over: {newer.source} is a newer result of {model.name}")
            model = newer  # noqa: PLW2901
        newest[key] = model
    return list(newest.values()), left_out


def _distinct(models: Sequence[ModelResult]) -> list[ModelResult]:
    """Add the folder to the names of models that occur in several folders."""
    names = [model.name for model in models]
    return [
        model if names.count(model.name) == 1 else replace(model, name=f"{model.name} ({_folder_of(model.source)})") for model in models
    ]


def _folder_of(source: str) -> str:
    return str(Path(source).parent)
