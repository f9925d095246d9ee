"""Requests and replies for tests of the journal, and a clock that they set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from bellwether.journal.journal import Attempt, Journal
from bellwether.journal.values import CostSource, Reply, Request, Usage
from bellwether.lake import Lake
from bellwether.settings import Settings
from bellwether.tables import table
from tests.rows import filled

TIMEOUT = timedelta(minutes=2)
START = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)


class Clock:
    """Clock that changes only when a test moves it."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


def make_request(number: int = 0, **changes: Any) -> Request:
    """Return a request. Equal numbers give equal requests."""
    fields: dict[str, Any] = {
        "model": "acme/oracle-2",
        "messages": [{"role": "system", "content": "Give a probability."}, {"role": "user", "content": f"Will event {number} happen?"}],
        "purpose": "benchmark/forecasts",
        "scope": "r2026",
        "parameters": {"temperature": 0, "max_tokens": 400},
    }
    return Request(**{**fields, **changes})


def make_reply(text: str = "0.7", cost: int | None = 120) -> Reply:
    """Return a good reply."""
    usage = Usage(100, 20, 5, cost, None if cost is None else CostSource.PROVIDER)
    body = f'{{"text": "{text}"}}'.encode()
    return Reply(body, text, "because", "stop", usage, http_status=200, request_id="req-1", latency_ms=900)


def begin_call(journal: Journal, request: Request | None = None, **options: Any) -> Any:
    """Return the result of `Journal.begin`."""
    return journal.begin(request or make_request(), **{"timeout": TIMEOUT, **options})


def begin_attempt(journal: Journal, request: Request | None = None, **options: Any) -> Attempt:
    """Return an attempt in progress."""
    begun = begin_call(journal, request, **options)
    assert isinstance(begun, Attempt), begun
    return begun


def attempt_outcomes(journal: Journal) -> list[tuple[int, str | None, int | None]]:
    """Return (number, outcome, cost) of all attempts, sorted by key and number."""
    return journal.export()["attempts"].select("number", "outcome", "cost_microdollars").rows()


def answered_lake(config: Settings, name: str) -> None:
    """Write one row of an answered model to a lake. Other columns are null or empty."""
    declared = table(name)
    row = filled(name, **({"call_key": "k"} if name == "benchmark/forecasts" else {"status": "finished"}))
    rows = declared.frame([row])
    Lake(config.lake_uri).write(declared, tuple(str(row[part]) for part in declared.partitioned_by), rows, run_id="r")
