"""Conversion between the arena's objects, which count money, prices and shares in millionths, and rows of its tables, which have exact decimals.

Rows are sorted in the order of their table, so that equal facts give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, TypeVar

import polars as pl

from bellwether.arena import kalshi
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.identity import week_of, week_of_trade
from bellwether.arena.ledger import Ledger
from bellwether.arena.market import encode_fees
from bellwether.arena.marks import HeldPrice, PriceSource, Valuation
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.resolution import Observation, cancellation, judge_evidence
from bellwether.arena.scores import score_bets
from bellwether.tables.arena import EVIDENCE, LEDGER, PORTFOLIOS, POSITIONS, PRICES, SCORES, SETTLEMENTS, TRADES, UNIVERSE
from bellwether.tables.schema import Table
from bellwether.venues.polymarket.fees import FREE

_ENUMS = frozenset({"kind", "status", "result", "source", "state", "action", "problem", "reason"})
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_EXACT = pl.Decimal(38, 6)
_MICROS = pl.Series([1_000_000], dtype=pl.Decimal(38, 0))

Row = TypeVar("Row", bound=NamedTuple)


def to_frame(table: Table, rows: Sequence[Any], **columns: Any) -> pl.DataFrame:
    """Build rows of a table from objects or mappings, which have the columns as attributes or keys.

    columns: columns given separately, as a list or as one value for all rows. Values of decimal columns are integers in millionths. Nullable
    columns may be missing.
    """
    series = []
    for column in table.columns:
        if column.name in columns:
            given = columns[column.name]
            values = given if isinstance(given, list) else [given] * len(rows)
        else:
            values = _read_column(rows, column.name, nullable=column.nullable)
        series.append(_to_series(column.name, column.dtype, values))
    return table.validate(pl.DataFrame(series).with_columns(map(_to_decimals, table.columns)).sort(table.order))


def from_frame(kind: type[Row], rows: pl.DataFrame) -> list[Row]:
    """Convert rows of a table to objects of a named tuple. Decimals with six digits become integers in millionths, exactly."""
    decimals = [name for name, dtype in rows.select(kind._fields).schema.items() if isinstance(dtype, pl.Decimal)]
    plain = rows.with_columns((pl.col(decimals).cast(_EXACT) * 1_000_000).cast(pl.Int128()))
    return [kind(*row) for row in plain.select(kind._fields).iter_rows()]


def _read_column(rows: Sequence[Any], name: str, *, nullable: bool) -> list[Any]:
    if rows and isinstance(rows[0], Mapping):
        return list(map(methodcaller("get", name), rows))
    if rows and nullable and not hasattr(rows[0], name):
        return [None] * len(rows)
    return list(map(attrgetter(name), rows))


def _to_series(name: str, dtype: pl.DataType, values: list[Any]) -> pl.Series:
    """Build a column, with integers in place of decimals."""
    # Polars converts integers and strings in bulk, but datetimes and enum members one by one.
    if isinstance(dtype, pl.Datetime):
        return pl.Series(name, list(map(_micros_since_1970, values)), dtype=pl.Int64()).cast(dtype)
    if name in _ENUMS:
        values = [value and str(value) for value in values]
    if isinstance(dtype, pl.List):
        values = [value if value is None else list(value) for value in values]
        return pl.Series(name, values, dtype=pl.List(pl.Int64()) if isinstance(dtype.inner, pl.Decimal) else dtype)
    return pl.Series(name, values, dtype=pl.Int128() if isinstance(dtype, pl.Decimal) else dtype)


def _to_decimals(column: Any) -> pl.Expr:
    """Return an expression that converts integers in millionths to the decimals of a column; other columns stay the same."""
    if isinstance(column.dtype, pl.Decimal):
        return (pl.col(column.name).cast(_EXACT) / _MICROS).cast(column.dtype)
    if isinstance(column.dtype, pl.List) and isinstance(column.dtype.inner, pl.Decimal):
        return pl.col(column.name).list.eval((pl.element().cast(_EXACT) / pl.lit(_MICROS)).cast(column.dtype.inner))
    return pl.col(column.name)


@lru_cache(maxsize=1 << 16)
def _micros_since_1970(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def universe_frame(week: date, *universes: FrozenUniverse) -> pl.DataFrame:
    """Build rows of arena/universe from the universes of one or more venues."""
    frames = [
        to_frame(
            UNIVERSE,
            markets := frozen.universe.markets,
            week=week,
            venue=frozen.venue,
            place=list(range(1, len(markets) + 1)),
            fees=[None if market.fees == FREE else encode_fees(market.fees) for market in markets],
            digest=frozen.universe.digest,
            reconstructed=frozen.reconstructed,
            source=frozen.source,
            known_at=frozen.at,
        )
        for frozen in universes
    ]
    return UNIVERSE.validate(pl.concat(frames).sort(UNIVERSE.order))


def agents_from_rows(rows: pl.DataFrame) -> list[Agent]:
    """Convert rows of arena/agents to agents."""
    return from_frame(Agent, rows.with_columns(cohort=pl.col("week").cast(pl.String())))


def trades_frame(trades: Sequence[Trade]) -> pl.DataFrame:
    """Build rows of arena/trades. The column week is the week of the decision."""
    weeks = [week_of_trade(trade.trade_id) for trade in trades]
    return to_frame(TRADES, trades, week=weeks, known_at=[trade.executed_at for trade in trades])


def trades_from_rows(rows: pl.DataFrame) -> list[Trade]:
    """Convert rows of arena/trades to trades."""
    return from_frame(Trade, rows.rename({"known_at": "executed_at"}))


def prices_frame(prices: Sequence[HeldPrice]) -> pl.DataFrame:
    """Build rows of arena/prices."""
    return to_frame(PRICES, prices, day=[price.at.date() for price in prices])


def prices_from_rows(rows: pl.DataFrame) -> list[HeldPrice]:
    """Convert rows of arena/prices to objects."""
    return [price._replace(source=PriceSource(price.source)) for price in from_frame(HeldPrice, rows)]


def evidence_frame(observations: Sequence[Mapping[str, Any]], *, reconstructed: bool = False) -> pl.DataFrame:
    """Build rows of arena/evidence from observations of markets (`build_evidence_row` of Polymarket or Kalshi) and from cancellations by
    operators. The column week is the week of the observation.
    """
    rows = [
        {name: row.get(name) for name in EVIDENCE.names}
        | {"known_at": row["fetched_at"], "week": week_of(row["fetched_at"]), "reconstructed": reconstructed}
        for row in observations
    ]
    return EVIDENCE.validate(EVIDENCE.frame(rows).sort(EVIDENCE.order))


def observations_from_rows(rows: pl.DataFrame) -> list[Observation]:
    """Convert rows of arena/evidence to observations. Rows written by operators become cancellations; rows of markets that the venue did not list
    are omitted.
    """
    observed = rows.filter(pl.col("cancelled_by").is_null(), ~pl.col("missing").fill_null(False)).rename({"known_at": "fetched_at"})
    of_kalshi = pl.col("results").is_not_null()
    cancelled = rows.filter(pl.col("cancelled_by").is_not_null()).select("market_id", "known_at", "cancelled_by")
    observations = [*judge_evidence(observed.filter(~of_kalshi)), *kalshi.judge_evidence(observed.filter(of_kalshi))]
    return [*observations, *(cancellation(*row) for row in cancelled.iter_rows())]


def book_frames(ledger: Ledger, settlements: Sequence[Settlement] = (), curves: Sequence[Valuation] = ()) -> dict[str, pl.DataFrame]:
    """Build rows of the tables that follow from the ledger, by name. curves: values of the portfolios."""
    rules = {agent_id: account.agent.methodology for agent_id, account in ledger.accounts.items()}
    scores = score_bets(ledger)
    of_agents: dict[Table, Sequence[Any]] = {
        LEDGER: ledger.entries,
        POSITIONS: [position for account in ledger.accounts.values() for position in account.positions.values()],
        SCORES: scores,
        PORTFOLIOS: curves,
    }
    resolved = {SCORES: {"known_at": [score.resolved_at for score in scores]}}
    payouts = [settlement.payouts for settlement in settlements]
    return {
        SETTLEMENTS.name: to_frame(SETTLEMENTS, settlements, outcomes=payouts, payouts=[paid.values() for paid in payouts]),
        **{
            table.name: to_frame(table, rows, methodology=[rules[row.agent_id] for row in rows], **resolved.get(table, {}))
            for table, rows in of_agents.items()
        },
    }
