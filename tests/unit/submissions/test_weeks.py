"""Forecasts for weeks of the arena: assignment to a week, refusal by line, and rows of arena/submissions."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.methodology import methodologies
from bellwether.arena.submissions import find_submission_weeks, find_weeks, forecastable_markets, submissions_frame
from bellwether.submissions import validate_rows
from bellwether.submissions.files import read_forecasts
from bellwether.submissions.validation import SCHEMA
from bellwether.submissions.weeks import ArenaWeeks
from bellwether.tables.schema import TIME

LIVE, PAST = date(2026, 3, 8), date(2026, 3, 1)
OPENS, CLOSES = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC)
RECEIVED = datetime(2026, 3, 9, 12, tzinfo=UTC)
RULES = methodologies()


def universe() -> pl.DataFrame:
    """A reconstructed week with the markets 1 and 2, and a live one with 1, 3 and a market of named outcomes."""
    rows = [
        (PAST, "1", ["Yes", "No"], CLOSES, True),
        (PAST, "2", ["No", "Yes"], None, True),
        (LIVE, "1", ["Yes", "No"], CLOSES, False),
        (LIVE, "3", ["yes", "no"], datetime(2026, 3, 9, 6, tzinfo=UTC), False),
        (LIVE, "9", ["Ann", "Bob"], CLOSES, False),
    ]
    frame = pl.DataFrame(rows, schema=["week", "market_id", "outcomes", "closes_at", "reconstructed"], orient="row")
    at = pl.col("week").cast(pl.Datetime("us")).dt.replace_time_zone("UTC") + timedelta(minutes=5)
    return frame.with_columns(pl.col("closes_at").cast(TIME), known_at=at, venue=pl.lit("polymarket"))


@pytest.fixture
def arena_weeks() -> ArenaWeeks:
    markets = forecastable_markets(universe())
    return ArenaWeeks(markets, find_submission_weeks(markets, RULES), RULES)


MARKETS = pl.DataFrame(
    {
        "venue": ["polymarket", "polymarket", "polymarket", "polymarket", "kalshi"],
        "market_id": ["1", "2", "3", "9", "K-1"],
        "open_time": [OPENS] * 5,
        "close_time": [CLOSES, CLOSES, datetime(2026, 3, 9, 6, tzinfo=UTC), CLOSES, CLOSES],
    },
    schema_overrides={"open_time": TIME, "close_time": TIME},
)
GOOD = {"market_id": "1", "probability": "0.7", "stated_at": "2026-03-08T12:00:00Z", "forecaster": "mine", "week": "2026-03-08"}
REFUSED = [
    ({"week": "2026-03-09"}, "2026-03-09 is not a week"),
    ({"week": "next"}, "next is not a week"),
    ({"week": "2026-02-22"}, "no universe of the week 2026-02-22"),
    ({"market_id": "2"}, "polymarket:2 is not in the universe"),
    ({"market_id": "K-1"}, "kalshi:K-1 is a market of kalshi"),
    ({"market_id": "9"}, "polymarket:9 has named outcomes"),
    ({"market_id": "3", "stated_at": "2026-03-09T07:00:00Z"}, "the market closed"),
    ({"week": "2026-03-01", "stated_at": "2026-03-01T00:05:00Z"}, "must precede 2026-03-01 00:05 UTC"),
    ({"stated_at": "2026-02-28T00:00:00Z"}, "belongs to the week 2026-03-01"),
]


def judge(path: Path, known: ArenaWeeks, *rows: dict[str, str]) -> tuple[pl.DataFrame, list[str]]:
    pl.DataFrame(list(rows)).write_csv(path)
    given = read_forecasts(path)
    found = validate_rows(given.frame, MARKETS, pl.DataFrame(schema=SCHEMA), forecaster=None, now=RECEIVED, weeks=known)
    return found.accepted, [f"{given.place(row)}: {reason}" for row, reason in found.refused.iter_rows()]


def test_lines_that_do_not_fit_their_week_are_refused(tmp_path: Path, arena_weeks: ArenaWeeks) -> None:
    for changed, reason in REFUSED:
        accepted, refused = judge(tmp_path / "f.csv", arena_weeks, {**GOOD, **changed}, GOOD)
        assert (accepted.height, len(refused)) == (1, 1), changed
        assert refused[0].startswith("line 2: ") and reason in refused[0]


def test_a_live_week_is_forecast_until_its_decisions_are_due(tmp_path: Path, arena_weeks: ArenaWeeks) -> None:
    times = ["2026-03-04T00:00:00Z", "2026-03-08T00:05:00Z", "2026-03-09T11:59:59Z"]
    accepted, refused = judge(tmp_path / "f.csv", arena_weeks, *({**GOOD, "stated_at": at} for at in times))
    assert (accepted.height, refused) == (3, [])
    late = validate_rows(
        read_forecasts(tmp_path / "f.csv").frame.head(1).with_columns(stated_at=pl.lit("2026-03-10T00:00:00Z")),
        MARKETS,
        pl.DataFrame(schema=SCHEMA),
        forecaster=None,
        now=RECEIVED + timedelta(days=3),
        weeks=arena_weeks,
    )
    assert late.refused["reason"].to_list() == [
        "the time 2026-03-10 00:00 UTC is too late; forecasts for the week 2026-03-08 must precede 2026-03-10 00:00 UTC"
    ]


def test_lines_without_a_week_are_judged_as_before(tmp_path: Path, arena_weeks: ArenaWeeks) -> None:
    rows = [{**GOOD, "week": ""}, {**GOOD, "week": "", "market_id": "2"}]
    accepted, refused = judge(tmp_path / "f.csv", arena_weeks, *rows)
    assert (accepted.height, refused, arena_weeks.count_fitting(accepted)) == (2, [], 1)


@pytest.mark.parametrize(
    ("stated_at", "week"),
    [
        (datetime(2026, 2, 28, 23, 59, tzinfo=UTC), PAST),
        (datetime(2026, 3, 1, 0, 4, 59, tzinfo=UTC), PAST),
        (datetime(2026, 3, 1, 0, 5, tzinfo=UTC), LIVE),
        (datetime(2026, 3, 9, 23, 59, 59, tzinfo=UTC), LIVE),
        (datetime(2026, 3, 10, tzinfo=UTC), LIVE + timedelta(days=7)),
        (datetime(2026, 3, 17, tzinfo=UTC), LIVE + timedelta(days=14)),
    ],
)
def test_a_forecast_is_for_the_first_week_whose_decisions_it_precedes(arena_weeks: ArenaWeeks, stated_at: datetime, week: date) -> None:
    frame = pl.DataFrame({"stated_at": [stated_at]}, schema={"stated_at": TIME})
    assert find_weeks(frame, arena_weeks.known, RULES).to_list() == [week]


def test_a_week_can_have_markets_of_both_venues() -> None:
    is_kalshi = pl.col("market_id") == "KXHIGHNY-26MAR09-B50"
    rows = (
        universe()
        .with_columns(market_id=pl.col("market_id").replace("3", "KXHIGHNY-26MAR09-B50"))
        .with_columns(venue=pl.when(is_kalshi).then(pl.lit("kalshi")).otherwise("venue"))
    )
    markets = forecastable_markets(rows)
    assert find_submission_weeks(markets, RULES)["venues"].to_list() == [["polymarket"], ["kalshi", "polymarket"]]
    stated = datetime(2026, 3, 9, 5, tzinfo=UTC)
    stored = [("mine", f"kalshi:{name}", stated, 0.7, RECEIVED) for name in ("KXHIGHNY-26MAR09-B50", "1")]
    found = submissions_frame(pl.DataFrame(stored, schema=SCHEMA, orient="row"), rows, RULES)
    assert found["market_id"].to_list() == ["KXHIGHNY-26MAR09-B50"]


def test_what_fits_a_week_is_kept_with_whether_it_was_received_in_time() -> None:
    def said(market: str, stated: datetime, received: datetime) -> tuple[object, ...]:
        return ("mine", market, stated, 0.7, received)

    monday = datetime(2026, 3, 9, 5, tzinfo=UTC)
    stored = [
        said("polymarket:1", monday, RECEIVED),
        said("polymarket:3", monday, datetime(2026, 3, 10, tzinfo=UTC)),
        said("polymarket:3", monday + timedelta(hours=1), RECEIVED),
        said("polymarket:9", monday, RECEIVED),
        said("polymarket:2", monday, RECEIVED),
        said("kalshi:1", monday, RECEIVED),
        said("polymarket:2", datetime(2026, 2, 27, tzinfo=UTC), RECEIVED),
    ]
    found = submissions_frame(pl.DataFrame(stored, schema=SCHEMA, orient="row"), universe(), RULES)
    assert found.select("week", "market_id", "late", "reconstructed").rows() == [
        (PAST, "2", True, True),
        (LIVE, "1", False, False),
        (LIVE, "3", True, False),
    ]
    assert submissions_frame(pl.DataFrame(schema=SCHEMA), universe().clear(), RULES).is_empty()
