"""Import of episodes of PredictionMarketBench: Parquet files with full books in whole cents.

The price of a trade may be that of YES or that of the side that the taker bought: the *convention* of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
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
from bellwether.units import CentiCents, Lots, MicroDollars

#: Side of the prices of trades: the side that the taker bought, or YES; auto: whichever agrees with the books.
TAKER_PRICE, YES_PRICE, AUTO = "taker", "yes", "auto"
CONVENTIONS = (AUTO, TAKER_PRICE, YES_PRICE)
ORDERBOOK, TRADES = "orderbook.parquet", "trades.parquet"
_SIDES = ("yes", "no")
_TIME, _NUMBER, _TEXT = pl.Datetime("ns", "UTC"), pl.Int64(), pl.String()
_LEVELS = pl.List(pl.Struct({"price_cents": _NUMBER, "size": _NUMBER}))
#: Columns of the files that an import reads.
_COLUMNS: dict[str, dict[str, pl.DataType]] = {
    ORDERBOOK: {"ts": _TIME, "sequence_id": _NUMBER, "ticker": _TEXT, "yes_bids": _LEVELS, "no_bids": _LEVELS},
    TRADES: {"ts": _TIME, "trade_id": _TEXT, "ticker": _TEXT, "taker_side": _TEXT, "price_cents": _NUMBER, "count": _NUMBER},
}
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
    """Parse `settlement.json`, an object keyed by ticker."""
    settled = {ticker: parse_object(_Settled, item, f"{SETTLEMENT}: {ticker}") for ticker, item in values.items()}
    if unknown := next((ticker for ticker in settled if ticker not in tickers), None):
        raise SchemaError(f"reading {SETTLEMENT}: the episode has no market {unknown!r:.80}; it has {', '.join(tickers)}")
    for ticker, one in settled.items():
        if one.result not in (None, "YES", "NO"):
            raise SchemaError(f"reading {SETTLEMENT}: {ticker}.result is {one.result!r:.80}; it must be YES, NO or null")
    return {ticker: settled.get(ticker, _Settled()) for ticker in tickers}


def _read_frame(folder: Path, name: str, tickers: Sequence[str]) -> pl.DataFrame:
    """Read a table in chronological order, with its markets' positions in `tickers` as the column `code`. Raises `SchemaError`."""
    columns = _COLUMNS[name]
    try:
        frame = pl.read_parquet(folder / name)
        for column, dtype in columns.items():
            if not _is_kind(frame.schema[column], dtype):
                raise SchemaError(f"reading {name}: {column} is {frame.schema[column]}; it must be {dtype}")
        frame = frame.select(pl.col(column).cast(dtype) for column, dtype in columns.items())
    except (OSError, KeyError, pl.exceptions.PolarsError) as error:
        raise SchemaError(f"reading {name}: {str(error).splitlines()[0]}; it must have the columns {', '.join(columns)}") from None
    ts, codes = pl.col("ts"), {ticker: code for code, ticker in enumerate(tickers)}
    code = pl.col("ticker").replace_strict(codes, default=None, return_dtype=pl.Int32())
    _require(name, frame, ts.is_not_null() & (ts >= ts.shift(1, fill_value=ts.first())), "ts is missing or before that of the previous row")
    _require(name, frame, code.is_not_null(), f"the market must be one of {', '.join(tickers):.200}")
    return frame.with_columns(ts.dt.timestamp("ns"), code=code)


def _is_kind(stated: pl.DataType, wanted: pl.DataType) -> bool:
    """Return True if values of one type are converted to another without loss."""
    if isinstance(wanted, pl.List) and isinstance(stated, pl.List):
        return _is_kind(stated.inner, wanted.inner)  # type: ignore[arg-type]
    if isinstance(wanted, pl.Struct) and isinstance(stated, pl.Struct):
        fields = {field.name: field.dtype for field in stated.fields}
        return all(field.name in fields and _is_kind(fields[field.name], field.dtype) for field in wanted.fields)  # type: ignore[arg-type]
    return stated.is_integer() if wanted.is_integer() else stated.base_type() == wanted.base_type()


def _require(name: str, frame: pl.DataFrame, valid: pl.Expr, problem: str) -> None:
    """Raise `RowError` for the first row that is not valid."""
    wrong = frame.select(~valid.fill_null(False)).to_series().arg_true()
    if len(wrong):
        raise RowError(name, wrong[0], f"{problem}; it is {frame.row(wrong[0], named=True)!r:.200}")


# --- books ---------------------------------------------------------------------------------------------------------------


def _read_book(folder: Path, tickers: Sequence[str]) -> tuple[BookColumns, list[Gap]]:
    frame = _read_frame(folder, ORDERBOOK, tickers)
    price, size = (pl.element().struct.field(field) for field in ("price_cents", "size"))
    for side in _SIDES:
        bids = pl.col(f"{side}_bids")
        valid = bids.list.eval((price.is_between(1, 99) & (size >= 0)).fill_null(False)).list.all()
        unique = bids.list.eval(price).list.n_unique() == bids.list.len()
        _require(ORDERBOOK, frame, valid & unique, f"{side}_bids must have whole cents from 1 to 99, each once, and contracts of 0 or more")
    is_last = frame.select(pl.struct("code", "ts").is_last_distinct()).to_series().to_list()
    builder = BookBuilder(len(tickers))
    locked: dict[int, int] = {}
    gaps: list[Gap] = []
    previous: tuple[Any, ...] = ()
    for row, this in enumerate(_iterate_rows(frame)):
        at, sequence, code, sides = this
        if this == previous:
            raise RowError(ORDERBOOK, row, f"it is the same as row {row - 1} (sequence_id {sequence}); remove it")
        previous, invalid = this, None
        # An action of the exchange may lock a book before its last row.
        if is_last[row] and _is_locked(sides) != (code in locked):
            invalid = code not in locked
            if invalid:
                locked[code] = at
            else:
                gaps.append(Gap(tickers[code], locked.pop(code), at, "locked book"))
        builder.add(at, sequence, code, sides[0] | sides[1], is_whole=True, invalid=invalid)
    gaps += [Gap(tickers[code], at, None, "locked book") for code, at in locked.items()]
    return builder.columns(), sorted(gaps, key=lambda gap: (gap.start, gap.ticker))


def _is_locked(sides: Sequence[dict[Level, Lots]]) -> bool:
    """Return True if the best bids of both sides add up to a dollar."""
    return all(sides) and max(sides[0]) + max(sides[1]) - level_of(1, 0) == DOLLAR  # type: ignore[arg-type]


def _iterate_rows(frame: pl.DataFrame) -> Iterator[tuple[int, int, int, tuple[dict[Level, Lots], ...]]]:
    """Yield time, sequence number and market of each row, and the lots by level of each side, without levels of size 0."""
    for batch in frame.iter_slices(_BATCH):
        sides = zip(*(_read_levels(batch[f"{side}_bids"], code) for code, side in enumerate(_SIDES)), strict=True)
        for (at, sequence, code), levels in zip(batch.select("ts", "sequence_id", "code").iter_rows(), sides, strict=True):
            yield at, sequence, code, levels


def _read_levels(bids: pl.Series, side: int) -> Iterator[dict[Level, Lots]]:
    numbers = bids.explode(empty_as_null=False).struct.unnest()
    levels = (CENT * numbers["price_cents"] + level_of(side, CentiCents(0))).to_list()
    lots = (CONTRACT * numbers["size"]).to_list()
    end = 0
    for count in bids.list.len():
        start, end = end, end + count
        yield {level: size for level, size in zip(levels[start:end], lots[start:end], strict=True) if size}


# --- trades ----------------------------------------------------------------------------------------------------------------


def _read_trades(folder: Path, tickers: Sequence[str]) -> Trades:
    """Read the trades, with prices as stated. A missing file has none."""
    if not (folder / TRADES).is_file():
        return no_trades()
    frame = _read_frame(folder, TRADES, tickers)
    valid = pl.col("price_cents").is_between(1, 99) & (pl.col("count") > 0) & pl.col("taker_side").is_in(_SIDES)
    _require(TRADES, frame, valid, "price_cents is from 1 to 99, count above 0, and taker_side yes or no")
    taker = (frame["taker_side"] == "no").cast(pl.Int8())
    numbers = (column.to_numpy() for column in (frame["code"], taker, CENT * frame["price_cents"], CONTRACT * frame["count"]))
    return Trades(frame["ts"].to_numpy(), frame["trade_id"].to_arrow(), *numbers)
