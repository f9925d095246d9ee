"""What a partition is known as of never goes back."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from bellwether.errors import LakeError
from bellwether.lake import Lake
from bellwether.lake.newer import require_newer
from bellwether.tables.raw import KALSHI_PULLS

KNOWN = datetime.fromisoformat("2026-03-15T08:00:00Z")
DAY = ("2026-03-14",)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    row = {
        "day": date(2026, 3, 14),
        "pull": "0001",
        "final": True,
        "requests": 1,
        "started_at": KNOWN,
        "finished_at": KNOWN,
        "known_at": KNOWN,
    }
    made = Lake(str(tmp_path))
    made.write(KALSHI_PULLS, DAY, KALSHI_PULLS.frame([row]), run_id="run")
    return made


def test_older_answers_are_refused_with_the_remedy(lake: Lake) -> None:
    with pytest.raises(LakeError, match=r"answers of 2026-03-15 08:00:00, which stay. A clock was set back: .*BELLWETHER_SANDBOX_NOW"):
        require_newer(lake, KALSHI_PULLS, DAY, KNOWN - timedelta(seconds=1))


@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=1)])
def test_equally_new_and_newer_answers_are_taken(lake: Lake, later: timedelta) -> None:
    require_newer(lake, KALSHI_PULLS, DAY, KNOWN + later)


def test_a_day_that_the_lake_does_not_have_may_be_of_any_time(lake: Lake) -> None:
    require_newer(lake, KALSHI_PULLS, ("2026-03-13",), KNOWN - timedelta(days=9))
