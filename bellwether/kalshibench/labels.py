"""Ground truth beside KalshiBench results: which entry of which question set has which outcome, and which one it was scored with.

KalshiBench's ids are series tickers, so two entries may share one. Its scoring looked outcomes up by id, and the last entry won.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError
from bellwether.kalshibench.results import ModelResult

_ANSWERS = ["yes", "no"]
_TRUE = ("ground_truth_true", "ground_truth")
_GIVEN = ("category", "cluster", "family", "true", "scored", "ace_bin")


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Labels of one model's entries, row by row: category, cluster, family, true, scored and ace_bin (null where there is none).

    question_set: the set they are from. positional: it asks the same questions in the same order.
    """

    rows: pl.DataFrame
    question_set: str
    positional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Outcomes by entry, as read from `source`.

    `frame` has question_set, question_id, entry_index, category, cluster (of intervals), family (cluster of paired tests), true (the entry's own outcome, null where unknown) and scored (the one
    published metrics used), and model and ace_bin where the file has them; rows in the order of their set.
    """

    source: str
    frame: pl.DataFrame

    def of(self, model: ModelResult) -> Given:
        """The labels of a model's entries.

        The set is the one that asks the same ids in the same order; else entries are found by their id and its occurrence in the only set that
        has them all. Labels of other models serve a model that the file does not name, but for their sort. Raises `ConfigError` where none or
        several would fit.
        """
        frame = self.frame.filter(pl.col("model") == model.name)
        if frame.is_empty():
            entries = self.frame.unique(["question_set", "entry_index"], keep="first", maintain_order=True)
            frame = entries.with_columns(ace_bin=pl.when(pl.col("model").is_null()).then("ace_bin"))
        asked = model.predictions.select("question_id")
        sets = [(str(name), rows) for (name,), rows in frame.partition_by("question_set", maintain_order=True, as_dict=True).items()]
        for name, rows in sets:
            if rows["question_id"].to_list() == asked["question_id"].to_list():
                return Given(rows.select(_GIVEN), name, True)
        found = [(name, rows) for name, rows in sets if set(asked["question_id"]) <= set(rows["question_id"])]
        if len(found) == 1:
            name, rows = found[0]
            return Given(_by_occurrence(asked, rows), name, False)
        if found:
            raise ConfigError(
                f"labelling {model.source}: its entries would fit the question sets {', '.join(name for name, _ in found)} of {self.source}, "
                "and none in their order; give the labels of one set"
            )
        missing = asked.filter(~pl.col("question_id").is_in(frame["question_id"].to_list()))["question_id"].to_list()
        raise ConfigError(
            f"labelling {model.source}: {self.source} has no set of questions with all its entries"
            f"{f', first missing {missing[0]!r}' if missing else ''}; add their labels"
        )


def read_labels(path: Path | str) -> Labels:
    """Read labels from CSV, Parquet or JSON (a list of objects).

    Columns: question_id, and the outcome (yes or no) as ground_truth or ground_truth_true, the entry's own, null where it is not known, and
    ground_truth_scored, the one published metrics used. Without the latter it is the own outcome of the last entry with the same id. Optional:
    entry_index (order of the entries; else the order of the rows), question_set (where the file has several), category, series_ticker (the
    cluster of intervals; else the question_id), model and ace_bin (of one model's published sort). Raises `ConfigError` for anything else.
    """
    file = Path(path)
    frame = _load(file)
    if "question_id" not in frame.columns or not {*_TRUE, "ground_truth_scored"} & {*frame.columns}:
        raise ConfigError(
            f"reading labels: {file} has the columns {', '.join(frame.columns)}; "
            "it needs question_id and one of ground_truth, ground_truth_true and ground_truth_scored"
        )
    labels = _normal(frame).with_columns(family=pl.col("cluster").map_elements(event_family, return_dtype=pl.String))
    _check(file, labels)
    return Labels(file.name, labels)


def event_family(series: str) -> str:
    """What series of one kind of event have in common: the first eight characters of the ticker.

    The words of earnings calls, the wins of NFL teams and the seats of a city council are series of their own, and resolve together.
    """
    return series[:8]


def labels_within(model: ModelResult) -> Labels | None:
    """The labels that a result file holds itself (files written by Bellwether), or None."""
    rows = model.predictions
    if rows["ground_truth"].null_count() == rows.height:
        return None
    return Labels(model.source, _normal(rows.select("question_id", "ground_truth", "category", series_ticker="cluster")))


def _load(file: Path) -> pl.DataFrame:
    readers: dict[str, Callable[[Path], pl.DataFrame]] = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".json": pl.read_json}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise ConfigError(f"reading labels: {file} is neither CSV, Parquet nor JSON by its name; give one of these")
    if not file.is_file():
        raise ConfigError(f"reading labels: there is no file {file}; correct the path")
    try:
        return reader(file)
    except Exception as error:
        raise ConfigError(f"reading labels: {file} cannot be read: {str(error).splitlines()[0]}; mend the file") from None


def _normal(frame: pl.DataFrame) -> pl.DataFrame:
    def column(name: str, dtype: type[pl.DataType] | pl.DataType = pl.String) -> pl.Expr:
        return pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)

    own = next((name for name in _TRUE if name in frame.columns), "")
    normal = frame.select(
        question_set=column("question_set").fill_null(""),
        model=column("model"),
        question_id=column("question_id"),
        entry_index=column("entry_index", pl.Int64).fill_null(pl.int_range(pl.len())),
        category=column("category").fill_null("unknown"),
        cluster=pl.coalesce(column("series_ticker"), column("question_id")),
        family=pl.coalesce(column("series_ticker"), column("question_id")),
        true=column(own).str.strip_chars().str.to_lowercase(),
        scored=column("ground_truth_scored").str.strip_chars().str.to_lowercase(),
        ace_bin=column("ace_bin", pl.Int64),
    )
    last = pl.col("true").last().over("question_set", "model", "question_id")
    return normal.sort("question_set", "model", "entry_index", maintain_order=True).with_columns(scored=pl.coalesce("scored", last))


def _check(file: Path, labels: pl.DataFrame) -> None:
    if labels.is_empty():
        raise ConfigError(f"reading labels: {file} has no rows; give one per entry")
    for message, bad in _problems():
        found = labels.filter(bad)
        if found.height:
            raise ConfigError(f"reading labels: {file}: {message}, first {found.row(0, named=True)}; correct the file")


def _problems() -> Iterator[tuple[str, pl.Expr]]:
    yield "question_id is null", pl.col("question_id").is_null()
    for name in ("true", "scored"):
        yield f"the {name} outcome is neither yes nor no nor null", pl.col(name).is_not_null() & ~pl.col(name).is_in(_ANSWERS)
    yield "the same entry_index twice", pl.struct("question_set", "model", "entry_index").is_duplicated()


def _by_occurrence(asked: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Labels by id and its n-th occurrence; the own outcome is unknown where an id has more or fewer entries than labels."""
    occurrence = pl.int_range(pl.len()).over("question_id").alias("occurrence")
    entries = pl.len().over("question_id").alias("entries")
    last = rows.group_by("question_id").agg(pl.col("category", "cluster", "family", "scored").last())
    own = rows.select("question_id", "true", occurrence, entries, own_category="category")
    return (
        asked.with_columns(occurrence, entries)
        .join(own, on=["question_id", "occurrence", "entries"], how="left", maintain_order="left")
        .join(last, on="question_id", how="left", maintain_order="left")
        .select(
            pl.coalesce("own_category", "category").alias("category"), "cluster", "family", "true", "scored", ace_bin=pl.lit(None, pl.Int64)
        )
    )
