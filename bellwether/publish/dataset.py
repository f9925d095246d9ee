"""Export of a release as a folder that the library `datasets` of Hugging Face can load: questions in Parquet, and a dataset card."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bellwether.errors import ConfigError
from bellwether.files import atomic_folder
from bellwether.places import is_stored, place
from bellwether.publish.card import CARD, DATA, card, is_export
from bellwether.questions.release import Release
from bellwether.settings import World
from bellwether.tables.benchmark import HORIZONS, QUESTIONS

#: Columns of a KalshiBench dataset, in its order; additional columns follow.
SHARED = ("id", "question", "description", "category", "close_time", "ground_truth", "market_probability", "series_ticker", "source")
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_PRICES = tuple(f"price_{name}" for name in HORIZONS)


@dataclass(frozen=True, slots=True)
class ExportedDataset:
    """Folder with an exported release. rows: number of questions."""

    folder: Path
    release: str
    rows: int


def export(
    questions: pl.DataFrame, folder: Path | str, *, world: World, recipe: Release | None = None, license_id: str = "mit"
) -> ExportedDataset:
    """Write the questions of one release to `folder`. The same questions give the same files; the folder is replaced as a whole.

    questions: rows of benchmark/questions, of one release. world: their origin, stated on the card. recipe: the release's entry in the
    registry, described on the card if it made these questions. license_id: in the Hub's spelling.
    An existing folder is replaced if it is empty or an earlier export. Raises `SchemaError` for rows of another shape, `ConfigError` for no
    or several releases, an invalid licence and a folder with other contents, and `BellwetherError` if the folder cannot be written.
    """
    questions = QUESTIONS.validate(questions).sort("ordinal")
    names = questions["release"].unique().to_list()
    if len(names) != 1:
        raise ConfigError(f"exporting questions: they are of {len(names)} releases; give the questions of exactly one")
    if not _LICENSE.fullmatch(license_id):
        raise ConfigError(f"exporting {names[0]}: the licence {license_id!r} is not an identifier of the Hub; use mit, cc-by-4.0, other, …")
    rows = dataset_rows(questions)
    target = place(folder)
    target = target if is_stored(target) else target.expanduser().absolute()
    _require_replaceable(target)
    with atomic_folder(target, CARD) as draft:
        (draft / DATA).parent.mkdir(parents=True)
        rows.write_parquet(draft / DATA, compression="zstd", statistics=True)
        (draft / CARD).write_text(card(questions, rows.schema, world=world, recipe=recipe, license_id=license_id), encoding="utf-8")
    return ExportedDataset(target, names[0], rows.height)


def dataset_rows(questions: pl.DataFrame) -> pl.DataFrame:
    """Convert rows of benchmark/questions for export: the columns of KalshiBench come first, close times become text, prices become floats."""
    closes = pl.col("close_time").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    others = [name for name in QUESTIONS.names if name not in SHARED]
    return questions.with_columns(closes, pl.col(_PRICES).cast(pl.Float64)).select(*SHARED, *others)


def _require_replaceable(target: Path) -> None:
    """Raise `ConfigError` unless the target is missing, an empty folder, or an earlier export."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ConfigError(f"exporting to {target}: it is a file; name a folder")
    try:
        is_ours = not any(target.iterdir()) or is_export(target)
    except OSError as error:
        raise ConfigError(f"exporting to {target}: the folder cannot be read ({error.strerror}); name another") from None
    if not is_ours:
        raise ConfigError(f"exporting to {target}: the folder contains something that is no earlier export; name another, or empty it")
