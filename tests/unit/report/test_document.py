"""The report as Markdown: it renders, untrusted text does not break its tables, and its numbers equal the tables' numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bellwether.figures.statistics import order_by_distance
from bellwether.formatting import interval, money, number, p_value, percent
from bellwether.pages.markdown import head, text, timestamp
from bellwether.questions.analysis import analyse
from bellwether.report.inputs import ReportInputs
from bellwether.report.release_page import list_ranked_pairs
from bellwether.report.writer import write_report
from tests.report import frames
from tests.report.frames import example, forecasts, model_forecast, question, questions

HOSTILE = [
    "a | b",
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "https://evil.example/path?x=1&y=2",
    "www.evil.example",
    "two\nlines\r\n# and a heading",
    "`code` **bold** _it_ ~~no~~",
    "\\| \\\\| \\",
    "&lt;b&gt; &#124;",
    "$x$ {y} \x00\x1b[31m\u202e\u2028",
    "| --- | --- |",
    "<!-- comment",
    "   ",
]


def rendered(markdown: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False}).render(markdown)


def row_of(value: str) -> str:
    """Return a table with one row of `value` and 1."""
    return f"{head([value], 1, 'a', 'b')}\n| {text(value)} | 1 |"


def cells(markdown: str) -> list[list[str]]:
    """Return the text of every body row of a rendered table."""
    html = rendered(markdown)
    body = re.search(r"<tbody>(.*?)</tbody>", html, re.DOTALL)
    assert body, html
    return [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)]


def plain(html: str) -> str:
    return html.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


def written(folder: Path) -> str:
    (file,) = folder.glob("*.md")
    return file.read_text(encoding="utf-8")


def page(inputs: ReportInputs, folder: Path) -> str:
    write_report(inputs, folder)
    return written(folder / inputs.release)


@given(st.text(max_size=60))
def test_any_text_is_one_cell_that_shows_its_characters(value: str) -> None:
    ((first, second),) = cells(row_of(value))
    assert second == "1"
    shown = " ".join("".join(one if one.isprintable() else " " for one in value).split())
    assert plain(first) == shown


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_makes_no_markup(value: str) -> None:
    html = rendered(row_of(value))
    assert not re.findall(r"<(?!/?(table|thead|tbody|tr|th|td)\b)", html)
    assert not re.search(r"(?<!\\)://|www\.", text(value))


@pytest.mark.parametrize("value", [*HOSTILE, "# a", "- a", "+ a", "1. a", "12) a", "---", "===", "    a", "```", "> a", "* a", "#"])
def test_text_at_the_beginning_of_a_line_is_a_paragraph_and_of_an_item_a_text(value: str) -> None:
    assert not set(re.findall(r"<(\w+)", rendered(text(value)))) - {"p"}
    assert not set(re.findall(r"<(\w+)", rendered(f"- {text(value)} more"))) - {"ul", "li"}


def test_long_text_is_cut_and_numbers_are_written_for_people() -> None:
    assert text("x" * 500, 10) == "x" * 9 + "…"
    assert (number(None), number(1234567), number(0.12345), number(0.0, 2)) == ("–", "1,234,567", "0.1235", "0.00")
    assert (percent(0.125), percent(None), percent(0.0)) == ("12.5 %", "–", "0.0 %")
    assert [money(amount, sign="+") for amount in (-0.00164, 0.004, -1.64, 5.02)] == ["0.00", "0.00", "-1.64", "+5.02"]
    assert (number(-0.001, 2, sign="+"), interval(-0.001, 0.2, 2, sign="+")) == ("0.00", "[0.00, +0.20]")
    assert (interval(0.1, 0.2), interval(None, 0.2)) == ("[0.100, 0.200]", "–")
    assert timestamp("2026-01-05T06:07:08+00:00") == "2026-01-05 06:07 UTC"
    assert [text(one) for one in ("2025-10", "3.5", "3. x", "-x", ".x")] == ["2025-10", "3.5", "3\\. x", "\\-x", "\\.x"]
    assert head([], 1, "a") == "Nothing."


def test_every_row_of_every_table_has_the_cells_of_its_header(folder: Path) -> None:
    html = rendered(written(folder))
    tables = re.findall(r"<table>(.*?)</table>", html, re.DOTALL)
    assert len(tables) > 30
    for one in tables:
        header = len(re.findall(r"<th[ >]", one))
        rows = re.findall(r"<tr>(.*?)</tr>", one.split("</thead>")[1], re.DOTALL)
        assert rows
        assert all(len(re.findall(r"<td[ >]", row)) == header for row in rows)
    outside = re.sub(r"<table>.*?</table>", "", html, flags=re.DOTALL)
    assert "<p>|" not in outside


def test_the_sections_of_the_seed_are_there_and_every_link_leads_to_a_file(folder: Path) -> None:
    markdown = written(folder)
    for heading in (
        "## Executive summary",
        "## Leaderboards",
        "### By Brier score (lower is better)",
        "### By accuracy (higher is better)",
        "### By ECE (lower is better)",
        "### Paired tests",
        "### Classification performance",
        "### Calibration metrics",
        "### Confidence analysis",
        "### Decompositions of the Brier score",
        "### Coverage and failures",
        "### Contamination",
        "### Token usage and cost",
        "## Dataset analysis",
        "### Temporal distribution",
        "### Ground truth distribution",
        "### Category distribution",
        "### Question complexity",
        "### Market baseline",
        "### good/model",
        "## Files",
        "## How to cite",
    ):
        assert f"\n{heading}\n" in markdown, heading
    assert "@misc{kalshibench2024," in markdown
    links = re.findall(r"\]\(([^)]+)\)", markdown)
    assert len(links) > 15
    assert all((folder / link).is_file() for link in links)


def test_the_leaderboard_shows_the_numbers_of_the_table(folder: Path) -> None:
    inputs = example()
    markdown = written(folder)
    for row in inputs.leaderboard.iter_rows(named=True):
        line = next(one for one in markdown.splitlines() if one.startswith(f"| {row['rank'] or '–'} | {row['forecaster']} |"))
        ends = "–" if row["brier_lower"] is None else f"[{row['brier_lower']:.3f}, {row['brier_upper']:.3f}]"
        assert f"| {row['brier']:.4f} | {ends} |" in line
    assert "wild is not ranked: forecasts that count on 83.3 % of the questions" in markdown


@pytest.mark.usefixtures("no_figures")
def test_hostile_names_and_reasons_leave_the_page_whole(tmp_path: Path) -> None:
    of = questions([question(number, "yes" if number % 2 else "no", category=name) for number, name in enumerate(HOSTILE)])
    rows = [
        model_forecast(
            name,
            number,
            None if number == 3 else 0.4,
            failure=name if number == 3 else None,
            error=name,
            contradiction=name,
            parsed_by=name,
        )
        for name in ("<img src=x>|a", "b")
        for number in range(len(HOSTILE))
    ]
    inputs = frames.inputs(of, forecasts(rows))
    recipe = {"description": "<b>|[x](y)", "seed": "|"}
    html = rendered(page(replace(inputs, recipe=recipe, configurations={"b": {"title": "|<i>", "parameters": {"top|p": "<u>"}}}), tmp_path))
    tags = set(re.findall(r"<\s*/?\s*([a-z0-9]+)", html))
    assert tags <= {
        "h1",
        "h2",
        "h3",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "img",
        "em",
        "strong",
        "a",
        "code",
        "pre",
        "ul",
        "li",
    }
    assert set(re.findall(r'<img src="([^"]+)"', html)) <= {file.name for file in (tmp_path / "q").iterdir()}
    assert set(re.findall(r'<a href="([^"]+)"', html)) <= {file.name for file in (tmp_path / "q").iterdir()}


@pytest.mark.usefixtures("no_figures")
def test_nothing_scored_compared_or_analysed_is_a_page_that_says_so(tmp_path: Path) -> None:
    of = questions([question(0), question(1)])
    silent = frames.inputs(of, forecasts([model_forecast("m", number, None) for number in range(2)]))
    markdown = page(replace(silent, dataset_analysis=analyse(of).frame().clear(), comparisons=silent.comparisons.clear()), tmp_path)
    assert "m is not ranked: no forecast" in markdown
    assert "No pair was compared." in markdown
    assert "The questions have not been analysed." in markdown
    assert "Nothing is scored." in markdown
    assert "**Confusion matrix**" not in markdown
    assert "nan" not in markdown.lower().split()
    rendered(markdown)


def test_rows_of_forecasters_without_a_cutoff_need_no_contamination(tmp_path: Path, no_figures: None) -> None:
    of = questions([question(0), question(1, "no")])
    rows = forecasts([frames.forecast("always-half", number, 0.5) for number in range(2)])
    markdown = page(frames.inputs(of, rows), tmp_path)
    assert "No forecaster states a knowledge cutoff." in markdown
    assert "No language model was evaluated." in markdown
    assert pl.Series(re.findall("No pair was compared", markdown)).len() == 1


def test_a_p_value_is_never_written_as_zero_and_no_number_as_negative_zero() -> None:
    assert [p_value(one) for one in (None, 0.0, 1e-300, 0.00009999, 0.0001, 0.5, 1.0)] == [
        "–",
        "< 0.0001",
        "< 0.0001",
        "< 0.0001",
        "0.0001",
        "0.5000",
        "1.0000",
    ]
    assert (number(-1e-9), interval(-1e-9, -0.0)) == ("0.0000", "[0.000, 0.000]")
    assert number(-0.0004, 3) == "0.000"


def many_pairs() -> ReportInputs:
    """Eight forecasters on twenty questions. Each is better than the previous one; the last answered nothing."""
    of = frames.release(20)
    truths = (of["ground_truth"] == "yes").to_list()
    rows = [
        frames.forecast(f"f{index}", number, None if index == 7 else round(0.5 + (0.06 * index - 0.2) * (1 if truth else -1), 2))
        for index in range(8)
        for number, truth in enumerate(truths)
    ]
    noisy = [row | {"p_yes": row["p_yes"] + 0.01 * (number % 5)} if row["p_yes"] else row for number, row in enumerate(rows)]
    return frames.inputs(of, forecasts(noisy))


@pytest.mark.usefixtures("no_figures")
def test_of_many_pairs_those_with_the_best_and_of_neighbours_are_shown_best_first(tmp_path: Path) -> None:
    inputs = many_pairs()
    section = page(inputs, tmp_path).split("\n### Paired tests\n")[1].split("\n## ")[0]
    shown = [tuple(row[:2]) for row in cells(section)]
    names = [name for name in inputs.forecasters if name != "f7"]
    assert names == ["f6", "f5", "f4", "f3", "f2", "f1", "f0"]
    assert shown == [(names[0], other) for other in names[1:]] + [*pairwise(names)][1:]
    assert "11 of 28 pairs are shown" in section
    assert "\n- 7 without a test: no question has a forecast of both.\n" in section
    for row in list_ranked_pairs(inputs):
        assert inputs.forecasters.index(row["forecaster"]) < inputs.forecasters.index(row["other"])


def test_a_pair_that_is_turned_round_says_the_same() -> None:
    inputs = many_pairs()
    stored = {frozenset((row["forecaster"], row["other"])): row for row in inputs.comparisons.iter_rows(named=True)}
    turned = 0
    for row in list_ranked_pairs(inputs):
        same = stored[frozenset((row["forecaster"], row["other"]))]
        sign = 1 if same["forecaster"] == row["forecaster"] else -1
        turned += sign < 0
        if row["difference"] is not None:
            assert row["difference"] == sign * same["difference"]
            assert sorted((row["lower"], row["upper"])) == [row["lower"], row["upper"]]
            assert {abs(row["lower"]), abs(row["upper"])} == {abs(same["lower"]), abs(same["upper"])}
            assert row["p_holm"] == same["p_holm"]
    assert turned == 28 - 7


def test_ranges_of_days_stand_in_their_order() -> None:
    horizons = ["horizon:1d-7d", "horizon:7d-30d", "horizon:<=1d", "horizon:>30d"]
    assert sorted(horizons, key=order_by_distance) == ["horizon:<=1d", "horizon:1d-7d", "horizon:7d-30d", "horizon:>30d"]
    distances = ["distance:180d-365d", "distance:90d-180d", "distance:<90d", "distance:>=365d"]
    assert sorted(distances, key=order_by_distance) == ["distance:<90d", "distance:90d-180d", "distance:180d-365d", "distance:>=365d"]


@pytest.mark.usefixtures("no_figures")
def test_the_skill_against_the_market_says_on_how_few_questions_it_is(tmp_path: Path) -> None:
    of = frames.release(12)
    late = [{"as_of": timestamp} for timestamp in of.sort("ordinal")["close_time"]]
    rows = [
        frames.forecast(name, number, 0.3 + 0.04 * number, **(late[number] if number < priced else {}))
        for name, priced in (("few", 5), ("every", 12), ("none", 0))
        for number in range(12)
    ]
    inputs = frames.inputs(of, forecasts(rows))
    shown = {
        line.split(" | ")[1]: line.split(" | ")[7]
        for line in page(inputs, tmp_path).splitlines()
        if re.match(r"\| =?\d+ \| \w+ \| a", line)
    }
    skill = dict(inputs.leaderboard.select("forecaster", "skill_vs_market").rows())
    priced = dict(inputs.scores.filter(scope="all", metric="skill_vs_market").select("forecaster", "n").rows())
    assert priced["few"] < priced["every"] == 12
    assert shown["few"] == f"{skill['few']:.3f} ({priced['few']})"
    assert shown["every"] == f"{skill['every']:.3f}"


@pytest.mark.usefixtures("no_figures")
def test_answers_of_another_model_are_a_warning_at_the_top(folder: Path, tmp_path: Path) -> None:
    inputs = example()
    asked_of = inputs.forecasts["forecaster"][0]
    mine = pl.col("forecaster") == asked_of
    plain = written(folder)
    assert "Warning" not in plain
    for served, words in (
        (["gpt-4o-2024-08-06"], None),
        (["gpt-4o-2024-08-06", "gpt-4o-mini"], "answers of another model than openai/gpt-4o: gpt-4o-mini ("),
        (["gpt-4o-2024-08-06", "gpt-4o-2024-11-20"], "answers of several models: gpt-4o-2024-08-06 ("),
    ):
        names = pl.Series([served[number % len(served)] for number in range(inputs.forecasts.height)])
        changed = inputs.forecasts.with_columns(
            model=pl.when(mine).then(pl.lit("openai/gpt-4o")).otherwise("model"),
            served_model=pl.when(mine).then(names).otherwise("served_model"),
        )
        found = page(replace(inputs, forecasts=changed), tmp_path / str(len(served)) / str(words is None) / served[-1])
        assert "Served models" in found
        assert (words in plain_text(found)) if words else ("Warning" not in found)


def plain_text(markdown: str) -> str:
    return plain(re.sub(r"<[^>]+>", "", rendered(markdown)))
