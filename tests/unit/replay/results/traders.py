"""Backtests for tests: an agent that sends random orders of every kind on random tapes."""

from __future__ import annotations

from functools import cache

from bellwether.replay import Agent, AgentContext, Backtest, BacktestSettings, run
from bellwether.replay.units import CENT, CONTRACT, MICROS, SECOND
from tests.reference.replay.random_tapes import Shape, random_tape

RULES = "kalshi-2026-05-28"


class RandomTrader(Agent):
    """Send one to three random orders at most decisions, and fail at decision `fails`."""

    def __init__(self, fails: int = -1) -> None:
        self.fails = fails

    def act(self, ctx: AgentContext) -> None:
        draw = ctx.random
        if ctx.step == self.fails:
            raise ValueError("the <b>market</b> | is\nclosed")
        for _ in range(draw.randint(0, 3)):
            price = CENT * draw.randint(10, 90)
            tif = draw.choice((0, 1, 1, 1, 2, 3))
            ticker, side, send = ctx.tickers[draw.randrange(2)], draw.randint(0, 1), (ctx.buy, ctx.sell)[draw.randint(0, 1)]
            lots = CONTRACT * draw.randint(1, 30)
            send(ticker, side, lots, price, tif)
        if draw.random() < 0.1:
            ctx.cancel_all()


@cache
def backtest_random(seed: int = 0, fails: int = -1, latency: int = 0) -> Backtest:
    """Return a backtest of `RandomTrader`."""
    settings = BacktestSettings(
        queues=0,
        rules=RULES,
        cadence=3 * SECOND,
        sample_every=5 * SECOND,
        bankroll=500 * MICROS,
        seed=seed,
        execution="maker_taker",
        queue="proportional",
        order_latency=latency,
    )
    return run(random_tape(seed, Shape(instants=600)), RandomTrader(fails), settings)


def rows_of(backtest: Backtest, name: str, *fields: str) -> list[tuple[int, ...]]:
    """Return fields of the engine's orders, fills or samples as tuples of Python integers."""
    return getattr(backtest.outcome, name)[list(fields)].tolist()
