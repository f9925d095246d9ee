"""KalshiBench's metrics by its published definitions, including their known defects.

The defects are reproduced on purpose. Labels are looked up by an id that is not unique (the last entry wins). A forecast of exactly 1
falls into no bin but counts in the divisor. Undefined rates are 0. Confidence thresholds are compared in floats. ACE depends on the order in
which one machine sorted tied forecasts. Definitions: arXiv 2512.16030 and the code published with it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl

from bellwether.calibration.forecasts import EDGES, Bools, Floats
from bellwether.kalshibench.ace import compute_ace

Number = float | int | None

_THRESHOLDS = {"70": 0.70, "80": 0.80, "90": 0.90}
_TOKENS = ("input_tokens", "output_tokens")

#: Names of all defined numbers except those of bins and categories.
DEFINED = frozenset(
    (
        *("num_samples", "parse_rate", "tp", "fp", "fn", "tn", "accuracy", "precision_yes", "recall_yes", "f1_yes"),
        *("precision_no", "recall_no", "f1_no", "macro_f1", "brier_score", "brier_skill_score", "log_loss", "ece", "mce", "ace"),
        *("avg_confidence", "avg_confidence_when_correct", "avg_confidence_when_wrong"),
        *(f"overconfidence_rate_{name}" for name in _THRESHOLDS),
        *("avg_latency_ms", "total_input_tokens", "total_output_tokens", "total_tokens", "total_cost_usd"),
    )
)


def recompute(entries: pl.DataFrame, *, prices: tuple[float, float] | None = None) -> dict[str, Number]:
    """Recompute the numbers that KalshiBench publishes for one model.

    entries: one row per entry in the order of the requests: question_id, predicted_answer (yes, no or null) and p_yes (in [0, 1], never rounded).
    Optional: ground_truth (yes, no or null if unknown) and category; the last entry of an id decides for all of them. ace_bin: bin of the
    entry in the published sort; without it the local sort decides ties. latency_ms, input_tokens, output_tokens. A null in an optional column
    leaves out the numbers that need the column.
    prices: dollars per million tokens of input and output.

    Returns the numbers by name: `accuracy`, `reliability[0.3-0.4].count`, `category[Sports].brier_score`, …; None where the files have null.
    """
    answered = entries.filter(pl.col("predicted_answer").is_not_null())
    numbers = {"num_samples": entries.height, "parse_rate": answered.height / entries.height, **_totals(entries, prices)}
    if not answered.height:
        return numbers
    p = answered["p_yes"].to_numpy()
    confidence = np.abs(p - 0.5) + 0.5
    numbers["avg_confidence"] = float(np.mean(confidence))
    for name, members in _bins(p).items():
        numbers |= {f"reliability[{name}].avg_confidence": float(np.mean(p[members])), f"reliability[{name}].count": int(members.sum())}
    outcomes = _look_up(entries, answered, "ground_truth")
    if outcomes is None:
        return numbers
    y = (outcomes == "yes").to_numpy().astype(np.float64)
    said_yes = (answered["predicted_answer"] == "yes").to_numpy()
    right = said_yes == (y == 1)
    numbers |= _classify(said_yes, y) | _calibrate(p, y)
    numbers["ace"] = compute_ace(p, y, answered["ace_bin"].to_numpy() if _is_whole(answered, "ace_bin") else None)
    numbers["avg_confidence_when_correct"] = float(np.mean(confidence[right])) if right.any() else None
    numbers["avg_confidence_when_wrong"] = float(np.mean(confidence[~right])) if (~right).any() else None
    for name, threshold in _THRESHOLDS.items():
        high = (p > threshold) | (p < (1 - threshold))
        numbers[f"overconfidence_rate_{name}"] = float((~right[high]).sum() / high.sum()) if high.any() else None
    for name, members in _bins(p).items():
        numbers[f"reliability[{name}].avg_accuracy"] = float(np.mean(y[members]))
    categories = _look_up(entries, answered, "category")
    for name in [] if categories is None else categories.unique(maintain_order=True):
        members = (categories == name).to_numpy()
        scores = {"accuracy": float(right[members].sum() / members.sum()), "brier_score": float(np.mean((p[members] - y[members]) ** 2))}
        numbers |= {f"category[{name}].{field}": value for field, value in (*scores.items(), ("count", int(members.sum())))}
    return numbers


def _is_whole(frame: pl.DataFrame, name: str) -> bool:
    return name in frame.columns and not frame[name].null_count()


def _look_up(entries: pl.DataFrame, answered: pl.DataFrame, name: str) -> pl.Series | None:
    """Return the label of the last entry with the same id for each answered entry; None if one is unknown."""
    if name not in entries.columns:
        return None
    labels = dict(zip(entries["question_id"], entries[name], strict=True))
    found = pl.Series(name, [labels[question] for question in answered["question_id"]], dtype=pl.String)
    return None if found.null_count() else found


def _bins(p: Floats) -> dict[str, Bools]:
    """Return a mask of the forecasts in each bin that has any. All bins exclude their right edge, so that p == 1 is in none."""
    bins = {f"{low:.1f}-{high:.1f}": (p >= low) & (p < high) for low, high in pairwise(EDGES)}
    return {name: members for name, members in bins.items() if members.any()}


def _classify(said_yes: Bools, y: Floats) -> dict[str, Number]:
    tp, fn = int(y[said_yes].sum()), int(y[~said_yes].sum())
    fp, tn = int(said_yes.sum()) - tp, int((~said_yes).sum()) - fn
    precision_yes, recall_yes = _or_zero(tp, tp + fp), _or_zero(tp, tp + fn)
    precision_no, recall_no = _or_zero(tn, tn + fn), _or_zero(tn, tn + fp)
    f1_yes = _or_zero(2 * precision_yes * recall_yes, precision_yes + recall_yes)
    f1_no = _or_zero(2 * precision_no * recall_no, precision_no + recall_no)
    counts: dict[str, Number] = {"tp": tp, "fp": fp, "fn": fn, "tn": tn, "accuracy": (tp + tn) / len(y)}
    of_yes = {"precision_yes": precision_yes, "recall_yes": recall_yes, "f1_yes": f1_yes}
    of_no = {"precision_no": precision_no, "recall_no": recall_no, "f1_no": f1_no}
    return counts | of_yes | of_no | {"macro_f1": (f1_yes + f1_no) / 2}


def _calibrate(p: Floats, y: Floats) -> dict[str, Number]:
    brier = np.mean((p - y) ** 2)
    climatology = np.mean((np.mean(y) - y) ** 2)
    clipped = np.clip(p, 1e-15, 1 - 1e-15)
    errors = [(members.sum(), abs(np.mean(p[members]) - np.mean(y[members]))) for members in _bins(p).values()]
    return {
        "brier_score": float(brier),
        "brier_skill_score": float(1 - brier / climatology) if climatology else 0.0,
        "log_loss": float(-np.mean(y * np.log(clipped) + (1 - y) * np.log(1 - clipped))),
        "ece": float(sum(count * error for count, error in errors) / len(p)),
        "mce": float(max((error for _, error in errors), default=0.0)),
    }


def _totals(entries: pl.DataFrame, prices: tuple[float, float] | None) -> dict[str, Number]:
    numbers: dict[str, Number] = {}
    if _is_whole(entries, "latency_ms"):
        numbers["avg_latency_ms"] = float(np.mean(entries["latency_ms"].to_numpy()))
    if not all(_is_whole(entries, name) for name in _TOKENS):
        return numbers
    used = {f"total_{name}": int(entries[name].sum()) for name in _TOKENS}
    numbers |= used | {"total_tokens": sum(used.values())}
    if prices is not None:
        input_cost, output_cost = (count / 1e6 * price for count, price in zip(used.values(), prices, strict=True))
        numbers["total_cost_usd"] = round(input_cost + output_cost, 4)
    return numbers


def _or_zero(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0
