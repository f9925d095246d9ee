"""Minimum and maximum fills of orders, and the equity band, on tapes small enough for hand computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bellwether.replay.engine import ReplaySettings, Session, arrays
from bellwether.replay.engine.codes import O_EARLIEST, O_LATEST, O_STATUS, S_EQUITY, S_OPT, S_PESS, Status
from bellwether.replay.engine.kernel import next_step, quote, strategy, tickers
from bellwether.replay.tape.layout import CLOSE, INVALID, SETTLE, VALID, VOID
from bellwether.replay.units import BUY, SECOND, YES
from tests.unit.replay.engine.small_tapes import BOOK, FREE, finish, level, life, printed, session, tape

#: A bid at 45 cents has 100 contracts ahead and 100 behind. Of these 200, 100 are cancelled, and 70 trade.
CUT = (level(1, YES, 4_500, 20_000), level(2, YES, 4_500, 10_000), printed(3, YES, 4_500, 7_000))
WON, LOST, NEITHER = ((life(20, CLOSE), life(20, kind, value)) for kind, value in ((SETTLE, 10**6), (SETTLE, 0), (VOID, 0)))


def bid(*events: Any, queue: str = "proportional", until: int = 0, call: Callable[[Session], Any] | None = None) -> Session:
    """Replay a bid for 10 contracts of YES at 45 cents, with a call at a second."""
    opened = session(tape(*BOOK, *events), queue=queue)
    opened.place(0, YES, BUY, 4_500, 1_000)
    while opened.now < until * SECOND:
        opened.step()
    if call:
        call(opened)
    return finish(opened)


@pytest.mark.parametrize(
    ("queue", "filled"), [("reconciled", 0), ("proportional", 1_000), ("optimistic", 1_000), ("trade_only", 0)], ids=str
)
def test_fills_lie_between_all_cancels_behind_and_all_ahead(queue: str, filled: int) -> None:
    outcome = bid(*CUT, *WON, queue=queue).result()
    assert (outcome.orders[0, 6], outcome.filled.tolist()) == (filled, [[0, 1_000]])
    assert outcome.orders[0, [O_LATEST, O_EARLIEST]].tolist() == [-1, 3 * SECOND]


def test_an_order_is_worth_its_better_or_its_worse_end() -> None:
    assert bid(*CUT, *WON).result().pnl == (5_500_000, 0, 5_500_000)
    assert bid(*CUT, *LOST).result().pnl == (-4_500_000, -4_500_000, 0)
    assert bid(*CUT, *LOST, queue="reconciled").result().pnl == (0, -4_500_000, 0)
    assert bid(*CUT, *NEITHER).result().pnl == (0, 0, 0)


def test_the_band_of_the_curve_is_marked_at_the_book() -> None:
    samples = bid(*CUT, level(4, YES, 4_600, 100), life(70, CLOSE)).result().samples
    gain = 1_000 * (4_600 - 4_500)
    assert (samples[1:, [S_PESS, S_OPT]] - samples[1:, [S_EQUITY]]).tolist() == [[-gain, 0]] * 2


def test_a_band_without_doubt_is_the_result() -> None:
    outcome = bid(printed(3, YES, 4_500, 10_500), *WON).result()
    assert (outcome.filled.tolist(), len(set(outcome.equity))) == ([[500, 500]], 1)


def test_in_a_gap_all_ahead_may_have_been_cancelled() -> None:
    events = life(1, INVALID), printed(2, YES, 4_500, 400), life(3, VALID)
    assert bid(*events, *WON).result().filled.tolist() == [[0, 400]]


@pytest.mark.parametrize(
    ("call", "least"),
    [
        (lambda opened: opened.cancel(0), 0),
        (lambda opened: opened.cancel_all(), 0),
        (lambda opened: None, 1_000),
    ],
    ids=["cancel", "cancel all", "nothing"],
)
def test_an_order_that_the_account_has_filled_lives_on_where_it_is_not(call: Callable[[Session], Any], least: int) -> None:
    outcome = bid(*CUT, printed(7, YES, 4_400, 2_000), *LOST, until=5, call=call).result()
    assert (outcome.orders[0, O_STATUS], outcome.filled.tolist()) == (Status.FILLED, [[least, 1_000]])
    assert outcome.orders[0, O_LATEST] == (7 * SECOND if least else -1)


def quoted(prices: tuple[int, ...], *events: Any) -> Session:
    """Replay a bid for YES that is quoted at these prices, second by second."""
    opened = session(tape(*BOOK, *CUT, *events), queue="proportional")
    for price in prices:
        opened.quote(0, price, 0, 1_000)
        opened.step()
    return finish(opened)


def test_a_quote_that_a_history_has_not_filled_is_not_sent_again_there() -> None:
    # At second 3 the bid is filled in the main account and in the fastest history, and the account quotes again. The last print fills all
    # resting bids.
    outcome = quoted((4_500,) * 15, printed(10, YES, 4_400, 5_000), *LOST).result()
    assert outcome.filled.sum(axis=0).tolist() == [1_000, 2_000]
    assert outcome.pnl == (-9_000_000, -9_000_000, -4_500_000)


def test_a_quote_at_another_price_ends_in_every_history() -> None:
    outcome = quoted((4_500,) * 5 + (4_400,) * 3 + (0,), printed(10, YES, 4_300, 5_000), *LOST).result()
    assert outcome.filled.tolist() == [[0, 1_000], [0, 0], [0, 0]]


def test_refused_quotes_are_sent_once_while_arrays_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "FIRST_ROWS", 3)
    opened = Session(tape(*BOOK, *LOST, tickers=2), FREE, ReplaySettings(cadence=SECOND, bankroll=10**12))
    assert opened.step()
    # Both quotes of the first market would cross; the second market has no book.
    opened.quote_many(np.array([[4_900, 5_600], [4_000, 4_000]]), 100)
    assert opened.orders[:, O_STATUS].tolist() == [Status.REJECTED] * 4


@strategy
def quote_by_the_clock(sim, params):
    """Quote prices that depend on the number of decisions."""
    step = 0
    while next_step(sim):
        for ticker in range(tickers(sim)):
            quote(sim, ticker, 4_300 + 100 * (step // 3 % 5), 4_800 + 100 * (step // 7 % 4), params[0])
        step += 1


@pytest.mark.parametrize("latency", [0, SECOND // 4])
def test_runs_under_the_extreme_queues_lie_in_the_band_of_quotes_by_the_clock(latency: int) -> None:
    from tests.unit.replay.engine.small_tapes import LIVE, busy_tape

    ends = []
    for queue in ("reconciled", "proportional", "optimistic"):
        opened = Session(
            busy_tape(),
            LIVE,
            ReplaySettings(cadence=SECOND, bankroll=10**12, queue=queue, order_latency=latency),
        )
        opened.run_compiled(quote_by_the_clock, np.array([500]))
        outcome = opened.result()
        ends.append(outcome)
    for outcome in ends:
        assert outcome.equity[1] < outcome.equity[2]
        for other in ends:
            assert outcome.equity[1] <= other.equity[0] <= outcome.equity[2]
            assert (outcome.samples[:, S_PESS] <= other.samples[:, S_EQUITY]).all()
            assert (outcome.samples[:, S_OPT] >= other.samples[:, S_EQUITY]).all()
