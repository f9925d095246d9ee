"""Backtests in sampled queue histories."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentContext, BacktestSettings, prepare, run
from bellwether.replay.agents.compiled_maker import CompiledMarketMaker
from bellwether.replay.agents.llm import LLMAgent
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.backtest import _default_queues
from bellwether.replay.preparation import Prepared
from bellwether.replay.run_record import QueueSpread
from bellwether.replay.tape.layout import CLOSE, SETTLE
from bellwether.replay.units import CENT, CONTRACT, NO, SECOND, YES
from bellwether.units import MicroDollars
from tests.unit.replay.agents.scenes import TRADE, Scripted, at_step, market, settings
from tests.unit.replay.engine.small_tapes import BOOK, FREE, LIVE, busy_tape, level, life, printed, tape

#: A bid at 45 cents has 100 contracts ahead and 100 behind. Of these 200, 100 are cancelled, and 70 trade.
CUT = (level(1, YES, 4_500, 20_000), level(2, YES, 4_500, 10_000), printed(3, YES, 4_500, 7_000))
WON = (life(20, CLOSE), life(20, SETTLE, 10**6), life(20, CLOSE, ticker=1), life(20, SETTLE, 0, ticker=1))


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(tape(*BOOK, *CUT, *WON, tickers=2), FREE)


def changed(**values: object) -> BacktestSettings:
    return BacktestSettings(rules=FREE.name, cadence=SECOND, bankroll=10**9, **values)  # type: ignore[arg-type]


def bid(ctx: AgentContext) -> None:
    if ctx.step == 0:
        ctx.buy("T0", YES, 10 * CONTRACT, 45 * CENT)


def test_the_run_is_repeated_in_each_history(prepared: Prepared) -> None:
    backtest = run(prepared, Scripted(bid), changed(queues=10))
    alone = [run(prepared, Scripted(bid), changed(queue=f"sampled:{history}", queues=0)) for history in range(10)]
    assert backtest.queues == tuple(one.outcome.pnl for one in alone)
    assert set(backtest.queues) == {0, 5_500_000}
    assert backtest.digest == run(prepared, Scripted(bid), changed(queues=0)).digest


def test_agents_meet_the_same_histories(prepared: Prepared) -> None:
    def act(ctx: AgentContext) -> None:
        bid(ctx)
        ctx.quote("T0", 40 * CENT, None, (1 + ctx.step) * CONTRACT)
        ctx.buy("T0", NO, CONTRACT, 30 * CENT)

    def fills(what: Callable[[AgentContext], None], history: int) -> list[list[int]]:
        rows = run(prepared, Scripted(what), changed(queue=f"sampled:{history}", queues=0)).outcome.fills
        return rows[["ts", "lots"]][rows["order"] == 0].tolist()

    seen = [fills(bid, history) for history in range(10)]
    assert seen == [fills(act, history) for history in range(10)]
    assert len({str(rows) for rows in seen}) > 1


@pytest.mark.parametrize("maker", [MarketMaker, VectorMarketMaker])
def test_python_and_compiled_agents_meet_the_same_histories(maker: type[Agent]) -> None:
    busy, settings = prepare(busy_tape(4_000), LIVE), BacktestSettings(rules=LIVE.name, cadence=5 * SECOND, bankroll=10**12, queues=2)
    assert run(busy, maker(size=3), settings).queues == run(busy, CompiledMarketMaker(size=3), settings).queues


def test_a_run_without_resting_orders_is_not_repeated() -> None:
    decisions: list[int] = []

    def act(ctx: AgentContext) -> None:
        decisions.append(ctx.step)
        if ctx.step == 0:
            ctx.buy("M-0", YES, CONTRACT)

    backtest = run(market(TRADE), Scripted(act), settings(queues=3))
    assert (backtest.queues, len(decisions)) == ((backtest.outcome.pnl,) * 3, backtest.steps)


def test_a_failure_in_one_history_is_reported_with_its_number() -> None:
    runs: list[int] = []

    def act(ctx: AgentContext) -> None:
        if ctx.step == 0:
            runs.append(0)
            ctx.buy("M-0", YES, CONTRACT, 45 * CENT)
        if len(runs) == 3:
            raise ValueError("the third run")

    backtest = run(market(TRADE), Scripted(act), settings(queues=3))
    assert backtest.failure is not None
    assert backtest.failure.message == "in sampled queue history 1: the third run"
    assert len(backtest.queues) == 3


def test_defaults_repeat_no_run_that_may_cost_money() -> None:
    assert [_default_queues(kind) for kind in (MarketMaker, CompiledMarketMaker, LLMAgent, Scripted)] == [20, 20, 0, 0]
    assert (
        run(market(TRADE), Scripted(at_step(lambda ctx: ctx.buy("M-0", YES, CONTRACT, 45 * CENT))), settings(queues=None)).queue_spread
        is None
    )
    for queues in (-1, 2.5, 10**6):
        with pytest.raises(ConfigError, match="queues is"):
            changed(queues=queues)


def test_the_spread_leaves_out_a_twentieth_at_each_end() -> None:
    profits = [MicroDollars(int(amount)) for amount in np.random.default_rng(1).permutation(40) - 10]
    assert QueueSpread.of(profits) == QueueSpread(40, MicroDollars(-8), MicroDollars(9), MicroDollars(27), 29 / 40)
    assert QueueSpread.of(profits[:1]) == QueueSpread(1, profits[0], profits[0], profits[0], float(profits[0] > 0))
    assert QueueSpread.of([]) is None
