"""Page of a question: text, price history, forecasts, outcome, prompts and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from bellwether.pages import charts
from bellwether.pages.columns import build_column, build_table
from bellwether.pages.model import Cell, Facts, Note, Page, Part, Section, Text, Texts
from bellwether.pages.render import File, render
from bellwether.pages.values import any_value, finite, group_rows, minute, number, price, text, timestamp, yes_no
from bellwether.site import texts
from bellwether.site.paths import forecaster_path, question_path, release_path
from bellwether.site.release import ReleaseData
from bellwether.site.source import SiteSource
from bellwether.tables.benchmark import HORIZONS

#: Forecasts of language models.
_ASKED = pl.col("raw_response").is_not_null() | pl.col("call_key").is_not_null()
#: Points of a curve of prices.
_POINTS = 120


def pages(material: ReleaseData, prices: pl.DataFrame, evidence: pl.DataFrame) -> Iterator[File]:
    """Yield a page for each question of a release. prices: rows from `prices`. evidence: rows from `evidence`."""
    answers = group_rows(material.answers.sort("brier", "forecaster", nulls_last=True), "question_id")
    model_forecasts = group_rows(material.forecasts.filter(_ASKED).select(texts.COLUMNS), "question_id")
    curves = group_rows(prices, "id")
    ended = {row.pop("id"): row for row in evidence.iter_rows(named=True)}
    for row in material.questions.iter_rows(named=True):
        name = row["id"]
        yield from _page(
            material,
            row,
            answers=answers.get(name, []),
            asked=model_forecasts.get(name, []),
            prices=curves.get(name, []),
            evidence=ended.get(name),
        )


def _page(
    material: ReleaseData,
    row: dict[str, Any],
    *,
    answers: list[dict[str, Any]],
    asked: list[dict[str, Any]],
    prices: list[dict[str, Any]],
    evidence: dict[str, Any] | None,
) -> Iterator[File]:
    title = text(row["question"], most=200).text
    texts: list[Part] = [Text("Resolution criteria", row["description"])]
    if title != row["question"]:
        texts.insert(0, Text("The whole question", row["question"]))
    sections = [
        Section("Price and forecasts over time", [*_price(material, prices, answers), Facts(_facts(row, evidence))], (8, 4)),
        Section("Forecasts", [_answers(material, row["id"], answers)]),
        Section("Text", texts),
        Section("Prompts and answers, verbatim", _prompts(row, asked)),
    ]
    above = [("Benchmark", "benchmark/index.html"), (material.name, release_path(material.name))]
    lead = f"Question {row['ordinal']} of {material.name}: {text(row['category'], most=60).text}; the outcome was {row['ground_truth']}."
    yield from render(Page(question_path(material.name, row["id"]), title, lead, sections, above))


def _facts(row: dict[str, Any], evidence: dict[str, Any] | None) -> list[tuple[str, Cell]]:
    """Build pairs of name and value about a question: identifiers, dates, prices, and facts about the resolution (evidence)."""
    facts = [
        ("Market", text(f"{row['source']}: {row['market_id']}")),
        ("Event", text(row["event_id"])),
        ("Cluster", text(row["cluster"])),
        ("Opened", timestamp(row["open_time"])),
        ("Closed", timestamp(row["close_time"])),
        ("Settled", timestamp(row["settled_at"])),
    ]
    facts += [(f"Price {name} before the close", price(row[f"price_{name}"])) for name in HORIZONS]
    if evidence:
        facts += [(f"Evidence: {name.replace('_', ' ')}", any_value(value)) for name, value in evidence.items() if value is not None]
    return facts


def _answers(material: ReleaseData, question: str, answers: list[dict[str, Any]]) -> Part:
    def name(one: Mapping[str, Any]) -> Cell:
        on_board = one["forecaster"] in material.colours
        return text(one["forecaster"], forecaster_path(material.name, one["forecaster"]) if on_board else "")

    def is_right(one: Mapping[str, Any]) -> Cell:
        return yes_no(None if one["p_yes"] is None or one["yes"] is None else (one["p_yes"] >= 0.5) == (one["yes"] == 1))

    return build_table(
        "benchmark/forecasts",
        "Best first; a probability leads to the prompt and the answer behind it",
        answers,
        build_column("Forecaster", name),
        build_column("Probability of yes", lambda one: answer_cell(material.name, question, one), numeric=True),
        build_column("Brier", lambda one: number(one["brier"], 3), numeric=True),
        build_column("Right", is_right, "the decision, yes from 0.5 on, was the outcome"),
        build_column(
            "Known outcome", lambda one: yes_no(one["could_know"]), "it was settled before the forecaster's training data ended: not scored"
        ),
        build_column("Samples", lambda one: number(one["samples"]), numeric=True),
        build_column("Problem", lambda one: text(one["error"]), "why there is no forecast"),
        empty="No forecaster has this question.",
    )


def answer_cell(release: str, question: str, answer: Mapping[str, Any]) -> Cell:
    """Format the probability of a forecast; that of a language model links to its prompt and answer."""
    probability = number(answer["p_yes"], 3)
    if not answer["asked"]:
        return probability
    return Cell(
        probability.text, probability.key, f"{question_path(release, question)}#{texts.anchor(answer['forecaster'])}", probability.title
    )


def _price(material: ReleaseData, prices: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[Part]:
    """Build the chart of the price of YES, with a dot for each forecast at its `as_of`."""
    rows = [{"name": "price", "x": minute(row["at"]), "y": finite(row["price"]), "point": None} for row in prices]
    forecast_rows = [
        {"name": one["forecaster"], "x": minute(one["as_of"]), "y": None, "point": one["p_yes"]}
        for one in answers
        if one["p_yes"] is not None and one["as_of"] is not None
    ]
    if not rows and not forecast_rows:
        return [Note("The warehouse has no prices of this market.")]
    # The same names on every page share one cached chart specification.
    colours = {"price": charts.GREY, **material.colours}
    return [
        charts.lines(
            "Price of YES, and forecasts as dots",
            "UTC",
            "probability of yes",
            [*rows, *forecast_rows],
            colours,
            step=True,
            dots=False,
            points=True,
            height=420,
        )
    ]


def _prompts(row: dict[str, Any], asked: list[dict[str, Any]]) -> list[Part]:
    """Build the part with the verbatim prompts and answers of language models. row: the question. asked: forecasts of the models."""
    if not asked:
        return [Note("No language model forecast this question.")]
    note = "Prompts are rebuilt from the question and shown if their hash equals the recorded one."
    return [Note(note), Texts("said", texts.forecast_entries(row, asked))]


def prices(source: SiteSource, release: str) -> pl.DataFrame:
    """Read the prices of a release's markets up to their close, at most about 120 per market. Columns: id, at, price."""
    if not source.rows("clean/prices"):
        return pl.DataFrame(schema={"id": pl.String, "at": pl.Datetime("us", "UTC"), "price": pl.Float64})
    price_rows = source.query("prices", release=release)
    chosen = (pl.int_range(pl.len()) % (pl.len() / _POINTS).ceil().cast(pl.Int64) == 0) | (pl.int_range(pl.len()) == pl.len() - 1)
    return price_rows.filter(chosen.over("id"))


def evidence(source: SiteSource, release: str) -> pl.DataFrame:
    """Read the facts from which the markets of a release were resolved, such as the venue's result. Columns: id, and one per kind of fact."""
    evidence_rows = pl.DataFrame(schema={"id": pl.String})
    for table in ("markets", "resolutions"):
        if source.rows(f"clean/{table}"):
            rows = source.query(table, release=release).unique("id", keep="last", maintain_order=True)
            evidence_rows = evidence_rows.join(rows, on="id", how="full", coalesce=True, suffix=f"_by_{table}")
    return evidence_rows.sort("id")
