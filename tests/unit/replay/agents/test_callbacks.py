"""Callbacks between decisions, in Python and compiled: their times, the data they see, and no effect on the simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bellwether.replay import (
    CENT,
    CONTRACT,
    DOLLAR,
    NO,
    SECOND,
    YES,
    Agent,
    AgentContext,
    AgentSource,
    Backtest,
    CompiledAgent,
    Fill,
    OrderUpdate,
    Trade,
    prepare,
    run,
)
from bellwether.replay.agents.market_maker import MarketMaker
from bellwether.replay.engine import kernel as k
from bellwether.replay.engine.codes import Status, Tif
from bellwether.replay.engine.kernel import strategy
from bellwether.replay.tape.layout import KIND_MASK, LEVEL, PRINT, TRADED, Tape, unpack
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.agents.scenes import TRADE, market, settings

SAMPLE_AGENTS = Path(__file__).parent / "sample_agents.py"
Callback = Callable[[AgentContext, Any], Any]


SOLD_AT_A_DECISION = (120, *TRADE[1:])
ACTS = [("act", 60 * step, step) for step in range(4)]


def record_callbacks(
    tape: Tape, *kinds: str, until: float = 240, do: dict[str, Callback] | None = None, **changed: Any
) -> tuple[list[Any], Backtest]:
    """Run an agent with these callbacks (fill, order, trade, book) until a second. Returns the calls as (kind, second, detail), and the backtest.

    `do`: action at each call, by kind. By default the agent bids 45 cents for ten contracts at the first decision.
    """
    notes: list[Any] = []
    actions = {"act": rest, **(do or {})}

    def called(ctx: AgentContext, kind: str, news: Any) -> None:
        detail = news if isinstance(news, int | str) else news.time_ns // SECOND
        if kind == "order":
            now = ctx.order(news.order)
            assert (now.status, now.filled, now.remaining, now.reason) == (news.status, news.filled, news.remaining, news.reason)
            detail = news.order, news.time_ns // SECOND, news.status, news.reason, news.filled // CONTRACT
        notes.append((kind, ctx.now_ns // SECOND, detail))
        if kind in actions:
            actions[kind](ctx, news)

    methods = {f"on_{kind}": lambda _, ctx, news, kind=kind: called(ctx, kind, news) for kind in kinds}
    agent = type("Hears", (Agent,), {"act": lambda _, ctx: called(ctx, "act", ctx.step), **methods})
    backtest = run(tape, agent(), settings(**changed))
    assert backtest.failure is None, backtest.failure.traceback
    return [note for note in notes if note[1] < until], backtest


def rest(ctx: AgentContext, step: int) -> None:
    if step == 0:
        ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)


def take(ctx: AgentContext, step: int) -> None:
    if step == 1:
        ctx.buy("M-0", YES, CONTRACT)


@pytest.mark.parametrize(
    ("events", "act", "changed", "expected"),
    [
        ([TRADE], rest, {}, [*ACTS[:2], ("fill", 90, 90), ("trade", 90, 90), *ACTS[2:]]),
        ([TRADE], rest, {"data_latency": 5 * SECOND}, [*ACTS[:2], ("fill", 95, 90), ("trade", 95, 90), *ACTS[2:]]),
        ([SOLD_AT_A_DECISION], rest, {}, [*ACTS[:2], ("fill", 120, 120), ("trade", 120, 120), *ACTS[2:]]),
        ([], take, {}, [*ACTS[:2], ("fill", 60, 60), *ACTS[2:]]),
        ([], take, {"order_latency": 7 * SECOND}, [*ACTS[:2], ("fill", 67, 67), *ACTS[2:]]),
    ],
    ids=["at their time", "late market data", "before the decision of their time", "right after the order", "when the order arrives"],
)
def test_fills_and_trades_are_told_when_they_are_known(
    events: list[Any], act: Callback, changed: dict[str, int], expected: list[Any]
) -> None:
    assert record_callbacks(market(*events), "fill", "trade", do={"act": act}, **changed)[0] == expected


def test_a_callback_knows_no_book_and_sends_no_order_before_its_time() -> None:
    later = (92, LEVEL, 0, YES, 46 * CENT, CONTRACT)
    books: list[Any] = []

    def at_fill(ctx: AgentContext, fill: Fill) -> None:
        books.append(ctx.market("M-0").yes_bid)
        ctx.buy("M-0", NO, CONTRACT, 40 * CENT)

    _, backtest = record_callbacks(market(TRADE, later), "fill", do={"fill": at_fill}, data_latency=5 * SECOND, order_latency=2 * SECOND)
    assert books == [45 * CENT], "the level of second 92 is not known at 95"
    assert [(row["sent"] // SECOND, row["arrived"] // SECOND) for row in backtest.outcome.orders] == [(0, 2), (95, 97)]


def test_an_order_of_a_callback_acts_at_once_without_latency() -> None:
    def at_fill(ctx: AgentContext, fill: Fill) -> None:
        if len(ctx.fills()) == 1:
            ctx.sell("M-0", YES, 5 * CONTRACT)

    found, backtest = record_callbacks(market(TRADE), "fill", "trade", do={"fill": at_fill})
    assert (backtest.outcome.orders["sent"] // SECOND).tolist() == [0, 90]
    # The agent's own fill is reported at the same time.
    assert found == [*ACTS[:2], ("fill", 90, 90), ("trade", 90, 90), ("fill", 90, 90), *ACTS[2:]]


def test_a_fill_by_a_crossing_book_is_told_at_the_end_of_its_instant() -> None:
    # Its bid at 47 cents is above all others; then YES is offered at 46.
    crossing = [(200, LEVEL, 0, NO, 54 * CENT, 20 * CONTRACT), (200, LEVEL, 0, YES, 30 * CENT, CONTRACT)]
    seen: list[Any] = []
    do: dict[str, Callback] = {
        "act": lambda ctx, step: step or ctx.buy("M-0", YES, CONTRACT, 47 * CENT),
        "fill": lambda ctx, fill: seen.append(ctx.book("M-0").yes_bids[-1]),
    }
    assert record_callbacks(market(*crossing), "fill", do=do)[0] == [*ACTS, ("fill", 200, 200)]
    assert seen == [(30 * CENT, CONTRACT)]


def test_a_callback_reads_since_the_last_decision() -> None:
    seen: list[Any] = []

    def look(ctx: AgentContext, news: Any) -> None:
        seen.append((ctx.step, len(ctx.trades()), len(ctx.fills())))

    record_callbacks(market((30, PRINT, 0, YES, 45 * CENT, 1), TRADE), "fill", "trade", do={"fill": look, "trade": look})
    assert seen == [(0, 1, 0), (1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize(
    ("agent", "kind"), [("FailsAtFill", "ZeroDivisionError"), ("FailsAtOrder", "ZeroDivisionError"), ("ReturnsAtTrade", "TypeError")]
)
def test_an_error_of_a_callback_ends_the_run_there(agent: str, kind: str) -> None:
    failure = run(market(TRADE), AgentSource(f"{SAMPLE_AGENTS}:{agent}"), settings()).failure
    assert failure is not None
    assert (failure.type, failure.step, failure.at) == (kind, 1, 90 * SECOND)


def order_updates(tape: Tape, do: dict[str, Callback], **changed: Any) -> list[Any]:
    """Return updates as (second, order, second of the change, status, reason, contracts), and the seconds of later decisions."""
    notes, _ = record_callbacks(tape, "order", do=do, **changed)
    return [second if kind == "act" else (second, *detail) for kind, second, detail in notes if (kind, second) != ("act", 0)]


def test_the_life_of_an_order_is_told() -> None:
    def act(ctx: AgentContext, step: int) -> None:
        if step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)
            ctx.buy("M-0", YES, CONTRACT, 44 * CENT, "gtd", 100 * SECOND)
            ctx.buy("M-0", YES, CONTRACT, 99 * CENT, "post_only")
        if step == 2:
            ctx.amend(ctx.order(0), 44 * CENT, 2 * CONTRACT)
        if step == 3:
            ctx.cancel(0)

    partly = (90, PRINT, 0, YES, 45 * CENT, 104 * CONTRACT)
    assert order_updates(market(partly), {"act": act}) == [
        (0, 0, 0, "resting", None, 0),
        (0, 1, 0, "resting", None, 0),
        (0, 2, 0, "rejected", "would_cross", 0),
        60,
        (90, 0, 90, "resting", None, 4),
        (100, 1, 100, "expired", "expired", 0),
        120,
        (120, 0, 120, "resting", None, 4),
        180,
        (180, 0, 180, "cancelled", "agent", 4),
    ]


def test_updates_come_with_the_latencies_and_orders_of_on_order_are_orders() -> None:
    def act(ctx: AgentContext, step: int) -> None:
        if step == 0:
            ctx.buy("M-0", YES, 10 * CONTRACT, 45 * CENT)
            ctx.buy("M-0", YES, 5000 * CONTRACT, 45 * CENT)

    def again(ctx: AgentContext, update: OrderUpdate) -> None:
        if update.status == "filled":
            ctx.cancel_all()
            ctx.buy("M-0", YES, CONTRACT, 44 * CENT)

    late = {"data_latency": 5 * SECOND, "order_latency": 2 * SECOND}
    assert order_updates(market(TRADE), {"act": act, "order": again}, **late) == [
        (7, 0, 2, "resting", None, 0),
        (7, 1, 2, "rejected", "insufficient_cash", 0),
        60,
        (95, 0, 90, "filled", None, 10),
        (102, 2, 97, "resting", None, 0),
        120,
        180,
    ]


def test_fills_are_told_first_then_orders_trades_and_books_before_the_decision_of_their_time() -> None:
    both = market(SOLD_AT_A_DECISION, (120, LEVEL, 0, YES, 45 * CENT, 0))
    found, _ = record_callbacks(both, "fill", "order", "trade", "book", until=121)
    assert [kind for kind, second, _ in found if second == 120] == ["fill", "order", "trade", "book", "act"]


class Watches(Agent):
    """Record the best prices at each `on_book` call."""

    def __init__(self, notes: list[Any]) -> None:
        self.notes = notes

    def act(self, ctx: AgentContext) -> None:
        pass

    def on_book(self, ctx: AgentContext, ticker: str) -> None:
        seen = ctx.market(ticker)
        self.notes.append((ctx.now_ns, ticker, seen.yes_bid, seen.no_bid))


@pytest.mark.parametrize(("seed", "latency"), [(0, 0), (1, SECOND // 4)])
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
                    expected.append((ts + latency, tape.tickers[code], *(tape.levels[code][one].item() or None for one in best)))
        last = ts
    assert last is not None
    assert [note for note in told_of if note[0] > tape.start + latency] == expected
    assert len(expected) > 50


class Maker(MarketMaker):
    """The maker agent with all callbacks."""

    name = "market-maker"

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        assert ctx.now_ns == fill.time_ns + LATENCY["now"]
        COUNTS["fills"] += 1

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        assert ctx.now_ns == trade.time_ns + LATENCY["now"]
        COUNTS["trades"] += 1


LATENCY: dict[str, int] = {}
COUNTS: dict[str, int] = {}


@pytest.mark.parametrize(
    ("seed", "way"), enumerate([{}, {"order_latency": SECOND}, {"data_latency": SECOND // 4, "order_latency": SECOND}]), ids=str
)
def test_being_told_changes_no_fill_and_misses_none(seed: int, way: dict[str, Any]) -> None:
    chosen = settings(cadence=5 * SECOND, **way)
    lives = seed % 2 == 0
    source = prepare(random_tape(seed, Shape(trades=0.5, lifecycle=lives)), chosen.rules)
    LATENCY["now"] = chosen.data_latency
    COUNTS.update(fills=0, trades=0)
    plain, informed = run(source, MarketMaker(size=3), chosen), run(source, Maker(size=3), chosen)
    assert informed.failure is None, informed.failure.traceback
    assert informed.digest == plain.digest
    assert COUNTS["fills"] == len(plain.outcome.fills) > 0
    prints = source.tape.ts[source.tape.event & KIND_MASK == PRINT]
    told_of = int(np.count_nonzero(prints > source.tape.start - chosen.data_latency))
    # After the last market has closed there are no further calls.
    assert 0 < COUNTS["trades"] <= told_of if lives else COUNTS["trades"] == told_of


# Compiled callbacks


GTC, IOC, CANCELLED, LOTS = int(Tif.GTC), int(Tif.IOC), int(Status.CANCELLED), 300


class Quick(Agent):
    """Join the bids of each market, pair fills, follow trades, replace cancelled orders, and take books that moved far."""

    name = "quick"

    def act(self, ctx: AgentContext) -> None:
        ctx.cancel_all()
        for one in ctx.markets():
            if one.yes_bid is not None:
                ctx.buy(one.ticker, YES, LOTS, one.yes_bid)

    def on_fill(self, ctx: AgentContext, fill: Fill) -> None:
        if fill.role == "maker":
            ctx.buy(fill.ticker, NO if fill.side == "yes" else YES, fill.lots, 98 * CENT - fill.price)

    def on_order(self, ctx: AgentContext, update: OrderUpdate) -> None:
        if update.status == "cancelled" and update.filled > 0:
            ctx.buy(update.ticker, update.side, LOTS, 10)

    def on_trade(self, ctx: AgentContext, trade: Trade) -> None:
        price = trade.yes_price if trade.taker_side == "yes" else trade.no_price
        ctx.buy(trade.ticker, trade.taker_side, trade.lots // 100 + 1, price, "ioc")

    def on_book(self, ctx: AgentContext, ticker: str) -> None:
        seen = ctx.market(ticker)
        if seen.yes_bid is not None and seen.yes_bid % 7 == 0:
            ctx.buy(ticker, YES, 100, seen.yes_bid)


@strategy
def decide(sim, params):
    while k.next_step(sim):
        k.cancel_all(sim, -1)
        for ticker in range(k.tickers(sim)):
            bid = k.best_bid(sim, ticker, 0)
            if bid > 0:
                k.place(sim, ticker, 0, 0, bid, params[0], GTC, 0)


@strategy
def filled(sim, params, fill):
    params[1] += 1
    made = k.fills_of(sim)[fill]
    if made.role == 1:
        k.place(sim, made.market, 1 - made.side, 0, 98 * CENT - made.price, made.lots, GTC, 0)


@strategy
def ordered(sim, params, update):
    params[2] += 1
    change = k.updates_of(sim)[update]
    order = k.orders_of(sim)[change.order]
    if change.status == CANCELLED and change.filled > 0:
        k.place(sim, order.market, order.side, 0, 10, params[0], GTC, 0)


@strategy
def printed(sim, params, trade):
    params[3] += 1
    done = k.trades_of(sim)[trade]
    price = done.price if done.taker_side == 0 else DOLLAR - done.price
    k.place(sim, done.market, done.taker_side, 0, price, done.lots // 100 + 1, IOC, 0)


@strategy
def moved(sim, params, ticker):
    params[4] += 1
    bid = k.best_bid(sim, ticker, 0)
    if bid > 0 and bid % 7 == 0:
        k.place(sim, ticker, 0, 0, bid, 100, GTC, 0)


class CompiledQuick(CompiledAgent):
    """The compiled version of `Quick`."""

    name = "quick"
    strategy = decide
    on_fill, on_order, on_trade, on_book = filled, ordered, printed, moved

    def __init__(self, notes: list[np.ndarray] | None = None) -> None:
        self.notes = [] if notes is None else notes

    def numbers(self, episode: Any, seed: int) -> np.ndarray:
        params = np.array([LOTS, 0, 0, 0, 0], np.int64)
        self.notes.append(params)
        return params


@pytest.mark.parametrize(
    ("seed", "way"),
    enumerate([{}, {"data_latency": SECOND // 4, "order_latency": SECOND // 2}]),
    ids=["at-once", "late"],
)
def test_python_and_compiled_callbacks_send_the_same_orders(seed: int, way: dict[str, Any]) -> None:
    chosen = settings(cadence=5 * SECOND, **way)
    source = prepare(random_tape(seed, Shape(trades=0.5)), chosen.rules)
    notes: list[np.ndarray] = []
    plain, fast = run(source, Quick(), chosen), run(source, CompiledQuick(notes), chosen)
    assert (plain.failure, fast.failure) == (None, None), plain.failure and plain.failure.traceback
    assert fast.outcome.orders.tolist() == plain.outcome.orders.tolist()
    assert fast.digest == plain.digest
    assert (notes[0][1:] > 10).all()


@strategy
def fails(sim, params, fill):
    params[1] += 1
    if params[1] == 2:
        raise ValueError("two fills are too many")


class Fails(CompiledQuick):
    """Raise an error at the second fill."""

    on_fill = fails


def test_an_error_of_a_compiled_callback_ends_the_run_there() -> None:
    notes: list[np.ndarray] = []
    backtest = run(market(TRADE), Fails(notes), settings())
    assert backtest.failure is not None
    assert str(backtest.failure) == "ValueError: two fills are too many"
    assert (backtest.failure.step, backtest.failure.at) == (1, 90 * SECOND)
    assert notes[0][1] == 2
    # No order was sent after it.
    assert backtest.outcome.orders["sent"].max() == 90 * SECOND


@strategy
def set_a_past_timer(sim, params):
    while k.next_step(sim):
        k.set_timer(sim, k.now(sim) - params[0])


@strategy
def repeat_the_timer(sim, params, time):
    params[1] += 1
    k.set_timer(sim, time)


@pytest.mark.parametrize("late", [0, 10 * SECOND])
def test_a_compiled_timer_that_is_not_later_than_now_is_refused(late: int) -> None:
    class Late(CompiledAgent):
        strategy, on_timer = set_a_past_timer, repeat_the_timer

        def numbers(self, episode: Any, seed: int) -> np.ndarray:
            return np.array([late, 0], np.int64)

    failure = run(market(TRADE), Late(), settings()).failure
    assert failure is not None
    assert (failure.type, failure.step) == ("OrderError", 0)
    assert "not later than now" in failure.message
