"""The report of a release as Markdown and JSON: escaped text, numbers equal to the tables', and KalshiBench's names."""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bellwether.errors import ConfigError
from bellwether.formatting import interval, money, number, p_value, percent
from bellwether.pages.markdown import head, text, timestamp
from bellwether.report.inputs import ReportInputs
from bellwether.report.results import NAMES, leaderboards
from bellwether.report.writer import write_report
from tests.unit.report import frames
from tests.unit.report.folders import replace_figures, write_example
from tests.unit.report.frames import example, forecast, forecasts, model_forecast, question, questions

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


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_figures(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the example."""
    return write_example(tmp_path_factory.mktemp("reports"))


MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def rendered(markdown: str) -> str:
    return str(MARKDOWN.render(markdown))


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


def page_of(inputs: ReportInputs, folder: Path) -> str:
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
    assert len(tables) == 4
    for one in tables:
        header = len(re.findall(r"<th[ >]", one))
        rows = re.findall(r"<tr>(.*?)</tr>", one.split("</thead>")[1], re.DOTALL)
        assert rows
        assert all(len(re.findall(r"<td[ >]", row)) == header for row in rows)
    outside = re.sub(r"<table>.*?</table>", "", html, flags=re.DOTALL)
    assert "<p>|" not in outside


def test_every_link_leads_to_a_file(folder: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", written(folder))
    assert len(links) == 3
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
@pytest.mark.parametrize("hostile", [HOSTILE[::2], HOSTILE[1::2]])
def test_hostile_names_and_reasons_leave_the_page_whole(hostile: list[str], tmp_path: Path) -> None:
    of = questions([question(number, "yes" if number % 2 else "no", category=name) for number, name in enumerate(hostile)])
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
        for number in range(len(hostile))
    ]
    inputs = frames.inputs(of, forecasts(rows))
    recipe = {"description": "<b>|[x](y)", "seed": "|"}
    html = rendered(
        page_of(replace(inputs, recipe=recipe, configurations={"b": {"title": "|<i>", "parameters": {"top|p": "<u>"}}}), tmp_path)
    )
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


@pytest.mark.usefixtures("no_figures")
def test_the_skill_against_the_market_says_on_how_few_questions_it_is(tmp_path: Path) -> None:
    of = frames.release(12)
    late = [{"as_of": timestamp} for timestamp in of.sort("ordinal")["close_time"]]
    rows = [
        frames.forecast(name, number, 0.3 + 0.04 * number, **(late[number] if number < priced else {"as_of": None}))
        for name, priced in (("few", 5), ("every", 12))
        for number in range(12)
    ]
    inputs = frames.inputs(of, forecasts(rows))
    shown = {
        line.split(" | ")[1]: line.split(" | ")[7]
        for line in page_of(inputs, tmp_path).splitlines()
        if re.match(r"\| =?\d+ \| \w+ \| a", line)
    }
    skill = dict(inputs.leaderboard.select("forecaster", "skill_vs_market").rows())
    priced = dict(inputs.scores.filter(scope="all", metric="skill_vs_market").select("forecaster", "n").rows())
    assert priced["few"] < priced["every"] == 12
    assert shown["few"] == f"{skill['few']:.3f} ({priced['few']})"
    assert shown["every"] == f"{skill['every']:.3f}"


@pytest.mark.usefixtures("no_figures")
def test_answers_of_another_model_are_a_warning_at_the_top(folder: Path, tmp_path: Path) -> None:
    assert "Warning" not in written(folder)
    inputs = example()
    mine = pl.col("forecaster") == inputs.forecasts["forecaster"][0]
    served = ["gpt-4o-2024-08-06", "gpt-4o-mini"]
    names = pl.Series([served[number % 2] for number in range(inputs.forecasts.height)])
    changed = inputs.forecasts.with_columns(
        model=pl.when(mine).then(pl.lit("openai/gpt-4o")).otherwise("model"),
        served_model=pl.when(mine).then(names).otherwise("served_model"),
    )
    found = plain_text(page_of(replace(inputs, forecasts=changed), tmp_path))
    assert "answers of another model than openai/gpt-4o: gpt-4o-mini (" in found


def plain_text(markdown: str) -> str:
    return plain(re.sub(r"<[^>]+>", "", rendered(markdown)))


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def inputs() -> ReportInputs:
    return example()


def read(folder: Path, beginning: str) -> dict[str, Any]:
    (found,) = folder.glob(f"{beginning}_2*.json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(found.read_text(encoding="utf-8"), parse_constant=refuse)


def small(rows: list[dict[str, Any]], truths: str = "ynyn") -> ReportInputs:
    """Return a release of one letter per question with these forecasts."""
    of = questions([question(number, {"y": "yes", "n": "no"}[letter]) for number, letter in enumerate(truths)])
    return frames.inputs(of, frames.forecasts(rows))


@pytest.mark.parametrize(("file", "forecaster"), [("wild", "wild"), ("good_model-9ab7a81d", "good/model"), ("always-half", "always-half")])
def test_every_metric_of_a_model_equals_the_scores(inputs: ReportInputs, folder: Path, file: str, forecaster: str) -> None:
    found = read(folder, file)
    scores = inputs.scores.filter(pl.col("forecaster") == forecaster)
    own = scores.filter(scope="all")
    assert own.height == len(found["metrics"]) > 20
    for row in own.iter_rows(named=True):
        for name in ("value", "lower", "upper", "reason", "expected", "p_calibrated", "n", "n_clusters"):
            assert found["metrics"][row["metric"]][name] == row[name], (row["metric"], name)
    for published, ours in NAMES.items():
        assert found[published] == found["metrics"][ours]["value"]


def test_the_metrics_can_be_recomputed_from_the_predictions_and_labels_of_the_same_file(folder: Path) -> None:
    from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix

    found = read(folder, "wild")
    rows = [one for one in found["predictions"] if one["predicted_answer"] is not None]
    y = np.array([one["ground_truth"] == "yes" for one in rows])
    p = np.array([one["predicted_probability"] for one in rows])
    said = np.array([one["predicted_answer"] == "yes" for one in rows])
    assert found["brier_score"] == pytest.approx(brier_score_loss(y, p))
    assert found["accuracy"] == pytest.approx(accuracy_score(y, said))
    assert [one["correct"] for one in rows] == (y == said).tolist()
    ((tn, fp), (fn, tp)) = confusion_matrix(y, said)
    assert found["confusion_matrix"] == {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
    assert found["parse_rate"] == len(rows) / len(found["predictions"])
    for name, row in found["per_category"].items():
        assert row["count"] == sum(one["category"] == name for one in rows)


def test_predictions_carry_everything_that_is_known_of_them(inputs: ReportInputs, folder: Path) -> None:
    of = {row["id"]: row for row in inputs.questions.iter_rows(named=True)}
    rows = {row["question_id"]: row for row in inputs.forecasts.filter(pl.col("forecaster") == "good/model").iter_rows(named=True)}
    found = read(folder, "good_model-9ab7a81d")["predictions"]
    assert [one["question_id"] for one in found] == inputs.questions.sort("ordinal")["id"].to_list()
    for one in found:
        truth, row = of[one["question_id"]], rows[one["question_id"]]
        assert one["ground_truth"] == truth["ground_truth"]
        assert one["question"] == truth["question"]
        assert one["category"] == truth["category"]
        for name in ("open_time", "close_time", "settled_at"):
            assert datetime.fromisoformat(one[name]) == truth[name]
        assert one["raw_output"] == row["raw_response"]
        assert (one["predicted_probability"], one["predicted_answer"]) == (row["p_yes"], row["answer"])
        assert (one["confidence"], one["parsed_by"], one["prompt_hash"]) == (row["confidence"], row["parsed_by"], row["prompt_hash"])
        assert (one["input_tokens"], one["output_tokens"]) == (row["input_tokens"], row["output_tokens"])
        assert one["cost_microdollars"] == 1234
        assert one["latency_ms"] == 1000 * row["latency"]
        assert one["samples"] == []


def test_several_samples_stand_below_the_forecast_that_was_scored(inputs: ReportInputs, folder: Path) -> None:
    rows = inputs.forecasts.filter(pl.col("forecaster") == "wild")
    for one in read(folder, "wild")["predictions"]:
        samples = rows.filter(pl.col("question_id") == one["question_id"])
        assert [sample["predicted_probability"] for sample in one["samples"]] == samples["p_yes"].to_list()
        if one["predicted_answer"] is not None:
            assert one["predicted_probability"] == samples["p_yes"].median()
        assert one["input_tokens"] == samples["input_tokens"].sum()


def test_what_could_be_known_is_kept_apart_and_what_failed_says_why(folder: Path) -> None:
    found = read(folder, "wild")
    assert [one["question_id"] for one in found["excluded"]] == ["kalshi:M0", "kalshi:M1"]
    assert all(one["could_know"] for one in found["excluded"])
    failed = [one for one in found["predictions"] if one["predicted_answer"] is None]
    assert [one["question_id"] for one in failed] == ["kalshi:M7", "kalshi:M19"]
    assert all(one["error"] == "it took too long" and one["failure"] == "timeout" for one in failed)
    assert all(one["predicted_probability"] is one["correct"] is one["cost_microdollars"] is None for one in failed)
    line = read(folder, "summary")["models"]["wild"]["leaderboard"]
    assert (line["could_know"], line["failed"]) == (len(found["excluded"]), len(failed))


def test_money_is_exact() -> None:
    costs = ["0.100000", "0.200000", "0.000001", None]
    rows = [model_forecast("m", number, 0.4, cost=None if cost is None else Decimal(cost)) for number, cost in enumerate(costs)]
    made = frames.predictions_of(small(rows), "m")
    assert made.usage()["cost_microdollars"] == 300_001
    assert made.usage()["without_cost"] == 1
    assert [one["cost_usd"] for one in made.scored] == [0.1, 0.2, 0.000001, None]


def test_the_summary_equals_the_leaderboard_and_the_comparisons(inputs: ReportInputs, folder: Path) -> None:
    found = read(folder, "summary")
    board = {row["forecaster"]: row for row in inputs.leaderboard.iter_rows(named=True)}
    assert list(found["models"]) == ["good/model", "always-half", "wild"]
    for name, row in board.items():
        assert found["models"][name]["brier_score"] == row["brier"]
        assert found["models"][name]["intervals"]["brier_score"] == [row["brier_lower"], row["brier_upper"]]
        for column in ("rank", "group", "in_mcs", "coverage", "could_know"):
            assert found["models"][name]["leaderboard"][column] == row[column]
    assert [pair["p_holm"] for pair in found["pairs"]] == inputs.comparisons.sort("forecaster", "other")["p_holm"].to_list()
    assert [line["model"] for line in found["leaderboard"]["by_brier_score"]] == ["good/model", "always-half"]
    assert [line["model"] for line in found["leaderboard"]["by_calibration"]] == ["always-half", "good/model"]


def test_a_score_of_zero_is_ranked_and_equal_scores_share_a_rank() -> None:
    rows = [forecast(name, number, float(number % 2 == 0)) for name in ("a", "b") for number in range(6)]
    rows += [forecast("c", number, 0.5) for number in range(6)]
    boards = leaderboards(small(rows, "ynynyn"))
    assert [(line["rank"], line["model"], line["brier_score"]) for line in boards["by_brier_score"]] == [
        (1, "a", 0),
        (1, "b", 0),
        (3, "c", 0.25),
    ]
    assert [line["rank"] for line in boards["by_accuracy"]] == [1, 1, 3]


def test_the_metadata_name_rules_versions_recipe_and_every_file_with_its_digest(inputs: ReportInputs, folder: Path) -> None:
    found = read(folder, "metadata")
    others = {file.name for file in folder.iterdir() if not file.name.startswith("metadata")}
    assert set(found["files"]) == others
    assert "journal" not in found, "counts of calls of this world would differ with who writes the report, and when"
    for name, file in found["files"].items():
        content = (folder / name).read_bytes()
        assert file == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert found["rules"]["benchmark/scores"] == inputs.scores["rules"].unique().to_list()
    assert found["ground_truth_distribution"]["yes"] == (inputs.questions["ground_truth"] == "yes").sum()
    assert found["price_maps"] == ["1.103/abc"]
    assert found["elicitations"] == ["tags/1"]
    assert found["packages"]["numpy"] == np.__version__


@pytest.mark.parametrize("seed", range(4))
def test_any_forecasts_give_predictions_whose_counts_are_those_of_the_leaderboard(seed: int) -> None:
    draw = random.Random(seed)
    drawn = [(draw.choice([None, draw.random()]), draw.random() < 0.5, draw.random() < 0.5) for _ in range(draw.randrange(2, 13))]
    truths = "".join("y" if yes else "n" for _, yes, _ in drawn)
    inputs = small([forecast("m", number, p, could_know=known) for number, (p, _, known) in enumerate(drawn)], truths)
    made = frames.predictions_of(inputs, "m")
    line = inputs.leaderboard.row(0, named=True)
    assert len(made.excluded) == line["could_know"]
    assert len(made.answered) == line["n"]
    assert len(made.scored) - len(made.answered) == line["failed"]
    cells = made.confusion()
    accuracy = None if not made.answered else (cells["tp"] + cells["tn"]) / len(made.answered)
    assert accuracy is line["accuracy"] is None or accuracy == pytest.approx(line["accuracy"])


def test_a_release_without_a_leaderboard_and_rows_of_two_releases_are_errors(inputs: ReportInputs) -> None:
    with pytest.raises(ConfigError, match="leaderboard is empty"):
        replace(inputs, leaderboard=inputs.leaderboard.clear())
    with pytest.raises(ConfigError, match="of the releases other, q"):
        replace(inputs, questions=inputs.questions.with_columns(release=pl.lit("other")))
