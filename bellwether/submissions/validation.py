"""Validation of submitted forecasts by row, with the first reason for a refusal, and the store of accepted ones."""

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
from bellwether.registry import NAME
from bellwether.scoring.parsing import ROUNDING
from bellwether.submissions.weeks import ArenaWeeks
from bellwether.tables.schema import TIME

SCHEMA = pl.Schema({"forecaster": pl.String(), "market": pl.String(), "stated_at": TIME, "probability": pl.Float64(), "received_at": TIME})
KEY = ("forecaster", "market", "stated_at")

AGAIN = "an earlier submission already has another forecast of this forecaster for this market and time"
TWICE = "an earlier row already has a forecast of this forecaster for this market and time"

_NAME = f"^{NAME.pattern}$"
#: The most common format of times, which is parsed three times as fast.
_PLAIN, _PLAIN_LENGTH = "%Y-%m-%dT%H:%M:%SZ", len("2026-03-01T12:00:00Z")
_ZONE = r"(?:[zZ]|[+-]\d\d:?\d\d)$"
_DATE = r"^\d{4}-\d\d-\d\d"
#: Maximum number of quoted characters of a cell.
_QUOTED = 60
#: Checks of single rows. Parsed times have a time zone.
_SOUND = (
    pl.col("probability").is_between(0, 1)
    & pl.col("stated_at").is_not_null()
    & pl.col("market").is_not_null()
    & (pl.col("venue") == pl.col("found_on")).fill_null(value=True)
    & (pl.col("stated_at") >= pl.col("open_time")).fill_null(value=True)
    & (pl.col("stated_at") < pl.col("close_time")).fill_null(value=True)
)


@dataclass(frozen=True, slots=True, eq=False)
class ValidationResult:
    """Accepted and refused rows of a submission.

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
    frame = _join_markets(_parse_columns(rows, forecaster), _market_ids(markets))
    misfit = _find_misfits(frame, weeks)
    names = [name for name in frame["name"].unique() if name is not None and NAME.fullmatch(name) and name not in taken]
    named = pl.col("name") == names[0] if len(names) == 1 else pl.col("name").is_in(names)
    good = frame.select(named & _SOUND & (pl.col("stated_at") <= now)).to_series().fill_null(value=False)
    if misfit is not None:
        frame = frame.join(misfit, on="row", how="left", maintain_order="left")
        good &= frame["misfit"].is_null()
    sound = (frame if good.all() else frame.filter(good)).rename({"name": "forecaster"})
    is_repeat = _flag_repeats(sound)
    repeated, distinct = sound.filter(is_repeat), sound.filter(~is_repeat)
    is_stored = distinct.join(stored.select(*KEY, stored="probability"), on=KEY, how="left", maintain_order="left")["stored"]
    unchanged, differing = distinct.filter(is_stored == distinct["probability"]), distinct.filter(is_stored != distinct["probability"])
    wrong = frame.join(sound, on="row", how="anti", maintain_order="left") if sound.height < frame.height else frame.clear()
    refused = pl.concat(
        [
            wrong.select("row", reason=pl.coalesce(_refusal_reason(taken, now), *([] if misfit is None else ["misfit"]))),
            differing.select("row", reason=pl.lit(AGAIN)),
            repeated.select("row", reason=pl.lit(TWICE)),
        ]
    ).sort("row")
    columns = (*KEY, "probability", pl.lit(now, TIME).alias("received_at"))
    return ValidationResult(distinct.filter(is_stored.is_null()).select(columns), unchanged.select(columns), refused)


def _join_markets(frame: pl.DataFrame, markets: pl.DataFrame) -> pl.DataFrame:
    """Add to each row the market with its id; null if the id is unknown."""
    # Only ids are joined, which is cheaper.
    places = markets.select("id", place=pl.int_range(pl.len(), dtype=pl.UInt32))
    place = frame.select("id").join(places, on="id", how="left", maintain_order="left")["place"]
    return frame.hstack([place, *(column.gather(place) for column in markets.drop("id"))])


def _find_misfits(frame: pl.DataFrame, weeks: ArenaWeeks | None) -> pl.DataFrame | None:
    """Return (row, misfit) for the rows that name an arena week; `misfit` states why a row does not fit its week, null if it fits. None if no
    row names a week.
    """
    if frame["wanted"].null_count() == frame.height:
        return None
    if weeks is None:
        return frame.filter(pl.col("wanted").is_not_null()).select("row", misfit=pl.lit("a week is named, but the arena has no weeks"))
    return weeks.find_misfits(frame)


def _flag_repeats(rows: pl.DataFrame) -> pl.Series:
    """Return a mask of the rows that repeat forecaster, market and time of an earlier row."""
    key = rows.select(pl.struct("forecaster", "place", "stated_at").hash(1)).to_series()
    if key.n_unique() == rows.height:
        return pl.repeat(value=False, n=rows.height, eager=True)
    return ~rows.select(pl.struct(KEY).is_first_distinct()).to_series()


def _parse_columns(rows: pl.DataFrame, forecaster: str | None) -> pl.DataFrame:
    """Parse the columns of the file; unreadable probabilities and times become null. The columns `given` and `time` keep the original
    values.
    """
    numeric = rows.schema["probability"].is_numeric()
    p = pl.col("probability") if numeric else pl.col("probability").cast(pl.String).str.strip_chars()
    name = pl.col("forecaster").cast(pl.String) if "forecaster" in rows.columns else pl.lit(forecaster, pl.String)
    venue = pl.col("venue").cast(pl.String).str.to_lowercase() if "venue" in rows.columns else pl.lit(None, pl.String)
    wanted = pl.col("week").cast(pl.String).replace("", None) if "week" in rows.columns else pl.lit(None, pl.String)
    return rows.select(
        "row",
        name=name,
        venue=venue,
        wanted=wanted,
        id=pl.col("market").cast(pl.String).str.strip_chars(),
        given="probability",
        probability=_clip_rounding(p.cast(pl.Float64, strict=False)),
        time="stated_at",
        stated_at=_parse_times(rows["stated_at"]),
    )


def _clip_rounding(p: pl.Expr) -> pl.Expr:
    """Clip probabilities that lie outside [0, 1] only by a rounding error; all others stay unchanged."""
    return pl.when(p.is_between(-ROUNDING, 1 + ROUNDING)).then(p.clip(0, 1)).otherwise(p)


def _parse_times(values: pl.Series) -> pl.Series:
    """Parse times; null for values that are no times or lack a time zone."""
    if isinstance(values.dtype, pl.Datetime):
        return values.cast(TIME) if values.dtype.time_zone is not None else pl.repeat(None, len(values), dtype=TIME, eager=True)
    texts = values.cast(pl.String)
    times = _parse_texts(texts)
    if times.null_count() > texts.null_count():
        times = times.zip_with(times.is_not_null(), _parse_texts(texts.str.strip_chars().str.replace(" ", "T", literal=True)))
    return times


def _parse_texts(texts: pl.Series) -> pl.Series:
    if texts.str.len_bytes().eq(_PLAIN_LENGTH).all():
        times = texts.str.to_datetime(_PLAIN, time_unit="us", strict=False).dt.replace_time_zone("UTC")
        if times.null_count() == texts.null_count():
            return times
    return texts.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False)


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
    p, time = pl.col("probability"), pl.col("time").cast(pl.String)
    text, name, market, stated = (
        _shorten(column) for column in (pl.col("given").cast(pl.String).fill_null("nothing"), pl.col("name"), pl.col("id"), time)
    )
    closes = pl.col("close_time").dt.strftime("%Y-%m-%d %H:%M:%S UTC")
    reasons = (
        (pl.col("name").is_null(), pl.lit("the forecaster is missing; fill it in, or use --forecaster")),
        (
            ~pl.col("name").str.contains(_NAME),
            pl.format("{} is not a valid forecaster name; use 1 to 64 lower-case letters, digits, dots, hyphens and underscores", name),
        ),
        (
            pl.col("name").is_in(list(taken)),
            pl.format("{} is a forecaster of the registry or a family of the arena; choose another name", name),
        ),
        (pl.col("id").is_null() | (pl.col("id") == ""), pl.lit("the market is missing; fill it in")),
        (p.is_null() | p.is_nan(), pl.format("the probability is {}; give a number from 0 to 1", text)),
        ((p >= 2) & (p <= 100), pl.format("the probability is {}, which looks like a percentage; divide by 100", text)),
        (~p.is_between(0, 1), pl.format("the probability is {}; give a number from 0 to 1", text)),
        (time.is_null(), pl.lit("the time is missing; fill in stated_at")),
        (
            time.str.strip_chars().str.contains(_DATE) & ~time.str.strip_chars().str.contains(_ZONE),
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
