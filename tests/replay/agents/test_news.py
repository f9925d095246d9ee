"""What an agent is told between its decisions: when, what it sees then, and that telling it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import (
    CONTRACT,
    MINUTE,
    NO,
    SECOND,
    YES,
    Agent,
    AgentContext,
    AgentSource,
    Fill,
    OrderUpdate,
    Trade,
    load,
    prepare,
    run,
)
from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.engine import Session, Settings
from bellwether.replay.engine.clock import AT_DECISION, AT_NEWS
from bellwether.replay.engine.codes import F_PRICE, F_TS, O_ARRIVED, O_SENT, Status
from bellwether.replay.rules import rule_set
from bellwether.replay.tape.layout import KIND_MASK, LEVEL, PRINT, TRADED, Tape, unpack
from tests.replay.agents.scenes import RULES, TRADE, market, settings
from tests.replay.episode.folders import Native, at
from tests.replay.random_tapes import Shape, random_tape

EVERYTHING = Path(__file__).parents[1] / "isolation" / "everything.py"
Act = Callable[[AgentContext], Any]


class Told(Agent):
    """Notes when it is called, in seconds, and of what it is told."""

    def __init__(self, notes: list[Any], act: Act | None = None, at_fill: Act | None = None, at_trade: Act | None = None) -> None:
        self.notes = notes
        self.does = {"act": act, "fill": at_fill, "trade": at_trade}

    def act(self, ctx: AgentContext) -> None:
        self._note(ctx, "act", ctx.step)

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        self._note(ctx, "fill", fill.time_ns // SECOND)

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        self._note(ctx, "trade", trade.time_ns // SECOND)

    def _note(self, ctx: AgentContext, what: str, which: int) -> None:
        self.notes.append((what, ctx.now_ns // SECOND, which))
        if self.does[what] is not None:
            self.does[what](ctx)


def rest(ctx: AgentContext) -> None:
    if ctx.step == 0:
        ctx.buy("M-0", YES, 10 * CONTRACT, 450)


def told(
    tape: Tape, act: Act | None = rest, at_fill: Act | None = None, at_trade: Act | None = None, **changed: Any
) -> tuple[list[Any], Any]:
    """Calls up to the decision at 240 seconds, and the backtest."""
    notes: list[Any] = []
    backtest = run(tape, Told(notes, act, at_fill, at_trade), settings(**changed))
    assert backtest.failure is None, backtest.failure.traceback
    return [note for note in notes if note[1] < 240], backtest


ACTS = [("act", 60 * step, step) for step in range(4)]


def test_fills_and_trades_are_told_at_their_time() -> None:
    found, _ = told(market(TRADE))
    assert found == [*ACTS[:2], ("fill", 90, 90), ("trade", 90, 90), *ACTS[2:]]


def test_they_are_told_later_by_the_latency_of_market_data() -> None:
    later = (92, LEVEL, 0, YES, 460, CONTRACT)
    books: list[Any] = []
    found, backtest = told(
        market(TRADE, later),
        at_fill=lambda ctx: (books.append(ctx.market("M-0").yes_bid), ctx.buy("M-0", NO, CONTRACT, 400)),
        data_latency=5 * SECOND,
        order_latency=2 * SECOND,
    )
    assert found == [*ACTS[:2], ("fill", 95, 90), ("trade", 95, 90), *ACTS[2:]]
    assert books == [450], "the level of second 92 is not known at 95"
    orders = backtest.outcome.orders
    assert (orders[:, [O_SENT, O_ARRIVED]] // SECOND).tolist() == [[0, 2], [95, 97]]


def test_an_order_of_a_callback_acts_at_once_without_latency() -> None:
    found, backtest = told(
        market(TRADE),
        at_fill=lambda ctx: ctx.sell("M-0", YES, 5 * CONTRACT) if ctx.now_ns == 90 * SECOND and len(ctx.fills()) == 1 else None,
    )
    assert (backtest.outcome.orders[:, O_SENT] // SECOND).tolist() == [0, 90]
    # Its own fill is told at that very time too.
    assert found == [*ACTS[:2], ("fill", 90, 90), ("trade", 90, 90), ("fill", 90, 90), *ACTS[2:]]


def test_a_fill_within_a_decision_is_told_right_after_it() -> None:
    found, _ = told(market(), lambda ctx: ctx.buy("M-0", YES, CONTRACT) if ctx.step == 1 else None)
    assert found == [*ACTS[:2], ("fill", 60, 60), *ACTS[2:]]


def test_a_fill_of_an_order_that_arrives_late_is_told_when_it_arrives() -> None:
    found, _ = told(market(), lambda ctx: ctx.buy("M-0", YES, CONTRACT) if ctx.step == 1 else None, order_latency=7 * SECOND)
    assert found == [*ACTS[:2], ("fill", 67, 67), *ACTS[2:]]


def test_a_fill_by_a_crossing_book_is_told_at_the_end_of_its_instant() -> None:
    # Its bid at 47 cents stands above all others; then YES is offered at 46.
    crossing = [(200, LEVEL, 0, NO, 540, 20 * CONTRACT), (200, LEVEL, 0, YES, 300, CONTRACT)]
    seen: list[Any] = []
    bid = lambda ctx: ctx.buy("M-0", YES, CONTRACT, 470) if ctx.step == 0 else None  # noqa: E731
    found, _ = told(market(*crossing), bid, at_fill=lambda ctx: seen.append(ctx.book("M-0").yes_bids[-1]))
    assert found == [*ACTS, ("fill", 200, 200)]
    assert seen == [(300, CONTRACT)]


def test_at_a_decision_what_happened_by_then_is_told_first() -> None:
    found, _ = told(market((120, *TRADE[1:])))
    assert found == [*ACTS[:2], ("fill", 120, 120), ("trade", 120, 120), *ACTS[2:]]


def test_a_callback_has_the_calls_of_a_decision_and_reads_since_the_last_one() -> None:
    seen: list[Any] = []

    def look(ctx: AgentContext) -> None:
        seen.append((ctx.calls_left, ctx.step, len(ctx.trades()), len(ctx.fills())))

    told(market((30, PRINT, 0, YES, 450, 1), TRADE), at_fill=look, at_trade=look)
    # The fill and the trade at second 90 share the calls.
    assert seen == [(100, 0, 1, 0), (100, 1, 1, 1), (98, 1, 1, 1)]


def test_trades_are_told_when_the_feed_had_them(tmp_path: Path) -> None:
    folder = Native(trades=[(5.5, "t1", "KXTEST-A", "no", 450, 3_000)]).write(tmp_path / "KXTEST-26JAN20")
    times: list[int] = []

    class Hears(Agent):
        def act(self, ctx: AgentContext) -> None:
            pass

        def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
            times.append(ctx.now_ns)

    assert run(load(folder), Hears(), settings(rules=None)).failure is None
    assert times == [at(5.5)]


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("FailsAtFill", "ZeroDivisionError"),
        ("FailsAtOrder", "ZeroDivisionError"),
        ("ReturnsAtTrade", "TypeError: on_trade returned 'M-0'"),
    ],
)
def test_an_error_of_a_callback_ends_the_run_there(agent: str, said: str, isolated: bool) -> None:
    failure = run(market(TRADE), AgentSource(f"{EVERYTHING}:{agent}"), settings(), isolated=isolated).failure
    assert failure is not None
    assert str(failure).startswith(said)
    assert (failure.step, failure.at) == (1, 90 * SECOND)


class Ordered(Agent):
    """Notes what becomes of its orders, in seconds; does what it is told at decisions and at updates."""

    def __init__(self, notes: list[Any], act: Act, at_order: Callable[[AgentContext, OrderUpdate], Any] | None = None) -> None:
        self.notes, self.does, self.then = notes, act, at_order

    def act(self, ctx: AgentContext) -> None:
        self.notes.append(("act", ctx.now_ns // SECOND))
        self.does(ctx)

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        now = ctx.order(update.order)
        assert (now.status, now.filled, now.remaining, now.reason) == (update.status, update.filled, update.remaining, update.reason)
        self.notes.append((update.order, ctx.now_ns // SECOND, update.time_ns // SECOND, update.status, update.reason, update.filled))
        if self.then is not None:
            self.then(ctx, update)


def ordered(tape: Tape, act: Act, at_order: Callable[[AgentContext, OrderUpdate], Any] | None = None, **changed: Any) -> list[Any]:
    """What is told of orders up to the decision at 240 seconds, and the decisions that are not at second 0."""
    notes: list[Any] = []
    failure = run(tape, Ordered(notes, act, at_order), settings(**changed)).failure
    assert failure is None, failure.traceback
    return [note for note in notes if note[1] < 240 and note != ("act", 0)]


def test_the_life_of_an_order_is_told() -> None:
    def act(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT, 450)
            ctx.place("M-0", YES, "buy", 440, CONTRACT, "gtd", 100 * SECOND)
            ctx.buy("M-0", YES, CONTRACT, 999, "post_only")
        if ctx.step == 2:
            ctx.amend(ctx.order(0), 440, 2 * CONTRACT)
        if ctx.step == 3:
            ctx.cancel(0)

    partly = (90, PRINT, 0, YES, 450, 104 * CONTRACT)
    assert ordered(market(partly), act) == [
        (0, 0, 0, "resting", None, 0),
        (1, 0, 0, "resting", None, 0),
        (2, 0, 0, "rejected", "would_cross", 0),
        ("act", 60),
        (0, 90, 90, "resting", None, 4 * CONTRACT),
        (1, 100, 100, "expired", "expired", 0),
        ("act", 120),
        (0, 120, 120, "resting", None, 4 * CONTRACT),
        ("act", 180),
        (0, 180, 180, "cancelled", "agent", 4 * CONTRACT),
    ]


def test_updates_come_with_the_latencies_and_orders_of_on_order_are_orders() -> None:
    def act(ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT, 450)
            ctx.buy("M-0", YES, 5000 * CONTRACT, 450)

    def again(ctx: AgentContext, update: OrderUpdate) -> None:
        if update.status == "filled":
            ctx.cancel_all()
            ctx.buy("M-0", YES, CONTRACT, 440)

    assert ordered(market(TRADE), act, again, data_latency=5 * SECOND, order_latency=2 * SECOND) == [
        (0, 7, 2, "resting", None, 0),
        (1, 7, 2, "rejected", "insufficient_cash", 0),
        ("act", 60),
        (0, 95, 90, "filled", None, 10 * CONTRACT),
        (2, 102, 97, "resting", None, 0),
        ("act", 120),
        ("act", 180),
    ]


def test_orders_are_told_behind_fills_and_ahead_of_trades_and_books() -> None:
    told_of: list[str] = []

    class Hears(Agent):
        def act(self, ctx: AgentContext) -> None:
            told_of.append("act")
            if ctx.step == 0:
                ctx.buy("M-0", YES, 10 * CONTRACT, 450)

        def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
            told_of.append("fill")

        def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
            told_of.append(update.status)

        def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
            told_of.append("trade")

        def on_book(self, ctx: AgentContext, ticker: str) -> None:
            told_of.append("book")

    # At the second of a decision: what happened by then is told before it.
    both = [(120, *TRADE[1:]), (120, LEVEL, 0, YES, 450, 0)]
    assert run(market(*both), Hears(), settings()).failure is None
    told_of.remove("book")  # the opening book
    assert told_of[: told_of.index("book") + 2] == ["act", "resting", "act", "fill", "filled", "trade", "book", "act"]


def test_a_close_is_told_as_the_end_of_what_rests() -> None:
    found: list[Any] = []
    agent = Ordered(found, lambda ctx: ctx.buy("M-0", YES, CONTRACT, 400) if ctx.step == 0 else None)
    assert run(market(), agent, settings()).failure is None
    assert (0, 600, 600, "cancelled", "closed", 0) in found


class Watches(Agent):
    """Notes the best prices that it is told of."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def act(self, ctx: AgentContext) -> None:
        pass

    def on_book(self, ctx: AgentContext, ticker: str) -> None:
        seen = ctx.market(ticker)
        self.notes.append((ctx.now_ns, ticker, seen.yes_bid, seen.no_bid))


@pytest.mark.parametrize("latency", [0, SECOND // 4])
@pytest.mark.parametrize("seed", range(4))
def test_every_change_of_the_best_prices_is_told_once_at_the_end_of_its_instant(seed: int, latency: int) -> None:
    tape = random_tape(seed, Shape(trades=0.5, lifecycle=False))
    told_of: list[Any] = []
    failed = run(tape, Watches(told_of), settings(cadence=5 * SECOND, data_latency=latency)).failure
    assert failed is None, failed.traceback
    sizes: dict[tuple[int, int], dict[int, int]] = {}
    before: dict[int, list[int]] = {}
    expected = []
    last = None
    events = [(ts, *unpack(word)) for ts, word in zip(tape.ts.tolist(), tape.event.tolist(), strict=True)]
    for place, (ts, kind, ticker, side, price, value) in enumerate(events):
        if kind in (LEVEL, TRADED):
            sizes.setdefault((ticker, side), {})[price] = value
        if place + 1 < len(events) and events[place + 1][0] == ts:
            continue
        for code in range(len(tape.tickers)):
            best = [max((one for one, lots in sizes.get((code, side), {}).items() if lots), default=0) for side in (0, 1)]
            if best != before.get(code, [0, 0]):
                before[code] = best
                if ts > tape.start:
                    expected.append((ts + latency, tape.tickers[code], *(one or None for one in best)))
        last = ts
    assert last is not None
    assert [note for note in told_of if note[0] > tape.start + latency] == expected
    assert len(expected) > 50


@pytest.mark.parametrize("isolated", [False, True], ids=["here", "isolated"])
def test_an_agent_can_trade_on_what_a_book_shows(isolated: bool) -> None:
    moves = (90, LEVEL, 0, NO, 540, 20 * CONTRACT)
    backtest = run(market(moves), AgentSource(f"{EVERYTHING}:TakesACheapOffer"), settings(), isolated=isolated)
    assert backtest.failure is None, backtest.failure.traceback
    assert (backtest.outcome.fills[:, F_TS] // SECOND).tolist() == [90]
    assert backtest.outcome.fills[:, F_PRICE].tolist() == [460]


class Maker(MarketMaker):
    """The maker, told of everything."""

    name = "market-maker"

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        assert ctx.now_ns == fill.time_ns + LATENCY["now"]
        COUNTS["fills"] += 1

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        assert ctx.now_ns == trade.time_ns + LATENCY["now"]
        COUNTS["trades"] += 1


LATENCY: dict[str, int] = {}
COUNTS: dict[str, int] = {}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "way", [{}, {"order_latency": SECOND}, {"data_latency": SECOND // 4, "order_latency": SECOND}, {"rules": "pmb-2026-01"}]
)
def test_being_told_changes_no_fill_and_misses_none(seed: int, way: dict[str, Any]) -> None:
    chosen = settings(cadence=5 * SECOND, **way)
    lives = seed % 2 == 0
    source = prepare(random_tape(seed, Shape(rows="rules" in way, trades=0.5, lifecycle=lives)), chosen.rules)
    LATENCY["now"] = chosen.data_latency
    COUNTS.update(fills=0, trades=0)
    plain, informed = run(source, MarketMaker(size=3), chosen), run(source, Maker(size=3), chosen)
    assert informed.failure is None, informed.failure.traceback
    assert informed.digest == plain.digest
    assert COUNTS["fills"] == len(plain.outcome.fills) > 0
    prints = source.tape.ts[source.tape.event & KIND_MASK == PRINT]
    told_of = int(np.count_nonzero(prints > source.tape.start - chosen.data_latency))
    # After the last market has closed there is nothing more to be told.
    assert 0 < COUNTS["trades"] <= told_of if lives else COUNTS["trades"] == told_of


def test_a_session_stops_at_the_times_and_fills_asked_for() -> None:
    session = Session(market(TRADE), rule_set(RULES), Settings(cadence=5 * MINUTE))
    session.stop_at_news(np.array([-1, 30, 30, 700], np.int64) * SECOND, fills=True)
    stops = []
    while found := session.advance():
        stops.append((found, session.now // SECOND))
        if session.step_index == 0 and len(stops) == 1:
            session.place(0, YES, 0, 450, 10 * CONTRACT)
    assert stops == [(AT_DECISION, 0), (AT_NEWS, 30), (AT_NEWS, 90), (AT_DECISION, 300), (AT_DECISION, 600)]
    assert session.orders[0, 8] == Status.FILLED
    with pytest.raises(ConfigError, match="before its first step"):
        session.stop_at_news(fills=True)
