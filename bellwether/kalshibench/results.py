"""Reader of KalshiBench's result files: one JSON file per model, and summaries of several models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from bellwether.errors import ConfigError
from bellwether.kalshibench.metrics import Number

#: Characters of a value that a message shows.
_SHOWN = 80

_SCHEMA = {
    "question_id": pl.String(),
    "predicted_answer": pl.String(),
    "p_yes": pl.Float64(),
    "latency_ms": pl.Float64(),
    "input_tokens": pl.Int64(),
    "output_tokens": pl.Int64(),
}

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """Contents of the result file of one model.

    name: display name of the model. source: path of the file, relative to the folder.
    published: numbers of the file, under the names of `metrics.recompute`.
    predictions: one row per entry, in the order of the file: question_id, predicted_answer (yes, no or null), p_yes (as stored), latency_ms,
    input_tokens and output_tokens.
    prices: dollars per million tokens of input and output, if the file states them.
    """

    name: str
    source: str
    timestamp: str
    published: Mapping[str, Number]
    predictions: pl.DataFrame
    prices: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Numbers of one model in a summary file. source: path of the file, relative to the folder."""

    name: str
    source: str
    published: Mapping[str, Number]


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """Result files and summaries of a folder, in the order of their paths."""

    models: Sequence[ModelResult]
    summaries: Sequence[Summary]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Prediction(_Part):
    question_id: str = Field(min_length=1)
    predicted_answer: Literal["yes", "no"] | None = None
    predicted_probability: Probability | None = None
    latency_ms: float | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class _Bin(_Part):
    bin: str
    avg_confidence: float
    avg_accuracy: float
    count: Count


class _Category(_Part):
    accuracy: float
    brier_score: float
    count: Count


class _Model(_Part):
    price_per_1m_input: float | None = None
    price_per_1m_output: float | None = None


class _ResultFile(_Part):
    name: str = Field(alias="model_name", min_length=1)
    model: _Model = Field(_Model(), alias="model_config")
    timestamp: str = ""
    reliability_diagram: list[_Bin] = []
    per_category: dict[str, _Category] = {}
    confusion_matrix: dict[str, Count] = {}
    predictions: list[_Prediction]


class _SummaryFile(_Part):
    models: dict[str, dict[str, Any]]


_NUMBERS = TypeAdapter(dict[str, FiniteFloat | None])


def read_results(path: Path | str) -> Results:
    """Read the result files and summaries in a folder with its subfolders, or a single result file. JSON files without predictions are
    passed over.

    Raises `ConfigError` if the path has no result file, or if a file is invalid; the message names file, field and value.
    """
    root = Path(path)
    if not root.exists():
        raise ConfigError(f"reading KalshiBench results: there is no {root}; give a folder of result files or one of them")
    models, summaries = [], []
    for file in sorted(root.rglob("*.json")) if root.is_dir() else [root]:
        name = file.relative_to(root).as_posix() if root.is_dir() else file.name
        document = _load(file, name)
        try:
            if file.name.startswith("summary_"):
                rows = _SummaryFile.model_validate(document).models
                summaries += [Summary(model, name, _read_numbers(row)) for model, row in rows.items()]
            elif document.get("predictions"):
                models.append(_read_model(document, name))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            shown = json.dumps(first["input"], default=str)[:_SHOWN]
            raise ConfigError(f"reading {name}: {field} is {shown}: {first['msg']}; correct the file") from None
    if not models:
        raise ConfigError(f"reading KalshiBench results: {root} has no JSON file with model_name and predictions; give another path")
    return Results(models, summaries)


def _load(file: Path, name: str) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"reading {name}: it cannot be read as JSON: {error}; repair or remove the file") from None
    if not isinstance(document, dict):
        raise ConfigError(f"reading {name}: it has no JSON object; repair or remove the file")
    return document


def _read_model(document: Mapping[str, Any], name: str) -> ModelResult:
    if document.get("benchmark") == "Bellwether":
        raise ConfigError(f"reading {name}: it is a report of Bellwether, whose metrics have other definitions; give files of KalshiBench")
    file = _ResultFile.model_validate(document)
    published: dict[str, Number] = {**_read_numbers(document), **file.confusion_matrix}
    for row in file.reliability_diagram:
        published |= {f"reliability[{row.bin}].{field}": value for field, value in row.model_dump(exclude={"bin"}).items()}
    for category, scores in file.per_category.items():
        published |= {f"category[{category}].{field}": value for field, value in scores.model_dump().items()}
    rows = []
    for index, entry in enumerate(file.predictions):
        if entry.predicted_answer is not None and entry.predicted_probability is None:
            raise ConfigError(f"reading {name}: predictions.{index}.predicted_probability is null: an answer needs one; correct the file")
        rows.append(entry.model_dump() | {"p_yes": entry.predicted_probability})
    prices = file.model.price_per_1m_input, file.model.price_per_1m_output
    return ModelResult(
        name=file.name,
        source=name,
        timestamp=file.timestamp,
        published=published,
        predictions=pl.DataFrame(rows, schema=_SCHEMA),
        prices=None if prices[0] is None or prices[1] is None else (prices[0], prices[1]),
    )


def _read_numbers(fields: Mapping[str, Any]) -> dict[str, Number]:
    """Return the fields with a number, or with null for an undefined metric."""
    return {
        **_NUMBERS.validate_python(
            {
                name: value
                for name, value in fields.items()
                if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
            }
        )
    }
