"""KalshiBench's published numbers, to the last bit, from its published predictions: its definitions with their defects, kept apart.

Known defects that are reproduced on purpose: labels are looked up by an id that is not unique (the last entry wins), a forecast of exactly
1 falls into no bin but counts in the divisor, undefined rates are 0, confidence thresholds are compared in floats, and ACE depends on the
order in which one machine sorted tied forecasts. Definitions: arXiv 2512.16030 and the code published with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from bellwether.calibration.binning import BINS, EDGES
from bellwether.calibration.forecasts import Bools, Floats
from bellwether.errors import ScoringError

Number = float | int | None

_REQUIRED = ("question_id", "predicted_answer", "p_yes", "ground_truth", "category")
_TOKENS = ("input_tokens", "output_tokens")
_THRESHOLDS = {"70": 0.70, "80": 0.80, "90": 0.90}


@dataclass(frozen=True, slots=True)
class BinRow:
    """A row of the published reliability diagram: "confidence" is the mean forecast of yes, "accuracy" the frequency of yes."""

    avg_confidence: float
    avg_accuracy: float
    count: int


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """Scores of one category."""

    accuracy: float
    brier_score: float
    count: int


@dataclass(frozen=True, slots=True)
class Published:
    """What a KalshiBench result file says of one model, under its own names.

    scalars: metric -> number; None where the file holds null.
    reliability: label of the bin ("0.3-0.4") -> row, empty bins absent.
    categories: category -> row, in the order of first appearance.
    """

    scalars: Mapping[str, Number]
    reliability: Mapping[str, BinRow]
    categories: Mapping[str, CategoryRow]

    def flat(self) -> dict[str, Number]:
        """All numbers by name: `accuracy`, `reliability[0.3-0.4].count`, `category[Sports].brier_score`, …"""
        numbers = dict(self.scalars)
        for label, row in self.reliability.items():
            numbers |= {f"reliability[{label}].{field}": getattr(row, field) for field in ("avg_confidence", "avg_accuracy", "count")}
        for name, category in self.categories.items():
            numbers |= {f"category[{name}].{field}": getattr(category, field) for field in ("accuracy", "brier_score", "count")}
        return numbers


@dataclass(frozen=True, slots=True, eq=False)
class _Valid:
    """The predictions that count: those with an answer. p float64, y float64 0/1, answer and right bool, ace_bin or None, all (N,)."""

    p: Floats
    y: Floats
    answer: Bools
    category: list[str]
    ace_bin: np.ndarray | None

    @property
    def right(self) -> Bools:
        return self.answer == (self.y == 1)


def recompute(predictions: pl.DataFrame | Sequence[Mapping[str, Any]]) -> Published:
    """Every number that KalshiBench publishes for one model.

    `predictions` has one row per entry in the order in which the entries were asked: question_id, predicted_answer (yes, no or null),
    p_yes (float64, never rounded), ground_truth (yes or no; the last entry of an id decides for all of them) and category. Optional:
    ace_bin (the bin that the entry had in the published sort; else this machine's own sort decides ties), latency_ms, input_tokens,
    output_tokens and cost_usd, whose totals are left out where the column is. Raises `ScoringError` for a missing column or value.
    """
    frame = predictions if isinstance(predictions, pl.DataFrame) else pl.DataFrame(list(predictions), infer_schema_length=None)
    missing = [name for name in _REQUIRED if name not in frame.columns]
    if missing:
        raise ScoringError(f"reproducing published scores: the predictions lack {', '.join(missing)}; there are {', '.join(frame.columns)}")
    valid = _valid(frame.with_columns(pl.col("predicted_answer", "ground_truth").cast(pl.String)))
    if not len(valid.p):
        raise ScoringError("reproducing published scores: no prediction has an answer of yes or no; nothing to score")
    scalars = {
        "num_samples": frame.height,
        "parse_rate": len(valid.p) / frame.height,
        **_classification(valid),
        **_calibration(valid),
        **_confidence(valid),
        **_totals(frame),
    }
    return Published(scalars, _reliability(valid), _categories(valid))


def _valid(frame: pl.DataFrame) -> _Valid:
    labels = dict(zip(frame["question_id"], frame["ground_truth"], strict=True))
    categories = dict(zip(frame["question_id"], frame["category"], strict=True))
    rows = frame.filter(pl.col("predicted_answer").is_in(["yes", "no"]))
    outcomes = [labels[question] for question in rows["question_id"]]
    for question, outcome in zip(rows["question_id"], outcomes, strict=True):
        if outcome not in {"yes", "no"}:
            raise ScoringError(
                f"reproducing published scores: ground_truth of the last entry of {question!r} is {outcome!r}; it must be yes or no"
            )
    unstated = rows.filter(pl.col("p_yes").is_null() | ~pl.col("p_yes").is_between(0, 1))
    if unstated.height:
        question, p = unstated.select("question_id", "p_yes").row(0)
        raise ScoringError(f"reproducing published scores: p_yes of {question!r} is {p!r}; an answered entry has a probability in [0, 1]")
    return _Valid(
        p=rows["p_yes"].cast(pl.Float64).to_numpy(),
        y=np.array([outcome == "yes" for outcome in outcomes], dtype=np.float64),
        answer=(rows["predicted_answer"] == "yes").to_numpy(),
        category=[categories[question] for question in rows["question_id"]],
        ace_bin=None if (ace_bin := _optional(rows, "ace_bin")) is None else ace_bin.to_numpy(),
    )


def _classification(valid: _Valid) -> dict[str, Number]:
    yes = valid.y == 1
    tp, fp = int((valid.answer & yes).sum()), int((valid.answer & ~yes).sum())
    fn, tn = int((~valid.answer & yes).sum()), int((~valid.answer & ~yes).sum())
    precision_yes, recall_yes = _or_zero(tp, tp + fp), _or_zero(tp, tp + fn)
    precision_no, recall_no = _or_zero(tn, tn + fn), _or_zero(tn, tn + fp)
    f1_yes = _or_zero(2 * precision_yes * recall_yes, precision_yes + recall_yes)
    f1_no = _or_zero(2 * precision_no * recall_no, precision_no + recall_no)
    counts: dict[str, Number] = {"tp": tp, "fp": fp, "fn": fn, "tn": tn, "accuracy": (tp + tn) / len(yes)}
    of_yes = {"precision_yes": precision_yes, "recall_yes": recall_yes, "f1_yes": f1_yes}
    of_no = {"precision_no": precision_no, "recall_no": recall_no, "f1_no": f1_no}
    return counts | of_yes | of_no | {"macro_f1": (f1_yes + f1_no) / 2}


def _calibration(valid: _Valid) -> dict[str, Number]:
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
        "ace": _ace(valid),
    }


def _bins(p: Floats) -> list[Bools]:
    """Left-closed bins, the last one too: p == 1 is in none of them."""
    return [(p >= low) & (p < high) for low, high in pairwise(EDGES)]


def _ace(valid: _Valid) -> float:
    size = len(valid.p)
    bins = valid.ace_bin
    if bins is None:
        bins = np.empty(size, dtype=np.int64)
        bins[np.argsort(valid.p)] = np.minimum(np.arange(size) // max(size // BINS, 1), BINS - 1)
    members = [bins == index for index in range(BINS)]
    return float(sum(one.sum() * abs(np.mean(valid.p[one]) - np.mean(valid.y[one])) for one in members if one.any()) / size)


def _confidence(valid: _Valid) -> dict[str, Number]:
    p, right = valid.p, valid.right
    confidence = np.abs(p - 0.5) + 0.5
    numbers: dict[str, Number] = {
        "avg_confidence": float(np.mean(confidence)),
        "avg_confidence_when_correct": float(np.mean(confidence[right])) if right.any() else None,
        "avg_confidence_when_wrong": float(np.mean(confidence[~right])) if not right.all() else None,
    }
    for name, threshold in _THRESHOLDS.items():
        high = (p > threshold) | (p < (1 - threshold))
        numbers[f"overconfidence_rate_{name}"] = float((high & ~right).sum() / high.sum()) if high.any() else None
    return numbers


def _reliability(valid: _Valid) -> dict[str, BinRow]:
    rows = {}
    for (low, high), members in zip(pairwise(EDGES), _bins(valid.p), strict=True):
        if members.any():
            rows[f"{low:.1f}-{high:.1f}"] = BinRow(float(np.mean(valid.p[members])), float(np.mean(valid.y[members])), int(members.sum()))
    return rows


def _categories(valid: _Valid) -> dict[str, CategoryRow]:
    names = np.array(valid.category, dtype=object)
    rows = {}
    for name in dict.fromkeys(valid.category):
        members = names == name
        right = valid.right[members]
        brier = np.mean((valid.p[members] - valid.y[members]) ** 2)
        rows[name] = CategoryRow(float(right.sum() / right.size), float(brier), int(right.size))
    return rows


def _totals(frame: pl.DataFrame) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    if (latency := _optional(frame, "latency_ms")) is not None:
        numbers["avg_latency_ms"] = float(np.mean(latency.to_numpy()))
    used = {f"total_{name}": int(column.sum()) for name in _TOKENS if (column := _optional(frame, name)) is not None}
    if len(used) == len(_TOKENS):
        numbers |= used | {"total_tokens": sum(used.values())}
    if (cost := _optional(frame, "cost_usd")) is not None:
        numbers["total_cost_usd"] = round(sum(cost.to_list()), 4)
    return numbers


def _optional(frame: pl.DataFrame, name: str) -> pl.Series | None:
    """The column `name` where there is one; it is whole or an error, because a total over a part of the entries would look like one over all."""
    if name not in frame.columns:
        return None
    if frame[name].null_count():
        question = frame.filter(pl.col(name).is_null())["question_id"][0]
        raise ScoringError(f"reproducing published scores: {name} of {question!r} is null; give it for every entry or leave the column out")
    return frame[name]


def _or_zero(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
