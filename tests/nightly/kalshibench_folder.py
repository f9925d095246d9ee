"""A KalshiBench results folder in the original format, built from the recordings."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl

_GROUP = re.compile(r"(reliability|category)\[(.*)\]\.(\w+)")
_CONFUSION = ("tp", "fp", "fn", "tn")


def write_folder(data: Path, folder: Path) -> dict[str, pl.DataFrame]:
    """Write the result and summary files named in published_metrics.parquet from the frames in `data`. Returns the predictions by model."""
    published = pl.read_parquet(data / "published_metrics.parquet").filter(pl.col("decimals").is_null())
    predictions = pl.read_parquet(data / "predictions.parquet").sort("model", "entry_index")
    responses = pl.read_parquet(data / "responses.parquet").select("model", "entry_index", "raw_output", "expected_reasoning")
    by_model = {
        str(name): rows
        for (name,), rows in predictions.join(responses, on=["model", "entry_index"], how="left", maintain_order="left")
        .partition_by("model", as_dict=True, maintain_order=True)
        .items()
    }
    summaries: dict[str, dict[str, Any]] = {}
    for (model, source), rows in published.partition_by("model", "source", as_dict=True, maintain_order=True).items():
        numbers = {row["metric"]: _number(row["value"], row["metric"]) for row in rows.iter_rows(named=True)}
        if "summary_" in source:
            summaries.setdefault(source, {})[model] = numbers
        else:
            _write(folder / source, _result(model, numbers, by_model[model]))
    for source, models in summaries.items():
        _write(folder / source, {"benchmark": "KalshiBench", "num_models": len(models), "models": models, "leaderboard": {}})
    return by_model


def _result(model: str, numbers: dict[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    diagram: dict[str, dict[str, Any]] = {}
    categories: dict[str, dict[str, Any]] = {}
    scalars: dict[str, Any] = {}
    for name, value in numbers.items():
        match = _GROUP.fullmatch(name)
        if match is None:
            scalars[name] = value
        elif match[1] == "reliability":
            diagram.setdefault(match[2], {"bin": match[2]})[match[3]] = value
        else:
            categories.setdefault(match[2], {})[match[3]] = value
    confusion = {name: scalars.pop(name) for name in _CONFUSION if name in scalars}
    first = rows.row(0, named=True)
    input_price, output_price = token_prices(rows)
    config = {
        "name": model,
        "litellm_model": first["litellm_model"],
        "price_per_1m_input": input_price,
        "price_per_1m_output": output_price,
    }
    return {
        "model_name": model,
        "model_config": config | {"knowledge_cutoff": first["knowledge_cutoff"]},
        "timestamp": "2025-12-17T05:06:55.988745",
        **scalars,
        "reliability_diagram": list(diagram.values()),
        "per_category": categories,
        "confusion_matrix": confusion,
        "predictions": [
            {
                "question_id": row["question_id"],
                "predicted_answer": row["predicted_answer"],
                "predicted_probability": row["p_yes"],
                "reasoning": row["expected_reasoning"],
                "raw_output": row["raw_output"],
                "latency_ms": row["latency_ms"],
                "error": row["error"],
                "input_tokens": row["input_tokens"],
                "output_tokens": row["output_tokens"],
            }
            for row in rows.iter_rows(named=True)
        ],
    }


def token_prices(rows: pl.DataFrame) -> tuple[float, float]:
    """Compute dollars per million input and output tokens from two entries, because the recordings contain each entry's cost and the files
    the prices.
    """
    import numpy as np

    tokens = rows.select("input_tokens", "output_tokens").to_numpy() / 1e6
    solution, *_ = np.linalg.lstsq(tokens, rows["cost_usd"].to_numpy(), rcond=None)
    return round(float(solution[0]), 4), round(float(solution[1]), 4)


def _number(value: float | None, name: str) -> float | int | None:
    whole = name in {*_CONFUSION, "num_samples"} or name.endswith(".count") or (name.startswith("total_") and "tokens" in name)
    return int(value) if whole and value is not None and math.isfinite(value) else value


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")
