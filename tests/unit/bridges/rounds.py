"""A small round of ForecastBench: two market questions, of which one is open, a dataset question with two dates, another with one, and a combination."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DUE = "2025-10-26"


def question(source: str, name: str, **changes: Any) -> dict[str, Any]:
    """Return a question of a question set."""
    is_market = source in {"manifold", "polymarket"}
    return {
        "id": name,
        "source": source,
        "question": f"Will {name} happen?" if is_market else f"Will {name} rise from {{forecast_due_date}} to {{resolution_date}}?",
        "resolution_criteria": "By its page.",
        "background": "N/A",
        "market_info_resolution_criteria": "N/A",
        "freeze_datetime": "2025-10-16T00:00:00+00:00",
        "freeze_datetime_value": "0.7565624485542961" if is_market else "5.23",
        "resolution_dates": "N/A" if is_market else ["2025-11-02", "2025-11-25"],
        **changes,
    }


def question_set(**changes: Any) -> dict[str, Any]:
    """Return a question set."""
    return {
        "forecast_due_date": DUE,
        "question_set": f"{DUE}-llm.json",
        "questions": [
            question("manifold", "m1"),
            question("polymarket", "0x2"),
            question("fred", "DTB3"),
            question("acled", "a", resolution_dates=["2025-11-02"]),
            {"id": ["DTB3", "a"], "source": "fred"},
        ],
        **changes,
    }


def resolution(source: str, name: str, day: str, value: float, *, resolved: bool = True) -> dict[str, Any]:
    """Return a row of a resolution set."""
    return {"id": name, "source": source, "direction": None, "resolution_date": day, "resolved_to": value, "resolved": resolved}


def resolution_set(**changes: Any) -> dict[str, Any]:
    """Return a resolution set."""
    return {
        "forecast_due_date": DUE,
        "question_set": f"{DUE}-llm.json",
        "resolutions": [
            resolution("manifold", "m1", "2025-12-31", 1.0),
            resolution("polymarket", "0x2", "2026-08-19", 0.3, resolved=False),
            resolution("fred", "DTB3", "2025-11-25", 1.0),
            resolution("fred", "DTB3", "2025-11-02", 0.0),
            resolution("acled", "a", "2025-11-02", 0.0),
            {"id": ["DTB3", "a"], "source": "fred", "direction": [1, -1]},
        ],
        **changes,
    }


def forecast(source: str, name: str, p: float, day: str | None = None) -> dict[str, Any]:
    """Return a row of a forecast set."""
    return {"id": name, "source": source, "forecast": p, "resolution_date": day, "reasoning": None}


def forecast_set(**changes: Any) -> dict[str, Any]:
    """Return a forecast set with all forecasts of the round."""
    return {
        "organization": "me",
        "model": "mine",
        "model_organization": "me",
        "question_set": f"{DUE}-llm.json",
        "forecast_due_date": DUE,
        "forecasts": [
            forecast("manifold", "m1", 0.8),
            forecast("polymarket", "0x2", 0.4),
            forecast("fred", "DTB3", 0.1, "2025-11-02"),
            forecast("fred", "DTB3", 0.7, "2025-11-25"),
            forecast("acled", "a", 0.2, "2025-11-02"),
        ],
        **changes,
    }


def write(path: Path, document: Any) -> Path:
    """Write a document as JSON."""
    path.write_text(json.dumps(document))
    return path
