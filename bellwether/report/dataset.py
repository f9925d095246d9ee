"""The report's section on the questions, from the dataset analysis as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bellwether.formatting import number, percent, rounded_down
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import table, text, when

_MOMENTS = ("mean", "median", "std", "min", "max")


def dataset_section(analysis: Mapping[str, Any], inputs: Inputs) -> list[str]:
    """The section; `analysis` is the JSON of the dataset analysis."""
    if not analysis["total_questions"]:
        return ["## Dataset analysis", "", "The questions have not been analysed.", ""]
    return [
        "## Dataset analysis",
        "",
        *_time(analysis),
        *_outcomes(analysis),
        *_categories(analysis),
        *_complexity(analysis),
        *_clusters(analysis, inputs),
        *_market(analysis),
    ]


def _time(analysis: Mapping[str, Any]) -> list[str]:
    span = analysis["date_range"]
    lengths = {
        "Cutoff to close (days)": {name: analysis["time_horizon_stats"][f"{name}_days_ahead"] for name in _MOMENTS},
        "Cutoff to close (whole days, as KalshiBench counts)": {
            name: analysis["as_published"]["time_horizon_stats"][f"{name}_days_ahead"] for name in _MOMENTS
        },
        "Opening to close (days)": analysis["open_to_close_days"],
        "Close to settlement (days)": analysis["close_to_settlement_days"],
    }
    months = analysis["ground_truth_by_month"]
    return [
        "### Temporal distribution",
        "",
        f"{number(analysis['total_questions'])} questions closed from {when(span['earliest'])} to {when(span['latest'])}:"
        f" {number(span['span_days'])} days.",
        "",
        *table(("Time", "Mean", "Median", "Std. dev.", "Min", "Max"), [(name, *_moments(row, 1)) for name, row in lengths.items()]),
        *table(
            ("Month", "Questions", "Yes rate"),
            [(text(name), number(row["total"]), percent(row["yes_rate"])) for name, row in months.items()],
        ),
    ]


def _outcomes(analysis: Mapping[str, Any]) -> list[str]:
    truth, total = analysis["ground_truth_distribution"], analysis["total_questions"]
    rows = [(answer.capitalize(), number(truth[answer]), percent(truth[answer] / total)) for answer in ("yes", "no")]
    return ["### Ground truth distribution", "", *table(("Outcome", "Questions", "Share"), rows)]


def _categories(analysis: Mapping[str, Any]) -> list[str]:
    diversity = analysis["category_diversity"]
    rows = [
        (
            text(name),
            number(row["questions"]),
            percent(row["share"]),
            percent(row["yes_rate"]),
            number(row["series"]),
            number(row["events"]),
        )
        for name, row in analysis["categories"].items()
    ]
    sources = [f"{text(name)} {number(row['questions'])}" for name, row in sorted(analysis["sources"].items())]
    return [
        "### Category distribution",
        "",
        f"{analysis['num_categories']} categories; entropy {number(analysis['category_entropy'])} bits of at most"
        f" {number(diversity['max_entropy'])} (normalized {number(diversity['normalized_entropy'])}), as diverse as"
        f" {number(diversity['effective_categories'], 1)} equal categories. Largest: {text(analysis['largest_category'])};"
        f" smallest: {text(analysis['smallest_category'])}. Sources: {', '.join(sources)}.",
        "",
        *table(("Category", "Questions", "Share", "Yes rate", "Series", "Events"), rows),
    ]


def _complexity(analysis: Mapping[str, Any]) -> list[str]:
    rows = [
        ("Question (characters)", *_moments(analysis["question_length_stats"], 1)),
        ("Description (characters)", *_moments(analysis["description_length_stats"], 1)),
    ]
    return [
        "### Question complexity",
        "",
        *table(("Text", "Mean", "Median", "Std. dev.", "Min", "Max"), rows),
        f"Vocabulary: {number(analysis['total_vocabulary_size'])} distinct words; {number(analysis['avg_words_per_question'], 1)} words per"
        " question with its description.",
        "",
    ]


def _clusters(analysis: Mapping[str, Any], inputs: Inputs) -> list[str]:
    rows = [
        (
            {"cluster": "Cluster of the bootstrap", "series": "Series", "event": "Event"}[name],
            number(row["clusters"]),
            number(row["largest"]),
            number(row["intraclass"], 3),
            number(row["effective_questions"], 1),
            number(row["least_effective_questions"], 1),
        )
        for name, row in analysis["clusters"].items()
    ]
    header = ("Unit", "Units", "Largest", "Intraclass correlation", "Effective questions", "At worst")
    return [
        "### Effective sample size",
        "",
        "Questions of one series or event resemble one another. By the correlation of their outcomes they are worth so many independent"
        f" ones, of {number(inputs.questions.height)}; at worst those of a unit are copies of each other.",
        "",
        *table(header, rows),
    ]


def _market(analysis: Mapping[str, Any]) -> list[str]:
    before = [(f"{name} before the close", row) for name, row in analysis["market_by_horizon"].items()]
    rows = [_market_row(name, row) for name, row in [*before, ("Final price (known after the fact)", analysis["final_price"])]]
    certainty = [_certainty_row(name, row) for name, row in before]
    return [
        "### Market baseline",
        "",
        "The market's own price as a forecast. The final price stands for comparison only: it is known after the fact.",
        "",
        *table(("Price", "n", "Coverage", "Brier", "Skill", "ECE", "Log loss", "Accuracy"), rows),
        "Certainty of the price: high below 0.2 or above 0.8, low from 0.4 to 0.6, medium between.",
        "",
        *table(("Price", "High", "Accuracy", "Medium", "Accuracy", "Low", "Accuracy"), certainty),
    ]


def _market_row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    found = row["calibration"] or {}
    metrics = [number(found.get(metric)) for metric in ("brier_score", "brier_skill_score", "ece", "log_loss")]
    return (name, number(row["n"]), percent(rounded_down(row["coverage"])), *metrics, percent(found.get("accuracy")))


def _certainty_row(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = row["uncertainty_distribution"] or {}
    cells: list[str] = []
    for band, accuracy in (
        ("high_confidence", "high_confidence_accuracy"),
        ("medium_confidence", "medium_confidence_accuracy"),
        ("low_confidence", "uncertain_accuracy"),
    ):
        cells += [number(counts.get(band)), percent(row[accuracy])]
    return (name, *cells)


def _moments(row: Mapping[str, Any], digits: int) -> tuple[str, ...]:
    return tuple(number(None if row.get(name) is None else float(row[name]), digits) for name in _MOMENTS)
