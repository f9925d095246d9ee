"""An examination for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import polars as pl
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bellwether.calibration import Estimate, Scores
from bellwether.calibration.comparison import SIGNIFICANCE, Comparison, p_text
from bellwether.kalshibench.examination import CORRECTED_BY, NO_LABELS, NO_OWN_LABELS, Examination, ModelExamination


def document(examination: Examination) -> dict[str, Any]:
    """Everything that an examination found, as JSON values: the models' numbers and findings, the comparisons, and what to know of them."""
    return {
        "folder": str(examination.results.folder),
        "labels": examination.labels,
        "replicates": examination.bootstrap.replicates,
        "seed": examination.bootstrap.seed,
        "models": {model.name: _model(model) for model in examination.models},
        "summaries": _summaries(examination).to_dicts(),
        "comparisons": {
            name: {"pairs": comparison.pairs.to_dicts(), "ranking": comparison.ranking.to_dicts()}
            for name, comparison in examination.comparisons().items()
        },
        "notes": list(notes(examination)),
    }


def print_examination(console: Console, examination: Examination, *, in_full: bool) -> None:
    """Tables of an examination; `in_full` adds every headline number of each model."""
    console.print(_overview(examination))
    console.print(_findings(examination))
    if in_full:
        for model in examination.models:
            console.print(_detail(model))
    for name, comparison in examination.comparisons().items():
        console.print(_pairs(name, comparison))
    for note in notes(examination):
        console.print(f"- {note}", markup=False, soft_wrap=True)


def notes(examination: Examination) -> Iterator[str]:
    """What a reader of the numbers must know, one sentence each."""
    numbers = examination.numbers()
    counts = {status: numbers.filter(pl.col("status") == status).height for status in ("equal", "differs", "not recomputed")}
    exactly = "up to rounding" if any(model.result.is_ours for model in examination.models) else "to the last bit"
    yield f"{counts['equal']} of {numbers.height} published numbers come out equal {exactly}."
    differing = numbers.filter((pl.col("status") == "differs") & (pl.col("metric") != "ace"))
    if differing.height:
        first = differing.row(0, named=True)
        yield (
            f"{differing.height} differ, first {first['metric']} of {first['model']}: {first['published']!r} published, "
            f"{first['recomputed']!r} recomputed ({first['source']})."
        )
    for (reason,), rows in numbers.filter(pl.col("status") == "not recomputed").partition_by("reason", as_dict=True).items():
        yield f"{rows.height} are not recomputed: {reason or 'the published rules do not define them'}."
    unsure = [model for model in examination.models if "ace" in model.reasons and "ace" in model.recomputed]
    if unsure:
        equal = sum(model.recomputed["ace"] == model.result.published.get("ace") for model in unsure)
        yield (
            "The published ACE depends on how the machine that computed it sorted tied forecasts; with this machine's sort "
            f"{equal} of {len(unsure)} come out equal. Labels with a column ace_bin settle it; the corrected ACE averages over ties."
        )
    if examination.labels is None:
        yield f"Nothing is corrected: it {NO_LABELS}."
    elif any(model.corrected is None and model.unlabelled is None for model in examination.models):
        yield f"The corrected column {NO_OWN_LABELS}."
    yield from (f"{sentence}." for sentence in examination.results.left_out)


def _model(model: ModelExamination) -> dict[str, Any]:
    return {
        "source": model.result.source,
        "question_set": model.question_set,
        "numbers": model.numbers().drop("model", "source").to_dicts(),
        "findings": asdict(model.findings),
        "consistent": _scores(model.consistent),
        "corrected": _scores(model.corrected),
    }


def _scores(scores: Scores | None) -> dict[str, Any] | None:
    if scores is None:
        return None
    return {"n": scores.n, "n_clusters": scores.n_clusters, "metrics": {name: asdict(estimate) for name, estimate in scores.items()}}


def _summaries(examination: Examination) -> pl.DataFrame:
    files = [model.result.source for model in examination.models]
    return examination.numbers().filter(~pl.col("source").is_in(files))


def _grid(title: str, *columns: str) -> Grid:
    table = Grid(title=Text(title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), caption_justify="left")
    for index, name in enumerate(columns):
        table.add_column(Text(name), justify="left" if index == 0 else "right")
    return table


def _overview(examination: Examination) -> Grid:
    table = _grid(
        "Published and corrected",
        "model",
        "equal",
        "Brier / BSS / ECE",
        "same labels",
        "Brier [95 %]",
        "BSS [95 %]",
        "ECE",
        "acc.",
        "n",
        "cov.",
    )
    for model in examination.models:
        numbers = model.numbers()
        equal = f"{numbers.filter(pl.col('status') == 'equal').height}/{numbers.height}"
        published = [model.result.published.get(name) for name in ("brier_score", "brier_skill_score", "ece")]
        table.add_row(Text(model.name), equal, _triple(published), _triple(_headline(model.consistent)), *_corrected(model.corrected))
    table.caption = (
        "equal: published numbers that come out equal; Brier / BSS / ECE: as published; same labels: the answer-consistent\n"
        "reading with the labels as scored; then corrected, with own labels; cov.: share of the labelled entries answered"
    )
    return table


def _headline(scores: Scores | None) -> list[float | None]:
    return [None if scores is None else scores[name].value for name in ("brier", "brier_skill", "ece")]


def _triple(values: list[Any]) -> str:
    if all(value is None for value in values):
        return ""
    return " / ".join(_number(value, digits, sign) for value, digits, sign in zip(values, (4, 3, 3), ("", "+", ""), strict=True))


def _corrected(scores: Scores | None) -> list[str]:
    if scores is None:
        return [""] * 6
    plain = [_number(scores["ece"].value, 3), _number(scores["accuracy"].value, 3)]
    coverage = scores["coverage"].value
    share = "" if coverage is None else f"{coverage:.1%}"
    return [_interval(scores["brier"], 4), _interval(scores["brier_skill"], 3, "+"), *plain, str(scores.n), share]


def _interval(estimate: Estimate, digits: int, sign: str = "", ends: int | None = None) -> str:
    """A value with so many decimals and its interval, whose ends have one less or `ends`."""
    if estimate.value is None or estimate.lower is None or estimate.upper is None:
        return _number(estimate.value, digits, sign)
    less = digits - 1 if ends is None else ends
    return f"{estimate.value:{sign}.{digits}f} [{estimate.lower:{sign}.{less}f}, {estimate.upper:{sign}.{less}f}]"


def _number(value: float | int | None, digits: int, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}.{digits}f}"


_COUNTS = {
    "unparsed": "unparsed",
    "fallback": "no tag",
    "inverted": "inverted",
    "unflipped": "unflipped",
    "yes_below_half": "yes < 50",
    "certain": "p = 1",
    "misread": "misread",
    "shared_ids": "shared ids",
    "overwritten": "overwritten",
    "wrong_labels": "wrong label",
    "unknown_labels": "unknown",
}


def _findings(examination: Examination) -> Grid:
    table = _grid("What the published scoring did", "model", *_COUNTS.values())
    for model in examination.models:
        counts = asdict(model.findings)
        inverted = f"{counts['inverted']} of {counts['no_answers']} no"
        cells = [inverted if name == "inverted" else "–" if counts[name] is None else str(counts[name]) for name in _COUNTS]
        table.add_row(Text(model.name), *cells)
    table.caption = (
        "inverted: no with a number below 50, read as P(yes) above 50 %; unflipped: no without a tag, its number taken as P(yes);\n"
        "p = 1: in no bin; overwritten: scored with the outcome of another entry of the same id; wrong label: known to be false"
    )
    return table


def _detail(model: ModelExamination) -> Grid:
    table = _grid(f"{model.name} ({model.result.source})", "metric", "published", "recomputed", "", "same labels", "corrected [95 %]")
    numbers = model.numbers()
    for row in numbers.iter_rows(named=True):
        strict = CORRECTED_BY.get(row["metric"])
        cells = ["", ""]
        if strict is not None:
            consistent = "" if model.consistent is None else _number(model.consistent[strict].value, 4)
            cells = [consistent, "" if model.corrected is None else _interval(model.corrected[strict], 4)]
        mark = {"equal": "=", "differs": "≠", "not recomputed": "?"}[row["status"]]
        table.add_row(Text(row["metric"]), _plain(row["published"]), _plain(row["recomputed"]), mark, *cells)
    return table


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.10g}"


def _pairs(question_set: str, comparison: Comparison) -> Grid:
    best = comparison.ranking["forecaster"][0]
    table = _grid(
        f"Paired differences of the corrected Brier score{f' on {question_set}' if question_set else ''}",
        *("pair", "n", "difference [95 %]", "p cluster", "p sign flip", "p Holm"),
    )
    for row in comparison.pairs.iter_rows(named=True):
        interval = Estimate(row["difference"], row["lower"], row["upper"])
        p = ["–" if row[name] is None else p_text(row[name], 3) for name in ("p_cluster", "p_sign_flip", "p_holm")]
        table.add_row(Text(f"{row['forecaster']} – {row['other']}"), str(row["n"]), _interval(interval, 4, "+", ends=4), *p)
    significant = comparison.pairs.filter(pl.col("p_holm") <= SIGNIFICANCE).height
    confident = comparison.ranking.filter("in_mcs")["forecaster"].to_list()
    table.caption = Text(
        f"Clusters are event families. Best: {best}. {significant} of {comparison.pairs.height} pairs differ after Holm's correction.\n"
        f"Model confidence set (90 %): {', '.join(confident)}."
    )
    return table
