"""Page of a question: text, price history, forecasts, outcome, prompts and answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from bellwether.pages import charts
from bellwether.pages.columns import Row, Shown, build_column, build_table
from bellwether.pages.model import Cell, Facts, Note, Page, Part, Section, Text, Texts
from bellwether.pages.render import File, render
from bellwether.pages.values import any_value, finite, group_rows, instant, number, price, text, timestamp, yes_no
from bellwether.site import texts
from bellwether.site.paths import forecaster_path, question_path, release_path
from bellwether.site.release import ReleaseData
from bellwether.site.source import SiteSource
from bellwether.tables.benchmark import HORIZONS

#: Forecasts of language models.
_ASKED = pl.col("raw_response").is_not_null() | pl.col("call_key").is_not_null()
Rows = Sequence[Row]


def pages(source: SiteSource, material: ReleaseData) -> Iterator[File]:
    """Yield a page for each question of a release."""
    answers = group_rows(material.answers.sort("brier", "forecaster", nulls_last=True), "question_id")
    model_forecasts = group_rows(material.forecasts.filter(_ASKED).select(texts.COLUMNS), "question_id")
    prices = group_rows(source.query("question_prices", release=material.name), "id")
    evidence = {row.pop("id"): row for row in source.query("evidence", release=material.name).iter_rows(named=True)}
    for row in material.questions.iter_rows(named=True):
        name = row["id"]
        own = answers.get(name, [])
        title = text(row["question"], most=200).text
        bodies: list[Part] = [Text("Resolution criteria", row["description"])]
        if title != row["question"]:
            bodies.insert(0, Text("The whole question", row["question"]))
        facts = Facts(_facts(row, evidence[name]))
        sections = [
            Section("Price and forecasts over time", [_prices(material, prices.get(name, []), own), facts], (8, 4)),
            Section("Forecasts", [_answers(material, own)]),
            Section("Text", bodies),
            Section("Prompts and answers, verbatim", _prompts(row, model_forecasts.get(name, []))),
        ]
        above = [("Benchmark", "benchmark/index.html"), (material.name, release_path(material.name))]
        lead = (
            f"Question {row['ordinal']} of {material.name}: {text(row['category'], most=60).text}; the outcome was {row['ground_truth']}."
        )
        yield from render(Page(question_path(material.name, name), title, lead, sections, above))


def _facts(row: Row, evidence: Row) -> list[tuple[str, Cell]]:
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
    return facts + [(f"Evidence: {name.replace('_', ' ')}", any_value(value)) for name, value in evidence.items() if value is not None]


def _answers(material: ReleaseData, answers: Rows) -> Part:
    def name(one: Row) -> Cell:
        on_board = one["forecaster"] in material.colours
        return text(one["forecaster"], forecaster_path(material.name, one["forecaster"]) if on_board else "")

    def is_right(one: Row) -> Cell:
        return yes_no(None if one["p_yes"] is None else (one["p_yes"] >= 0.5) == (one["ground_truth"] == "yes"))

    return build_table(
        "benchmark/forecasts",
        "Best first; a probability leads to the prompt and the answer behind it",
        answers,
        build_column("Forecaster", name),
        answer_column("Probability of yes", material.name),
        build_column("Brier", lambda one: number(one["brier"], 3), numeric=True),
        build_column("Right", is_right, "the decision, yes from 0.5 on, was the outcome"),
        *(("could_know", "Known outcome"), "samples", ("error", "Problem")),
        empty="No forecaster has this question.",
    )


def answer_column(title: str, release: str) -> Shown:
    """Build the column of forecast probabilities; that of a language model leads to its prompt and answer."""

    def cell(row: Row) -> Cell:
        anchor = f"{question_path(release, row['question_id'])}#{texts.anchor(row['forecaster'])}"
        return number(row["p_yes"], 3)._replace(href=anchor if row["asked"] else "")

    return build_column(title, cell, "forecast probability of yes", numeric=True)


def _prices(material: ReleaseData, prices: Rows, answers: Rows) -> Part:
    """Build the chart of the price of YES, with a dot for each forecast at its `as_of`."""
    rows = [{"name": "price", "x": instant(row["at"]), "y": finite(row["price"]), "point": None} for row in prices]
    rows += [
        {"name": one["forecaster"], "x": instant(one["as_of"]), "y": None, "point": one["p_yes"]}
        for one in answers
        if one["p_yes"] is not None and one["as_of"] is not None
    ]
    if not rows:
        return Note("The warehouse has no prices of this market.")
    # The same names on every page share one cached chart specification.
    colours = {"price": charts.GREY, **material.colours}
    title = "Price of YES, and forecasts as dots"
    return charts.lines(title, "UTC", "probability of yes", rows, colours, step=True, dots=False, points=True, height=420)


def _prompts(row: Row, asked: Rows) -> list[Part]:
    """Build the part with the verbatim prompts and answers of language models. row: the question. asked: forecasts of the models."""
    if not asked:
        return [Note("No language model forecast this question.")]
    note = (
        "Prompts are rebuilt from the question and shown if their hash equals the recorded one. The command below each answer prints the "
        "whole conversation of a forecast, with the calls of tools and their results."
    )
    return [Note(note), Texts("said", texts.forecast_entries(row, asked))]
