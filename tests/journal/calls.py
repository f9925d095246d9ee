"""What the journal's tests ask and are answered, and a clock that they move."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from bellwether.journal import Attempt, Claim, CostSource, Journal, Reply, Request, Usage

LEASE = timedelta(minutes=2)
START = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        self.now += by


def ask(number: int = 0, **changes: Any) -> Request:
    """One of many calls, the same for the same number."""
    given: dict[str, Any] = {
        "model": "acme/oracle-2",
        "messages": [{"role": "system", "content": "Give a probability."}, {"role": "user", "content": f"Will event {number} happen?"}],
        "purpose": "benchmark/forecasts",
        "scope": "r2026",
        "parameters": {"temperature": 0, "max_tokens": 400},
    }
    return Request(**{**given, **changes})


def said(text: str = "0.7", cost: int | None = 120) -> Reply:
    """A good reply."""
    usage = Usage(100, 20, 5, cost, None if cost is None else CostSource.PROVIDER)
    body = f'{{"text": "{text}"}}'.encode()
    return Reply(body, text, "because", "stop", usage, http_status=200, request_id="req-1", latency_ms=900)


def taken(journal: Journal, request: Request | None = None, holder: str = "one", **options: Any) -> Claim:
    """The claim, which must be had."""
    found = journal.claim(request or ask(), lease=LEASE, holder=holder, **options)
    assert isinstance(found, Claim), found
    return found


def claimed(found: object) -> Claim:
    """The claim that a call to `Journal.claim` gave."""
    assert isinstance(found, Claim)
    return found


def begun(journal: Journal, request: Request | None = None, holder: str = "one", **options: Any) -> Attempt:
    """An attempt under way."""
    return taken(journal, request, holder, **options).begin()


def outcomes(journal: Journal) -> list[tuple[int, str | None, int | None]]:
    """(number, outcome, cost) of all attempts, by key and number."""
    return journal.export()["attempts"].select("number", "outcome", "cost_microdollars").rows()
