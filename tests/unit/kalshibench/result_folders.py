"""A small results folder in KalshiBench's format with the known defects, and its labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from bellwether.forecasting.parsing import compat as parser
from bellwether.kalshibench.metrics import recompute

#: (id, response, outcome of the entry). The last entry's outcome counts for an id, so the first KXDUP is scored with yes.
ENTRIES = (
    ("KXDUP", "<answer>no</answer><confidence>20</confidence>", "no"),  # inverted: 0.8 published, 0.2 intended
    ("KXONE", "<answer>yes</answer><confidence>100</confidence>", "yes"),  # exactly 1: in no bin
    ("KXCNT", "I see no way, and no reason. <confidence>70</confidence>", "no"),  # no tag: 0.7 published, 0.3 intended
    ("KXDUP", "<answer>yes</answer><confidence>60</confidence>", "yes"),
    ("KXLOW", "<answer>no</answer><confidence>80</confidence>", "no"),
    ("KXNIL", "", "yes"),  # unparsed
)
CATEGORIES = ("Sports", "World", "World", "Politics", "World", "World")


def predictions() -> list[dict[str, Any]]:
    """Return the entries as in result files."""
    rows = []
    for position, (question, response, _) in enumerate(ENTRIES):
        read = parser.read(response)
        rows.append(
            {
                "question_id": question,
                "predicted_answer": read.answer,
                "predicted_probability": None if read.answer is None else read.p_yes,
                "reasoning": "",
                "raw_output": response,
                "latency_ms": 100.0 + position,
                "error": None,
                "input_tokens": 200,
                "output_tokens": 50,
            }
        )
    return rows


def result(name: str = "Test-Model", **changes: Any) -> dict[str, Any]:
    """Return a result file with the numbers of its predictions."""
    rows = predictions()
    frame = pl.DataFrame(rows).with_columns(
        p_yes="predicted_probability", ground_truth=pl.Series([outcome for *_, outcome in ENTRIES]), category=pl.Series(CATEGORIES)
    )
    diagram: dict[str, dict[str, Any]] = {}
    categories: dict[str, dict[str, Any]] = {}
    scalars: dict[str, Any] = {}
    for metric, value in recompute(frame, prices=(3.0, 15.0)).items():
        group, _, rest = metric.partition("[")
        if rest:
            key, _, field = rest.partition("].")
            (diagram if group == "reliability" else categories).setdefault(key, {})[field] = value
        else:
            scalars[metric] = value
    confusion = {cell: scalars.pop(cell) for cell in ("tp", "fp", "fn", "tn")}
    return {
        "model_name": name,
        "model_config": {"name": name, "price_per_1m_input": 3.0, "price_per_1m_output": 15.0, "knowledge_cutoff": "2025-04-01"},
        "timestamp": "2025-12-17T05:06:55",
        **scalars,
        "reliability_diagram": [{"bin": label, **row} for label, row in diagram.items()],
        "per_category": categories,
        "confusion_matrix": confusion,
        "predictions": rows,
    } | changes


def labels(**columns: Any) -> pl.DataFrame:
    """Return the labels, one row per entry."""
    frame = pl.DataFrame(
        {
            "question_set": "sample A",
            "entry_index": range(len(ENTRIES)),
            "question_id": [question for question, *_ in ENTRIES],
            "category": CATEGORIES,
            "ground_truth": [outcome for *_, outcome in ENTRIES],
        }
    )
    return frame.with_columns(**columns)


class Write(Protocol):
    """Writes documents into a folder, and returns the folder. `tier1__a` names the file `tier1/a.json`."""

    def __call__(self, **files: Any) -> Path: ...


def write_folder(folder: Path, **files: Any) -> Path:
    return write_all(folder / "results", {name.replace("__", "/") + ".json": value for name, value in files.items()})


def write_all(folder: Path, files: dict[str, Any]) -> Path:
    """Write each value as JSON, and each text verbatim."""
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def write_one_model(folder: Path) -> Path:
    """Write a folder with one model in one tier and the accompanying files."""
    numbers = result()
    summary = {"models": {"Test-Model": {"accuracy": numbers["accuracy"], "knowledge_cutoff": "2025-04-01", "ece": numbers["ece"]}}}
    return write_folder(
        folder,
        tier1__test_model_20251217_020000=numbers,
        tier1__summary_20251217_030000=summary,
        tier1__metadata_20251217_030000={"version": "1.0"},
        tier1__dataset_analysis_20251217_030000={"total_questions": 6},
        run_config={"num_samples": 6},
    )


def write_labels(folder: Path) -> Path:
    """Write the labels of the folder as CSV."""
    path = folder / "labels.csv"
    labels().write_csv(path)
    return path
