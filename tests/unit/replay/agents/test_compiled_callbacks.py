"""Callbacks of compiled agents get the calls of Python callbacks at the same times, and send the same orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bellwether.replay import CENT, DOLLAR, NO, SECOND, YES, Agent, AgentContext, CompiledAgent, Fill, OrderUpdate, Trade, prepare, run
from bellwether.replay.engine import arrays
from bellwether.replay.engine import kernel as k
from bellwether.replay.engine.codes import O_SENT, Status, Tif
from bellwether.replay.engine.kernel import strategy
from tests.reference.replay.random_tapes import Shape, random_tape
from tests.unit.replay.agents.scenes import TRADE, market, settings

GTC, IOC, CANCELLED, LOTS = int(Tif.GTC), int(Tif.IOC), int(Status.CANCELLED), 300


class Quick(Agent):
    """Join the bids of each market, pair fills, follow trades, replace cancelled orders, and take books that moved far."""

    api = 3

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
        ctx.place(
            trade.ticker,
            trade.taker_side,
            "buy",
            trade.yes_price if trade.taker_side == "yes" else trade.no_price,
            trade.lots // 100 + 1,
            "ioc",
        )

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
    if k.fill_role(sim, fill) == 1:
        k.place(
            sim,
            k.fill_ticker(sim, fill),
            1 - k.fill_side(sim, fill),
            0,
            98 * CENT - k.fill_price(sim, fill),
            k.fill_lots(sim, fill),
            GTC,
            0,
        )


@strategy
def ordered(sim, params, update):
    params[2] += 1
    order = k.update_order(sim, update)
    if k.update_status(sim, update) == CANCELLED and k.update_filled(sim, update) > 0:
        k.place(sim, k.order_ticker(sim, order), k.order_side(sim, order), 0, 10, params[0], GTC, 0)


@strategy
def traded(sim, params, trade):
    params[3] += 1
    side = k.trade_taker(sim, trade)
    price = k.trade_price(sim, trade) if side == 0 else DOLLAR - k.trade_price(sim, trade)
    k.place(sim, k.trade_ticker(sim, trade), side, 0, price, k.trade_lots(sim, trade) // 100 + 1, IOC, 0)


@strategy
def moved(sim, params, ticker):
    params[4] += 1
    bid = k.best_bid(sim, ticker, 0)
    if bid > 0 and bid % 7 == 0:
        k.place(sim, ticker, 0, 0, bid, 100, GTC, 0)


class CompiledQuick(CompiledAgent):
    """The compiled version of `Quick`."""

    api = 3

    name = "quick"
    strategy = decide
    on_fill, on_order, on_trade, on_book = filled, ordered, traded, moved

    def __init__(self, notes: list[np.ndarray] | None = None) -> None:
        self.notes = [] if notes is None else notes

    def numbers(self, episode: Any, seed: int) -> np.ndarray:
        params = np.array([LOTS, 0, 0, 0, 0], np.int64)
        self.notes.append(params)
        return params


@pytest.mark.parametrize(
    ("seed", "way"),
    enumerate([{}, {"data_latency": SECOND // 4, "order_latency": SECOND // 2}, {"rules": "pmb-2026-01"}]),
    ids=["at-once", "late", "frozen"],
)
def test_python_and_compiled_callbacks_send_the_same_orders(seed: int, way: dict[str, Any]) -> None:
    chosen = replace(settings(cadence=5 * SECOND, calls_per_step=10**6, **way))
    source = prepare(random_tape(seed, Shape(rows="rules" in way, trades=0.5)), chosen.rules)
    notes: list[np.ndarray] = []
    plain, fast = run(source, Quick(), chosen), run(source, CompiledQuick(notes), chosen)
    assert (plain.failure, fast.failure) == (None, None), plain.failure and plain.failure.traceback
    assert fast.outcome.orders.tolist() == plain.outcome.orders.tolist()
    assert fast.digest == plain.digest
    assert (notes[0][1:] > 10).all()


def test_a_run_that_starts_again_with_room_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    source, chosen = random_tape(1, Shape(trades=0.5)), settings(cadence=5 * SECOND)
    roomy: list[np.ndarray] = []
    tight: list[np.ndarray] = []
    whole = run(source, CompiledQuick(roomy), chosen).digest
    for name, rows in (("FIRST_ROWS", 16), ("COMPILED_ROWS", 32), ("FIRST_UPDATES", 4)):
        monkeypatch.setattr(arrays, name, rows)
    assert run(source, CompiledQuick(tight), chosen).digest == whole
    assert tight[0].tolist() == roomy[0].tolist()


@strategy
def fails(sim, params, fill):
    params[1] += 1
    if params[1] == 2:
        raise ValueError("two fills are too many")


class Fails(CompiledQuick):
    """Raise an error at the second fill."""

    on_fill = fails


def test_an_error_of_a_callback_ends_the_run_there() -> None:
    notes: list[np.ndarray] = []
    backtest = run(market(TRADE), Fails(notes), settings())
    assert backtest.failure is not None
    assert str(backtest.failure) == "ValueError: two fills are too many"
    assert (backtest.failure.step, backtest.failure.at) == (1, 90 * SECOND)
    assert notes[0][1] == 2
    # No order was sent after it.
    assert backtest.outcome.orders[:, O_SENT].max() == 90 * SECOND
