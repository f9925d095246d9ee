"""Trades, fills and positions as agents read them, and opening books in `start`, compared with hand-computed numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.replay import (
    CENT,
    CONTRACT,
    MICROS,
    NO,
    SECOND,
    YES,
    Agent,
    AgentContext,
    BudgetError,
    Fill,
    Position,
    Trade,
    load,
    prepare,
    run,
)
from bellwether.replay.agents import context, gateway
from bellwether.replay.agents.baselines import RandomAgent
from bellwether.replay.tape.layout import KIND_MASK, LEVEL, PRINT, SETTLE
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.agents.scenes import BOOK, END, RULES, TRADE, Scripted, at_step, market, settings, tape, traded
from tests.unit.replay.episode.folders import Native, at

SOLD = Trade(90 * SECOND, "M-0", 45 * CENT, 55 * CENT, 130 * CONTRACT, "no")


def values_per_decision(what: Callable[[AgentContext], Any], *events: Any, **changed: Any) -> list[Any]:
    """Return the value of a function at each decision."""
    notes: list[Any] = []

    def act(ctx: AgentContext) -> None:
        notes.append(what(ctx))

    assert traded(act, *events, **changed).failure is None
    return notes


# Trades.


def test_trades_are_those_since_the_decision_before() -> None:
    bought = (100, PRINT, 0, NO, 52 * CENT, 7 * CONTRACT)
    found = values_per_decision(lambda ctx: ctx.trades(), TRADE, bought, (120, PRINT, 0, YES, 45 * CENT, 5))
    last = Trade(120 * SECOND, "M-0", 45 * CENT, 55 * CENT, 5, "no")
    assert found[:4] == [[], [], [SOLD, Trade(100 * SECOND, "M-0", 48 * CENT, 52 * CENT, 700, "yes"), last], []]
    assert found[2][1].no_price == 52 * CENT


@pytest.mark.parametrize(("latency", "seen"), [(30, 2), (31, 3)])
def test_a_trade_is_not_seen_before_the_latency_of_market_data(latency: int, seen: int) -> None:
    found = values_per_decision(lambda ctx: ctx.trades(), TRADE, data_latency=latency * SECOND)
    assert [number for number, trades in enumerate(found) if trades] == [seen]


@pytest.mark.parametrize("known", [False, True], ids=["read", "known-by-its-receipt"])
def test_a_trade_is_seen_when_the_feed_had_it_and_not_where_it_filled(tmp_path: Path, known: bool) -> None:
    late = [(5.5, "t1", "KXTEST-A", "no", 450, 3_000)]
    folder = Native(trades=late).write(tmp_path / "KXTEST-26JAN20")
    episode = load(folder, cache=tmp_path / "cache")
    if known:
        prepare(episode, cache=tmp_path / "cache")
        episode = load(folder, cache=tmp_path / "cache")
    prepared = prepare(episode, cache=tmp_path / "cache")
    is_print = prepared.tape.event & KIND_MASK == PRINT
    assert prepared.tape.ts[is_print].tolist() == [at(5)], "the print stands at its cut"
    notes: dict[int, Any] = {}
    look = Scripted(lambda ctx: notes.update({ctx.step: ctx.trades()}))
    assert run(prepared, look, settings(rules=None, cadence=SECOND)).failure is None
    assert {step: trades for step, trades in notes.items() if trades} == {
        6: [Trade(at(5.5), "KXTEST-A", 45 * CENT, 55 * CENT, 3_000, "no")]
    }
    assert ("content" in episode.__dict__) != known, "the books are not kept in memory for the trades"


def test_where_decisions_are_at_book_rows_the_prints_of_the_instant_are_not_known_yet() -> None:
    levels = [*BOOK, (60, LEVEL, 0, YES, 40 * CENT, 100), (60, PRINT, 0, YES, 45 * CENT, 3), (120, LEVEL, 0, YES, 40 * CENT, 200)]
    rows = np.array([0, 60, 120], np.int64) * SECOND
    rowed = replace(tape(*levels, end=300), rows_ts=rows, rows_end=np.array([4, 5, 7], np.int64))
    notes: list[Any] = []
    assert run(rowed, Scripted(lambda ctx: notes.append(len(ctx.trades()))), settings(rules="pmb-2026-01")).failure is None
    assert notes == [0, 0, 1]


# Fills.

RESTED = Fill(90 * SECOND, 0, "M-0", "yes", "buy", 45 * CENT, 10 * CONTRACT, 0, "maker", 4_500_000)
TAKEN = Fill(60 * SECOND, 1, "M-0", "yes", "buy", 48 * CENT, 20 * CONTRACT, 0, "taker", 9_600_000)


def rest_then_take(ctx: AgentContext) -> None:
    if ctx.step == 0:
        ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)
    if ctx.step == 1:
        ctx.buy("M-0", YES, 20 * CONTRACT)


def test_fills_of_the_step_itself_and_of_the_whole_run() -> None:
    def act(ctx: AgentContext) -> tuple[list[Fill], list[Fill]]:
        rest_then_take(ctx)
        return ctx.fills("M-0"), ctx.fills(whole_run=True)

    found = values_per_decision(act, TRADE)[:5]
    assert [both[0] for both in found] == [[], [TAKEN], [TAKEN, RESTED], [], []]
    assert [both[1] for both in found] == [[], [TAKEN], [TAKEN, RESTED], [TAKEN, RESTED], [TAKEN, RESTED]]


def test_a_long_list_is_read_in_pages_of_a_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (context, gateway):
        monkeypatch.setattr(module, "MOST_ROWS", 2)
    prints = [(second, PRINT, 0, NO, 52 * CENT, second) for second in range(10, 15)]

    def look(ctx: AgentContext) -> tuple[list[int], int]:
        return [one.lots for one in ctx.trades()], ctx.calls_left

    assert values_per_decision(look, *prints)[:2] == [([], 99), ([10, 11, 12, 13, 14], 97)]


# Positions.


def test_average_cost_and_pnl_of_a_position() -> None:
    def act(ctx: AgentContext) -> Position:
        if ctx.step == 0:
            # 50 contracts are offered at 48 cents.
            ctx.buy("M-0", YES, 60 * CONTRACT, 48 * CENT, "ioc")
        if ctx.step == 1:
            # Sold at 45.
            ctx.sell("M-0", YES, 20 * CONTRACT)
        position = ctx.position("M-0")
        assert ctx.portfolio() == [position]
        assert position.pnl == ctx.equity - 1000 * MICROS
        return position

    first, second = values_per_decision(act)[:2]
    assert first == Position("M-0", 5_000, 0, 24_000_000, 0, 0, 0, -1_500_000, 48 * CENT)
    assert (first.yes_average, first.no_average, first.pnl) == (48 * CENT, None, -1_500_000)
    assert second == Position("M-0", 3_000, 0, 14_400_000, 0, -600_000, 0, -900_000, 48 * CENT)
    assert (second.yes_average, second.pnl) == (48 * CENT, -1_500_000)


def test_fees_are_in_the_pnl_and_not_in_the_cost(tmp_path: Path) -> None:
    episode = load(Native().write(tmp_path / "KXTEST-26JAN20"))
    notes: list[Position] = []

    def act(ctx: AgentContext) -> None:
        ctx.buy("KXTEST-A", YES, 10 * CONTRACT)
        notes.append(ctx.position("KXTEST-A"))

    assert run(episode, Scripted(at_step(act)), settings(rules=None)).failure is None
    # 0.07 × 10 × 0.48 × 0.52 = 17.472 cents, rounded up to 18 cents.
    assert [(one.yes_cost, one.fees, one.unrealised, one.pnl) for one in notes] == [(4_800_000, 180_000, -300_000, -480_000)]


def test_what_was_settled_is_realised() -> None:
    books = [*BOOK, (0, LEVEL, 1, YES, 30 * CENT, 100), (0, LEVEL, 1, NO, 60 * CENT, 5_000), (100, SETTLE, 1, YES, 0, MICROS // 4), *END]
    notes: list[Position] = []

    def act(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("M-1", YES, 10 * CONTRACT)
        if ctx.step == 2:
            notes.append(ctx.position("M-1"))

    assert run(tape(*books, tickers=2, end=601), Scripted(act), settings()).failure is None
    # Bought at 40 cents, settled at 25.
    assert notes == [Position("M-1", 0, 0, 0, 0, -1_500_000, 0, 0)]


@pytest.mark.parametrize(("seed", "rules"), enumerate([RULES, "pmb-2026-01", "polymarket-2026-04-01"]))
def test_the_pnl_of_all_positions_is_what_equity_is_above_the_bankroll(seed: int, rules: str) -> None:
    notes: list[Position] = []

    class Checked(RandomAgent):
        def act(self, ctx: AgentContext) -> None:
            found = ctx.portfolio()
            assert sum(one.pnl for one in found) == ctx.equity - 1000 * MICROS
            assert [[one.yes_lots, one.no_lots] for one in found] == ctx.positions.tolist()
            notes.extend(found)
            super().act(ctx)

    source = prepare(random_tape(seed, Shape(rows=rules.startswith("pmb"))), rules)
    backtest = run(source, Checked(trade_probability=0.9, max_size=20), settings(rules=rules, cadence=SECOND))
    assert backtest.failure is None, backtest.failure.traceback
    assert len({one.realised for one in notes}) > 3
    assert any(one.unrealised for one in notes)
    assert any(one.fees for one in notes)


# The opening.


class Opens(Agent):
    """Record the data and actions available in `start`."""

    api = 3

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def start(self, ctx: AgentContext, episode: Any) -> None:
        self.notes += [ctx.now_ns // SECOND, ctx.step, ctx.quotes.bids.tolist(), ctx.book("M-0", 1).yes_bids, ctx.market("M-0").status]
        self.notes += [ctx.cash, ctx.equity, ctx.calls_left, len(ctx.trades()), len(ctx.fills()), ctx.position("M-0").yes_lots]
        for send in (
            lambda: ctx.buy("M-0", YES, CONTRACT, 45 * CENT),
            lambda: ctx.quote("M-0", 44 * CENT, 49 * CENT, CONTRACT),
            ctx.cancel_all,
        ):
            with pytest.raises(BudgetError, match=r"^`start` cannot send orders; send them in `act`$"):
                send()

    def end(self, ctx: AgentContext) -> None:
        with pytest.raises(BudgetError, match=r"^`end` cannot make tool calls"):
            ctx.markets()

    def act(self, ctx: AgentContext) -> None:
        if ctx.step == 0:
            assert ctx.calls_left == 100
            assert ctx.buy("M-0", YES, CONTRACT, 45 * CENT).status == "resting"


def test_start_sees_the_opening_books_and_sends_nothing() -> None:
    notes: list[Any] = []
    backtest = run(market(TRADE), Opens(notes), settings())
    assert backtest.failure is None, backtest.failure.traceback
    dollars = 1000 * MICROS
    assert notes == [0, -1, [[45 * CENT, 52 * CENT]], ((45 * CENT, 10_000),), "active", dollars, dollars, 98, 0, 0, 0]
    assert len(backtest.outcome.orders) == 1
    assert backtest.steps == 11


def test_start_sees_no_book_that_is_later_or_not_known_yet() -> None:
    class Looks(Opens):
        def start(self, ctx: AgentContext, episode: Any) -> None:
            self.notes.append((ctx.now_ns // SECOND, ctx.quotes.bids.tolist(), ctx.market("M-0").status))

        def act(self, ctx: AgentContext) -> None:
            pass

    shifted = tape(*[(event[0] + 1, *event[1:]) for event in [*BOOK, *END]], end=602)
    late_row = replace(tape(*[(30, *event[1:]) for event in BOOK], end=90), rows_ts=np.array([30 * SECOND]), rows_end=np.array([4]))
    notes: list[Any] = []
    ways: list[Any] = [(shifted, {}), (market(), {"data_latency": SECOND}), (late_row, {"rules": "pmb-2026-01"})]
    for source, changed in ways:
        assert run(source, Looks(notes), settings(**changed)).failure is None
    assert notes == [(0, [[0, 0]], "no_book")] * 3
