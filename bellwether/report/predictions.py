"""Predictions of a forecaster for a report: one per question, with usage and response of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from bellwether.calibration.answers import Answers

#: Columns of a question that are repeated in its predictions.
_OF_QUESTION = ("question", "category", "cluster", "series_ticker", "event_id", "open_time", "close_time", "settled_at")

#: Fields of a response by the column in benchmark/forecasts.
_OF_RESPONSE = {
    "reasoning": "reasoning",
    "raw_output": "raw_response",
    "finish_reason": "finish_reason",
    "prompt_hash": "prompt_hash",
    "parsed_by": "parsed_by",
    "contradiction": "contradiction",
    "repaired": "repaired",
    "predicted_probability_compat": "p_yes_compat",
    "call_key": "call_key",
}
_SUMS = ("input_tokens", "output_tokens", "reasoning_tokens", "attempts")

MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions of one forecaster in the order of the release.

    scored: predictions that count, including failures. excluded: predictions on questions whose outcome the forecaster could have known.
    rows: its rows of benchmark/forecasts, one per sample.
    """

    scored: list[dict[str, Any]]
    excluded: list[dict[str, Any]]
    rows: pl.DataFrame

    @property
    def answered(self) -> list[dict[str, Any]]:
        """Scored predictions with a forecast."""
        return [prediction for prediction in self.scored if prediction["predicted_answer"] is not None]

    def confusion(self) -> dict[str, int]:
        """Count the answered, scored predictions by decision and outcome (tp, fp, fn, tn); yes is positive."""
        cells = {"tp": 0, "fp": 0, "fn": 0, "tn": 0}
        for prediction in self.answered:
            right = "t" if prediction["correct"] else "f"
            cells[right + ("p" if prediction["predicted_answer"] == "yes" else "n")] += 1
        return cells

    def usage(self) -> dict[str, Any]:
        """Return total tokens, attempts and micro-dollars, and mean latency in ms, over all rows, excluded questions too. Unknown values
        are None.
        """
        rows, cost = self.rows, micro_dollars(self.rows["cost"])
        known_costs = [micro for micro in cost if micro is not None]
        latency = rows["latency"].mean()
        return {
            **{name: _sum(rows[name]) for name in _SUMS},
            "cost_microdollars": sum(known_costs) if known_costs else None,
            "without_cost": rows.filter((pl.col("attempts") > 0) & pl.col("cost").is_null()).height,
            "avg_latency_ms": None if latency is None else 1000 * float(latency),  # type: ignore[arg-type]
        }


def predictions(forecaster: str, answers: Answers, forecasts: pl.DataFrame, questions: pl.DataFrame) -> Predictions:
    """Build the predictions of `forecaster` for every question of its release.

    answers: built from the same rows of benchmark/forecasts and benchmark/questions.
    """
    rows = forecasts.filter(pl.col("forecaster") == forecaster).sort("question_id", "sample")
    samples: dict[str, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        samples.setdefault(row["question_id"], []).append(row)
    questions_by_id = {question["id"]: question for question in questions.iter_rows(named=True)}
    scored: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    for line in answers.sheet(forecaster).iter_rows(named=True):
        prediction = _prediction(questions_by_id[line["id"]], line, samples.get(line["id"], []))
        (excluded if prediction["could_know"] else scored).append(prediction)
    return Predictions(scored, excluded, rows)


def micro_dollars(costs: Iterable[Decimal | None]) -> list[int | None]:
    """Convert dollars to whole micro-dollars, rounded towards zero; None stays None."""
    return [None if cost is None else int(cost * MICRO) for cost in costs]


def dollars(micro: int | None) -> float | None:
    """Convert micro-dollars to dollars as a float."""
    return None if micro is None else float(Decimal(micro) / MICRO)


def _prediction(question: Mapping[str, Any], line: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the prediction for one question. line: the question's row of `Answers.sheet`. rows: the samples that this row combines."""
    p_yes, only = line["p"], rows[0] if len(rows) == 1 else None
    answer = None if p_yes is None else line["answer"] or ("yes" if p_yes >= 0.5 else "no")
    combined = None if p_yes is None else p_yes if answer == "yes" else 1 - p_yes
    reasons = dict.fromkeys(row["error"] or "no reason is given" for row in rows) or ("never asked",)
    return {
        "question_id": question["id"],
        "predicted_answer": answer,
        "predicted_probability": p_yes,
        "confidence": combined if only is None else only["confidence"],
        "ground_truth": question["ground_truth"],
        "correct": None if answer is None else answer == question["ground_truth"],
        "error": None if answer is not None else "; ".join(reasons),
        "failure": None if answer is not None else next((row["failure"] for row in rows if row["failure"]), None),
        **{name: question[name] for name in _OF_QUESTION},
        "as_of": line["as_of"],
        "days_from_cutoff": line["days_from_cutoff"],
        "could_know": line["could_know"],
        **(dict.fromkeys(_OF_RESPONSE) if only is None else _response(only)),
        **_usage_of(rows),
        "samples": [_sample(row) for row in rows] if only is None else [],
    }


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sample": row["sample"],
        "predicted_answer": row["answer"],
        "predicted_probability": row["p_yes"],
        "confidence": row["confidence"],
        "error": row["error"],
        "failure": row["failure"],
        **_response(row),
        **_usage_of([row]),
    }


def _response(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[column] for name, column in _OF_RESPONSE.items()}


def _usage_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum tokens, attempts and cost of the samples of one question. The cost is None if that of any sample is unknown."""
    latencies = [row["latency"] for row in rows if row["latency"] is not None]
    costs = micro_dollars(row["cost"] for row in rows)
    cost = None if None in costs or not costs else sum(micro for micro in costs if micro is not None)
    return {
        "latency_ms": 1000 * sum(latencies) / len(latencies) if latencies else None,
        **{name: _sum(pl.Series([row[name] for row in rows], dtype=pl.Int64)) for name in _SUMS},
        "cost_microdollars": cost,
        "cost_usd": dollars(cost),
        **{name: next((row[name] for row in rows if row[name] is not None), None) for name in ("cost_source", "price_map")},
    }


def _sum(values: pl.Series) -> int | None:
    return int(values.sum()) if values.count() else None
