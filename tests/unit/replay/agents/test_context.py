"""Data and actions available to an agent within a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from bellwether.replay import (
    BUY,
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
    OrderError,
    requests,
    run,
)
from bellwether.replay.agents.views import Series
from bellwether.replay.engine.codes import Tif
from bellwether.replay.preparation import prepare
from bellwether.replay.prepared import Prepared
from bellwether.replay.tape.layout import CLOSE, HALT, INVALID, LEVEL
from tests.unit.replay.agents.scenes import RULES, TRADE, Scripted, at_step, market, settings, tape, traded, two_markets
from tests.unit.replay.engine import small_tapes
from tests.unit.replay.engine.small_tapes import level, life, printed

NAN = math.nan


def test_a_side_without_quotes_is_none() -> None:
    def look(ctx: AgentContext) -> None:
        first, second = ctx.markets()
        assert (first.yes_bid, first.spread) == (49 * CENT, CENT)
        assert (second.yes_bid, second.yes_ask, second.mid, second.spread, second.yes_bid_lots) == (None, None, None, None, 0)
        assert (second.status, second.is_active) == ("no_book", False)
        assert ctx.quotes.yes_bid.tolist() == [49 * CENT, 0]
        assert ctx.quotes.yes_ask.tolist() == [50 * CENT, DOLLAR]
        assert ctx.quotes.active.tolist() == [True, False]

    assert run(two_markets(), Scripted(at_step(look)), settings()).failure is None


def test_the_book_is_shown_to_a_depth_best_first() -> None:
    def look(ctx: AgentContext) -> None:
        full, top = ctx.book("M-0"), ctx.book("M-0", 1)
        assert full.yes_bids == ((45 * CENT, 10_000), (40 * CENT, 20_000))
        assert full.yes_asks == ((48 * CENT, 5_000), (50 * CENT, 15_000))
        assert (top.no_bids, top.no_asks) == (((52 * CENT, 5_000),), ((55 * CENT, 10_000),))
        with pytest.raises(OrderError, match="depth is -1"):
            ctx.book("M-0", -1)

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


WRONG_ORDERS: list[tuple[str, Callable[[AgentContext], Any], str]] = [
    ("unknown ticker", lambda ctx: ctx.buy("M-9", YES, 100, 45 * CENT), "the market 'M-9' does not exist"),
    ("float price", lambda ctx: ctx.buy("M-0", YES, 100, 45.0), "price is 45.0"),
    ("price that is no number", lambda ctx: ctx.buy("M-0", YES, 100, NAN), "price is nan"),
    ("price of 0", lambda ctx: ctx.buy("M-0", YES, 100, 0), "price is 0; give a price above 0"),
    ("negative size", lambda ctx: ctx.buy("M-0", YES, -5, 45 * CENT), "lots is -5"),
    ("unknown side", lambda ctx: ctx.buy("M-0", "maybe", 100, 45 * CENT), "side is 'maybe'; it is one of YES, NO"),
    ("unknown action", lambda ctx: ctx.place("M-0", YES, "hold", 45 * CENT, 100), "action is 'hold'"),
    ("unknown time in force", lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, "day"), "tif is 'day'; it is one of IOC, GTC"),
    ("GTD without an end", lambda ctx: ctx.buy("M-0", YES, 100, 45 * CENT, "gtd"), "expires must be given for GTD"),
    ("an end without GTD", lambda ctx: ctx.place("M-0", YES, BUY, 45 * CENT, 100, expires=5), "expires must be given for GTD"),
    (
        "an end without a zone",
        lambda ctx: ctx.place("M-0", YES, BUY, 45 * CENT, 100, "gtd", datetime(2026, 1, 1)),
        "without a time zone",
    ),
    ("cancel of nothing", lambda ctx: ctx.cancel(77), "no order 77"),
    ("quotes that are no array", lambda ctx: ctx.quote_many([[44 * CENT, 51 * CENT]], 100), r"prices are list; give int64\[1, 2\]"),
    ("requests in a list", lambda ctx: ctx.place_many([[0, 0, 0, 45 * CENT, 100, 1, 0]]), "requests are list"),
    ("a column of floats", lambda ctx: requests(0, YES, BUY, np.array([45.0]), 100), "price is float64"),
    ("columns of two lengths", lambda ctx: requests(np.zeros(2, int), YES, BUY, np.ones(3, int), 100), "2 and 3 rows"),
    (
        "a batch with an unknown side",
        lambda ctx: ctx.place_many(requests(0, np.array([YES, 2]), BUY, 44 * CENT, 100)),
        r"side of order 1 is 2; it is one of YES \(0\), NO \(1\)",
    ),
    (
        "a batch with an unknown action",
        lambda ctx: ctx.place_many(requests(0, YES, np.array([BUY, BUY, -1]), 44 * CENT, 100)),
        "action of order 2 is -1; it is one of BUY",
    ),
    ("series that is not there", lambda ctx: ctx.exogenous("spx"), "'spx' does not exist; available series: none"),
    ("ids that are not there", lambda ctx: ctx.buy("M-0", YES, 100, 44 * CENT) and ctx.is_resting(np.array([0, 9])), "no order 9"),
]


@pytest.mark.parametrize(("call", "message"), [wrong[1:] for wrong in WRONG_ORDERS], ids=[wrong[0] for wrong in WRONG_ORDERS])
def test_what_is_no_order_is_an_error_and_nothing_is_sent(call: Callable[[AgentContext], Any], message: str) -> None:
    def act(ctx: AgentContext) -> None:
        with pytest.raises(OrderError, match=message):
            call(ctx)

    sent = traded(at_step(act)).outcome.orders
    assert len(sent) == (1 if "no order 9" in message else 0)


def test_what_the_venue_refuses_comes_back_with_the_reason() -> None:
    def act(ctx: AgentContext) -> None:
        assert ctx.buy("M-0", YES, CONTRACT, 48 * CENT, "post_only").reason == "would_cross"
        assert ctx.buy("M-0", YES, CONTRACT, DOLLAR).reason == "bad_price"
        assert ctx.buy("M-0", YES, 100_000 * CONTRACT, 44 * CENT).reason == "insufficient_cash"
        assert ctx.buy("M-0", YES, 60 * CONTRACT, 48 * CENT, "fok").reason == "fok_unfilled"

    traded(at_step(act))


def test_words_and_codes_mean_the_same() -> None:
    def act(ctx: AgentContext) -> None:
        for side, action, tif in ((NO, BUY, Tif.GTC), ("no", "buy", "gtc"), ("NO", "BUY", 1), (np.int64(1), np.int64(0), np.int64(1))):
            order = ctx.place("M-0", side, action, np.int64(51 * CENT), np.int64(100), tif)
            assert (order.side, order.action, order.price, order.lots, order.status) == ("no", "buy", 51 * CENT, 100, "resting")

    traded(at_step(act))


def test_a_resting_order_is_listed_amended_and_cancelled() -> None:
    def act(ctx: AgentContext) -> None:
        worse, better = ctx.buy("M-0", YES, 200, 43 * CENT), ctx.buy("M-0", YES, 100, 44 * CENT)
        assert [order.id for order in ctx.resting()] == [better.id, worse.id]
        assert ctx.resting("M-0")[0].remaining == 100
        assert ctx.is_resting([worse, better, -1]).tolist() == [True, True, False]
        assert ctx.amend(worse, 43 * CENT, 50) is None
        assert ctx.order(worse.id).lots == 50
        assert ctx.amend(worse, 5 * DOLLAR, 50) == "bad_price"
        assert ctx.cancel(better) is True
        assert ctx.cancel(better) is False
        assert (better.status, better.reason, better.remaining) == ("cancelled", "agent", 0)
        assert ctx.cancel_all() == 1
        assert ctx.resting() == []

    traded(at_step(act))


def test_a_quote_that_stands_keeps_its_place() -> None:
    seen: list[list[tuple[str, int | None, int]]] = []

    def act(ctx: AgentContext) -> None:
        prices = {0: (44 * CENT, 49 * CENT), 1: (44 * CENT, 49 * CENT), 2: (43 * CENT, 49 * CENT), 3: (43 * CENT, None)}
        if ctx.step in prices:
            ctx.quote("M-0", *prices[ctx.step], 10 * CONTRACT)
            seen.append([(order.side, order.price, order.id) for order in ctx.resting()])

    traded(act)
    assert seen == [
        [("yes", 44 * CENT, 0), ("no", 51 * CENT, 1)],
        [("yes", 44 * CENT, 0), ("no", 51 * CENT, 1)],
        [("yes", 43 * CENT, 2), ("no", 51 * CENT, 1)],
        [("yes", 43 * CENT, 2)],
    ]


def test_quotes_cost_a_call_for_each_order_they_send_or_cancel() -> None:
    def act(ctx: AgentContext) -> None:
        before = ctx.calls_left
        ctx.quote_many(np.array([[44 * CENT, 51 * CENT]]), CONTRACT)
        assert ctx.calls_left == before - 2
        ctx.quote("M-0", 43 * CENT, 49 * CENT, CONTRACT)
        assert ctx.calls_left == before - 4
        with pytest.raises(BudgetError):
            ctx.quote_many(np.array([[0, 0]]), CONTRACT)
        assert ctx.calls_left == 0

    traded(at_step(act), calls_per_step=5)


def test_the_budget_of_a_step_counts_methods_and_orders_but_no_attributes() -> None:
    def act(ctx: AgentContext) -> None:
        for _ in range(50):
            assert ctx.cash and ctx.positions.sum() == 0 and ctx.quotes.yes_bid[0] and ctx.now and ctx.random
        ctx.markets()
        ctx.place_many(requests(0, YES, BUY, np.full(3, 44 * CENT), 100))
        assert ctx.calls_left == 1
        with pytest.raises(BudgetError, match="5 calls"):
            ctx.place_many(requests(0, YES, BUY, np.full(2, 44 * CENT), 100))
        ctx.buy("M-0", YES, 100, 44 * CENT)
        for call in (ctx.markets, ctx.resting, lambda: ctx.book("M-0"), lambda: ctx.buy("M-0", YES, 100, 44 * CENT), ctx.cancel_all):
            with pytest.raises(BudgetError):
                call()
        assert ctx.calls_left == 0

    backtest = traded(act, calls_per_step=5)
    assert len(backtest.outcome.orders) == 4 * backtest.steps, "the budget is whole again at each decision"


@pytest.mark.parametrize("name", ["positions", "bids"])
def test_what_is_seen_cannot_be_changed_and_what_is_forced_to_change_is_a_copy(name: str) -> None:
    def read(ctx: AgentContext) -> np.ndarray:
        return getattr(ctx.quotes, name) if hasattr(ctx.quotes, name) else getattr(ctx, name)

    def act(ctx: AgentContext) -> None:
        array = read(ctx)
        before = array.copy()
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7
        owner = array if array.base is None else array.base
        owner.flags.writeable = True
        owner[...] = 7
        ctx.buy("M-0", YES, 100, 44 * CENT)
        assert read(ctx).tolist() == before.tolist(), "read again, it is what it was"

    traded(at_step(act))


def with_series() -> Prepared:
    base = prepare(market(), RULES)
    ts = np.array([0, 59 * SECOND, 60 * SECOND, 61 * SECOND], np.int64)
    return Prepared(base.info, base.digest, base.rules, base.tape, exogenous={"spx": (ts, np.array([1.0, 2.0, 3.0, 4.0]))})


def owners(array: np.ndarray) -> list[np.ndarray]:
    """Return the array and all arrays whose memory it shows."""
    found = [array]
    while isinstance(found[-1].base, np.ndarray):
        found.append(found[-1].base)
    return found


@pytest.mark.parametrize(("latency", "known"), [(0, [1, 3, 4]), (SECOND, [0, 2, 4])])
def test_a_series_is_known_up_to_now_and_no_further(latency: int, known: list[int]) -> None:
    seen: list[int] = []

    def act(ctx: AgentContext) -> None:
        ts, values = ctx.exogenous("spx")
        seen.append(len(ts))
        assert len(values) == len(ts)
        if ctx.step < 2:
            assert all(4.0 not in owner for owner in owners(values)), "a later value can be reached"

    backtest = run(with_series(), Scripted(act), settings(data_latency=latency))
    assert backtest.failure is None
    assert seen[:3] == known


def test_a_series_cannot_be_changed() -> None:
    series = Series(0)
    for fresh in (np.arange(2), np.arange(2, 40), np.arange(0)):
        ts, values = series.extend(fresh, fresh / 2)
    assert (ts.tolist(), values.tolist()) == (list(range(40)), [number / 2 for number in range(40)])
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 5


def test_frozen_rules_show_the_account_as_the_step_found_it_and_list_what_has_filled() -> None:
    levels = [
        (0, LEVEL, 0, YES, 45 * CENT, 10_000),
        (0, LEVEL, 0, NO, 52 * CENT, 5_000),
        (100, LEVEL, 0, YES, 40 * CENT, 100),
        (200, LEVEL, 0, YES, 40 * CENT, 200),
    ]
    rows = np.array([0, 100, 200], np.int64) * SECOND
    base = tape(levels[0], levels[1], levels[2], TRADE, levels[3], end=300)
    played = replace(base, rows_ts=rows, rows_end=np.array([2, 3, 5], np.int64))
    listed: list[list[int]] = []

    def act(ctx: AgentContext) -> None:
        before = ctx.cash
        if ctx.step == 0:
            ctx.buy("M-0", YES, CONTRACT)
            ctx.buy("M-0", YES, CONTRACT, 45 * CENT)
            assert ctx.cash == before == ctx.equity == 1000 * MICROS, "frozen"
            assert ctx.positions[0, YES] == CONTRACT, "positions are live"
        listed.append([order.id for order in ctx.resting()])
        if ctx.step == 1:
            assert ctx.cash < 1000 * MICROS
            assert ctx.cancel(1) is True
            assert [order.id for order in ctx.resting()] == listed[-1], "the list is that of the step's beginning"

    backtest = run(played, Scripted(act), settings(rules="pmb-2026-01", cadence=10 * SECOND))
    assert backtest.failure is None, backtest.failure
    assert listed == [[], [1], []]


def test_an_order_beyond_the_limit_of_the_run_says_so() -> None:
    def act(ctx: AgentContext) -> None:
        assert ctx.buy("M-0", YES, 100).filled == 100
        beyond = ctx.buy("M-0", YES, 100, 44 * CENT)
        assert (beyond.id, beyond.status, beyond.reason, beyond.is_resting) == (-1, "rejected", "order_limit", False)
        assert (beyond.filled, beyond.lots, beyond.remaining, beyond.cost, beyond.fees, beyond.price) == (0, 0, 0, 0, 0, None)
        with pytest.raises(OrderError, match="no record"):
            _ = beyond.ticker
        assert "order_limit" in repr(beyond)

    traded(at_step(act), max_orders=1)


@pytest.mark.parametrize(
    ("act", "band"),
    [
        (lambda ctx, ids: None, "fills"),
        (lambda ctx, ids: ids[YES], "rerun"),
        (lambda ctx, ids: ctx.step == 5 and ctx.cancel_all(), "rerun"),
    ],
    ids=["quote", "ids", "cancel"],
)
def test_an_agent_that_learns_of_its_fills_by_an_answer_reacts(act: Callable[[AgentContext, Any], Any], band: str) -> None:
    class Quoting(Agent):
        api = 3

        def act(self, ctx: AgentContext) -> None:
            act(ctx, ctx.quote("T0", 45 * CENT, None, 10 * CONTRACT))

    # A cut that may have been ahead of or behind the quote, and a print.
    events = level(1, YES, 4_500, 20_000), level(2, YES, 4_500, 10_000), printed(3, YES, 4_500, 7_000), life(20, CLOSE)
    assert (
        run(small_tapes.tape(*small_tapes.BOOK, *events), Quoting(), settings(cadence=SECOND, band="auto", rules="kalshi-2021-07-01")).band
        == band
    )
