"""Outcomes and categories of KalshiBench's questions, which its result files do not contain, from a file of labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError
from bellwether.kalshibench.results import ModelResult

#: Columns of the outcome, the preferred one first.
_OUTCOMES = ("ground_truth_scored", "ground_truth")

_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".json": pl.read_json}


def read_labels(path: Path | str) -> pl.DataFrame:
    """Read labels from CSV, Parquet or JSON (a list of objects).

    Columns: question_id, and ground_truth_scored or ground_truth (yes, no, or null if unknown). Optional: category, question_set (if the file has
    several), model (if the rows are for one model), entry_index (position of the entry; by default rows are in the order of the entries) and ace_bin
    (bin of the entry in the model's published ACE). Raises `ConfigError` for an invalid file.
    """
    file = Path(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise ConfigError(f"reading labels: {file} is neither CSV, Parquet nor JSON by its name; give one of these")
    try:
        frame = reader(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ConfigError(f"reading labels: {file} cannot be read: {str(error).splitlines()[0]}; correct the path or the file") from None
    outcome = next((name for name in _OUTCOMES if name in frame.columns), None)
    if "question_id" not in frame.columns or outcome is None:
        raise ConfigError(f"reading labels: {file} has the columns {', '.join(frame.columns)}; it needs question_id and ground_truth")

    def column(name: str, dtype: type[pl.DataType] = pl.String) -> pl.Expr:
        return pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)

    try:
        labels = frame.select(
            column("question_set").fill_null(""),
            column("model"),
            column("entry_index", pl.Int64),
            column("question_id"),
            column("category"),
            column(outcome).alias("ground_truth"),
            column("ace_bin", pl.Int64),
        )
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"reading labels: {file}: {str(error).splitlines()[0]}; entry_index and ace_bin are whole numbers") from None
    bad = labels.with_row_index("row", 1).filter(
        pl.col("question_id").is_null() | ~pl.col("ground_truth").is_in(["yes", "no"]).fill_null(True)
    )
    if bad.height:
        row = bad.row(0, named=True)
        raise ConfigError(
            f"reading labels: {file}, row {row['row']}: question_id is {row['question_id']!r} and {outcome} is {row['ground_truth']!r}; "
            "each row needs an id, and an outcome of yes, no or null"
        )
    return labels.sort("question_set", "model", "entry_index", maintain_order=True)


def label_entries(model: ModelResult, labels: pl.DataFrame) -> pl.DataFrame | None:
    """Add ground_truth, category and ace_bin to a model's predictions. Returns None if no question set of `labels` has its ids.

    A question set belongs to the model if both have the same ids; rows that name the model are preferred. As in the published scoring, the last
    row of an id gives the outcome and category of all its entries. ace_bin is null unless there is a row for each entry in its order. Raises
    `ConfigError` if several sets with different outcomes have the ids.
    """
    named = labels.filter(model=model.name)
    ids = model.predictions["question_id"]
    sets = [
        rows
        for rows in (named if named.height else labels.filter(pl.col("model").is_null())).partition_by("question_set", maintain_order=True)
        if set(rows["question_id"]) == set(ids)
    ]
    if not sets:
        return None
    by_id = [rows.unique("question_id", keep="last").sort("question_id").select("question_id", "ground_truth", "category") for rows in sets]
    if any(not other.equals(by_id[0]) for other in by_id[1:]):
        names = ", ".join(rows["question_set"][0] for rows in sets)
        raise ConfigError(f"labelling {model.source}: its questions are those of the question sets {names}; give the labels of one")
    in_order = sets[0]["question_id"].equals(ids)
    ace_bin = sets[0]["ace_bin"] if in_order else pl.lit(None, pl.Int64).alias("ace_bin")
    return model.predictions.join(by_id[0], on="question_id", how="left", maintain_order="left").with_columns(ace_bin)
