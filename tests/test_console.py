"""Tables for people: the leaderboard says what was left out, and fits a terminal."""

from __future__ import annotations

import io
import json
import re
import unicodedata

import polars as pl
import pytest
from rich.console import Console

from bellwether.console import console, emit, grid, leaderboard_table
from tests.report.frames import example


def shown(frame: pl.DataFrame) -> str:
    page = Console(file=io.StringIO(), width=80)
    page.print(leaderboard_table("q", frame))
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_the_leaderboard_shows_every_forecaster_within_eighty_columns() -> None:
    frame = example().leaderboard
    text = shown(frame)
    assert all(name in text for name in frame["forecaster"])
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "None" not in text
    assert "nan" not in text


def test_rows_as_wide_as_those_of_the_demo_are_shown_whole() -> None:
    frame = example().leaderboard
    wide = frame.head(1).with_columns(
        forecaster=pl.lit("sandbox-overconfident"),
        group=pl.lit("abc"),
        skill_vs_market=pl.lit(-10.42),
        brier_skill=pl.lit(-2.36),
        coverage=pl.lit(1.0),
        **{name: pl.lit(0.815) for name in ("brier", "brier_lower", "brier_upper", "ece")},
        ece_p_calibrated=pl.lit(0.001),
    )
    text = shown(pl.concat([wide, frame.tail(-1)], how="vertical_relaxed"))
    assert "…" not in text
    assert re.search(r"sandbox-overconfident +\.815 \[\.815, \.815\] abc +-2\.36 +-10\.42 +\.815 +<\.01 +100%", text)


def test_what_could_be_known_is_counted_by_the_one_or_the_many_that_could() -> None:
    frame = example().leaderboard
    assert "Left out because it could have been known: 2 questions of wild." in shown(frame)
    several = frame.with_columns(could_know=pl.when(pl.col("forecaster") == "good/model").then(1).otherwise("could_know"))
    text = " ".join(shown(several).split())
    assert "2 questions of wild, fewer or as many of 1 more." in text
    assert "Left out" not in shown(frame.with_columns(could_know=pl.lit(0)))


def test_text_from_a_venue_sends_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31mred\x9b2J\u202eturned\x7f"
    console().print(grid(pl.DataFrame({hostile: [hostile]})))
    emit({"text": hostile})
    shown = capsys.readouterr().out
    assert not any(unicodedata.category(letter) in {"Cc", "Cf"} for letter in shown.replace("\n", ""))
    assert json.loads(shown[shown.index("{\n") :]) == {"text": hostile}
