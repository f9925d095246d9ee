"""The bounds of a replay: the same calls in two more accounts, each of which fills, keeps and refuses orders by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentContext, BacktestSettings, CompiledAgent, run
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.engine import Session, Settings, arrays
from bellwether.replay.engine.codes import O_STATUS, S_EQUITY, S_OPT, S_PESS, Status
from bellwether.replay.engine.kernel import next_step, quote, strategy, tickers
from bellwether.replay.tape.layout import CLOSE, SETTLE
from bellwether.replay.units import BUY, NO, SECOND, YES
from tests.replay.engine.small_tapes import BOOK, FREE, finish, level, life, printed, session, tape
from tests.replay.random_tapes import Shape, random_tape

#: What stood before a bid at 45 cents is cancelled, a small trade fills the bid where that counts, then the market falls through it.
FALL = (level(1, YES, 450, 0), printed(2, YES, 450, 1_000), level(5, NO, 550, 500), printed(7, YES, 430, 2_000))
LOST = (life(20, CLOSE), life(20, SETTLE, 0))
STEPS = Settings(cadence=SECOND, sample_every=5 * SECOND, bankroll=10**12)


def test_a_toxic_fill_reaches_the_pessimistic_account_after_the_chosen_model_has_filled_the_order() -> None:
    opened = session(tape(*BOOK, *FALL, *LOST), queue="reconciled")
    opened.place(0, YES, BUY, 450, 1_000)
    outcome = finish(opened).result()
    assert outcome.pnl == (-4_500_000, -4_500_000, -4_500_000)
    assert outcome.filled.tolist() == [[1_000, 1_000]]
    fell = [outcome.samples[:, column].tolist() for column in (S_EQUITY, S_PESS, S_OPT)]
    assert fell[0] == fell[2]


@pytest.mark.parametrize(
    ("call", "pessimistic"),
    [
        (lambda opened: opened.cancel(0), 0),
        (lambda opened: opened.cancel_all(), 0),
        (lambda opened: opened.amend(0, 450, 300), -1_350_000),
    ],
    ids=["cancel", "cancel all", "amend"],
)
def test_a_call_for_a_filled_order_reaches_the_accounts_in_which_it_still_rests(call: Callable[[Session], Any], pessimistic: int) -> None:
    opened = session(tape(*BOOK, *FALL, *LOST), queue="reconciled")
    opened.place(0, YES, BUY, 450, 1_000)
    while opened.now < 3 * SECOND:
        opened.step()
    assert opened.orders[0, O_STATUS] == Status.FILLED
    call(opened)
    assert finish(opened).result().pnl == (-4_500_000, pessimistic, -4_500_000)


def quoted(prices: tuple[int, ...], queue: str) -> Session:
    """A bid for YES that is quoted at these prices, second by second."""
    opened = session(tape(*BOOK, *FALL, *LOST), queue=queue)
    for price in prices:
        opened.quote(0, price, 0, 1_000)
        opened.step()
    return finish(opened)


@pytest.mark.parametrize("prices", [(450,) * 15, (450, 450, 450, 440), (450, 450, 450, 0), (450, 450, 450, -1, 440)])
def test_a_quote_is_kept_moved_and_taken_away_in_each_account(prices: tuple[int, ...]) -> None:
    bounds = quoted(prices, "reconciled").result()
    alone = [quoted(prices, queue).result().pnl[0] for queue in ("trade_only", "optimistic")]
    assert list(bounds.pnl[1:]) == alone
    assert alone[0] != bounds.pnl[0]
    if prices[-1] == 450:
        assert bounds.filled[:2].tolist() == [[1_000, 1_000], [-1, 1_000]], "the filled quote was sent again, by one account alone"


# Against runs of their own

QUOTING = {"spread_cents": 1, "size": 3, "max_position": 10**6, "skew_cents": 0, "tick_cents": 1}


@strategy
def quote_by_the_clock(sim, params):
    """Quotes that wander with the number of decisions."""
    step = 0
    while next_step(sim):
        for ticker in range(tickers(sim)):
            quote(sim, ticker, 300 + 10 * (step % 13), 350 + 10 * (step // 7 % 11), params[0])
        step += 1


class Clock(CompiledAgent):
    """Quotes by the clock, compiled."""

    strategy = quote_by_the_clock

    def numbers(self, episode: object, seed: int) -> np.ndarray:
        return np.array([500])


@pytest.mark.parametrize(
    ("agent", "latency"),
    [(MarketMaker(**QUOTING), 0), (VectorMarketMaker(**QUOTING), SECOND // 4), (Clock(), SECOND // 4)],
    ids=["market-maker", "vector-market-maker", "clock"],
)
def test_bounds_of_an_agent_that_does_not_react_to_its_fills_are_runs_under_the_other_queues(agent: Agent, latency: int) -> None:
    different = 0
    for seed in range(2):
        made = random_tape(seed, Shape(tickers=2, crossed=0.0))
        settings = {"rules": "kalshi-2026-05-28", "cadence": 3 * SECOND, "bankroll": 10**12, "order_latency": latency}
        outcome = run(made, agent, BacktestSettings(**settings, queue="reconciled")).outcome
        for place, queue, column in ((1, "trade_only", S_PESS), (2, "optimistic", S_OPT)):
            alone = run(made, agent, BacktestSettings(**settings, queue=queue)).outcome
            for what in ("cash", "realised", "fees", "equity"):
                assert getattr(outcome, what)[place] == getattr(alone, what)[0]
            assert (outcome.samples[:, column] == alone.samples[:, S_EQUITY]).all()
        different += len(set(outcome.equity)) > 1
    assert different


def test_refused_quotes_are_sent_once_while_arrays_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "FIRST_ROWS", 3)
    opened = Session(tape(*BOOK, *LOST, tickers=2), FREE, STEPS)
    assert opened.step()
    # Both quotes of the first market would cross, the second one has no book.
    opened.quote_many(np.array([[490, 560], [400, 400]]), 100)
    assert opened.orders[:, O_STATUS].tolist() == [Status.REJECTED] * 4


# The agent run again


class Doubling(Agent):
    """Bids once more after every fill."""

    def act(self, ctx: AgentContext) -> None:
        for market in ctx.markets():
            if market.is_active and market.yes_bid and market.yes_position < 5_000:
                ctx.quote(market.ticker, market.yes_bid, None, 200 + market.yes_position)


class Careful(Agent):
    """Bids once, and gives up with its first fill."""

    def act(self, ctx: AgentContext) -> None:
        if ctx.step == 0:
            ctx.buy(ctx.tickers[0], YES, 1_000, 450)
        if ctx.positions.any():
            raise RuntimeError("filled")


def test_the_band_of_reruns_has_the_agents_own_runs() -> None:
    made = random_tape(2, Shape(crossed=0.0))
    settings = {"rules": "kalshi-2026-05-28", "cadence": 3 * SECOND, "bankroll": 10**11}
    again = run(made, Doubling(), BacktestSettings(**settings, queue="reconciled", band="rerun")).outcome
    alone = [
        run(made, Doubling(), BacktestSettings(**settings, queue=queue)).outcome for queue in ("reconciled", "trade_only", "optimistic")
    ]
    assert list(again.equity) == [one.equity[0] for one in alone]
    assert again.samples[:, [S_PESS, S_OPT]].T.tolist() == [one.samples[:, S_EQUITY].tolist() for one in alone[1:]]
    assert (again.filled == -1).all()
    assert list(alone[0].equity) != list(again.equity), "it reacts to its fills"


def test_a_failure_under_another_queue_is_the_failure_of_a_rerun() -> None:
    made = tape(*BOOK, *FALL[:2], *LOST)
    settings = {"rules": "kalshi-2021-07-01", "cadence": SECOND, "bankroll": 10**9}
    assert run(made, Careful(), BacktestSettings(**settings, queue="trade_only")).failure is None
    failure = run(made, Careful(), BacktestSettings(**settings, queue="trade_only", band="rerun")).failure
    assert failure is not None
    assert failure.message == "under the queue model optimistic: filled"


def test_an_unknown_band_is_refused() -> None:
    with pytest.raises(ConfigError, match="band is 'both'; it is one of accounts, rerun"):
        BacktestSettings(band="both")
