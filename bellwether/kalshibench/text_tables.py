"""Tables of an examination for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console

from bellwether.calibration import Comparison, Scores
from bellwether.console import TextTable, print_tables
from bellwether.formatting import estimate, number, p_value
from bellwether.kalshibench.examination import Examination, ModelExamination
from bellwether.kalshibench.notes import build_notes
from bellwether.kalshibench.recomputation import RecomputationStatus
from bellwether.kalshibench.scoring import (
    CORRECTED_BY,
    PAIR_TESTS,
    ScoreInterval,
    count_significant,
    find_best,
    find_confidence_set,
    read_interval,
    read_pair_interval,
)

_MARKS = {
    RecomputationStatus.EQUAL: "=",
    RecomputationStatus.DIFFERS: "≠",
    RecomputationStatus.TIES: "~",
    RecomputationStatus.NOT_RECOMPUTED: "?",
}


def print_examination(console: Console, examination: Examination, *, in_full: bool) -> None:
    """Print the tables and notes of an examination. in_full: also print every published number of each model."""
    tables = [_published(examination), _corrected(examination), _findings(examination), _statuses(examination)]
    if examination.results.summaries:
        tables.append(_files(examination))
    if in_full:
        tables += [_detail(model) for model in examination.models]
    tables += [_pairs(name, comparison, examination) for name, comparison in examination.comparisons().items()]
    print_tables(console, tables, list(examination.numbers()["model"].unique(maintain_order=True)))
    for note in build_notes(examination):
        console.print(f"- {note}", markup=False, soft_wrap=True)


def _published(examination: Examination) -> TextTable:
    table = TextTable(
        "As published, and with each number read in agreement with its answer",
        ("model", "published\nBrier", "\nBSS", "\nECE", "same labels\nBrier", "\nBSS", "\nECE", "\nn"),
        "same labels: the answer-consistent reading with the labels as scored; n: entries in it, of all",
    )
    for model in examination.models:
        published = [model.result.published.get(name) for name in ("brier_score", "brier_skill_score", "ece")]
        consistent = [read_interval(model.consistent, name).value for name in ("brier", "brier_skill", "ece")]
        cells = [""] * 3 if model.consistent is None else _triple(consistent)
        table.add(model.name, *_triple(published), *cells, _n(model, model.consistent))
    return _starred(table, examination)


def _n(model: ModelExamination, scores: Scores | None) -> str:
    """Format the numbers of scored and of all entries, with a star if the labels come from another question set."""
    return "" if scores is None else f"{scores.n}/{model.entries.height}{' *' if model.borrowed else ''}"


def _starred(table: TextTable, examination: Examination) -> TextTable:
    if any(model.borrowed for model in examination.models):
        table.caption += "\n*: partial, over the few entries whose label is certain; not comparable with the others"
    return table


def _triple(values: list[Any]) -> list[str]:
    return [_number(value, digits, sign) for value, digits, sign in zip(values, (4, 3, 3), ("", "+", ""), strict=True)]


def _corrected(examination: Examination) -> TextTable:
    clusters = examination.plan.clusters.plural
    caption = f"each entry with its own label; intervals take {clusters} as independent; n: entries scored, of all"
    table = TextTable("Corrected", ("model", "Brier [95 %]", "BSS [95 %]", "ECE", "acc.", "n"), caption)
    for model in examination.models:
        if model.corrected is None:
            table.add(model.name, *[""] * 5)
            continue
        brier, skill, ece, accuracy = (read_interval(model.corrected, name) for name in ("brier", "brier_skill", "ece", "accuracy"))
        cells = [_interval(brier, 4), _interval(skill, 3, "+"), _number(ece.value, 3), _number(accuracy.value, 3)]
        table.add(model.name, *cells, _n(model, model.corrected))
        if brier.reason is not None:
            table.caption += f"\nno interval for {model.name}: {brier.reason}"
    return _starred(table, examination)


def _interval(interval: ScoreInterval, digits: int, sign: str = "", ends: int | None = None) -> str:
    """Format a value and its interval. digits: decimals of the value. ends: decimals of the interval's ends, by default one less."""
    return estimate(interval.value, interval.lower, interval.upper, digits, ends=digits - 1 if ends is None else ends, sign=sign)


def _number(value: float | int | None, digits: int, sign: str = "") -> str:
    return number(None if value is None else float(value), digits, sign=sign)


_COUNTS = {
    "unparsed": "un-\nparsed",
    "fallback": "no\ntag",
    "inverted": "inver-\nted",
    "unflipped": "un-\nflipped",
    "yes_below_half": "yes\n< 50",
    "certain": "p\n= 1",
    "misread": "mis-\nread",
    "shared_ids": "shared\nids",
    "overwritten": "over-\nwritten",
    "wrong_labels": "wrong\nlabel",
    "unknown_labels": "label\nunkn.",
}


def _findings(examination: Examination) -> TextTable:
    table = TextTable(
        "What the published scoring did",
        ("model", *_COUNTS.values()),
        "inverted: of the no answers, those with a number below 50, read as P(yes) above 50 %; unflipped: no without a tag, its number\n"
        "taken as P(yes); p = 1: in no bin; overwritten: scored with the outcome of another entry of the same id; wrong label: known to be false",
    )
    for model in examination.models:
        counts = asdict(model.findings)
        inverted = f"{counts['inverted']}/{counts['no_answers']}"
        cells = [inverted if name == "inverted" else "–" if counts[name] is None else str(counts[name]) for name in _COUNTS]
        table.add(model.name, *cells)
    return table


_STATUSES = ("total", "equal", "differ", "ties", "not re-\ncomputed", "for lack of")


def _statuses(examination: Examination) -> TextTable:
    table = TextTable(
        "What became of the published numbers",
        ("model", *_STATUSES),
        "ties: this machine's sort of tied forecasts gives another ACE, and some order gives the published one",
        wraps=True,
    )
    for name, cells in _status_rows(examination, "model"):
        table.add(name, *cells)
    table.add("all", *next(_status_rows(examination))[1])
    return table


def _files(examination: Examination) -> TextTable:
    table = TextTable("The same by file", ("file", *_STATUSES[:-1]), shortens=False)
    for name, cells in _status_rows(examination, "source"):
        table.add(name, *cells[:-1])
    return table


def _status_rows(examination: Examination, *by: str) -> Iterator[tuple[str, list[str]]]:
    for row in examination.counts_with_needs(*by):
        needs = ", ".join(f"{need} {count}" for need, count in row["needs"].items())
        yield row[by[0]] if by else "", [str(row[name]) for name in ("total", *RecomputationStatus)] + [needs]


def _detail(model: ModelExamination) -> TextTable:
    table = TextTable(
        f"{model.name} ({model.result.source})",
        ("metric", "published", "recomputed", "", "same\nlabels", "corrected [95 %]"),
        "= equal, ≠ differs, ~ depends on the sort of ties, ? not recomputed",
        shortens=False,
    )
    for row in model.numbers().iter_rows(named=True):
        metric = CORRECTED_BY.get(row["metric"])
        cells = ["", ""]
        if metric is not None and model.consistent is not None:
            cells[0] = _number(read_interval(model.consistent, metric).value, 4)
        if metric is not None and model.corrected is not None:
            cells[1] = _interval(read_interval(model.corrected, metric), 4)
        table.add(row["metric"], _plain(row["published"]), _plain(row["recomputed"]), _MARKS[RecomputationStatus(row["status"])], *cells)
    return table


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.10g}"


def _pairs(question_set: str, comparison: Comparison, examination: Examination) -> TextTable:
    table = TextTable(
        f"Paired differences of the corrected Brier score{f' on {question_set}' if question_set else ''}",
        ("pair", "n", "difference [95 %]", *PAIR_TESTS),
    )
    for row in comparison.pairs.iter_rows(named=True):
        p = [p_value(row[name], 3) for name in PAIR_TESTS.values()]
        table.add((row["forecaster"], row["other"]), str(row["n"]), _interval(read_pair_interval(row), 4, "+", ends=4), *p)
    table.caption = (
        f"Clusters are {examination.plan.clusters.plural}. Best: {find_best(comparison)}. {count_significant(comparison)} of {comparison.pairs.height} pairs differ after "
        f"Holm's correction.\nConfidence set of the best (90 %): {', '.join(find_confidence_set(comparison))}."
    )
    return table
