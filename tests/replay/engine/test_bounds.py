"""The bounds of a replay: the same calls in two more accounts, each of which fills, keeps and refuses orders by itself."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay import Agent, AgentContext, BacktestSettings, CompiledAgent, run
from bellwether.replay.agents.market_maker import MarketMaker, VectorMarketMaker
from bellwether.replay.engine import Session, Settings, arrays
from bellwether.replay.engine.codes import O_STATUS, S_EQUITY, S_OPT, S_PESS, Status, Tif
from bellwether.replay.engine.kernel import next_step, quote, strategy, tickers
from bellwether.replay.rules import rule_set
from bellwether.replay.tape.layout import CLOSE, LEVEL, SETTLE, VOID, Tape, unpack
from bellwether.replay.units import BUY, MICROS, NO, SECOND, YES
from tests.replay.engine.small_tapes import BOOK, FREE, KALSHI_FEES, finish, level, life, printed, session, tape
from tests.replay.literal import Bid, Literal
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


def after_the_fill(queue: str = "reconciled") -> Session:
    """An order of 10 at 45 cents that every model but trade_only has filled, seen at second 3."""
    opened = session(tape(*BOOK, *FALL, *LOST), queue=queue)
    opened.place(0, YES, BUY, 450, 1_000)
    while opened.now < 3 * SECOND:
        opened.step()
    assert (opened.orders[0, O_STATUS] == Status.FILLED) == (queue != "trade_only")
    return opened


def test_a_cancel_of_an_order_that_has_filled_takes_it_out_of_the_other_accounts() -> None:
    opened = after_the_fill()
    assert not opened.cancel(0)
    assert finish(opened).result().pnl == (-4_500_000, 0, -4_500_000)


def test_a_cancel_of_all_orders_takes_them_out_of_the_other_accounts() -> None:
    opened = after_the_fill()
    assert opened.cancel_all() == 0
    assert finish(opened).result().pnl == (-4_500_000, 0, -4_500_000)


def test_an_amendment_of_an_order_that_has_filled_changes_it_in_the_other_accounts() -> None:
    opened = after_the_fill()
    assert opened.amend(0, 450, 300) != 0
    outcome = finish(opened).result()
    assert outcome.pnl == (-4_500_000, -1_350_000, -4_500_000)
    assert outcome.filled.tolist() == [[300, 1_000]]


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


def test_an_order_that_only_one_account_sent_has_no_counterpart() -> None:
    outcome = quoted((450,) * 15, "reconciled").result()
    assert outcome.filled[:2].tolist() == [[1_000, 1_000], [-1, 1_000]], "the chosen model's filled quote was sent anew"


def test_an_order_expires_in_each_account() -> None:
    opened = session(tape(*BOOK, *FALL, *LOST), queue="reconciled")
    opened.place(0, YES, BUY, 450, 1_000, Tif.GTD, 4 * SECOND)
    assert finish(opened).result().pnl == (-4_500_000, 0, -4_500_000)


def test_an_order_that_rests_in_one_account_alone_meets_the_own_one_against_it() -> None:
    opened = after_the_fill()
    # A sale at 45 cents finds the own bid of the pessimistic account before it.
    sale = opened.place(0, NO, BUY, 550, 1_000, Tif.POST_ONLY)
    assert opened.orders[sale, O_STATUS] == Status.RESTING
    other = after_the_fill("trade_only")
    sale = other.place(0, NO, BUY, 550, 1_000, Tif.POST_ONLY)
    assert other.orders[sale, O_STATUS] == Status.REJECTED
    assert finish(opened).result().pnl[1] == finish(other).result().pnl[0]


def test_each_account_has_its_own_cash() -> None:
    def poor(queue: str) -> Session:
        opened = session(tape(*BOOK, *FALL, *LOST), queue=queue, bankroll=5 * MICROS)
        for _ in range(4):
            opened.place(0, YES, BUY, 450, 1_000)
            opened.step()
        return finish(opened)

    assert poor("reconciled").result().pnl[1:] == tuple(poor(queue).result().pnl[0] for queue in ("trade_only", "optimistic"))


def test_orders_that_never_rest_are_alike_in_all_accounts() -> None:
    opened = session(tape(*BOOK, *FALL, *LOST))
    opened.place(0, YES, BUY, 480, 300, Tif.IOC)
    outcome = finish(opened).result()
    assert outcome.pnl == (-1_440_000,) * 3
    assert outcome.filled.tolist() == [[300, 300]]


# Against a literal computation

CADENCE, LOTS = SECOND, 700


def _tapes(count: int) -> list[Tape]:
    """Random tapes of one market whose books never cross and that end without a void."""
    shape = Shape(tickers=1, lifecycle=False, crossed=0.0, trades=0.3, tick=10, spread_out=4, drift=0.2, fees=KALSHI_FEES)
    found = (random_tape(seed, shape) for seed in range(10 * count))
    return list(islice((one for one in found if int(one.event[-1]) & 15 != VOID), count))


def _decisions(made: Tape, seed: int) -> list[list[tuple[str, int, int]]]:
    """Calls of an agent that looks at no fill: bids where the book is busy, cancels of any of its earlier bids, quotes."""
    rng, decisions, sent = Random(seed), [], 0
    changed = [[price for kind, _, on, price, _ in map(unpack, made.event.tolist()) if kind == LEVEL and on == side] for side in (YES, NO)]
    for _ in range(1 + int(made.end - made.start) // CADENCE):
        calls = []
        for _ in range(rng.randint(0, 2)):
            side = rng.randint(0, 1)
            if rng.random() < 0.7 or sent == 0:
                calls.append(("place", side, rng.choice(changed[side])))
                sent += 1
            else:
                calls.append(("cancel", rng.randrange(sent), 0))
        if rng.random() < 0.3:
            calls.append(("quote", *(rng.choice([0, *prices]) for prices in changed)))
        decisions.append(calls)
    return decisions


def _engine(made: Tape, queue: str, calls: list[list[tuple[str, int, int]]]) -> Session:
    opened = Session(made, rule_set("kalshi-2025-07-01"), Settings(cadence=CADENCE, bankroll=10**12, queue=queue))  # type: ignore[arg-type]
    numbers: list[int] = []
    while opened.step():
        for name, first, second in calls[opened.step_index]:
            if name == "place":
                numbers.append(opened.place(0, first, BUY, second, LOTS, Tif.POST_ONLY))
            elif name == "cancel":
                opened.cancel(numbers[first])
            else:
                opened.quote(0, first, second, LOTS)
    return opened


def _literal(made: Tape, model: str, calls: list[list[tuple[str, int, int]]]) -> Literal:
    sent: list[Bid] = []

    def act(account: Literal, decision: int) -> None:
        for name, first, second in calls[decision]:
            if name == "place":
                sent.append(account.place(first, second, LOTS))
            elif name == "cancel":
                account.cancel(sent[first])
            else:
                account.quote((first, second), LOTS)

    return Literal(model, 10**6).run(made, CADENCE, act)


def test_the_bounds_are_those_of_a_literal_computation() -> None:
    differ = 0
    for seed, made in enumerate(_tapes(20)):
        calls = _decisions(made, seed)
        outcome = _engine(made, "reconciled", calls).result()
        literal = [_literal(made, model, calls) for model in ("trade_only", "optimistic")]
        assert [account.equity() * MICROS for account in literal] == list(outcome.equity[1:])
        assert [account.fees * MICROS for account in literal] == list(outcome.fees[1:])
        differ += len(set(outcome.equity)) == 3
    assert differ >= 10


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


@pytest.mark.parametrize("agent", [MarketMaker(**QUOTING), VectorMarketMaker(**QUOTING), Clock()], ids=lambda agent: agent.name)
@pytest.mark.parametrize("latency", [0, SECOND // 4])
def test_bounds_of_an_agent_that_does_not_react_to_its_fills_are_runs_under_the_other_queues(agent: Agent, latency: int) -> None:
    different = 0
    for seed in range(4):
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


def test_calls_that_outgrow_their_arrays_end_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_tape(3, Shape(tickers=2))
    settings = BacktestSettings(rules="kalshi-2026-05-28", cadence=SECOND, bankroll=10**12, order_latency=SECOND // 3)
    whole = {run(made, agent, settings).outcome.digest() for agent in (Clock(),)}
    for name, rows in (("FIRST_ROWS", 16), ("FIRST_MESSAGES", 2), ("COMPILED_ROWS", 32)):
        monkeypatch.setattr(arrays, name, rows)
    assert {run(made, Clock(), settings).outcome.digest()} == whole


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
