"""Validation of submitted forecasts by row, with the first reason for a refusal, and the store of submissions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path

import polars as pl

from bellwether.errors import BellwetherError
from bellwether.files import atomic_file, locked, replace_version, version
from bellwether.places import is_stored
from bellwether.registry import NAME, NAME_RULE
from bellwether.scoring.table import parse_numbers
from bellwether.submissions.weeks import ArenaWeeks
from bellwether.tables.schema import TIME

SCHEMA = pl.Schema({"forecaster": pl.String(), "market": pl.String(), "stated_at": TIME, "probability": pl.Float64(), "received_at": TIME})
KEY = ("forecaster", "market", "stated_at")

AGAIN = "an earlier submission already has another forecast of this forecaster for this market and time"
TWICE = "an earlier row already has a forecast of this forecaster for this market and time"

_NAME = f"^{NAME.pattern}$"
_ZONE = r"(?:[zZ]|[+-]\d\d:?\d\d)$"
_DATE = r"^\d{4}-\d\d-\d\d"
#: Maximum number of quoted characters of a cell.
_QUOTED = 60


@dataclass(frozen=True, slots=True, eq=False)
class ValidationResult:
    """Rows of a submission. A submission is stored only if no row is refused.

    accepted: new rows with the columns of `SCHEMA`, market as venue:id. unchanged: rows that are already stored, likewise. refused: columns row
    and reason, in file order.
    """

    accepted: pl.DataFrame
    unchanged: pl.DataFrame
    refused: pl.DataFrame


def validate_rows(
    rows: pl.DataFrame,
    markets: pl.DataFrame,
    stored: pl.DataFrame,
    *,
    forecaster: str | None,
    taken: Collection[str] = (),
    now: datetime,
    weeks: ArenaWeeks | None = None,
) -> ValidationResult:
    """Validate every row of a submission; return accepted, unchanged and refused rows.

    rows: from `files.read_forecasts`. markets: venue, market_id, open_time and close_time (UTC) of all known markets. stored: previously
    accepted forecasts, columns of `SCHEMA`. forecaster: default name for files without that column. taken: names of other forecasters. now:
    time of receipt. weeks: of the arena; a row that names a week must fit it.
    """
    frame = _parse_columns(rows, forecaster).join(_market_ids(markets), on="id", how="left", maintain_order="left")
    frame = frame.join(_find_misfits(frame, weeks), on="row", how="left", maintain_order="left")
    frame = frame.with_columns(reason=pl.coalesce(_refusal_reason(taken, now), "misfit")).rename({"name": "forecaster"})
    before = stored.select(*KEY, stored="probability")
    sound = frame.filter(pl.col("reason").is_null()).join(before, on=KEY, how="left", maintain_order="left")
    again = (
        pl.when(~pl.struct(KEY).is_first_distinct()).then(pl.lit(TWICE)).when(pl.col("stored") != pl.col("probability")).then(pl.lit(AGAIN))
    )
    sound = sound.with_columns(reason=again)
    refused = pl.concat([frame.select("row", "reason"), sound.select("row", "reason")]).drop_nulls("reason").sort("row")
    valid = sound.filter(pl.col("reason").is_null())
    columns = (*KEY, "probability", pl.lit(now, TIME).alias("received_at"))
    is_new = pl.col("stored").is_null()
    return ValidationResult(valid.filter(is_new).select(columns), valid.filter(~is_new).select(columns), refused)


def _find_misfits(frame: pl.DataFrame, weeks: ArenaWeeks | None) -> pl.DataFrame:
    """Return (row, misfit) for the rows that name an arena week; `misfit` states why a row does not fit its week, null if it fits."""
    if weeks is None:
        return frame.filter(pl.col("wanted").is_not_null()).select("row", misfit=pl.lit("a week is named, but the arena has no weeks"))
    return weeks.find_misfits(frame)


def _parse_columns(rows: pl.DataFrame, forecaster: str | None) -> pl.DataFrame:
    """Parse the columns of the file; unreadable probabilities and times become null. The columns `given` and `time` keep the original
    values.
    """
    venue, wanted = (pl.col(name) if name in rows.columns else pl.lit(None, pl.String) for name in ("venue", "week"))
    return rows.select(
        "row",
        name=pl.col("forecaster") if "forecaster" in rows.columns else pl.lit(forecaster, pl.String),
        venue=venue.str.to_lowercase(),
        wanted=wanted,
        id="market",
        given="probability",
        probability=parse_numbers(rows["probability"]),
        time="stated_at",
        stated_at=pl.col("stated_at")
        .str.replace(" ", "T", literal=True)
        .str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False),
    )


def _market_ids(markets: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each id by which a market can be named: the venue's id, and venue:id. Ids of several markets are left out."""
    distinct = markets.group_by("venue", "market_id").agg(pl.col("open_time").min(), pl.col("close_time").min())
    whole = pl.concat_str("venue", "market_id", separator=":")
    columns: list[pl.Expr | str] = [pl.col("venue").alias("found_on"), whole.alias("market"), "open_time", "close_time"]
    own = distinct.select(pl.col("market_id").alias("id"), *columns)
    return pl.concat([own, distinct.select(whole.alias("id"), *columns)]).unique("id", keep="none")


def _shorten(text: pl.Expr) -> pl.Expr:
    """Truncate a long text."""
    return pl.when(text.str.len_chars() > _QUOTED).then(pl.concat_str(text.str.head(_QUOTED - 3), pl.lit("..."))).otherwise(text)


def _refusal_reason(taken: Collection[str], now: datetime) -> pl.Expr:
    """Return an expression for the first reason to refuse a row. taken: names of other forecasters. now: time of receipt."""
    p, time = pl.col("probability"), pl.col("time")
    text, name, market, stated = (_shorten(column) for column in (pl.col("given").fill_null("nothing"), pl.col("name"), pl.col("id"), time))
    closes = pl.col("close_time").dt.strftime("%Y-%m-%d %H:%M:%S UTC")
    reasons = (
        (pl.col("name").is_null(), pl.lit("the forecaster is missing; fill it in, or use --forecaster")),
        (
            ~pl.col("name").str.contains(_NAME),
            pl.format(f"{{}} is not a valid forecaster name; {NAME_RULE}", name),
        ),
        (
            pl.col("name").is_in(list(taken)),
            pl.format("{} is a forecaster of the registry or a family of the arena; choose another name", name),
        ),
        (pl.col("id").is_null(), pl.lit("the market is missing; fill it in")),
        (p.is_null() | ~p.is_between(0, 1), pl.format("the probability is {}; give a number from 0 to 1", text)),
        (time.is_null(), pl.lit("the time is missing; fill in stated_at")),
        (
            time.str.contains(_DATE) & ~time.str.contains(_ZONE),
            pl.format("the time {} has no time zone; add Z or an offset", stated),
        ),
        (pl.col("stated_at").is_null(), pl.format("{} is not a time; write it as 2026-03-01T12:00:00Z", stated)),
        (pl.col("stated_at") > now, pl.format("the time {} is in the future", stated)),
        (pl.col("market").is_null(), pl.format("unknown market {}; correct the id, or pull its days", market)),
        (
            pl.col("venue") != pl.col("found_on"),
            pl.format("{} is a market of {}, not of {}", market, "found_on", _shorten(pl.col("venue"))),
        ),
        (pl.col("stated_at") < pl.col("open_time"), pl.format("the time {} is before the market opened", stated)),
        (pl.col("stated_at") >= pl.col("close_time"), pl.format("the time {} is too late; the market closed at {}", stated, closes)),
    )
    return pl.coalesce(pl.when(condition).then(reason) for condition, reason in reasons)


class Submissions:
    """Store of all submitted forecasts: one file per forecaster, in a local folder or an object store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, str | None] = {}

    def names(self) -> list[str]:
        """Return the names of all submitted forecasters, sorted."""
        return sorted(path.stem for path in self._folder.glob("*.parquet"))

    def path(self, name: str) -> Path:
        """Return the path of a forecaster's file."""
        return self._folder / f"{name}.parquet"

    def read(self, names: Sequence[str] | None = None) -> pl.DataFrame:
        """Read accepted forecasts, with the columns of `SCHEMA`. names: forecasters, default all."""
        chosen = [name for name in self.names() if names is None or name in names]
        for path in map(self.path, chosen):
            if is_stored(path) and path.stem not in self._known:
                self._known[path.stem] = version(path)
        return pl.concat([pl.read_parquet(self.path(name).read_bytes()) for name in chosen]) if chosen else pl.DataFrame(schema=SCHEMA)

    def add(self, rows: pl.DataFrame) -> None:
        """Add accepted rows to the store; each forecaster's file is rewritten.

        Raises `BellwetherError` if another submission changed a file in an object store since it was read.
        """
        for name in sorted(rows["forecaster"].unique()):
            merged = pl.concat([self.read([name]), rows.filter(forecaster=name).select(SCHEMA.names())], rechunk=False)
            if is_stored(path := self.path(name)):
                self._replace(path, merged)
            else:
                with atomic_file(path) as draft:
                    merged.write_parquet(draft)

    def _replace(self, path: Path, rows: pl.DataFrame) -> None:
        rows.write_parquet(data := BytesIO())
        if not replace_version(path, data.getvalue(), self._known.pop(path.stem, None)):
            raise BellwetherError(f"submitting forecasts of {path.stem}: another submission changed them meanwhile; submit again")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other submissions until the block ends. Raises `BellwetherError` if the folder cannot be written.

        In an object store others may still write; then `add` refuses files that they changed.
        """
        if is_stored(self._folder):
            self._known.clear()
            yield
            return
        with locked(self._folder / ".lock"):
            yield
