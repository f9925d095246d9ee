"""A small copy of KalshiBench as published: a data set, two samples, twelve models in three tiers, and result files with all numbers.

It implements the published description including its defects, and shares no code with the product.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

#: By tier: cutoff of its sample, and the share of each model's numbers that are P(yes) as requested by the prompt.
TIERS: dict[str, tuple[str, dict[str, float]]] = {
    "tier1_flagships": (
        "2025-10-01",
        {"Claude-Opus-4.5": 0.1, "DeepSeek-V3.2": 0.7, "Kimi-K2": 0.6, "GPT-5.2-XHigh": 1.0, "Qwen3-235B-Thinking": 0.5},
    ),
    "tier2_reasoning": ("2025-08-01", {"GPT-5.1": 0.9, "GPT-5.1-High": 0.95, "o1": 0.3}),
    "tier3_variants": ("2025-10-01", {"GPT-5.2": 0.95, "GPT-5.2-High": 1.0, "Claude-4-5-Haiku": 0.2, "Qwen3-235B-Instruct": 0.4}),
}
CATEGORIES = ("Sports", "Politics", "Entertainment", "Economics", "Mentions", "Science and Technology")
SUMMARISED = ("parse_rate", "accuracy", "macro_f1", "brier_score", "brier_skill_score", "log_loss", "ece", "mce", "avg_confidence")


@dataclass
class Question:
    """A question of the data set. Its id is the ticker of its series."""

    number: int
    id: str
    category: str
    closes: str
    outcome: str


@dataclass
class World:
    """The published files, and the unpublished labels."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: dict[str, list[Question]] = field(default_factory=dict)
    ace_bins: dict[str, list[int | None]] = field(default_factory=dict)

    def write(self, folder: Path, *tiers: str) -> Path:
        """Write the files of `tiers`, or all files."""
        for name, document in self.files.items():
            if not tiers or name.split("/")[0] in tiers:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(json.dumps(document, indent=2), encoding="utf-8")
        return folder

    def labels(self, *cutoffs: str) -> list[dict[str, Any]]:
        """Return one row per entry of the samples of `cutoffs`, each with its own outcome."""
        return [
            {"question_set": cutoff, "entry_index": index, "question_id": one.id, "category": one.category, "ground_truth": one.outcome}
            for cutoff in cutoffs
            for index, one in enumerate(self.samples[cutoff])
        ]


A, B = "2025-10-01", "2025-08-01"


def world(seed: int = 7, questions: int = 1_100, asked: int = 300) -> World:
    """Build the published files of twelve models. The data set has at most two, consecutive, questions of a series."""
    rng = np.random.default_rng(seed)
    data = _data_set(rng, questions)
    published = World()
    for cutoff in (A, B):
        pool = [one for one in data if one.closes >= cutoff]
        published.samples[cutoff] = [pool[place] for place in np.random.RandomState(42).choice(len(pool), asked, replace=False)]
    for tier, (cutoff, models) in TIERS.items():
        summary: dict[str, Any] = {}
        for model, obedient in models.items():
            predictions = [_predict(rng, one, obedient, model) for one in published.samples[cutoff]]
            result, bins = _result(model, predictions, published.samples[cutoff], rng)
            published.files[f"{tier}/{model.lower().replace('-', '_')}_20251217_023819.json"] = result
            published.ace_bins[model] = bins
            summary[model] = {name: result[name] for name in SUMMARISED} | {"knowledge_cutoff": cutoff}
        if tier != "tier2_reasoning":  # one of its keys was invalid, so that it has no summary
            published.files[f"{tier}/summary_20251217_205502.json"] = {"benchmark": "KalshiBench", "models": summary, "leaderboard": {}}
            published.files[f"{tier}/metadata_20251217_205502.json"] = {"version": "1.0", "num_samples": asked}
            published.files[f"{tier}/dataset_analysis_20251217_205502.json"] = {"total_questions": asked}
    published.files["run_config.json"] = {"num_samples": asked, "tiers": list(TIERS)}
    return published


def _data_set(rng: np.random.Generator, questions: int) -> list[Question]:
    data: list[Question] = []
    while len(data) < questions:
        number = len(data)
        family = f"KX{''.join(rng.choice(list('ABCDEFGHKLMNPRSTUVW'), 6))}"
        for member in range(int(rng.integers(1, 5))):
            series = f"{family}-{member}{number}"
            category = str(rng.choice(CATEGORIES))
            first = "yes" if rng.random() < 0.4 else "no"
            for _ in range(int(rng.integers(1, 3))):
                outcome = first if rng.random() < 0.8 else "no" if first == "yes" else "yes"
                closes = f"2025-{int(rng.integers(6, 12)):02d}-{int(rng.integers(1, 29)):02d}T03:59:00Z"
                data.append(Question(len(data), series, category, closes, outcome))
    return data


def _predict(rng: np.random.Generator, question: Question, obedient: float, model: str) -> dict[str, Any]:
    """Return an answer in the published reading: the number is the confidence in the answer, so a "no" inverts it."""
    lean = 1.1 if question.outcome == "yes" else -1.1
    belief = round(100 / (1 + math.exp(-(lean + rng.normal(0, 1.6)))) / 5) * 5
    if belief == 100 and model == "Claude-Opus-4.5":
        belief = 95
    answer = "yes" if belief > 50 else "no"
    number = belief if answer == "yes" or rng.random() < obedient else 100 - belief
    text = f"<answer>{answer}</answer><confidence>{number}</confidence>"
    if model == "Kimi-K2":
        text = (
            ""
            if question.number % 37 == 0
            else f"No tag, but no doubt. <confidence>{number}</confidence>"
            if question.number % 41 == 0
            else text
        )
    read, p = _parse(text)
    return {
        "question_id": question.id,
        "predicted_answer": read,
        "predicted_probability": p,
        "reasoning": "",
        "raw_output": text,
        "latency_ms": float(rng.gamma(4.0, 900.0)),
        "error": None,
        "input_tokens": int(rng.integers(300, 900)),
        "output_tokens": int(rng.integers(60, 7_000)),
    }


def _parse(text: str) -> tuple[str | None, float]:
    tag = re.search(r"<answer>\s*(yes|no)\s*</answer>", text, re.IGNORECASE)
    answer = tag[1].lower() if tag else None
    number = re.search(r"<confidence>\s*(\d+(?:\.\d+)?)\s*</confidence>", text)
    p = min(max(float(number[1]) / 100, 0.0), 1.0) if number else 0.5
    if answer == "no":
        p = 1.0 - p
    if answer is None:
        yes, no = text.lower().count(" yes"), text.lower().count(" no")
        answer = "yes" if yes > no else "no" if no > yes else None
    return answer, p


def _result(
    model: str, predictions: list[dict[str, Any]], sample: list[Question], rng: np.random.Generator
) -> tuple[dict[str, Any], list[int | None]]:
    truth = {one.id: one.outcome for one in sample}  # the last question of an id counts
    category = {one.id: one.category for one in sample}
    valid = [row for row in predictions if row["predicted_answer"] is not None]
    p = np.array([row["predicted_probability"] for row in valid])
    y = np.array([1 if truth[row["question_id"]] == "yes" else 0 for row in valid])
    answers = np.array([1 if row["predicted_answer"] == "yes" else 0 for row in valid])
    prices = {"price_per_1m_input": float(rng.choice([1.2, 2.5, 15.0])), "price_per_1m_output": float(rng.choice([1.2, 10.0, 75.0]))}
    ace, ace_bin = _ace(p, y)
    tokens = {f"total_{side}_tokens": sum(row[f"{side}_tokens"] for row in predictions) for side in ("input", "output")}
    cost = (
        tokens["total_input_tokens"] / 1_000_000 * prices["price_per_1m_input"]
        + tokens["total_output_tokens"] / 1_000_000 * prices["price_per_1m_output"]
    )
    counts, rates = _classification(answers, y)
    placed = iter(ace_bin)
    document = {
        "model_name": model,
        "model_config": {"name": model, "litellm_model": f"provider/{model.lower()}", "knowledge_cutoff": A, **prices},
        "timestamp": "2025-12-17T05:06:55.988745",
        "num_samples": len(predictions),
        "parse_rate": len(valid) / len(predictions),
        **rates,
        **_calibration(p, y),
        "ace": ace,
        **_confidence(p, y, answers),
        "avg_latency_ms": float(np.mean([row["latency_ms"] for row in predictions])),
        **tokens,
        "total_tokens": sum(tokens.values()),
        "total_cost_usd": round(cost, 4),
        "reliability_diagram": _diagram(p, y),
        "per_category": _per_category([category[row["question_id"]] for row in valid], p, y, answers),
        "confusion_matrix": counts,
        "predictions": predictions,
    }
    return document, [next(placed) if row["predicted_answer"] is not None else None for row in predictions]


def _classification(answers: np.ndarray, y: np.ndarray) -> tuple[dict[str, int], dict[str, float]]:
    tp = sum(1 for a, t in zip(answers, y, strict=True) if a == 1 and t == 1)
    fp = sum(1 for a, t in zip(answers, y, strict=True) if a == 1 and t == 0)
    fn = sum(1 for a, t in zip(answers, y, strict=True) if a == 0 and t == 1)
    tn = sum(1 for a, t in zip(answers, y, strict=True) if a == 0 and t == 0)
    precision_yes = tp / (tp + fp) if tp + fp > 0 else 0.0
    recall_yes = tp / (tp + fn) if tp + fn > 0 else 0.0
    precision_no = tn / (tn + fn) if tn + fn > 0 else 0.0
    recall_no = tn / (tn + fp) if tn + fp > 0 else 0.0
    f1_yes = 2 * precision_yes * recall_yes / (precision_yes + recall_yes) if precision_yes + recall_yes > 0 else 0.0
    f1_no = 2 * precision_no * recall_no / (precision_no + recall_no) if precision_no + recall_no > 0 else 0.0
    rates = {"accuracy": (tp + tn) / len(y), "precision_yes": precision_yes, "recall_yes": recall_yes, "f1_yes": f1_yes}
    rates |= {"precision_no": precision_no, "recall_no": recall_no, "f1_no": f1_no, "macro_f1": (f1_yes + f1_no) / 2}
    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn}, rates


def _calibration(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    brier = np.mean((p - y) ** 2)
    base = np.mean(y)
    reference = np.mean((base - y) ** 2)
    clipped = np.clip(p, 1e-15, 1 - 1e-15)
    edges = np.linspace(0, 1, 11)
    ece, mce = 0.0, 0.0
    for low, high in pairwise(edges):
        mask = (p >= low) & (p < high)
        if mask.sum() > 0:
            error = abs(np.mean(p[mask]) - np.mean(y[mask]))
            ece += mask.sum() * error
            mce = max(mce, error)
    return {
        "brier_score": float(brier),
        "brier_skill_score": float(1 - brier / reference) if reference > 0 else 0.0,
        "log_loss": float(-np.mean(y * np.log(clipped) + (1 - y) * np.log(1 - clipped))),
        "ece": float(ece / len(p)),
        "mce": float(mce),
    }


def _ace(p: np.ndarray, y: np.ndarray) -> tuple[float, list[int]]:
    """Compute the ACE with ties sorted from the last entry to the first."""
    order = len(p) - 1 - np.argsort(p[::-1], kind="stable")
    each = len(p) // 10
    total = 0.0
    bins = [0] * len(p)
    sorted_p, sorted_y = p[order], y[order]
    for index in range(10):
        start, end = index * each, (index + 1) * each if index < 9 else len(p)
        total += (end - start) * abs(np.mean(sorted_p[start:end]) - np.mean(sorted_y[start:end]))
        for place in order[start:end]:
            bins[place] = index
    return float(total / len(p)), bins


def _confidence(p: np.ndarray, y: np.ndarray, answers: np.ndarray) -> dict[str, float | None]:
    confidence = np.abs(p - 0.5) + 0.5
    right = answers == y
    numbers: dict[str, float | None] = {
        "avg_confidence": float(np.mean(confidence)),
        "avg_confidence_when_correct": float(np.mean(confidence[right])) if right.any() else None,
        "avg_confidence_when_wrong": float(np.mean(confidence[~right])) if (~right).any() else None,
    }
    for name, threshold in (("70", 0.7), ("80", 0.8), ("90", 0.9)):
        high = (p > threshold) | (p < (1 - threshold))
        numbers[f"overconfidence_rate_{name}"] = float((~right[high]).sum() / high.sum()) if high.sum() > 0 else None
    return numbers


def _diagram(p: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    edges = np.linspace(0, 1, 11)
    rows = []
    for low, high in pairwise(edges):
        mask = (p >= low) & (p < high)
        if mask.sum() > 0:
            means = {"avg_confidence": float(np.mean(p[mask])), "avg_accuracy": float(np.mean(y[mask]))}
            rows.append({"bin": f"{low:.1f}-{high:.1f}", **means, "count": int(mask.sum())})
    return rows


def _per_category(categories: list[str], p: np.ndarray, y: np.ndarray, answers: np.ndarray) -> dict[str, dict[str, Any]]:
    rows = {}
    for name in dict.fromkeys(categories):
        members = np.array([one == name for one in categories])
        right = (answers[members] == y[members]).sum()
        brier = np.mean((p[members] - y[members]) ** 2)
        rows[name] = {"accuracy": float(right / members.sum()), "brier_score": float(brier), "count": int(members.sum())}
    return rows
