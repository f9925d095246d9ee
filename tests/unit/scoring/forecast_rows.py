"""Forecasts of three forecasters on the same questions, and functions that write them to files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl
import pytest

from bellwether.errors import ScoringError
from bellwether.scoring import ScoreResult, score

Row = Mapping[str, Any]

#: Names of forecasters that a terminal, a table or a browser could misinterpret.
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "[red]bold[/red]",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "=cmd|' /C calc'!A0",
    "two\nlines\r\tand a tab",
    "\u202eright to left",
    "$\\frac{1}{0}$",
    "%{customdata} {{ 7 * 7 }} {% raw %}",
    "_underscore",
    "2024-01-01",
    "'\"&amp;",
)


class Write(Protocol):
    """Writes rows to a file in a folder."""

    def __call__(self, name: str, rows: Sequence[Row]) -> Path: ...


def draw_rows() -> list[dict[str, Any]]:
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


def named(rows: Sequence[Row], names: Sequence[str], questions: int = 20) -> list[dict[str, Any]]:
    """Return forecasts of forecasters with these names on the same questions."""
    base = {row["question_id"]: row for row in rows}
    return [
        {**row, "model": name, "probability": round((row["probability"] + index / 10) % 1, 3)}
        for row in list(base.values())[:questions]
        for index, name in enumerate(names)
    ]


def _text(rows: Sequence[Row], delimiter: str) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_rows(folder: Path, name: str, rows: Sequence[Row]) -> Path:
    """Write rows to a file in the format of its name, and return the path."""
    path = folder / name
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


def simple_rows() -> list[dict[str, Any]]:
    """Return twelve forecasts of one forecaster in six clusters."""
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
