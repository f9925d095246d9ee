"""CPU time of computing the arena's results of a year, and of one tick (storing the present prices of all positions), relative to a target in
seconds.

A year has 3,000 decisions, 20,000 trades, and 5,000 resolutions with two observations each. A tick has 40 cohorts of 8 agents with 20 positions.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import polars as pl

from bellwether.arena.facts import Agent, Result, Trade
from bellwether.arena.frames import book_frames, to_frame, trades_frame, trades_from_rows, universe_frame
from bellwether.arena.identity import WEEK, AgentKey, DecisionKey, week_of
from bellwether.arena.ledger import Ledger, fold
from bellwether.arena.market import Market
from bellwether.arena.marks import PriceObservation, price_key, select_tick_prices
from bellwether.arena.methodology import load_methodology
from bellwether.arena.records import FrozenUniverse
from bellwether.arena.resolution import Observation, Ruling, derive_settlements
from bellwether.arena.units import MICROS
from bellwether.arena.universe import build_universe
from bellwether.arena.weekly.context import WeekContext
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.polymarket import book_midpoint
from bellwether.lake import Lake
from bellwether.tables import arena as tables
from bellwether.venues.polymarket.snapshots import Book

RULES = load_methodology()
START = datetime(2026, 1, 4, tzinfo=UTC)
DECISIONS, TRADES, RESOLUTIONS = 3_000, 20_000, 5_000
COHORTS, AGENTS, POSITIONS = 40, 8, 20
ROUNDS = 3
#: CPU seconds of the fold and of a tick.
FOLD, TICK = 2.0, 0.2


def run() -> list[dict[str, Any]]:
    """Measure results and ticks. Returns [{name, ratio, target, detail}]; ratio: CPU seconds divided by the target. The detail compares with a
    group-by.
    """
    agents, trades, looks = year()
    facts = trades_frame(trades)
    pure = least(lambda: fold(agents, trades, derive_settlements(looks, RULES)))
    whole = least(lambda: results(agents, facts, looks))
    settled = book_frames(fold([], [], []), derive_settlements(looks, RULES))["arena/settlements"]
    scan = least(lambda: _scan(facts, settled))
    ticked, stored = _tick(), _stored_tick()
    return [
        {
            "name": "fold of a year, CPU of 2 s",
            "ratio": whole / FOLD,
            "target": 1,
            "detail": f"{whole:.3f} s from rows to rows, {pure:.3f} s the fold alone, {scan * 1000:.0f} ms a scan and group-by",
        },
        {
            "name": "tick of marks, CPU of 200 ms",
            "ratio": ticked / TICK,
            "target": 1,
            "detail": f"{ticked * 1000:.0f} ms, {COHORTS * AGENTS * POSITIONS:,} positions",
        },
        {
            "name": "tick of marks from lake to lake, CPU of 200 ms",
            "ratio": stored / TICK,
            "target": 1,
            "detail": f"{stored * 1000:.0f} ms beyond the calls for prices, of which half have changed",
        },
    ]


def year() -> tuple[list[Agent], list[Trade], list[Observation]]:
    """Generate the facts of a year: agents, trades (one in five is a sale), and two observations of every market's resolution."""
    rng = Random(1)
    weeks = [week_of(START) + n * WEEK for n in range(52)]
    keys = [AgentKey(week, f"family-{n}") for week in weeks for n in range(12)]
    agents = [Agent(key.agent_id, str(key.cohort), key.family, RULES.name, RULES.cash) for key in keys]
    decisions = [DecisionKey(key, key.cohort + n * WEEK) for key in keys for n in range(5)][:DECISIONS]
    legs = [(key, leg) for key in decisions for leg in range(1, TRADES // DECISIONS + 2)][:TRADES]
    trades: list[Trade] = []
    held: dict[str, dict[str, tuple[str, int]]] = {}
    for number, (key, leg) in enumerate(legs):
        mine = held.setdefault(key.agent.agent_id, {})
        at, trade_id = START + (key.week - week_of(START)), key.trade_id(leg)
        sale = bool(mine) and rng.random() < 0.2
        market = rng.choice(list(mine)) if sale else f"m{number % RESOLUTIONS}"
        position_id, shares = mine.get(market, (trade_id, 0))
        left = mine[market] = position_id, shares - 40 if sale else shares + 100
        if left[1] < 40:
            del mine[market]
        values = (
            ("SELL", position_id, (40 if left[1] >= 0 else shares) * MICROS, 500_000, 20 * MICROS)
            if sale
            else ("BUY", position_id, 100 * MICROS, 500_000, 50 * MICROS)
        )
        trades.append(Trade(trade_id, key.agent.agent_id, market, "YES", *values, 0, at, RULES.cash, 500_000, None if sale else 0.02))
    won = Ruling(Result.WON, (("yes", MICROS), ("no", 0)), "Yes")
    end = START + timedelta(days=400)
    looks = [Observation(f"m{n}", end + timedelta(hours=look), won, "winner flag") for n in range(RESOLUTIONS) for look in range(2)]
    return agents, trades, looks


def results(agents: list[Agent], trades: pl.DataFrame, looks: list[Observation]) -> list[pl.DataFrame]:
    """Compute the rows of ledger, positions and scores. trades: rows of arena/trades. looks: observations of resolutions."""
    book = fold(agents, trades_from_rows(trades), derive_settlements(looks, RULES))
    if book.violations:
        raise AssertionError(book.violations[:3])
    return list(book_frames(book).values())


def _scan(facts: pl.DataFrame, settled: pl.DataFrame) -> pl.DataFrame:
    rows = pl.concat([facts.lazy(), settled.lazy()], how="diagonal")
    return rows.group_by("agent_id", "market_id").agg(pl.col("amount", "shares", "fee").sum()).collect()


def least(work: Callable[[], object]) -> float:
    """Return the CPU seconds of the fastest of a few runs of `work`."""
    # What the benchmark itself keeps alive is no part of the work: the collector need not walk it.
    gc.collect()
    gc.freeze()
    try:
        return min(_seconds(work) for _ in range(ROUNDS))
    finally:
        gc.unfreeze()


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _holders() -> list[tuple[Agent, list[Trade]]]:
    """Generate the agents of all cohorts, each with the trades that opened its positions."""
    rng, found = Random(2), []
    for cohort in range(COHORTS):
        for number in range(AGENTS):
            key = DecisionKey(AgentKey(week_of(START) + cohort * WEEK, f"family-{number}"), week_of(START) + cohort * WEEK)
            trades = []
            for leg in range(1, POSITIONS + 1):
                trade_id, market = key.trade_id(leg), f"m{rng.randrange(500)}-{leg}"
                values = ("YES", "BUY", trade_id, MICROS, 500_000, 500_000, 0, START, RULES.cash, 500_000, 0.1)
                trades.append(Trade(trade_id, key.agent.agent_id, market, *values))
            found.append((Agent(key.agent.agent_id, str(key.agent.cohort), key.agent.family, RULES.name, RULES.cash), trades))
    return found


def _stored_tick() -> float:
    """Return the CPU seconds of a tick that reads positions and last prices from a lake and stores the changed prices. The venue's replies take no
    time.
    """
    holders = _holders()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(folder)
        for week in {agent.cohort for agent, _ in holders}:
            mine = [agent for agent, _ in holders if agent.cohort == week]
            cohort = {"week": date.fromisoformat(week), "known_at": START, "model": "m", "lineup": "", "reconstructed": False}
            lake.write(tables.AGENTS, (week,), to_frame(tables.AGENTS, mine, **cohort), run_id="b")
            lake.write(
                tables.TRADES, (week,), trades_frame([one for agent, trades in holders if agent in mine for one in trades]), run_id="b"
            )
        held = sorted({trade.market_id for _, trades in holders for trade in trades})
        markets = [Market(name, "q", ("Yes", "No"), token_ids=(f"y{name}", f"n{name}")) for name in held]
        week = str(week_of(START))
        lake.write(
            tables.UNIVERSE,
            (week,),
            universe_frame(week_of(START), FrozenUniverse(build_universe(markets), START, False, "benchmark")),
            run_id="b",
        )
        now, rng = [START], Random(3)
        books: dict[str, Book] = {}

        def quote() -> None:
            now[0] += timedelta(minutes=10)
            for market in markets:
                bid = Decimal(rng.choice((400, 410))) / 1000
                books[f"y{market.market_id}"] = Book(((bid, Decimal(9)),), ((bid + Decimal("0.01"), Decimal(9)),), now[0])

        def observe(work: Any) -> Any:
            return {token: PriceObservation(book_midpoint(book), book.at) for token, book in books.items()}

        world = WeekContext(None, lake, {"polymarket": observe}, None, lambda: now[0], "b", "rules")  # type: ignore[arg-type]
        quote()
        store_tick(world)
        taken = []
        for _ in range(ROUNDS):
            quote()
            taken.append(_seconds(lambda: store_tick(world)))
        return min(taken)


def _tick() -> float:
    """Return the CPU seconds of a tick in memory: selecting the changed prices."""
    book, rng = Ledger(), Random(4)
    for agent, trades in _holders():
        book.open_account(agent)
        for trade in trades:
            book.trade(trade)
    keys = sorted({price_key(position) for account in book.accounts.values() for position in account.open.values()})
    first = {
        (row.market_id, row.outcome): row
        for row in select_tick_prices({}, keys, {key: PriceObservation(500_000, START) for key in keys}, START, RULES)
    }
    seen = {key: PriceObservation(500_000 + rng.randrange(2), START) for key in keys}

    def work() -> None:
        at = START + timedelta(minutes=10)
        select_tick_prices(first, keys, seen, at, RULES)

    return least(work)
