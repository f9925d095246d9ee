"""Output in a terminal: tables that fit, text that steers no terminal, and progress of long commands."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from datetime import UTC, datetime

import click
import polars as pl
import pytest
from rich.console import Console

from assets.benchmark.results import audit_table, leaderboard_table
from bellwether.console import Lines, console, emit, grid, shown
from cli.options import INSTANT
from tests.unit.report.frames import example


def printed(frame: pl.DataFrame) -> str:
    page = Console(file=io.StringIO(), width=80)
    lines = frame.with_columns(scope=pl.lit("all"), cost=None, provider=None)
    page.print(leaderboard_table("q", lines))
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_the_leaderboard_shows_every_forecaster_within_eighty_columns() -> None:
    frame = example().leaderboard
    text = printed(frame)
    assert all(name in text for name in frame["forecaster"])
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "None" not in text
    assert "nan" not in text


def test_the_leaderboard_names_submitted_forecasts_whose_times_nobody_verified() -> None:
    frame = example().leaderboard
    assert "Submitted forecasts" not in printed(frame)
    name = frame["forecaster"][0]
    submitted = frame.with_columns(kind=pl.when(pl.col("forecaster") == name).then(pl.lit("submitted")).otherwise("kind"))
    assert f"Submitted forecasts, at the unverified times of their files: {name}." in " ".join(printed(submitted).split())


def test_an_audit_fits_eighty_columns_and_leaves_unknown_cells_blank() -> None:
    scores = {"forecaster": "gpt-4o-mini-2024-07-18", "part": "all", "share": 1.0, "brier": 0.21, "lower": 0.1, "upper": 0.32}
    parts = [scores, scores | {"part": "sibling", "share": 0.126}, scores | {"part": "jump", "brier": -0.05, "lower": -0.1, "upper": 0.01}]
    page = Console(file=io.StringIO(), width=80)
    page.print(audit_table("q", 7, [("event", 3)], pl.DataFrame(parts)))
    assert isinstance(page.file, io.StringIO)
    text = page.file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    row = next(line for line in text.splitlines() if "gpt-4o" in line)
    assert row.split() == ["gpt-4o-mini-2024-07-18", ".210", "[.100,", ".320]", "12.6%", "-.050", "[-.100,", ".010]"]


def test_text_from_a_venue_sends_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31mred\x9b2J\u202eturned\x7f"
    console().print(grid(pl.DataFrame({hostile: [hostile]})))
    emit({"text": hostile})
    shown = capsys.readouterr().out
    assert not any(unicodedata.category(letter) in {"Cc", "Cf"} for letter in shown.replace("\n", ""))
    assert json.loads(shown[shown.index("{\n") :]) == {"text": hostile}


WORDS = pl.DataFrame(
    {
        "market_id": ["KXHIGHNY-26MAR18-B52.5", "0x9f8e7d6c5b4a39281706f5e4d3c2b1a0"],
        "question": ["Will the highest temperature in New York be between 52 and 53 degrees on 18 March 2026?", "Who wins?"],
        "category": ["Climate and Weather", "Politics"],
        "price": [0.415, 0.5],
        "known_at": [datetime(2026, 3, 19, 4, 5, 6, tzinfo=UTC), None],
    }
)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("columns", [WORDS.columns[:1], WORDS.columns[:2], WORDS.columns[:4], WORDS.columns, WORDS.columns * 3])
def test_a_table_fits_and_breaks_no_word(width: int, columns: list[str]) -> None:
    frame = WORDS.select(pl.col(name).alias(f"{name}_{number}") for number, name in enumerate(columns))
    stream = io.StringIO()
    Console(file=stream, width=width).print(grid(frame))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = set(stream.getvalue().split())
    wanted = {
        word
        for row in frame.with_columns(pl.selectors.temporal().dt.to_string("%Y-%m-%d %H:%M:%S")).iter_rows()
        for cell in row
        for word in str(cell or "").split()
    }
    assert wanted <= shown
    for name in frame.columns:
        lines_of_name = [word for word in shown if word and word in name]
        assert name in shown or all(any(part in word for word in lines_of_name) for part in re.findall(r"[^_]+_?", name))


def test_negative_zero_is_zero() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(grid(pl.DataFrame({"profit": [-0.0, -1e-9]})))
    assert {"profit", "0", "-1e-09"} == set(re.findall(r"[\w.-]+", stream.getvalue()))


def test_rows_that_do_not_fit_are_blocks_with_the_same_values() -> None:
    stream = io.StringIO()
    Console(file=stream, width=40).print(grid(WORDS, most=1))
    text = stream.getvalue()
    assert text.splitlines()[0] == "row 1"
    assert "1 of 2 rows" in text
    assert "market_id  KXHIGHNY-26MAR18-B52.5" in text


def test_an_instant_is_utc_with_or_without_a_z() -> None:
    for text in ("2026-06-01T12:30", "2026-06-01T12:30:00", "2026-06-01T12:30Z", "2026-06-01T12:30:00Z"):
        assert INSTANT.convert(text, None, None).replace(tzinfo=UTC) == datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
    for text in ("2026-06-01Z", "2026-06-01T12:30ZZ", "Z", "2026-06-01T12:30+02:00"):
        with pytest.raises(click.BadParameter):
            INSTANT.convert(text, None, None)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_says_what_is_done_how_far_it_is_and_how_long_it_will_take() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, interval=10.0, now=clock)
    with lines.stage("days", 4) as advance:
        lines.say("days 2026-01-01 to 2026-01-31")
        clock.now = 3.0
        lines.tick()
        clock.now = 30.0
        advance(1)
        clock.now = 35.0
        lines.tick()
        clock.now = 60.0
        advance(3)
    assert stream.getvalue().splitlines() == [
        "days: 0 of 4; days 2026-01-01 to 2026-01-31",
        "days: 1 of 4, about 2 min left; days 2026-01-01 to 2026-01-31, for 30 s",
        "days: 4 of 4; days 2026-01-01 to 2026-01-31, for 60 s",
        "days: 4 of 4 in 60 s",
    ]


def test_text_of_others_steers_no_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, now=clock)
    clock.now = 5.0
    lines.say("\x1b[31mred\nline")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_nothing_is_left_of_the_clock() -> None:
    import threading

    with shown(io.StringIO()) as progress:
        progress.say("something")
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]
