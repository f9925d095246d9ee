"""Posts of Metaculus's interface, and reports of bots on them."""

from __future__ import annotations

from typing import Any


def post(number: int, resolution: str | None, *, crowd: float | None = None, kind: str = "binary", **changes: Any) -> dict[str, Any]:
    """Return a post. crowd: prediction of the community from the opening on; half of it in the last hours."""
    stated = (
        []
        if crowd is None
        else [{"start_time": 1_767_225_600.0, "centers": [crowd]}, {"start_time": 1_769_896_800.0, "centers": [crowd / 2]}]
    )
    return {
        "id": number,
        "projects": {"default_project": {"id": 1}, "category": [{"id": 1, "name": "Politics", "slug": "politics"}]},
        "question": {
            "id": 1000 + number,
            "title": f"Will {number} happen?",
            "type": kind,
            "description": "Background.",
            "resolution_criteria": "As its page says.",
            "fine_print": "",
            "open_time": "2026-01-01T00:00:00Z",
            "scheduled_close_time": "2026-02-05T00:00:00Z",
            "actual_close_time": "2026-02-01T00:00:00Z",
            "scheduled_resolve_time": "2026-02-05T00:00:00Z",
            "actual_resolve_time": "2026-02-02T00:00:00Z",
            "resolution": resolution,
            "aggregations": {"recency_weighted": {"history": stated, "latest": None}},
            **changes,
        },
    }


POSTS: list[dict[str, Any]] = [
    post(1, "yes", crowd=0.8),
    post(2, "no"),
    {"question_text": "Saved by forecasting-tools", "api_json": post(3, "no", crowd=0.2)},
    post(4, None),
    post(5, "annulled"),
    post(6, "17.5", kind="numeric"),
    post(7, "A", kind="multiple_choice"),
    post(8, None, kind="date"),
    {"id": 9, "group_of_questions": {"questions": []}},
    {"question_text": "Made by hand", "api_json": {}},
]


def report(number: int, p: Any, **question: Any) -> dict[str, Any]:
    """Return a report as forecasting-tools saves it."""
    return {
        "question": {"question_text": "?", "id_of_post": number, "id_of_question": 1000 + number, **question},
        "explanation": "# SUMMARY",
        "prediction": p,
    }
