"""Submitted forecasts: stored as a whole or refused with a reason per line, and scored as a forecaster of the benchmark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.forecasting import available
from bellwether.lake import Lake
from bellwether.settings import settings
from bellwether.submissions import Submissions, validate_rows
from bellwether.submissions.files import read_forecasts
from bellwether.submissions.validation import AGAIN, SCHEMA, TWICE
from bellwether.tables import table
from bellwether.tables.exports import neutralise_formulas
from bellwether.tables.schema import TIME
from cli.main import main
from tests.rows import filled

OPEN, CLOSE, NOW = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 3, 8, tzinfo=UTC)
MARKETS = pl.DataFrame(
    {
        "venue": ["kalshi", "polymarket", "kalshi", "polymarket", "kalshi"],
        "market_id": ["K-1", "512", "SAME", "SAME", "OLD"],
        "open_time": [OPEN] * 5,
        "close_time": [CLOSE] * 4 + [OPEN + timedelta(days=2)],
    },
    schema_overrides={"open_time": TIME, "close_time": TIME},
)
GOOD = {"market_id": "K-1", "probability": "0.7", "stated_at": "2026-03-02T12:00:00Z", "forecaster": "mine"}

REFUSED = [
    ({"probability": "NaN"}, "the probability is NaN"),
    ({"probability": ""}, "the probability is nothing"),
    ({"probability": "62"}, "the probability is 62"),
    ({"probability": "1.0000000000000002"}, "the probability is 1.0000000000000002"),
    ({"probability": "1.2"}, "the probability is 1.2"),
    ({"stated_at": "2026-03-02T12:00:00"}, "has no time zone"),
    ({"stated_at": "soonZ"}, "soonZ is not a time"),
    ({"stated_at": ""}, "the time is missing"),
    ({"stated_at": "2026-03-09T00:00:00Z"}, "is in the future"),
    ({"stated_at": "2026-02-02T00:00:00Z"}, "before the market opened"),
    ({"market_id": "OLD", "stated_at": "2026-03-03T00:00:00Z"}, "the market closed"),
    ({"market_id": "y" * 5000}, f"unknown market {'y' * 57}..."),
    ({"market_id": "SAME"}, "unknown market SAME"),
    ({"market_id": ""}, "the market is missing"),
    ({"venue": "polymarket"}, "K-1 is a market of kalshi"),
    ({"forecaster": "=cmd()"}, "is not a valid forecaster name"),
    ({"forecaster": ""}, "the forecaster is missing"),
    ({"forecaster": "gpt-5.2"}, "is a forecaster of the registry"),
]


def judge(path: Path, *rows: dict[str, str], stored: pl.DataFrame | None = None) -> tuple[pl.DataFrame, list[str]]:
    """Return the accepted rows of a CSV file, and its refused lines with reasons."""
    pl.DataFrame([{"venue": "", **row} for row in rows]).with_columns(venue=pl.col("venue").replace("", None)).write_csv(path)
    given = read_forecasts(path)
    found = validate_rows(
        given.frame, MARKETS, pl.DataFrame(schema=SCHEMA) if stored is None else stored, forecaster=None, taken=["gpt-5.2"], now=NOW
    )
    return found.accepted, [f"{given.place(row)}: {reason}" for row, reason in found.refused.iter_rows()]


def test_invalid_lines_are_refused_and_the_rest_is_accepted(tmp_path: Path) -> None:
    later = {**GOOD, "stated_at": "2026-03-02T13:00:00Z"}
    accepted, refused = judge(tmp_path / "f.csv", GOOD, *({**GOOD, **changed} for changed, _ in REFUSED), later)
    assert len(refused) == len(REFUSED)
    for number, (line, (_, reason)) in enumerate(zip(refused, REFUSED, strict=True), start=3):
        assert line.startswith(f"line {number}: ") and reason in line
    assert accepted["stated_at"].to_list() == [datetime(2026, 3, 2, 12, tzinfo=UTC), datetime(2026, 3, 2, 13, tzinfo=UTC)]


def test_decimal_commas_are_read(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("market_id;probability;stated_at;forecaster\nK-1;0,72;2026-03-02T12:00:00Z;mine\n")
    given = read_forecasts(tmp_path / "f.csv")
    found = validate_rows(given.frame, MARKETS, pl.DataFrame(schema=SCHEMA), forecaster=None, now=NOW)
    assert (found.accepted["probability"].to_list(), found.refused.height) == ([0.72], 0)


def test_forecasts_count_from_the_opening_until_before_the_close_and_never_from_the_future(tmp_path: Path) -> None:
    instant, closed = timedelta(microseconds=1), OPEN + timedelta(days=2)
    cases = [
        ("K-1", OPEN, True),
        ("K-1", OPEN - instant, False),
        ("K-1", NOW, True),
        ("K-1", NOW + instant, False),
        ("OLD", closed - instant, True),
        ("OLD", closed, False),
    ]
    rows = [{**GOOD, "market_id": market, "stated_at": at.isoformat()} for market, at, _ in cases]
    accepted, refused = judge(tmp_path / "f.csv", *rows)
    assert accepted.select("market", "stated_at").rows() == [(f"kalshi:{market}", at) for market, at, counts in cases if counts]
    assert [line.partition(":")[0] for line in refused] == [
        f"line {number}" for number, (*_, counts) in enumerate(cases, start=2) if not counts
    ]


def test_a_duplicate_is_refused_in_the_file_and_against_what_is_stored(tmp_path: Path) -> None:
    other = {**GOOD, "probability": "0.1"}
    accepted, refused = judge(tmp_path / "f.csv", GOOD, other)
    assert (accepted["probability"].to_list(), refused) == ([0.7], [f"line 3: {TWICE}"])
    accepted, refused = judge(tmp_path / "f.csv", other, {**GOOD, "market_id": "512"}, stored=accepted)
    assert (accepted["market"].to_list(), refused) == (["polymarket:512"], [f"line 2: {AGAIN}"])


def test_a_market_is_named_by_its_id_or_with_its_venue(tmp_path: Path) -> None:
    accepted, refused = judge(tmp_path / "f.csv", GOOD, {**GOOD, "market_id": "kalshi:SAME"}, {**GOOD, "market_id": "512"})
    assert refused == []
    assert accepted["market"].to_list() == ["kalshi:K-1", "kalshi:SAME", "polymarket:512"]


def test_offsets_count_and_a_blank_may_stand_for_the_t(tmp_path: Path) -> None:
    accepted, refused = judge(
        tmp_path / "f.csv", {**GOOD, "stated_at": "2026-03-02T12:00:00+02:00"}, {**GOOD, "stated_at": "2026-03-02 12:00:00Z"}
    )
    assert refused == []
    assert [at.hour for at in accepted["stated_at"]] == [10, 12]


def test_the_three_formats_say_the_same(tmp_path: Path) -> None:
    rows = pl.DataFrame([{**GOOD, "probability": 0.7}, {**GOOD, "probability": 1.5, "market_id": "512"}])
    rows.write_csv(tmp_path / "f.csv")
    rows.with_columns(pl.col("stated_at").str.to_datetime(time_zone="UTC")).write_parquet(tmp_path / "f.parquet")
    (tmp_path / "f.jsonl").write_text("\n" + "\n\n".join(json.dumps(row) for row in rows.to_dicts()) + "\n")
    places = {"f.csv": "line 3", "f.parquet": "row 2", "f.jsonl": "line 4"}
    for name, place in places.items():
        given = read_forecasts(tmp_path / name)
        found = validate_rows(given.frame, MARKETS, pl.DataFrame(schema=SCHEMA), forecaster=None, now=NOW)
        assert found.accepted.select("market", "probability", "stated_at").rows() == [
            ("kalshi:K-1", 0.7, datetime(2026, 3, 2, 12, tzinfo=UTC))
        ], name
        ((row, reason),) = found.refused.iter_rows()
        assert given.place(row) == place
        assert "the probability is 1.5; give a number" in reason


def test_cells_that_are_formulas_are_neutralised() -> None:
    cells = ["=1+1", "+1", "-1", "@a", "\tx", "\rx", "plain", "a=b", None]
    assert neutralise_formulas(pl.DataFrame({"cell": cells, "n": range(9)}))["cell"].to_list() == [
        *("'" + cell for cell in cells[:6] if cell),
        "plain",
        "a=b",
        None,
    ]


def test_control_characters_of_cells_are_signs() -> None:
    cells = ["\x1b[31mred", "a\x00b\x7f\x9b", "two\nlines\tand a tab", "caf\xe9", "=\x07", None]
    assert neutralise_formulas(pl.DataFrame({"cell": cells, "n": range(6)}))["cell"].to_list() == [
        "␛[31mred",
        "a␀b␡\ufffd",
        "two\nlines\tand a tab",
        "caf\xe9",
        "'=␇",
        None,
    ]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / "home"))
    settings.cache_clear()
    day = CLOSE.date()
    rows = [filled("clean/markets", day=day, venue="kalshi", market_id="K-1", open_time=OPEN, close_time=CLOSE)]
    Lake(settings().lake_uri).write(table("clean/markets"), (day.isoformat(),), table("clean/markets").frame(rows), run_id="r")
    return tmp_path


def test_a_submission_is_stored_as_a_whole_and_the_forecaster_answers_questions(home: Path) -> None:
    file = home / "f.csv"
    later = {**GOOD, "stated_at": "2026-03-03T00:00:00Z", "probability": "0.9"}
    pl.DataFrame([GOOD, later, {**GOOD, "market_id": "@nowhere"}]).write_csv(file)
    ran = CliRunner().invoke(main, ["submit", str(file)])
    assert ran.exit_code == 1
    assert "line 4: unknown market @nowhere" in ran.output
    assert "2 forecasts valid, 1 refused" in ran.output and "Nothing was stored" in ran.output
    pl.DataFrame([GOOD, later]).write_csv(file)
    ran = CliRunner().invoke(main, ["submit", str(file), "--dry-run"])
    assert (ran.exit_code, "2 forecasts valid, 0 refused" in ran.output) == (0, True)
    assert Submissions(settings().submissions_path).names() == []
    ran = CliRunner().invoke(main, ["submit", str(file)])
    assert (ran.exit_code, "2 forecasts accepted, 0 refused" in ran.output) == (0, True)
    stored = Submissions(settings().submissions_path).read()
    pl.DataFrame([GOOD, later]).rename({"market_id": "market"}).write_csv(file)
    again = CliRunner().invoke(main, ["submit", str(file)])
    assert (again.exit_code, "0 forecasts accepted, 2 unchanged, 0 refused" in again.output) == (0, True)
    pl.DataFrame([GOOD, {**later, "probability": "0.91"}, {**GOOD, "stated_at": "2026-03-02T18:00:00Z"}]).write_csv(file)
    again = CliRunner().invoke(main, ["submit", str(file)])
    assert again.exit_code == 1 and f"line 3: {AGAIN}" in again.output and "1 forecasts valid, 1 unchanged, 1 refused" in again.output
    assert Submissions(settings().submissions_path).read().equals(stored)
    mine = available()["mine"]
    assert (mine.kind, mine.automatic) == ("submitted", True)
    questions = pl.DataFrame(
        {
            "release": ["r"] * 2,
            "id": ["kalshi:K-1", "kalshi:K-2"],
            "close_time": [CLOSE] * 2,
            "settled_at": [CLOSE] * 2,
            "known_at": [CLOSE] * 2,
        },
        schema_overrides={"close_time": TIME, "settled_at": TIME, "known_at": TIME},
    )
    rows = mine.forecast(questions)
    assert rows.select("question_id", "p_yes", "as_of", "error").rows() == [
        ("kalshi:K-1", 0.9, datetime(2026, 3, 3, tzinfo=UTC), None),
        ("kalshi:K-2", None, None, "no forecast was submitted"),
    ]


def test_a_home_that_cannot_be_written_is_said_and_a_dry_run_writes_nothing(home: Path) -> None:
    pl.DataFrame([GOOD]).write_csv(home / "f.csv")
    place = settings().submissions_path
    assert CliRunner().invoke(main, ["submit", str(home / "f.csv"), "--dry-run"]).exit_code == 0
    assert not place.exists()
    place.write_text("in the way")
    ran = CliRunner().invoke(main, ["submit", str(home / "f.csv")])
    assert isinstance(ran.exception, SystemExit)
    assert "it cannot be written" in ran.output
