"""The arena's facts and results as rows of its tables, and facts back from their rows. Amounts become decimals exactly.

Rows are in the order of their table, so that the same facts give the same bytes.
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
from bellwether.arena.identity import week_decided, week_of
from bellwether.arena.ledger import Book, Entry
from bellwether.arena.lineup import Terms
from bellwether.arena.marks import Price, Source, Valuation
from bellwether.arena.records import FrozenUniverse, Intervention, fee_text
from bellwether.arena.resolution import Observation, cancelled, observations
from bellwether.arena.scores import Score, score_bets
from bellwether.arena.units import micros
from bellwether.tables.arena import AGENTS, EVIDENCE, LEDGER, PORTFOLIOS, POSITIONS, PRICES, SCORES, SETTLEMENTS, TRADES, UNIVERSE
from bellwether.tables.schema import Table
from bellwether.venues.polymarket.fees import FREE
from bellwether.venues.polymarket.resolution import EVIDENCE as LOOK

_WORDS = frozenset({"kind", "status", "result", "source"})
_TIMES = frozenset({"executed_at", "resolved_at"})
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_MICROS = pl.Series([1_000_000], dtype=pl.Decimal(38, 0))


def universe_frame(week: date, *universes: FrozenUniverse) -> pl.DataFrame:
    """Rows of arena/universe: of one venue or of several."""
    return UNIVERSE.validate(pl.concat([_universe_frame(week, one) for one in universes]).sort(UNIVERSE.order))


def _universe_frame(week: date, frozen: FrozenUniverse) -> pl.DataFrame:
    markets = frozen.universe.markets
    columns = {name: [getattr(market, name) for market in markets] for name in _MARKET}
    frame = pl.DataFrame(
        {
            **{name: list(map(list, values)) if name in ("outcomes", "token_ids") else values for name, values in columns.items()},
            "place": list(range(1, len(markets) + 1)),
            "prices": [list(market.prices) for market in markets],
            "fees": [None if market.fees == FREE else fee_text(market.fees) for market in markets],
        },
        schema_overrides={**_texts(UNIVERSE), "prices": pl.List(pl.Int64()), "fees": pl.String()},
    )
    about = {name: getattr(frozen, name) for name in ("venue", "reconstructed", "source")}
    return _table(UNIVERSE, frame, week=week, digest=frozen.universe.digest, known_at=frozen.at, **about)


_LOOKED = (set(LOOK) - {"fetched_at"}) | {"known_at", "results", "settled_at", "missing"}
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
    """Rows of arena/agents. models: what decides, by family. closed: what closed agents, by id. terms: of models, by family. archived: what archived
    their cohort."""
    ends = [(closed or {}).get(agent.agent_id) for agent in agents]
    kept = [(terms or {}).get(agent.family) for agent in agents]
    frame = _of(AGENTS, Agent._fields, agents).with_columns(
        model=pl.Series([models[agent.family] for agent in agents], dtype=pl.String()),
        model_id=pl.Series([one and one.model_id for one in kept], dtype=pl.String()),
        input_price=pl.Series([one and micros(one.input_price) for one in kept], dtype=pl.Int64()),
        output_price=pl.Series([one and micros(one.output_price) for one in kept], dtype=pl.Int64()),
        closed_at=pl.Series([end and end.at for end in ends], dtype=AGENTS.schema["closed_at"]),
        closed_by=pl.Series([end and end.author for end in ends], dtype=pl.String()),
        archived_at=pl.lit(archived and archived.at, AGENTS.schema["archived_at"]),
        archived_by=pl.lit(archived and archived.author, pl.String()),
    )
    return _table(AGENTS, frame, week=week, known_at=known_at, lineup=lineup, reconstructed=reconstructed)


def agents_of(rows: pl.DataFrame) -> list[Agent]:
    """Agents from rows of arena/agents."""
    plain = _integers(rows, "initial_cash").with_columns(cohort=pl.col("week").cast(pl.String()))
    return [Agent(*row) for row in plain.select(Agent._fields).iter_rows()]


def trades_frame(trades: Sequence[Trade]) -> pl.DataFrame:
    """Rows of arena/trades; their week is that of their decision."""
    weeks = pl.Series([week_decided(trade.trade_id) for trade in trades], dtype=pl.Date())
    frame = _of(TRADES, Trade._fields, trades).rename({"executed_at": "known_at"}).with_columns(week=weeks)
    return _table(TRADES, frame)


def trades_of(rows: pl.DataFrame) -> list[Trade]:
    """Trades from rows of arena/trades."""
    plain = _integers(rows, "shares", "price", "amount", "fee", "base", "bid", "mid", "ask").rename({"known_at": "executed_at"})
    return [Trade(*row) for row in plain.select(Trade._fields).iter_rows()]


def evidence_frame(looks: Sequence[Mapping[str, Any]], *, reconstructed: bool = False) -> pl.DataFrame:
    """Rows of arena/evidence from looks as `resolution.evidence_of` of each venue makes them; their week is that of the look."""
    schema = {name: dtype for name, dtype in EVIDENCE.schema.items() if name in _LOOKED}
    rows = [{name: look["fetched_at"] if name == "known_at" else look.get(name) for name in schema} for look in looks]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    weeks = pl.Series([week_of(at) for at in frame["known_at"]], dtype=pl.Date())
    return EVIDENCE.validate(
        frame.with_columns(week=weeks, reconstructed=pl.lit(reconstructed), cancelled_by=pl.lit(None, pl.String()))
        .select(EVIDENCE.names)
        .sort(EVIDENCE.order)
    )


def cancellations_frame(found: Sequence[Intervention]) -> pl.DataFrame:
    """Rows of arena/evidence from cancellations of markets; their week is that of the cancellation."""
    rows: list[Mapping[str, Any]] = [
        {
            "week": week_of(one.at),
            "market_id": one.subject,
            "outcomes": [],
            "cancelled_by": one.author,
            "known_at": one.at,
            "reconstructed": False,
        }
        for one in found
    ]
    return EVIDENCE.validate(EVIDENCE.frame(rows).sort(EVIDENCE.order))


def observations_of(rows: pl.DataFrame) -> list[Observation]:
    """Convert rows of arena/evidence to observations: the row of an operator is a cancellation, that of a missing market is left out."""
    looks = rows.filter(pl.col("cancelled_by").is_null(), ~pl.col("missing").fill_null(False)).rename({"known_at": "fetched_at"})
    of_kalshi = pl.col("results").is_not_null()
    words = rows.filter(pl.col("cancelled_by").is_not_null()).select("market_id", "known_at", "cancelled_by")
    seen = [*observations(looks.filter(~of_kalshi)), *kalshi.observations(looks.filter(of_kalshi))]
    return [*seen, *(cancelled(*row) for row in words.iter_rows())]


def settlements_frame(settlements: Sequence[Settlement]) -> pl.DataFrame:
    """Rows of arena/settlements."""
    frame = _of(SETTLEMENTS, tuple(name for name in Settlement._fields if name != "payouts"), settlements).with_columns(
        outcomes=pl.Series([list(one.payouts) for one in settlements], dtype=pl.List(pl.String())),
        payouts=pl.Series([list(one.payouts.values()) for one in settlements], dtype=pl.List(pl.Int64())),
    )
    return _table(SETTLEMENTS, frame)


def ledger_frame(book: Book) -> pl.DataFrame:
    """Rows of arena/ledger."""
    return _table(LEDGER, _with_methodology(_of(LEDGER, Entry._fields, book.entries), book))


def positions_frame(book: Book) -> pl.DataFrame:
    """Rows of arena/positions."""
    held = [position for account in book.accounts.values() for position in account.positions.values()]
    names = tuple(name for name in POSITIONS.names if name != "methodology")
    return _table(POSITIONS, _with_methodology(_of(POSITIONS, names, held), book))


def scores_frame(book: Book) -> pl.DataFrame:
    """Rows of arena/scores."""
    frame = _of(SCORES, Score._fields, score_bets(book)).rename({"resolved_at": "known_at"})
    return _table(SCORES, _with_methodology(frame, book))


def portfolios_frame(rows: Sequence[Valuation], book: Book) -> pl.DataFrame:
    """Rows of arena/portfolios."""
    return _table(PORTFOLIOS, _with_methodology(_of(PORTFOLIOS, Valuation._fields, rows), book))


def prices_frame(prices: Sequence[Price]) -> pl.DataFrame:
    """Rows of arena/prices."""
    return _table(PRICES, _of(PRICES, Price._fields, prices).with_columns(day=pl.col("at").dt.date()))


def prices_of(rows: pl.DataFrame) -> list[Price]:
    """Prices from rows of arena/prices."""
    plain = _integers(rows, "price", "other").select(Price._fields)
    return [Price(**{**row, "source": Source(row["source"])}) for row in plain.iter_rows(named=True)]


def millionths(table: Table, rows: Sequence[Mapping[str, Any]], *names: str) -> pl.DataFrame:
    """Rows of a table from dictionaries, in which the columns `names` are integers in millionths."""
    schema = {name: pl.Int64() if name in names else dtype for name, dtype in table.schema.items()}
    return _table(table, pl.DataFrame([dict(row) for row in rows], schema=schema, orient="row"))


def _of(table: Table, names: Iterable[str], rows: Sequence[Any]) -> pl.DataFrame:
    """Columns of integers, texts and times as the objects have them; what the table has as decimals is still in millionths."""
    made = {}
    fields: tuple[str, ...] = getattr(rows[0], "_fields", ()) if rows else ()
    for name in names:
        dtype = table.schema.get(name, table.schema["known_at"] if name in _TIMES else pl.String())
        plain = pl.Int64() if isinstance(dtype, pl.Decimal) else dtype
        values = list(map(itemgetter(fields.index(name)) if name in fields else attrgetter(name), rows))
        # Polars reads times and members of an enumeration one by one, integers and plain texts at once.
        if isinstance(plain, pl.Datetime):
            made[name] = pl.Series(name, list(map(_micros_since_1970, values)), dtype=pl.Int64()).cast(plain)
            continue
        if name in _WORDS:
            values = [value and str(value) for value in values]
        made[name] = pl.Series(name, values, dtype=plain)
    return pl.DataFrame(made)


@lru_cache(maxsize=1 << 16)
def _micros_since_1970(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // _MICROSECOND


def _table(table: Table, frame: pl.DataFrame, **alike: Any) -> pl.DataFrame:
    """A frame of a table: millionths as decimals, the same value in the columns `alike`, rows in the table's order."""
    frame = frame.with_columns([pl.lit(value, table.schema[name]).alias(name) for name, value in alike.items()])
    columns = []
    for name, dtype in table.schema.items():
        column = pl.col(name)
        if isinstance(dtype, pl.Decimal):
            column = (column.cast(pl.Decimal(38, 6)) / _MICROS).cast(dtype)
        elif isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Decimal):
            column = column.list.eval((pl.element().cast(pl.Decimal(38, 6)) / pl.lit(_MICROS)).cast(dtype.inner))
        columns.append(column.cast(dtype).alias(name))
    return table.validate(frame.select(columns).sort(table.order))


def _with_methodology(frame: pl.DataFrame, book: Book) -> pl.DataFrame:
    rules = {agent_id: account.agent.methodology for agent_id, account in book.accounts.items()}
    return frame.with_columns(
        methodology=pl.col("agent_id").replace_strict(rules, return_dtype=pl.String()) if rules else pl.lit("", pl.String())
    )


def _integers(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Decimals of six digits as integers in millionths, exactly."""
    return rows.with_columns([(pl.col(name).cast(pl.Decimal(38, 6)) * 1_000_000).cast(pl.Int64()) for name in names])


def _texts(table: Table) -> dict[str, Any]:
    return {name: dtype for name, dtype in table.schema.items() if not isinstance(dtype, pl.Decimal) and name in _MARKET}
