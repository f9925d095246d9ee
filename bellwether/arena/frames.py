"""Exact conversion between the arena's objects and rows of its tables.

Rows are sorted in the order of their table, so that equal facts give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

import polars as pl

from bellwether.arena import kalshi
from bellwether.arena.facts import Agent, Settlement, Trade
from bellwether.arena.identity import week_of, week_of_trade
from bellwether.arena.ledger import Ledger, LedgerEntry
from bellwether.arena.lineup import Terms
from bellwether.arena.marks import HeldPrice, PriceSource, Valuation
from bellwether.arena.records import FrozenUniverse, Intervention, encode_fees
from bellwether.arena.resolution import Observation, cancellation, judge_evidence
from bellwether.arena.scores import Score, score_bets
from bellwether.arena.units import micros
from bellwether.tables.arena import AGENTS, EVIDENCE, LEDGER, PORTFOLIOS, POSITIONS, PRICES, SCORES, SETTLEMENTS, TRADES, UNIVERSE
from bellwether.tables.schema import Table
from bellwether.venues.polymarket.fees import FREE
from bellwether.venues.polymarket.resolution import EVIDENCE as LOOK

_ENUM_COLUMNS = frozenset({"kind", "status", "result", "source"})
_TIMES = frozenset({"executed_at", "resolved_at"})
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_MICROS = pl.Series([1_000_000], dtype=pl.Decimal(38, 0))


def universe_frame(week: date, *universes: FrozenUniverse) -> pl.DataFrame:
    """Build rows of arena/universe from the universes of one or more venues."""
    return UNIVERSE.validate(pl.concat([_universe_frame(week, universe) for universe in universes]).sort(UNIVERSE.order))


def _universe_frame(week: date, frozen: FrozenUniverse) -> pl.DataFrame:
    markets = frozen.universe.markets
    columns = {name: [getattr(market, name) for market in markets] for name in _MARKET}
    frame = pl.DataFrame(
        {
            **{name: list(map(list, values)) if name in ("outcomes", "token_ids") else values for name, values in columns.items()},
            "place": list(range(1, len(markets) + 1)),
            "prices": [list(market.prices) for market in markets],
            "fees": [None if market.fees == FREE else encode_fees(market.fees) for market in markets],
        },
        schema_overrides={
            **{name: _plain_dtype(UNIVERSE.schema[name]) for name in _MARKET},
            "prices": pl.List(pl.Int64()),
            "fees": pl.String(),
        },
    )
    origin = {name: getattr(frozen, name) for name in ("venue", "reconstructed", "source")}
    return _to_table(UNIVERSE, frame, week=week, digest=frozen.universe.digest, known_at=frozen.at, **origin)


_EVIDENCE_COLUMNS = (set(LOOK) - {"fetched_at"}) | {"known_at", "results", "settled_at", "missing"}
_MARKET = ("market_id", "event_id", "question", "category", "outcomes", "token_ids", "volume", "closes_at", "tick", "min_shares")


def agents_frame(
    agents: Sequence[Agent],
    models: Mapping[str, str],
    week: date,
    known_at: Any,
    *,
    lineup: str = "",
    reconstructed: bool = False,
    closed: Mapping[str, Intervention] | None = None,
    terms: Mapping[str, Terms] | None = None,
    archived: Intervention | None = None,
) -> pl.DataFrame:
    """Build rows of arena/agents for the agents of a cohort, which started in `week` at `known_at`. closed, archived: interventions of operators
    that closed agents (by agent id) or archived the cohort.

    models: model or rule by family. terms: terms of models by family.
    """
    closures = [(closed or {}).get(agent.agent_id) for agent in agents]
    frozen = [(terms or {}).get(agent.family) for agent in agents]
    frame = _frame_from_objects(AGENTS, Agent._fields, agents).with_columns(
        model=pl.Series([models[agent.family] for agent in agents], dtype=pl.String()),
        model_id=pl.Series([term and term.model_id for term in frozen], dtype=pl.String()),
        input_price=pl.Series([term and micros(term.input_price) for term in frozen], dtype=pl.Int128()),
        output_price=pl.Series([term and micros(term.output_price) for term in frozen], dtype=pl.Int128()),
        closed_at=pl.Series([closure and closure.at for closure in closures], dtype=AGENTS.schema["closed_at"]),
        closed_by=pl.Series([closure and closure.author for closure in closures], dtype=pl.String()),
        archived_at=pl.lit(archived and archived.at, AGENTS.schema["archived_at"]),
        archived_by=pl.lit(archived and archived.author, pl.String()),
    )
    return _to_table(AGENTS, frame, week=week, known_at=known_at, lineup=lineup, reconstructed=reconstructed)


def agents_from_rows(rows: pl.DataFrame) -> list[Agent]:
    """Convert rows of arena/agents to agents."""
    plain = _to_millionths(rows, "initial_cash").with_columns(cohort=pl.col("week").cast(pl.String()))
    return [Agent(*row) for row in plain.select(Agent._fields).iter_rows()]


def trades_frame(trades: Sequence[Trade]) -> pl.DataFrame:
    """Build rows of arena/trades. The column week is the week of the decision."""
    weeks = pl.Series([week_of_trade(trade.trade_id) for trade in trades], dtype=pl.Date())
    frame = _frame_from_objects(TRADES, Trade._fields, trades).rename({"executed_at": "known_at"}).with_columns(week=weeks)
    return _to_table(TRADES, frame)


def trades_from_rows(rows: pl.DataFrame) -> list[Trade]:
    """Convert rows of arena/trades to trades."""
    plain = _to_millionths(rows, "shares", "price", "amount", "fee", "base", "bid", "mid", "ask", "unmatched").rename(
        {"known_at": "executed_at"}
    )
    return [Trade(*row) for row in plain.select(Trade._fields).iter_rows()]


def evidence_frame(observations: Sequence[Mapping[str, Any]], *, reconstructed: bool = False) -> pl.DataFrame:
    """Build rows of arena/evidence (what venues state about resolutions) from rows of `build_evidence_row` of Polymarket or Kalshi. The column
    week is the week of the observation.
    """
    schema = {name: dtype for name, dtype in EVIDENCE.schema.items() if name in _EVIDENCE_COLUMNS}
    rows = [
        {name: observation["fetched_at"] if name == "known_at" else observation.get(name) for name in schema}
        for observation in observations
    ]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    weeks = pl.Series([week_of(at) for at in frame["known_at"]], dtype=pl.Date())
    return EVIDENCE.validate(
        frame.with_columns(week=weeks, reconstructed=pl.lit(reconstructed), cancelled_by=pl.lit(None, pl.String()))
        .select(EVIDENCE.names)
        .sort(EVIDENCE.order)
    )


def cancellations_frame(interventions: Sequence[Intervention]) -> pl.DataFrame:
    """Build rows of arena/evidence for markets that operators cancelled. The column week is the week of the cancellation."""
    rows: list[Mapping[str, Any]] = [
        {
            "week": week_of(intervention.at),
            "market_id": intervention.subject,
            "outcomes": [],
            "cancelled_by": intervention.author,
            "known_at": intervention.at,
            "reconstructed": False,
        }
        for intervention in interventions
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


def settlements_frame(settlements: Sequence[Settlement]) -> pl.DataFrame:
    """Build rows of arena/settlements."""
    frame = _frame_from_objects(SETTLEMENTS, tuple(name for name in Settlement._fields if name != "payouts"), settlements).with_columns(
        outcomes=pl.Series([list(settlement.payouts) for settlement in settlements], dtype=pl.List(pl.String())),
        payouts=pl.Series([list(settlement.payouts.values()) for settlement in settlements], dtype=pl.List(pl.Int64())),
    )
    return _to_table(SETTLEMENTS, frame)


def ledger_frame(ledger: Ledger) -> pl.DataFrame:
    """Build rows of arena/ledger."""
    return _to_table(LEDGER, _add_methodology(_frame_from_objects(LEDGER, LedgerEntry._fields, ledger.entries), ledger))


def positions_frame(ledger: Ledger) -> pl.DataFrame:
    """Build rows of arena/positions."""
    positions = [position for account in ledger.accounts.values() for position in account.positions.values()]
    names = tuple(name for name in POSITIONS.names if name != "methodology")
    return _to_table(POSITIONS, _add_methodology(_frame_from_objects(POSITIONS, names, positions), ledger))


def scores_frame(ledger: Ledger) -> pl.DataFrame:
    """Build rows of arena/scores."""
    frame = _frame_from_objects(SCORES, Score._fields, score_bets(ledger)).rename({"resolved_at": "known_at"})
    return _to_table(SCORES, _add_methodology(frame, ledger))


def portfolios_frame(rows: Sequence[Valuation], ledger: Ledger) -> pl.DataFrame:
    """Build rows of arena/portfolios from valuations."""
    return _to_table(PORTFOLIOS, _add_methodology(_frame_from_objects(PORTFOLIOS, Valuation._fields, rows), ledger))


def prices_frame(prices: Sequence[HeldPrice]) -> pl.DataFrame:
    """Build rows of arena/prices."""
    return _to_table(PRICES, _frame_from_objects(PRICES, HeldPrice._fields, prices).with_columns(day=pl.col("at").dt.date()))


def prices_from_rows(rows: pl.DataFrame) -> list[HeldPrice]:
    """Convert rows of arena/prices to objects."""
    plain = _to_millionths(rows, "price", "other").select(HeldPrice._fields)
    return [HeldPrice(**{**row, "source": PriceSource(row["source"])}) for row in plain.iter_rows(named=True)]


def frame_from_millionths(table: Table, rows: Sequence[Mapping[str, Any]], *names: str) -> pl.DataFrame:
    """Build rows of a table from dictionaries. names: columns whose values are integers in millionths, which become decimals."""
    schema = {name: _plain_dtype(dtype) if name in names else dtype for name, dtype in table.schema.items()}
    return _to_table(table, pl.DataFrame([dict(row) for row in rows], schema=schema, orient="row"))


def _frame_from_objects(table: Table, names: Iterable[str], rows: Sequence[Any]) -> pl.DataFrame:
    """Build a frame with the attributes `names` of the objects `rows`. Columns that are decimal in the table stay integers in millionths."""
    columns = {}
    fields: tuple[str, ...] = getattr(rows[0], "_fields", ()) if rows else ()
    for name in names:
        dtype = table.schema.get(name, table.schema["known_at"] if name in _TIMES else pl.String())
        plain = _plain_dtype(dtype)
        values = list(map(itemgetter(fields.index(name)) if name in fields else attrgetter(name), rows))
        # Polars converts integers and strings in bulk, but datetimes and enum members one by one.
        if isinstance(plain, pl.Datetime):
            columns[name] = pl.Series(name, list(map(_micros_since_1970, values)), dtype=pl.Int64()).cast(plain)
            continue
        if name in _ENUM_COLUMNS:
            values = [value and str(value) for value in values]
        columns[name] = pl.Series(name, values, dtype=plain)
    return pl.DataFrame(columns)


def _plain_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype before conversion to the table's: 128-bit integers for decimals."""
    return pl.Int128() if isinstance(dtype, pl.Decimal) else dtype


@lru_cache(maxsize=1 << 16)
def _micros_since_1970(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _to_table(table: Table, frame: pl.DataFrame, **constants: Any) -> pl.DataFrame:
    """Return the frame with the columns of a table, validated and sorted. Integers in millionths become decimals. constants: columns with a
    single value.
    """
    frame = frame.with_columns([pl.lit(value, table.schema[name]).alias(name) for name, value in constants.items()])
    columns = []
    for name, dtype in table.schema.items():
        column = pl.col(name)
        if isinstance(dtype, pl.Decimal):
            column = (column.cast(pl.Decimal(38, 6)) / _MICROS).cast(dtype)
        elif isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Decimal):
            column = column.list.eval((pl.element().cast(pl.Decimal(38, 6)) / pl.lit(_MICROS)).cast(dtype.inner))
        columns.append(column.cast(dtype).alias(name))
    return table.validate(frame.select(columns).sort(table.order))


def _add_methodology(frame: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    rules = {agent_id: account.agent.methodology for agent_id, account in ledger.accounts.items()}
    return frame.with_columns(
        methodology=pl.col("agent_id").replace_strict(rules, return_dtype=pl.String()) if rules else pl.lit("", pl.String())
    )


def _to_millionths(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Convert the columns `names` from decimals with six digits to integers in millionths, exactly."""
    return rows.with_columns([(pl.col(name).cast(pl.Decimal(38, 6)) * 1_000_000).cast(pl.Int128()) for name in names])
