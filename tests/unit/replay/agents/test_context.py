"""Data and actions available to an agent within a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bellwether.replay import (
    CENT,
    CONTRACT,
    DOLLAR,
    MICROS,
    NO,
    SECOND,
    YES,
    Agent,
    AgentContext,
    BudgetError,
    EpisodeInfo,
    Fill,
    MarketInfo,
    MicroDollars,
    OrderError,
    Position,
    Trade,
    load,
    prepare,
    run,
)
from bellwether.replay.agents.builtin import RandomAgent
from bellwether.replay.preparation import Prepared
from bellwether.replay.tape.layout import HALT, INVALID, KIND_MASK, LEVEL, PRINT, SETTLE
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.agents.scenes import BOOK, END, RULES, TRADE, Scripted, at_step, market, settings, tape, traded
from tests.unit.replay.episode.folders import Native, at

NAN = math.nan


def test_the_book_is_shown_to_a_depth_best_first() -> None:
    def look(ctx: AgentContext) -> None:
        full, top = ctx.book("M-0"), ctx.book("M-0", 1)
        assert full.yes_bids == ((45 * CENT, 10_000), (40 * CENT, 20_000))
        assert full.yes_asks == ((48 * CENT, 5_000), (50 * CENT, 15_000))
        assert (top.no_bids, top.no_asks) == (((52 * CENT, 5_000),), ((55 * CENT, 10_000),))

    traded(at_step(look))


@pytest.mark.parametrize(("kind", "status"), [(HALT, "halted"), (INVALID, "invalid")])
def test_a_market_says_when_it_takes_no_orders(kind: int, status: str) -> None:
    def look(ctx: AgentContext) -> None:
        assert ctx.market("M-0").status == status
        order = ctx.buy("M-0", YES, CONTRACT, 45 * CENT)
        assert (order.status, order.reason) == ("rejected", {"halted": "halted", "invalid": "invalid_book"}[status])
        assert order.explanation

    traded(at_step(look, 1), (30, kind, 0, YES, 0, 0))


def test_money_is_live_within_a_step() -> None:
    def trade(ctx: AgentContext) -> None:
        one = ctx.market("M-0")
        order = ctx.buy("M-0", YES, 60 * CONTRACT, 49 * CENT)
        assert (order.status, order.filled, order.remaining) == ("resting", 50 * CONTRACT, 10 * CONTRACT)
        assert order.cost == 50 * 480_000
        assert ctx.cash == 1000 * MICROS - order.cost - order.fees
        assert ctx.available < ctx.cash
        assert one.yes_position == 50 * CONTRACT == ctx.positions[0, YES]
        assert one.yes_ask == 50 * CENT, "what was taken is gone"
        assert ctx.equity == ctx.cash + 50 * 450_000
        assert ctx.cancel(order)
        sale = ctx.sell("M-0", YES, 10 * CONTRACT, 45 * CENT)
        assert sale.cost == -10 * 450_000
        assert ctx.cash == 1000 * MICROS - order.cost - order.fees - sale.cost - sale.fees

    traded(at_step(trade))


#: Calls that are errors of the agent.
WRONG_CALLS: dict[str, Callable[[AgentContext], Any]] = {
    "unknown ticker": lambda ctx: ctx.buy("M-9", YES, 100, 45 * CENT),
    "float price": lambda ctx: ctx.buy("M-0", YES, 100, 45.0),
    "price that is no number": lambda ctx: ctx.buy("M-0", YES, 100, NAN),
    "price of 0": lambda ctx: ctx.buy("M-0", YES, 100, 0),
    "negative size": lambda ctx: ctx.buy("M-0", YES, -5, 45 * CENT),
    "unknown side": lambda ctx: ctx.buy("M-0", "maybe", 100, 45 * CENT),
    "unknown time in force": lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, "day"),
    "GTD without an end": lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, "gtd"),
    "an end without GTD": lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, expires=5),
    "an end without a zone": lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, "gtd", datetime(2026, 1, 1)),
    "cancel of nothing": lambda ctx: ctx.cancel(77),
    "quotes that are no array": lambda ctx: ctx.quote_many([[44 * CENT, 51 * CENT]], 100),
    "series that is not there": lambda ctx: ctx.exogenous("spx"),
    "negative depth": lambda ctx: ctx.book("M-0", -1),
}


def test_what_is_no_order_is_an_error_and_nothing_is_sent() -> None:
    def act(ctx: AgentContext) -> None:
        for name, call in WRONG_CALLS.items():
            with pytest.raises(OrderError):
                call(ctx)
                pytest.fail(name)

    assert len(traded(at_step(act)).outcome.orders) == 0


def test_what_the_venue_refuses_comes_back_with_the_reason() -> None:
    def act(ctx: AgentContext) -> None:
        assert ctx.buy("M-0", YES, CONTRACT, 48 * CENT, "post_only").reason == "would_cross"
        assert ctx.buy("M-0", YES, CONTRACT, DOLLAR).reason == "bad_price"
        assert ctx.buy("M-0", YES, 100_000 * CONTRACT, 44 * CENT).reason == "insufficient_cash"
        assert ctx.buy("M-0", YES, 60 * CONTRACT, 48 * CENT, "fok").reason == "fok_unfilled"

    traded(at_step(act))


def test_a_resting_order_is_listed_amended_and_cancelled() -> None:
    def act(ctx: AgentContext) -> None:
        worse, better = ctx.buy("M-0", YES, 200, 43 * CENT), ctx.buy("M-0", YES, 100, 44 * CENT)
        assert [order.id for order in ctx.resting()] == [better.id, worse.id]
        assert ctx.resting("M-0")[0].remaining == 100
        assert (worse.is_resting, better.is_resting) == (True, True)
        assert ctx.amend(worse, 43 * CENT, 50) is None
        assert ctx.order(worse.id).lots == 50
        assert ctx.amend(worse, 5 * DOLLAR, 50) == "bad_price"
        assert ctx.cancel(better) is True
        assert ctx.cancel(better) is False
        assert (better.status, better.reason, better.remaining) == ("cancelled", "agent", 0)
        assert ctx.cancel_all() == 1
        assert ctx.resting() == []

    traded(at_step(act))


def test_a_budget_counts_methods_but_no_attributes() -> None:
    port: Any = SimpleNamespace(tags={}, read={"now": 5, "cash": 7}.get, send=lambda name, *arguments: 1)
    ctx = AgentContext(port, EpisodeInfo("E", "", "kalshi", (MarketInfo("M-0"),), 0, None, MicroDollars(0), RULES), calls=3)
    ctx._begin(0, sends=True)
    assert (ctx.cash, ctx.now_ns, ctx.calls_left) == (7, 5, 3)
    ctx.markets()
    ctx.cancel_all()
    ctx.buy("M-0", YES, 100, 44 * CENT)
    assert ctx.calls_left == 0
    with pytest.raises(BudgetError, match="3 calls"):
        ctx.market("M-0")
    ctx._begin(1, sends=True)
    assert ctx.calls_left == 3


def with_series() -> Prepared:
    base = prepare(market(), RULES)
    ts = np.array([0, 59 * SECOND, 60 * SECOND, 61 * SECOND], np.int64)
    return Prepared(
        replace(base.info, exogenous=("spx",)), base.digest, base.rules, base.tape, exogenous={"spx": (ts, np.array([1.0, 2.0, 3.0, 4.0]))}
    )


@pytest.mark.parametrize(("latency", "known"), [(0, [1, 3, 4]), (SECOND, [0, 2, 4])])
def test_a_series_is_known_up_to_now_and_no_further(latency: int, known: list[int]) -> None:
    seen: list[int] = []

    def act(ctx: AgentContext) -> None:
        ts, values = ctx.exogenous("spx")
        seen.append(len(ts))
        assert len(values) == len(ts)

    backtest = run(with_series(), Scripted(act), settings(data_latency=latency))
    assert backtest.failure is None
    assert seen[:3] == known


# Trades, fills and positions, compared with numbers computed by hand


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


def test_a_trade_is_seen_when_the_feed_had_it_and_not_where_it_filled(tmp_path: Path) -> None:
    late = [(5.5, "t1", "KXTEST-A", "no", 450, 3_000)]
    prepared = prepare(load(Native(trades=late).write(tmp_path / "KXTEST-26JAN20")))
    is_print = prepared.tape.event & KIND_MASK == PRINT
    assert prepared.tape.ts[is_print].tolist() == [at(5)], "the print stands at its cut"
    notes: dict[int, Any] = {}
    look = Scripted(lambda ctx: notes.update({ctx.step: ctx.trades()}))
    assert run(prepared, look, settings(rules=None, cadence=SECOND)).failure is None
    assert {step: trades for step, trades in notes.items() if trades} == {
        6: [Trade(at(5.5), "KXTEST-A", 45 * CENT, 55 * CENT, 3_000, "no")]
    }


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


@pytest.mark.parametrize(("seed", "rules"), enumerate([RULES, "polymarket-2026-04-01"]))
def test_the_pnl_of_all_positions_is_what_equity_is_above_the_bankroll(seed: int, rules: str) -> None:
    notes: list[Position] = []

    class Checked(RandomAgent):
        def act(self, ctx: AgentContext) -> None:
            found = ctx.portfolio()
            assert sum(one.pnl for one in found) == ctx.equity - 1000 * MICROS
            assert [[one.yes_lots, one.no_lots] for one in found] == ctx.positions.tolist()
            notes.extend(found)
            super().act(ctx)

    source = prepare(random_tape(seed, Shape()), rules)
    backtest = run(source, Checked(trade_probability=0.9, max_size=20), settings(rules=rules, cadence=SECOND))
    assert backtest.failure is None, backtest.failure.traceback
    assert len({one.realised for one in notes}) > 3
    assert any(one.unrealised for one in notes)
    assert any(one.fees for one in notes)


# The opening.


class Opens(Agent):
    """Record the data and actions available in `start`."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def start(self, ctx: AgentContext, episode: Any) -> None:
        self.notes += [ctx.now_ns // SECOND, ctx.step, ctx.bids.tolist(), ctx.book("M-0", 1).yes_bids, ctx.market("M-0").status]
        self.notes += [ctx.cash, ctx.equity, len(ctx.trades()), len(ctx.fills()), ctx.position("M-0").yes_lots]
        for send in (
            lambda: ctx.buy("M-0", YES, CONTRACT, 45 * CENT),
            lambda: ctx.quote("M-0", 44 * CENT, 49 * CENT, CONTRACT),
            ctx.cancel_all,
        ):
            with pytest.raises(OrderError, match="start"):
                send()

    def end(self, ctx: AgentContext) -> None:
        assert ctx.markets()[0].status == "settled"
        with pytest.raises(OrderError, match="end"):
            ctx.cancel_all()

    def act(self, ctx: AgentContext) -> None:
        if ctx.step == 0:
            assert ctx.buy("M-0", YES, CONTRACT, 45 * CENT).status == "resting"


def test_start_sees_the_opening_books_and_sends_nothing() -> None:
    notes: list[Any] = []
    backtest = run(market(TRADE), Opens(notes), settings())
    assert backtest.failure is None, backtest.failure.traceback
    dollars = 1000 * MICROS
    assert notes == [0, -1, [[45 * CENT, 52 * CENT]], ((45 * CENT, 10_000),), "active", dollars, dollars, 0, 0, 0]
    assert len(backtest.outcome.orders) == 1
    assert backtest.steps == 11


def test_start_sees_no_book_that_is_later_or_not_known_yet() -> None:
    class Looks(Opens):
        def start(self, ctx: AgentContext, episode: Any) -> None:
            self.notes.append((ctx.now_ns // SECOND, ctx.bids.tolist(), ctx.market("M-0").status))

        def act(self, ctx: AgentContext) -> None:
            pass

    shifted = tape(*[(event[0] + 1, *event[1:]) for event in [*BOOK, *END]], end=602)
    notes: list[Any] = []
    ways: list[Any] = [(shifted, {}), (market(), {"data_latency": SECOND})]
    for source, changed in ways:
        assert run(source, Looks(notes), settings(**changed)).failure is None
    assert notes == [(0, [[0, 0]], "no_book")] * 2
