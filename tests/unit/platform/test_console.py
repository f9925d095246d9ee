"""Tables in a terminal: their width and the omitted rows."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from datetime import UTC, datetime

import click
import polars as pl
import pytest
from click.testing import CliRunner
from rich.console import Console

from assets.benchmark.results import leaderboard_table
from bellwether.console import TextTable, console, emit, grid
from cli.main import main
from cli.options import INSTANT
from tests.report.frames import example


def printed(frame: pl.DataFrame) -> str:
    page = Console(file=io.StringIO(), width=80)
    page.print(leaderboard_table("q", frame))
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_the_leaderboard_shows_every_forecaster_within_eighty_columns() -> None:
    frame = example().leaderboard
    text = printed(frame)
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
    text = printed(pl.concat([wide, frame.tail(-1)], how="vertical_relaxed"))
    assert "…" not in text
    assert re.search(r"sandbox-overconfident +\.815 \[\.815, \.815\] abc +-2\.36 +-10\.42 +\.815 +<\.01 +100%", text)


def test_what_could_be_known_is_counted_by_the_one_or_the_many_that_could() -> None:
    frame = example().leaderboard
    said = "Excluded questions, whose outcome the model could have known: 2 for wild"
    assert f"{said}." in " ".join(printed(frame).split())
    several = frame.with_columns(could_know=pl.when(pl.col("forecaster") == "good/model").then(1).otherwise("could_know"))
    text = " ".join(printed(several).split())
    assert f"{said}, 1 for good/model." in text
    many = pl.concat([frame.with_columns(could_know=pl.lit(3), forecaster=pl.lit(f"model-{number}")).head(1) for number in range(6)])
    assert "3 for model-0, 3 for model-1, 3 for model-2, 3 for model-3, some for 2 more." in " ".join(printed(many).split())
    assert "Excluded" not in printed(frame.with_columns(could_know=pl.lit(0)))


def test_skill_over_the_market_is_shown_where_it_has_a_value() -> None:
    row = example().leaderboard.head(1)
    assert "-3.30" in printed(row.with_columns(skill_vs_market=pl.lit(-3.3)))
    assert "blank: fewer than three" in printed(row.with_columns(skill_vs_market=pl.lit(None, pl.Float64)))


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


def test_a_table_of_named_rows_is_printed_alone_too() -> None:
    table = TextTable("Scores", ("model", "n"), caption="of all")
    table.add(("first", "other"), "12")
    stream = io.StringIO()
    Console(file=stream, width=40).print(table)
    assert "first – other 12" in stream.getvalue()


def test_negative_zero_is_zero() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(grid(pl.DataFrame({"profit": [-0.0, -1e-9]})))
    assert {"profit", "0", "-1e-09"} == set(re.findall(r"[\w.-]+", stream.getvalue()))


def test_a_table_that_fits_has_a_line_per_row() -> None:
    stream = io.StringIO()
    Console(file=stream, width=80).print(grid(WORDS.select("category", "price")))
    assert len(stream.getvalue().splitlines()) == 6


def test_rows_that_do_not_fit_are_blocks_with_the_same_values() -> None:
    stream = io.StringIO()
    Console(file=stream, width=40).print(grid(WORDS, most=1))
    text = stream.getvalue()
    assert text.splitlines()[0] == "row 1"
    assert "1 of 2 rows" in text
    assert "market_id  KXHIGHNY-26MAR18-B52.5" in text


def test_a_table_that_fits_without_lines_between_its_columns_is_a_table_and_breaks_names_after_an_underscore() -> None:
    names = ("recording", "first_market_that_closed", "frames_received", "bytes", "book_outages_in_all", "connections", "status")
    frame = pl.DataFrame({name: ["KXEARNSAYTRELLI-26JUN29" if name == "recording" else "x"] for name in names})
    page = Console(file=io.StringIO(), width=80)
    page.print(grid(frame))
    assert isinstance(page.file, io.StringIO)
    lines = page.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == ["KXEARNSAYTRELLI-26JUN29", *"xxxxxx"]
    heads = " ".join(lines[:-2]).split()
    assert {"first_", "market_", "frames_", "received", "outages_", "connections"} <= set(heads), heads


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pull", "2026-13-01"], "'2026-13-01' is not a valid day; write YYYY-MM-DD"),
        (["arena", "show", "june"], "'june' is not a valid day; write YYYY-MM-DD"),
        (["arena", "leaderboard", "--known-at", "noon"], "'noon' is not a valid day or time; write YYYY-MM-DD or YYYY-MM-DDTHH:MM"),
    ],
    ids=["day", "week", "instant"],
)
def test_what_is_no_day_is_refused_with_the_form_to_write(words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "%" not in result.stderr
    assert "%" not in CliRunner().invoke(main, [*words[:2], "--help"]).stdout


@pytest.mark.parametrize("text", ["2026-06-01T12:30", "2026-06-01T12:30:00", "2026-06-01T12:30Z", "2026-06-01T12:30:00Z"])
def test_an_instant_is_utc_with_or_without_a_z(text: str) -> None:
    assert INSTANT.convert(text, None, None).replace(tzinfo=UTC) == datetime(2026, 6, 1, 12, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-06-01Z", "2026-06-01T12:30ZZ", "Z", "2026-06-01T12:30+02:00"])
def test_what_is_no_utc_instant_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        INSTANT.convert(text, None, None)
