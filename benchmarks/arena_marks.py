"""A year of ten-minute marks (prices of all positions): bytes of the stored price changes relative to a SQLite row per position and mark, and CPU
time of all equity curves.

40 agents hold five positions each, all year, in 60 markets of which one in ten changes its price from one mark to the next: 10^7 marks of
positions.
"""

from __future__ import annotations

import sqlite3
import tempfile
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np

from bellwether.arena.facts import Agent, Trade
from bellwether.arena.frames import book_frames, prices_frame, to_frame
from bellwether.arena.identity import AgentKey, DecisionKey, week_of
from bellwether.arena.ledger import Ledger, fold
from bellwether.arena.marks import HeldPrice, PriceSource, compute_portfolio_curves
from bellwether.arena.methodology import load_methodology
from bellwether.arena.units import MICROS
from bellwether.lake import Lake
from bellwether.tables.arena import AGENTS, PORTFOLIOS, PRICES
from benchmarks.arena import least

START, MARK, DAYS = datetime(2025, 7, 6, tzinfo=UTC), timedelta(minutes=10), 365
AGENTS_HELD, POSITIONS, MARKETS, CHANGES = 40, 5, 60, 0.1
PER_DAY = 144
#: Days of naive rows that are written.
SAMPLE = 5
#: Bytes of the stored prices over those of all marks of positions; CPU seconds of the query.
LEAST, QUERY = 1 / 20, 1.0


def run() -> list[dict[str, Any]]:
    """Measure the bytes of stored prices divided by those of a row per mark and position, and the CPU seconds of all equity curves divided by one
    second.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        lake, book = Lake(str(home / "lake")), _book()
        drawn, prices = _prices()
        for day, rows in prices_frame(prices).partition_by("day", as_dict=True).items():
            lake.write(PRICES, (str(day[0]),), rows, run_id="marks")
        portfolios = book_frames(book, curves=compute_portfolio_curves(book, prices))[PORTFOLIOS.name]
        lake.write(PORTFOLIOS, (), portfolios, run_id="marks")
        agents = [account.agent for account in book.accounts.values()]
        rows = to_frame(AGENTS, agents, week=week_of(START), known_at=START, model="m", lineup="", reconstructed=False)
        lake.write(AGENTS, (str(week_of(START)),), rows, run_id="marks")
        stored, curve = (_bytes(home / "lake" / name) for name in ("arena/prices", "arena/portfolios"))
        naive, marks = _naive(book, drawn, home / "naive.db")
        seconds, points = _equity(lake)
    return [
        {
            "name": "a year of marks, bytes over a database's row per position and mark",
            "ratio": stored / naive,
            "target": LEAST,
            "detail": f"{len(prices):,} prices of {marks:,} marks: {stored / 1e6:.1f} MB of {naive / 1e6:.1f} MB; portfolios {curve / 1e6:.1f} MB",
        },
        {
            "name": "all equity curves of a year by DuckDB, CPU of 1 s",
            "ratio": seconds / QUERY,
            "target": 1,
            "detail": f"{seconds:.3f} s from {portfolios.height:,} rows to {points:,} days of agents",
        },
    ]


def _book() -> Ledger:
    rng, rules, agents, trades = Random(1), load_methodology(), list[Agent](), list[Trade]()
    for number in range(AGENTS_HELD):
        key = DecisionKey(AgentKey(week_of(START), f"family-{number:02}"), week_of(START))
        agents.append(Agent(key.agent.agent_id, str(key.week), key.agent.family, rules.name, rules.cash))
        for leg, market in enumerate(rng.sample(range(MARKETS), POSITIONS), start=1):
            name = key.trade_id(leg)
            trades.append(
                Trade(
                    name,
                    key.agent.agent_id,
                    f"m{market}",
                    "YES",
                    "BUY",
                    name,
                    1_000 * MICROS,
                    500_000,
                    500 * MICROS,
                    0,
                    START,
                    rules.cash,
                    500_000,
                    0.2,
                )
            )
    return fold(agents, trades, [])


def _prices() -> tuple[np.ndarray, list[HeldPrice]]:
    """Generate the price of each market at each mark in micro-dollars, and the rows that store changed prices. At the first mark of a day all
    prices are stored.
    """
    rng, marks = np.random.default_rng(2), DAYS * PER_DAY
    steps = rng.choice([-1_000, 1_000], (marks, MARKETS)) * (rng.random((marks, MARKETS)) < CHANGES)
    drawn = np.clip(500_000 + np.cumsum(steps, axis=0), 1_000, 999_000)
    moved = np.ones((marks, MARKETS), dtype=bool)
    moved[1:] = drawn[1:] != drawn[:-1]
    moved[::PER_DAY] = True
    found = []
    for mark, market in np.argwhere(moved).tolist():
        at = START + mark * MARK
        found.append(HeldPrice(f"m{market}", "YES", at, int(drawn[mark, market]), PriceSource.LIVE, at))
    return drawn, found


def _naive(book: Ledger, drawn: np.ndarray, path: Path) -> tuple[int, int]:
    """Return how many bytes and rows a SQLite database with a row per position and mark would have, extrapolated from a few days."""
    held = [(one.agent_id, one.market_id, one.side) for account in book.accounts.values() for one in account.open.values()]
    some = range(SAMPLE * PER_DAY)
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE marks (agent_id TEXT, market_id TEXT, side TEXT, at TEXT, price INTEGER, value INTEGER, source TEXT)"
        )
        rows = (
            (*names, (START + mark * MARK).isoformat(), price, price * 1_000, "live")
            for mark in some
            for names in held
            for price in [int(drawn[mark, int(names[1][1:])])]
        )
        database.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return path.stat().st_size * DAYS // SAMPLE, len(drawn) * len(held)


def _equity(lake: Lake) -> tuple[float, int]:
    """Return the CPU seconds of the query for all equity curves, and the number of its rows."""
    text = (files("sql") / "analysis" / "arena_equity.sql").read_text()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA arena")
        for table in (PORTFOLIOS, AGENTS):
            paths = ", ".join(f"'{file}'" for file in lake.slice(table).files)
            connection.execute(f"CREATE VIEW {table.name.replace('/', '.')} AS FROM read_parquet([{paths}])")
        points = len(connection.execute(text).fetchall())
        return least(lambda: connection.execute(text).fetchall()), points


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
