"""Builders of small benchmark frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.tables.benchmark import FORECASTS, QUESTIONS

ASKED = datetime(2025, 9, 1, tzinfo=UTC)
ANSWERED = datetime(2025, 9, 2, tzinfo=UTC)


def questions(truths: Sequence[str], **columns: Sequence[Any]) -> pl.DataFrame:
    """Build one question per outcome (q0, q1, …), each in its own series of the category Politics unless `columns` differ."""
    rows: list[Mapping[str, Any]] = []
    for index, truth in enumerate(truths):
        row = {
            "release": "r1",
            "id": f"q{index}",
            "question": "Will it?",
            "description": "If it does.",
            "category": "Politics",
            "close_time": ASKED,
            "ground_truth": truth,
            "series_ticker": f"S{index}",
            "source": "kalshi",
            "market_id": f"M{index}",
            "event_id": f"E{index}",
            "cluster": f"kalshi:S{index}",
            "ordinal": index,
            "version": 1,
            "cutoff": ASKED,
            "known_at": ASKED,
            "rules": "1",
        }
        row |= {name: values[index] for name, values in columns.items()}
        if row.get("price_24h") is not None:
            row["price_24h"] = Decimal(str(row["price_24h"]))
        rows.append(row)
    return QUESTIONS.frame(rows)


def forecasts(p: Sequence[float | None], *, forecaster: str = "f", **columns: Sequence[Any]) -> pl.DataFrame:
    """Build one forecast per question q0, q1, … None is a failed forecast."""
    rows: list[Mapping[str, Any]] = []
    for index, value in enumerate(p):
        row = {
            "release": "r1",
            "forecaster": forecaster,
            "question_id": f"q{index}",
            "sample": 0,
            "p_yes": value,
            "error": "timeout" if value is None else None,
            "failure": "timeout" if value is None else None,
            "could_know": False,
            "known_at": ANSWERED,
            "rules": "1",
        }
        rows.append(row | {name: values[index] for name, values in columns.items()})
    return FORECASTS.frame(rows)
