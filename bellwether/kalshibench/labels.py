"""Outcomes for KalshiBench results, read from a file of labels or from the result files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError
from bellwether.kalshibench.matching import EntryLabels, borrow_labels, match_labels
from bellwether.kalshibench.results import ModelResult

_ANSWERS = ["yes", "no"]
_TRUE = ("ground_truth_true", "ground_truth")


class ClusterUnit(StrEnum):
    """Unit that intervals treat as independent; the value is a column of the entries."""

    SERIES = "series"
    FAMILY = "family"

    @property
    def plural(self) -> str:
        """Plural of the unit's name, for messages."""
        return "series" if self is ClusterUnit.SERIES else "event families"


def event_family(series: str) -> str:
    """Return the family (related series) of a series: the first eight characters of its ticker.

    For example, each word of an earnings call, NFL team or city council seat has a series of its own, but they resolve together.
    """
    return series[:8]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Outcomes of entries (predictions of models), read from the file `source`.

    frame: question_set, model (null if the labels are not for a single model), question_id, entry_index, category (null if unknown), series,
    true (the entry's own outcome, null if unknown), scored (the outcome that published metrics used, null if not given) and ace_bin; rows in
    the order of their set. indexed: the file states entry_index. categorised: the file has the column category. family: maps a series to its
    family.
    """

    source: str
    frame: pl.DataFrame
    indexed: bool = False
    categorised: bool = True
    family: Callable[[str], str] = event_family

    def of(self, model: ModelResult) -> EntryLabels:
        """Return the labels of a model's entries, from its own question set; if that is missing, those that other sets determine with
        certainty (`matching`).

        Rows that name the model are preferred. Rows of other models are used too, except their ace_bin. Raises `ConfigError` if several sets
        match.
        """
        questions = model.predictions["question_id"].to_list()
        named = self._own(model, questions, _sets(self.frame.filter(pl.col("model") == model.name)), named=True)
        if named is not None:
            return named
        sets = _sets(self.frame.with_columns(ace_bin=pl.when(pl.col("model").is_null()).then("ace_bin")))
        return self._own(model, questions, sets, named=False) or self._entries(
            questions, borrow_labels(questions, [rows for _, rows in sets]), None
        )

    def _own(self, model: ModelResult, questions: list[str], sets: list[tuple[str, pl.DataFrame]], *, named: bool) -> EntryLabels | None:
        """Return the labels of the question set that matches the model's entries; None if none does. Raises `ConfigError` if several match.
        named: the sets name the model.
        """
        candidates = [(name, match_labels(questions, rows, indexed=self.indexed, named=named)) for name, rows in sets]
        matches = [(name, match) for name, match in candidates if match is not None]
        in_order = [(name, match) for name, match in matches if match.in_order]
        if len(matches) > 1 and not in_order:
            raise ConfigError(
                f"labelling {model.source}: its entries would fit the question sets {', '.join(name for name, _ in matches)} of {self.source}, "
                "and none in their order; give entry_index, or the labels of one set"
            )
        return next((self._entries(questions, match.rows, name) for name, match in in_order or matches), None)

    def _entries(self, questions: list[str], rows: pl.DataFrame, question_set: str | None) -> EntryLabels:
        series = rows.select(pl.coalesce("series", pl.Series(questions, dtype=pl.String)).alias("series"))["series"]
        family = pl.Series("family", map(self.family, series), dtype=pl.String)
        return EntryLabels(rows.with_columns(series, family), question_set)


def _sets(frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Return (name, labels) of the different question sets. Models with the same questions and outcomes share a set."""
    parts = frame.partition_by("question_set", "model", maintain_order=True, as_dict=True)
    distinct = {(name, *rows.select("question_id", "true", "scored").hash_rows().to_list()): rows for (name, _), rows in parts.items()}
    return [(str(key[0]), rows) for key, rows in distinct.items()]


def read_labels(path: Path | str) -> Labels:
    """Read labels from CSV, Parquet or JSON (a list of objects).

    Columns: question_id, and outcomes (yes or no): the entry's own as ground_truth or ground_truth_true, null if unknown, and the one that
    published metrics used as ground_truth_scored (default: the own outcome of the last entry with the same id). Optional: entry_index (position
    of the entry; by default rows are in the order of the entries), question_set (if the file has several), category, series_ticker (default: the
    question_id), model and ace_bin (of one model's published sort). Raises `ConfigError` for an invalid file.
    """
    file = Path(path)
    frame = _load(file)
    if "question_id" not in frame.columns or not {*_TRUE, "ground_truth_scored"} & {*frame.columns}:
        raise ConfigError(
            f"reading labels: {file} has the columns {', '.join(frame.columns)}; "
            "it needs question_id and one of ground_truth, ground_truth_true and ground_truth_scored"
        )
    indexed = "entry_index" in frame.columns
    try:
        labels = _normal(frame)
    except pl.exceptions.PolarsError as error:
        raise ConfigError(
            f"reading labels: {file} has a column of another type: {str(error).splitlines()[0]}; entry_index and ace_bin are whole numbers"
        ) from None
    _check(file, labels)
    return Labels(file.name, labels, indexed, "category" in frame.columns)


def read_own_labels(model: ModelResult) -> Labels | None:
    """Return the labels in a result file that Bellwether wrote, with the file's clusters; None if it contains no labels."""
    rows = model.predictions
    if rows["ground_truth"].null_count() == rows.height:
        return None
    frame = rows.select("question_id", "ground_truth", pl.col("category").fill_null("unknown"), series_ticker="cluster")
    return Labels(model.source, _normal(frame), family=str)


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
        raise ConfigError(f"reading labels: {file} cannot be read: {str(error).splitlines()[0]}; repair the file") from None


def _normal(frame: pl.DataFrame) -> pl.DataFrame:
    """Convert a file's columns to those of `Labels.frame`."""

    def column(name: str, dtype: type[pl.DataType] | pl.DataType = pl.String) -> pl.Expr:
        return pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)

    own = next((name for name in _TRUE if name in frame.columns), "")
    normal = frame.select(
        question_set=column("question_set").fill_null(""),
        model=column("model"),
        question_id=column("question_id"),
        entry_index=column("entry_index", pl.Int64),
        category=column("category"),
        series=column("series_ticker"),
        true=column(own).str.strip_chars().str.to_lowercase(),
        scored=column("ground_truth_scored").str.strip_chars().str.to_lowercase(),
        ace_bin=column("ace_bin", pl.Int64),
    )
    if "entry_index" not in frame.columns:
        normal = normal.with_columns(entry_index=pl.int_range(pl.len(), dtype=pl.Int64).over("question_set", "model"))
    return normal.sort("question_set", "model", "entry_index", maintain_order=True)


def _check(file: Path, labels: pl.DataFrame) -> None:
    if labels.is_empty():
        raise ConfigError(f"reading labels: {file} has no rows; give one per entry")
    for message, bad in _problems():
        rows = labels.filter(bad)
        if rows.height:
            raise ConfigError(f"reading labels: {file}: {message}, first {rows.row(0, named=True)}; correct the file")


def _problems() -> Iterator[tuple[str, pl.Expr]]:
    """Yield (message, condition) for each kind of invalid label."""
    for name in ("question_id", "entry_index"):
        yield f"{name} is null", pl.col(name).is_null()
    for name in ("true", "scored"):
        yield f"the {name} outcome is neither yes nor no nor null", pl.col(name).is_not_null() & ~pl.col(name).is_in(_ANSWERS)
    yield "the same entry_index twice", pl.struct("question_set", "model", "entry_index").is_duplicated()
