"""Forecasts of three forecasters on the same questions, and functions that write them to files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.errors import ScoringError
from bellwether.scoring import ScoreResult, score

Row = Mapping[str, Any]
Write = Callable[[str, Sequence[Row]], Path]


def _rows() -> list[dict[str, Any]]:
    """Return 60 questions in 15 unequal series over 12 days, with the probabilities of two models and the market. One model lacks seven
    questions.
    """
    generator = np.random.default_rng(7)
    series = np.sort(generator.integers(0, 15, 60))
    rows = []
    for index in range(60):
        truth = generator.random()
        outcome = int(generator.random() < truth)
        market, sharp, blunt = (round(float(np.clip(truth + generator.normal(0, noise), 0.01, 0.99)), 3) for noise in (0.05, 0.1, 0.3))
        question = {"question_id": f"q{index}", "series": f"s{series[index]}", "day": f"d{index % 12}", "category": "ABC"[index % 3]}
        shared = {"outcome": outcome, "weight": float(1 + index % 4), "market_price": market}
        rows.append({**question, "model": "sharp", "probability": sharp, **shared})
        if index % 9:
            rows.append({**question, "model": "blunt", "probability": blunt, **shared})
    return rows


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """One row per forecaster and question."""
    return _rows()


def _text(rows: Sequence[Row], delimiter: str) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows to a file in the format of its name, and return the path."""

    def as_file(name: str, rows: Sequence[Row]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = name.removesuffix(".gz")
        if plain.endswith(".parquet"):
            pl.DataFrame(list(rows)).write_parquet(path)
            return path
        if plain.endswith((".csv", ".tsv")):
            text = _text(rows, "\t" if plain.endswith(".tsv") else ",")
        elif plain.endswith(".json"):
            text = json.dumps(list(rows))
        else:
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return as_file


@pytest.fixture
def simple() -> list[dict[str, Any]]:
    """Twelve forecasts of one forecaster in six clusters."""
    return [
        {"question_id": f"q{index}", "series": f"s{index // 2}", "p": round(0.1 * (index % 9) + 0.05, 2), "outcome": index % 2}
        for index in range(12)
    ]


def scored(data: Any, **options: Any) -> ScoreResult:
    """Score without simulated distributions."""
    return score(data, replicates=0, **options)


def refusal(data: Any, **options: Any) -> str:
    """Return the message that refuses the data."""
    with pytest.raises(ScoringError) as error:
        scored(data, **options)
    return str(error.value)
