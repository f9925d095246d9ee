"""Back-off and `Retry-After` headers."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from bellwether.venues.http.retry import compute_delay, seconds_until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize(("failures", "longest"), [(1, 2.0), (2, 4.0), (5, 32.0), (6, 60.0), (5000, 60.0)])
def test_a_delay_doubles_up_to_its_cap(least: float, failures: int, longest: float) -> None:
    rng = Random(1)
    found = [compute_delay(failures, rng, base=2.0, cap=60.0, least=least) for _ in range(500)]
    assert least * longest <= min(found) < (least + 0.05) * longest
    assert 0.95 * longest < max(found) <= longest


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Fri, 02 Jan 2026 03:05:05 GMT", 60.0),
        ("Fri, 02 Jan 2026 03:03:05 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("Fri, 31 Dec 9999 23:59:59 -1400", None),
    ],
)
def test_seconds_until_a_date(text: str, seconds: float | None) -> None:
    assert seconds_until(text, NOW) == seconds
