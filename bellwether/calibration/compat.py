"""Exact recomputation of KalshiBench's published numbers from its predictions, including its known defects.

The defects are reproduced on purpose. Labels are looked up by an id that is not unique (the last entry wins). A forecast of exactly 1
falls into no bin but counts in the divisor. Undefined rates are 0. Confidence thresholds are compared in floats. ACE depends on the order in
which one machine sorted tied forecasts. Definitions: arXiv 2512.16030 and the code published with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.compat_ace import AceRange, ace, ace_range
from bellwether.calibration.forecasts import EDGES, Bools, Floats, Ints
from bellwether.errors import ScoringError

Number = float | int | None

#: Prices in dollars per million tokens of input and output.
Prices = tuple[float, float]

_REQUIRED = ("question_id", "predicted_answer", "p_yes", "ground_truth")
_TOKENS = ("input_tokens", "output_tokens")
_THRESHOLDS = {"70": 0.70, "80": 0.80, "90": 0.90}
_OF_YES_ANSWERS = ("tp", "fp", "precision_yes")
_OF_NO_ANSWERS = ("fn", "tn", "precision_no")
_OF_ALL_ANSWERS = (
    *("accuracy", "recall_yes", "f1_yes", "recall_no", "f1_no", "macro_f1", "brier_score", "brier_skill_score", "log_loss", "ace"),
    *("avg_confidence_when_correct", "avg_confidence_when_wrong"),
)

#: All published numbers except those of bins and categories.
SCALARS = frozenset(
    (
        *("num_samples", "parse_rate", "ece", "mce", "avg_confidence"),
        *(*_OF_YES_ANSWERS, *_OF_NO_ANSWERS, *_OF_ALL_ANSWERS),
        *(f"overconfidence_rate_{name}" for name in _THRESHOLDS),
        *("avg_latency_ms", "total_input_tokens", "total_output_tokens", "total_tokens", "total_cost_usd"),
    )
)


@dataclass(frozen=True, slots=True)
class BinRow:
    """Row of the published reliability diagram: "confidence" is the mean forecast of yes, "accuracy" the frequency of yes."""

    avg_confidence: float
    avg_accuracy: float
    count: int


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """Published scores of one category."""

    accuracy: float
    brier_score: float
    count: int


@dataclass(frozen=True, slots=True)
class Lacking:
    """Missing labels that a published number needs. column: the missing label, ground_truth or category. entries: number of predictions
    without it. question: id of the first such prediction.
    """

    column: str
    entries: int
    question: str


@dataclass(frozen=True, slots=True)
class Published:
    """Numbers in a KalshiBench result file of one model, under KalshiBench's names.

    scalars: metric -> number; None where the file has null. A metric with missing labels is absent.
    reliability: label of the bin ("0.3-0.4") -> row, empty bins absent. The accuracy is NaN if labels are missing.
    categories: category -> row, in the order of first appearance. NaN where labels are missing.
    lacking: name as in `flat` -> the missing labels.
    uncategorised: the answered entries without a known category, or None. They may belong to any category.
    ace_range: the range of ACE over the orders of ties; None if labels are missing, or if the published order is given.
    """

    scalars: Mapping[str, Number]
    reliability: Mapping[str, BinRow]
    categories: Mapping[str, CategoryRow]
    lacking: Mapping[str, Lacking]
    uncategorised: Lacking | None = None
    ace_range: AceRange | None = None

    def flat(self) -> dict[str, Number]:
        """Return every number for which all needed labels are known, by name: `accuracy`, `reliability[0.3-0.4].count`,
        `category[Sports].brier_score`, ….
        """
        numbers = dict(self.scalars)
        for label, row in self.reliability.items():
            numbers |= {f"reliability[{label}].{field}": getattr(row, field) for field in ("avg_confidence", "avg_accuracy", "count")}
        for name, category in self.categories.items():
            numbers |= {f"category[{name}].{field}": getattr(category, field) for field in ("accuracy", "brier_score", "count")}
        return {name: value for name, value in numbers.items() if name not in self.lacking}


@dataclass(frozen=True, slots=True, eq=False)
class _ValidPredictions:
    """Predictions that have an answer of yes or no, as columns (N,).

    p float64. y float64 0/1, NaN where unknown. answer bool. category None where unknown. ace_bin None without the published order.
    """

    question: list[str]
    p: Floats
    y: Floats
    answer: Bools
    category: list[str | None]
    ace_bin: Ints | None

    @property
    def right(self) -> Floats:
        """Correctness of each answer: 1 if it equals the outcome, 0 if not, NaN if the outcome is unknown."""
        return np.where(np.isnan(self.y), np.nan, self.answer == (self.y == 1))

    def lacking(self, column: str, members: Bools) -> Lacking:
        """Describe the labels missing in `column`. members: mask of the predictions without the label, at least one."""
        return Lacking(column, int(members.sum()), self.question[int(np.argmax(members))])


def recompute(
    predictions: pl.DataFrame | Sequence[Mapping[str, Any]],
    *,
    prices: Prices | None = None,
    category_counts: Mapping[str, int] | None = None,
) -> Published:
    """Recompute the numbers that KalshiBench publishes for one model, as far as the known labels determine them.

    A number is determined when all entries in it have their labels: the accuracy of a bin needs the outcomes of that bin, the overconfidence rate
    those of the confident forecasts. Undetermined numbers are listed as lacking.

    Args:
        predictions: one row per entry in the order of the requests: question_id, predicted_answer (yes, no or null), p_yes (float64,
            never rounded) and ground_truth (yes, no, or null if unknown; the last entry of an id decides for all of them). Optional: category
            (null if unknown), ace_bin (the bin of the entry in the published sort; without it the local sort order decides ties), latency_ms,
            input_tokens and output_tokens; totals of absent columns are left out.
        prices: dollars per million tokens of input and output, for the cost of both totals.
        category_counts: number of answered entries of each category, if known. A category with all its entries labelled is complete, even if
            other entries have no category.

    Raises `ScoringError` for a missing column or an invalid value.
    """
    frame = predictions if isinstance(predictions, pl.DataFrame) else pl.DataFrame(list(predictions), infer_schema_length=None)
    missing = [name for name in _REQUIRED if name not in frame.columns]
    if missing:
        raise ScoringError(
            f"reproducing published scores: the predictions lack {', '.join(missing)}; their columns are {', '.join(frame.columns)}"
        )
    valid = _valid(frame.with_columns(pl.col("predicted_answer", "ground_truth").cast(pl.String)))
    if not len(valid.p):
        raise ScoringError("reproducing published scores: no prediction has an answer of yes or no; nothing to score")
    scalars = {
        "num_samples": frame.height,
        "parse_rate": len(valid.p) / frame.height,
        **_classification(valid),
        **_calibration(valid),
        **_confidence(valid),
        **_totals(frame, prices),
    }
    reliability, categories = _reliability(valid), _categories(valid)
    unknown = np.array([name is None for name in valid.category], dtype=bool)
    uncategorised = valid.lacking("category", unknown) if unknown.any() else None
    lacking = _lacking_outcomes(valid)
    if uncategorised is not None:
        lacking |= _lacking_categories(categories, uncategorised, category_counts or {})
    determined = {name: value for name, value in scalars.items() if name not in lacking}
    ties = ace_range(valid.p, valid.y) if valid.ace_bin is None and "ace" not in lacking else None
    return Published(determined, reliability, categories, lacking, uncategorised, ties)


def _valid(frame: pl.DataFrame) -> _ValidPredictions:
    """Select and validate the predictions that have an answer, and look up their labels by id."""
    labels = dict(zip(frame["question_id"], frame["ground_truth"], strict=True))
    category = frame["category"].cast(pl.String) if "category" in frame.columns else pl.Series([None] * frame.height, dtype=pl.String)
    categories = dict(zip(frame["question_id"], category, strict=True))
    rows = frame.filter(pl.col("predicted_answer").is_in(["yes", "no"]))
    outcomes = [labels[question] for question in rows["question_id"]]
    for question, outcome in zip(rows["question_id"], outcomes, strict=True):
        if outcome not in {"yes", "no", None}:
            raise ScoringError(
                f"reproducing published scores: ground_truth of the last entry of {question!r} is {outcome!r}; it must be yes, no or null"
            )
    unstated = rows.filter(pl.col("p_yes").is_null() | ~pl.col("p_yes").is_between(0, 1))
    if unstated.height:
        question, p = unstated.select("question_id", "p_yes").row(0)
        raise ScoringError(f"reproducing published scores: p_yes of {question!r} is {p!r}; give answered entries a probability in [0, 1]")
    return _ValidPredictions(
        question=rows["question_id"].to_list(),
        p=rows["p_yes"].cast(pl.Float64).to_numpy(),
        y=np.array([np.nan if outcome is None else outcome == "yes" for outcome in outcomes], dtype=np.float64),
        answer=(rows["predicted_answer"] == "yes").to_numpy(),
        category=[categories[question] for question in rows["question_id"]],
        ace_bin=None if (ace_bin := _optional(rows, "ace_bin")) is None else ace_bin.to_numpy(),
    )


def _classification(valid: _ValidPredictions) -> dict[str, Number]:
    said_yes, said_no = int(valid.answer.sum()), int((~valid.answer).sum())
    tp, fn = _whole(valid.y[valid.answer].sum()), _whole(valid.y[~valid.answer].sum())
    fp, tn = said_yes - tp, said_no - fn
    precision_yes, recall_yes = _or_zero(tp, tp + fp), _or_zero(tp, tp + fn)
    precision_no, recall_no = _or_zero(tn, tn + fn), _or_zero(tn, tn + fp)
    f1_yes = _or_zero(2 * precision_yes * recall_yes, precision_yes + recall_yes)
    f1_no = _or_zero(2 * precision_no * recall_no, precision_no + recall_no)
    counts: dict[str, Number] = {"tp": tp, "fp": fp, "fn": fn, "tn": tn, "accuracy": (tp + tn) / (said_yes + said_no)}
    of_yes = {"precision_yes": precision_yes, "recall_yes": recall_yes, "f1_yes": f1_yes}
    of_no = {"precision_no": precision_no, "recall_no": recall_no, "f1_no": f1_no}
    return counts | of_yes | of_no | {"macro_f1": (f1_yes + f1_no) / 2}


def _calibration(valid: _ValidPredictions) -> dict[str, Number]:
    p, y = valid.p, valid.y
    brier = np.mean((p - y) ** 2)
    climatology = np.mean((np.mean(y) - y) ** 2)
    clipped = np.clip(p, 1e-15, 1 - 1e-15)
    errors = [(members.sum(), abs(np.mean(p[members]) - np.mean(y[members]))) for members in _bins(p) if members.any()]
    return {
        "brier_score": float(brier),
        "brier_skill_score": float(1 - brier / climatology) if climatology else 0.0,
        "log_loss": float(-np.mean(y * np.log(clipped) + (1 - y) * np.log(1 - clipped))),
        "ece": float(sum(count * error for count, error in errors) / len(p)),
        "mce": float(max((error for _, error in errors), default=0.0)),
        "ace": ace(p, y, valid.ace_bin),
    }


def _bins(p: Floats) -> list[Bools]:
    """Return for each bin a mask of the forecasts in it. All bins exclude their right edge, so that p == 1 is in none."""
    return [(p >= low) & (p < high) for low, high in pairwise(EDGES)]


def _bin_names() -> list[str]:
    return [f"{low:.1f}-{high:.1f}" for low, high in pairwise(EDGES)]


def _confidence(valid: _ValidPredictions) -> dict[str, Number]:
    p, right = valid.p, valid.right
    confidence = np.abs(p - 0.5) + 0.5
    numbers: dict[str, Number] = {
        "avg_confidence": float(np.mean(confidence)),
        "avg_confidence_when_correct": float(np.mean(confidence[right == 1])) if (right == 1).any() else None,
        "avg_confidence_when_wrong": float(np.mean(confidence[right == 0])) if (right == 0).any() else None,
    }
    for name, threshold in _THRESHOLDS.items():
        high = _confident(p, threshold)
        numbers[f"overconfidence_rate_{name}"] = float((1 - right[high]).sum() / high.sum()) if high.any() else None
    return numbers


def _confident(p: Floats, threshold: float) -> Bools:
    """Return a mask of the forecasts that give yes or no a probability above `threshold`."""
    return (p > threshold) | (p < (1 - threshold))


def _reliability(valid: _ValidPredictions) -> dict[str, BinRow]:
    return {
        name: BinRow(float(np.mean(valid.p[members])), float(np.mean(valid.y[members])), int(members.sum()))
        for name, members in zip(_bin_names(), _bins(valid.p), strict=True)
        if members.any()
    }


def _category_members(valid: _ValidPredictions) -> dict[str, Bools]:
    names = np.array(valid.category, dtype=object)
    return {name: names == name for name in dict.fromkeys(valid.category) if name is not None}


def _categories(valid: _ValidPredictions) -> dict[str, CategoryRow]:
    rows = {}
    for name, members in _category_members(valid).items():
        right = valid.right[members]
        brier = np.mean((valid.p[members] - valid.y[members]) ** 2)
        rows[name] = CategoryRow(float(right.sum() / right.size), float(brier), int(right.size))
    return rows


def _lacking_outcomes(valid: _ValidPredictions) -> dict[str, Lacking]:
    """Return the names of the numbers that need an unknown outcome, each with the missing labels."""
    everyone = np.ones(len(valid.p), dtype=bool)
    bins = _bins(valid.p)
    needed: dict[str, Bools] = dict.fromkeys(_OF_ALL_ANSWERS, everyone)
    binned: Bools = np.logical_or.reduce(bins)
    for names, members in ((_OF_YES_ANSWERS, valid.answer), (_OF_NO_ANSWERS, ~valid.answer), (("ece", "mce"), binned)):
        needed |= dict.fromkeys(names, members)
    needed |= {f"overconfidence_rate_{name}": _confident(valid.p, threshold) for name, threshold in _THRESHOLDS.items()}
    needed |= {f"reliability[{name}].avg_accuracy": members for name, members in zip(_bin_names(), bins, strict=True)}
    for name, members in _category_members(valid).items():
        needed |= {f"category[{name}].{field}": members for field in ("accuracy", "brier_score")}
    unknown = np.isnan(valid.y)
    return {name: valid.lacking("ground_truth", members & unknown) for name, members in needed.items() if (members & unknown).any()}


def _lacking_categories(categories: Mapping[str, CategoryRow], uncategorised: Lacking, counts: Mapping[str, int]) -> dict[str, Lacking]:
    """Return the names of the category numbers that entries without a known category may change, each with these entries (`uncategorised`).
    counts: number of answered entries of each category, if known.
    """
    lacking = {f"category[{name}].count": uncategorised for name in categories}
    for name, row in categories.items():
        if counts.get(name) != row.count:
            lacking |= {f"category[{name}].{field}": uncategorised for field in ("accuracy", "brier_score")}
    return lacking


def _totals(frame: pl.DataFrame, prices: Prices | None) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    if (latency := _optional(frame, "latency_ms")) is not None:
        numbers["avg_latency_ms"] = float(np.mean(latency.to_numpy()))
    used = {f"total_{name}": int(column.sum()) for name in _TOKENS if (column := _optional(frame, name)) is not None}
    if len(used) < len(_TOKENS):
        return numbers
    numbers |= used | {"total_tokens": sum(used.values())}
    if prices is not None:
        input_cost, output_cost = (used[f"total_{name}"] / 1e6 * price for name, price in zip(_TOKENS, prices, strict=True))
        numbers["total_cost_usd"] = round(input_cost + output_cost, 4)
    return numbers


def _optional(frame: pl.DataFrame, name: str) -> pl.Series | None:
    """Return the column `name`; None if absent. Raises `ScoringError` for nulls, which would make totals incomplete."""
    if name not in frame.columns:
        return None
    if frame[name].null_count():
        question = frame.filter(pl.col(name).is_null())["question_id"][0]
        raise ScoringError(f"reproducing published scores: {name} of {question!r} is null; give it for every entry or leave the column out")
    return frame[name]


def _whole(count: float) -> float | int:
    """Return a count as an int; NaN if an outcome is unknown."""
    return count if np.isnan(count) else int(count)


def _or_zero(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
