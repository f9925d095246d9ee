"""Two resolved events of Prophet Arena, and forecasts of two agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

EVENTS: list[dict[str, Any]] = [
    {
        "slug": "rate",
        "title": "What will the rate be?",
        "category": "Economics",
        "criteria": None,
        "mutually_exclusive": True,
        "close_at": "2026-06-01T00:00:00Z",
        "outcomes": [{"name": "Up", "resolution": "yes"}, {"name": "Flat", "resolution": "no"}, {"name": "Down", "resolution": "void"}],
        "windows": [
            {
                "round": 1,
                "taken_at": "2026-04-20T00:00:00Z",
                "closes_at": "2026-05-01T00:00:00Z",
                "crowd": {"Up": 0.6, "Flat": 0.3},
                "context": [],
            },
            {"round": 2, "taken_at": "2026-05-01T00:00:00Z", "closes_at": "2026-05-02T06:00:00Z", "crowd": {"Flat": 0.2}, "context": []},
        ],
    },
    {
        "slug": "game",
        "category": "Sports",
        "close_at": "2026-06-01T00:00:00Z",
        "outcomes": [{"name": "Home", "resolution": "no"}, {"name": "Away", "resolution": "yes"}],
        "windows": [
            {"round": 1, "taken_at": "2026-05-01T00:00:00Z", "closes_at": "2026-05-20T00:00:00Z", "crowd": {"Home": 0.7, "Away": 0.31}}
        ],
    },
]
ANSWERS: list[dict[str, Any]] = [
    {"agent": "a", "event": "rate", "window": 1, "probabilities": {"Up": 0.7, "Flat": 0.3, "Down": 0.1}},
    {"agent": "a", "event": "rate", "window": 2, "probabilities": {"UP": 0.8, "flat": 0.1, "Down": 0.1}},
    {"agent": "a", "event": "game", "window": 1, "probabilities": {"Home": 0.2, "Away": 0.9}},
    {"agent": "b", "event": "game", "window": 1, "probabilities": {"Home": 1.0, "Away": 0.0}},
]


def write(path: Path, rows: list[Any]) -> Path:
    """Write rows as lines of JSON."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
