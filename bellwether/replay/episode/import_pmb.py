"""Import of episodes of PredictionMarketBench: full books in whole cents, as Parquet or CSV, with the levels as structs or JSON text.

The price of a trade may be that of YES or that of the side that the taker bought: the *convention* of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl

from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.episode.checks import RowError, fold_book
from bellwether.replay.episode.content import BookBuilder, BookColumns, Content, Level, Trades, level_of, no_trades
from bellwether.replay.episode.model import (
    METADATA,
    PAID,
    SETTLEMENT,
    Gap,
    Instant,
    Market,
    Metadata,
    Settlement,
    parse_object,
    read_json,
)
from bellwether.replay.rules import PMB
from bellwether.replay.units import CENT, CENT_MICROS, CONTRACT, DOLLAR
from bellwether.units import CentiCents, MicroDollars

#: Side of the prices of trades: the side that the taker bought, or YES; auto: whichever agrees with the books.
TAKER_PRICE, YES_PRICE, AUTO = "taker", "yes", "auto"
CONVENTIONS = (AUTO, TAKER_PRICE, YES_PRICE)
_ENDINGS = (".parquet", ".csv", ".csv.gz")
_SIDES = ("yes", "no")
#: Number of rows whose levels are in memory as Python objects.
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class _Original:
    """The fields of `metadata.json` that an import reads."""

    episode_id: str
    tickers: tuple[str, ...]
    start_ts: Instant
    end_ts: Instant
    event_slug: str = ""
    initial_bankroll_cents: int = 100_000
    fee_model_version: str | None = None
    execution_mode: str = "maker_taker"
    observation_depth: int = -1
    has_trades_tape: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class _Settled:
    """The fields of a market in `settlement.json` that an import reads."""

    result: str | None = None
    settled_ts: Instant | None = None
    close_time: Instant | None = None


def read_pmb(folder: Path, trade_price: str = AUTO) -> Content:
    """Read an episode of PredictionMarketBench. Books are invalid while they are locked, because no venue has locked books.

    trade_price: side of the trades' prices: taker, yes, or auto for the one that agrees with the books. Raises `SchemaError` with file, row
    and value of the first error, and `ConfigError` for another `trade_price`.
    """
    if trade_price not in CONVENTIONS:
        raise ConfigError(f"importing {folder}: trade_price is {trade_price!r:.40}; it must be one of {', '.join(CONVENTIONS)}")
    original: _Original = parse_object(_Original, read_json(folder, METADATA), METADATA)
    if original.fee_model_version not in (None, "kalshi_oct_2025"):
        raise SchemaError(f"reading {METADATA}: fee_model_version is {original.fee_model_version!r:.80}; only kalshi_oct_2025 is known")
    settled = _read_settlements(read_json(folder, SETTLEMENT), original.tickers)
    trades = _read_trades(folder, original.tickers) if original.has_trades_tape else no_trades()
    book, gaps = _read_book(folder, original.tickers)
    if trade_price == AUTO:
        hits = fold_book(book, trades, len(original.tickers)).hits[trades.taker == 1].sum(axis=0)
        trade_price = YES_PRICE if len(hits) and hits[0] > hits[1] else TAKER_PRICE
    if trade_price == TAKER_PRICE:
        trades = replace(trades, price=np.where(trades.taker == 0, trades.price, DOLLAR - trades.price))
    metadata = Metadata(
        episode_id=original.episode_id,
        start=original.start_ts,
        end=original.end_ts,
        markets=tuple(Market(ticker, close_time=settled[ticker].close_time) for ticker in original.tickers),
        event_slug=original.event_slug,
        rules=PMB,
        bankroll=MicroDollars(original.initial_bankroll_cents * CENT_MICROS),
        execution_mode=original.execution_mode,  # type: ignore[arg-type]
        observation_depth=original.observation_depth,
        description=original.description,
        source={"recorded": "import: PredictionMarketBench", "trade_price": trade_price},
        gaps=tuple(gaps),
    )
    settlements = tuple(
        Settlement(ticker, one.result, PAID.get(one.result), one.settled_ts)  # type: ignore[arg-type]
        for ticker, one in settled.items()
    )
    return Content(metadata, settlements, book, trades, {})


def _read_settlements(values: dict[str, Any], tickers: Sequence[str]) -> dict[str, _Settled]:
    """Parse `settlement.json`: an object keyed by ticker, or the first version's list of objects with tickers."""
    items = (
        values["settlements"] if isinstance(values.get("settlements"), list) else [{**item, "ticker": key} for key, item in values.items()]
    )
    settled = {str(item.get("ticker")): parse_object(_Settled, item, f"{SETTLEMENT}: {item.get('ticker')}") for item in items}
    if unknown := next((ticker for ticker in settled if ticker not in tickers), None):
        raise SchemaError(f"reading {SETTLEMENT}: the episode has no market {unknown!r:.80}; it has {', '.join(tickers)}")
    for ticker, one in settled.items():
        if one.result not in (None, "YES", "NO"):
            raise SchemaError(f"reading {SETTLEMENT}: {ticker}.result is {one.result!r:.80}; it must be YES, NO or null")
    return {ticker: settled.get(ticker, _Settled()) for ticker in tickers}


def _read_frame(folder: Path, name: str) -> tuple[str, pl.DataFrame] | None:
    """Read a table in any of its files. Returns the name of the file and the table with times in ns; None if there is no file."""
    path = next((folder / f"{name}{ending}" for ending in _ENDINGS if (folder / f"{name}{ending}").is_file()), None)
    if path is None:
        return None
    try:
        frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema=False)
        if "timestamp" in frame.columns and "ts" not in frame.columns:
            frame = frame.rename({"timestamp": "ts"})
        time = pl.col("ts")
        if frame.schema["ts"] == pl.String():
            time = time.str.replace(" ", "T").str.replace("Z", "+00:00").str.to_datetime("%+", time_unit="ns", time_zone="UTC")
        frame = frame.with_columns(time.dt.cast_time_unit("ns").dt.convert_time_zone("UTC").dt.timestamp("ns").alias("ts"))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SchemaError(f"reading {path.name}: {str(error).splitlines()[0]}; restore it") from None
    for row, (ts, before) in enumerate(zip(frame["ts"].to_list(), [0, *frame["ts"].to_list()], strict=False)):
        if ts is None or ts < before:
            raise RowError(path.name, row, "ts is missing or before that of the previous row; sort the rows by time")
    return path.name, frame


# --- books ---------------------------------------------------------------------------------------------------------------


def _read_book(folder: Path, tickers: Sequence[str]) -> tuple[BookColumns, list[Gap]]:
    found = _read_frame(folder, "orderbook")
    if found is None:
        raise SchemaError(f"reading {folder.name}: orderbook.parquet is missing; an episode has an order book")
    file, frame = found
    codes, ts = _codes(file, frame, "ticker", tickers), frame["ts"].to_list()
    sequence = frame["sequence_id"].cast(pl.Int64).to_list() if "sequence_id" in frame.columns else list(range(len(ts)))
    # The last row of each market's instant; an action of the exchange may lock a book before.
    last = {(code, at): row for row, (code, at) in enumerate(zip(codes, ts, strict=True))}
    builder = BookBuilder(len(tickers))
    locked: dict[int, int] = {}
    gaps: list[Gap] = []
    previous: tuple[Any, ...] = ()
    for row, sides in enumerate(zip(*(_read_side(file, frame, side) for side in range(2)), strict=True)):
        code, at, levels = codes[row], ts[row], sides[0] | sides[1]
        this = at, sequence[row], code, levels
        if this == previous:
            raise RowError(file, row, f"it is the same as row {row - 1} (sequence_id {sequence[row]}); remove it")
        previous, invalid = this, None
        if last[code, at] == row and _is_locked(sides) != (code in locked):
            invalid = code not in locked
            if invalid:
                locked[code] = at
            else:
                gaps.append(Gap(tickers[code], locked.pop(code), at, "locked book"))
        builder.add(at, sequence[row], code, levels, is_whole=True, invalid=invalid)
    gaps += [Gap(tickers[code], at, None, "locked book") for code, at in locked.items()]
    return builder.columns(), sorted(gaps, key=lambda gap: (gap.start, gap.ticker))


def _is_locked(sides: Sequence[dict[Level, int]]) -> bool:
    """Return True if the best bids of both sides add up to a dollar."""
    return all(sides) and max(sides[0]) + max(sides[1]) - level_of(1, 0) == DOLLAR  # type: ignore[arg-type]


def _read_side(file: str, frame: pl.DataFrame, side: int) -> Iterator[dict[Level, int]]:
    """Yield the levels of one side of each row, with their lots."""
    name = f"{_SIDES[side]}_bids"
    if name not in frame.columns:
        raise SchemaError(f"reading {file}: column {name} is missing; it has {', '.join(frame.columns)}")
    for first in range(0, len(frame), _BATCH):
        stated = frame[name].slice(first, _BATCH)
        counts, levels, lots = _read_levels(file, name, stated, first)
        levels += level_of(side, CentiCents(0))
        ends = np.cumsum(counts).tolist()
        keys, sizes = levels.tolist(), lots.tolist()
        for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False), first):
            own = dict(zip(keys[start:end], sizes[start:end], strict=True))
            if len(own) < end - start:
                raise RowError(file, row, f"{name} is {stated[row - first]!r:.80}; it has a price twice")
            yield own if all(own.values()) else {level: size for level, size in own.items() if size}


def _read_levels(file: str, name: str, stated: pl.Series, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of levels of each row, and price ($0.0001) and lots of each level. first: number of the first row."""
    if stated.dtype == pl.String():
        parsed = [_parse_json(file, name, text, first + row) for row, text in enumerate(stated)]
        stated = pl.Series(name, parsed, pl.List(pl.Struct(dict.fromkeys(("price_cents", "price", "size"), pl.Float64()))), strict=False)
    if stated.null_count() or not isinstance(stated.dtype, pl.List) or not isinstance(stated.dtype.inner, pl.Struct):
        raise RowError(file, first + (stated.is_null().arg_max() or 0), f"{name} is no list of levels with a price and a size")
    numbers = stated.explode(empty_as_null=False).struct.unnest().cast(pl.Float64)
    missing = [pl.lit(None, pl.Float64).alias(column) for column in ("price_cents", "price", "size") if column not in numbers.columns]
    numbers, price = numbers.with_columns(missing), pl.col("price")
    cents = pl.coalesce("price_cents", pl.when(price < 1).then((100 * price).round()).otherwise(price))
    frame = numbers.select(cents.alias("cents"), (CONTRACT * pl.col("size")).alias("lots"))
    valid = frame.select(
        (pl.col("cents").is_between(1, 99) & (pl.col("cents") % 1 == 0)) & (pl.col("lots") >= 0) & (pl.col("lots") % 1 == 0)
    )
    wrong = (~valid.to_series().fill_null(False)).arg_true()
    counts = stated.list.len().to_numpy()
    if len(wrong):
        row = int(np.searchsorted(np.cumsum(counts), wrong[0], "right"))
        problem = "a price is whole cents above 0 and below 100, a size whole hundredths of a contract"
        raise RowError(file, first + row, f"{name} is {stated[row].to_list()!r:.80}; {problem}")
    return counts, (CENT * frame["cents"].to_numpy()).astype(np.int64), frame["lots"].to_numpy().astype(np.int64)


def _parse_json(file: str, name: str, text: str, row: int) -> list[Any]:
    """Parse the JSON text of a row to a list of levels."""
    try:
        levels = orjson.loads(text)
    except (orjson.JSONDecodeError, TypeError):
        levels = None
    if not isinstance(levels, list) or not all(
        isinstance(level, dict) and all(type(value) in (int, float) for value in level.values()) for level in levels
    ):
        raise RowError(file, row, f"{name} is {text!r:.80}; it must be a JSON list of levels with numbers")
    return levels


def _codes(file: str, frame: pl.DataFrame, name: str, choices: Sequence[str]) -> list[int]:
    """Return the position in `choices` of each value of a column. Raises `SchemaError` for other values."""
    if name not in frame.columns:
        raise SchemaError(f"reading {file}: column {name} is missing; it has {', '.join(frame.columns)}")
    code = {text: position for position, text in enumerate(choices)}
    values = frame[name].to_list()
    if wrong := next((row for row, value in enumerate(values) if value not in code), None):
        raise RowError(file, wrong, f"{name} is {values[wrong]!r:.80}; it must be one of {', '.join(choices):.200}")
    return [code[value] for value in values]


# --- trades --------------------------------------------------------------------------------------------------------------


def _read_trades(folder: Path, tickers: Sequence[str]) -> Trades:
    """Read the trades, with prices as stated. A missing file has none."""
    found = _read_frame(folder, "trades")
    if found is None:
        return no_trades()
    file, frame = found
    price = pl.col("price_cents")
    if "price_cents" not in frame.columns:
        price = pl.col("price").cast(pl.Float64)
        price = pl.when(price < 1).then((100 * price).round()).otherwise(price)
    try:
        numbers = frame.select(
            "ts", pl.col("trade_id").cast(pl.String), price.cast(pl.Int64).alias("cents"), pl.col("count").cast(pl.Int64)
        )
    except pl.exceptions.PolarsError as error:
        raise SchemaError(f"reading {file}: {str(error).splitlines()[0]}; price_cents and count are whole numbers") from None
    wrong = numbers.select(row=~(pl.col("cents").is_between(1, 99) & (pl.col("count") > 0)).fill_null(False)).to_series().arg_true()
    if len(wrong):
        raise RowError(file, wrong[0], f"{numbers.row(wrong[0], named=True)} has a price outside 1 to 99 cents, or no size above 0")
    codes, takers = (np.array(_codes(file, frame, name, texts)) for name, texts in (("ticker", tickers), ("taker_side", _SIDES)))
    ts, _, cents, contracts = (None if column.dtype == pl.String() else column.to_numpy() for column in numbers.get_columns())
    return Trades(ts, numbers["trade_id"].to_arrow(), codes, takers, CENT * cents, CONTRACT * contracts)  # type: ignore[operator, arg-type]
