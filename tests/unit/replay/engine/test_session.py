"""A session from its first decision to its result: its state, accepted calls, and refused calls."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bellwether.errors import ConfigError
from bellwether.replay.engine import Session
from bellwether.replay.engine.codes import Reason, Status, Tif
from bellwether.replay.engine.session import ROWS
from bellwether.replay.settings import BacktestSettings
from bellwether.replay.tape.layout import CLOSE, LEVEL, SETTLE, Tape, pack
from bellwether.replay.units import BUY, NO, SECOND, YES
from tests.unit.replay.engine.small_tapes import BOOK, FREE, LIVE, busy_tape, finish, follow, life, printed, session, tape

ENDS = (life(10, CLOSE), life(10, SETTLE, 10**6))


def test_decisions_follow_the_grid_until_the_last_market_closes() -> None:
    opened = Session(tape(*BOOK, *ENDS), FREE, BacktestSettings(cadence=4 * SECOND))
    seen = []
    while opened.step():
        seen.append((opened.step_index, opened.now // SECOND))
    assert (seen, opened.steps, opened.over) == ([(0, 0), (1, 4), (2, 8)], 3, True)


def test_views_follow_the_replay_and_cannot_be_written() -> None:
    opened = session(tape(*BOOK, *ENDS))
    best, positions = opened.best, opened.positions
    opened.place(0, YES, BUY, 0, 3_000, Tif.IOC)
    assert (best.tolist(), positions.tolist(), opened.levels(0, NO)[1].tolist()) == ([[4_500, 5_200]], [[3_000, 0]], [2_000, 15_000])
    for view in (best, positions, opened.status, opened.orders, opened.fills):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0


def test_nothing_is_taken_after_the_end() -> None:
    opened = session(tape(*BOOK, printed(20, YES, 4_500, 100)))
    order = opened.place(0, YES, BUY, 4_400, 100)
    finish(opened)
    assert (opened.place(0, YES, BUY, 4_400, 100), opened.cancel(order), opened.amend(order, 4_300, 100)) == (-1, False, Reason.NOT_RESTING)
    assert (opened.result().refused, len(opened.orders), opened.orders["status"][order]) == (1, 1, Status.RESTING)


def test_what_is_no_whole_number_is_no_order() -> None:
    opened = session(tape(*BOOK, *ENDS))
    calls: list[Callable[[], object]] = [
        lambda: opened.place(0, YES, BUY, 4500.0, 100),  # type: ignore[arg-type]
        lambda: opened.place(0, YES, BUY, "4_500", 100),  # type: ignore[arg-type]
        lambda: opened.place(0, YES, BUY, 4_500, 2**64),
        lambda: opened.place(None, YES, BUY, 4_500, 100),  # type: ignore[arg-type]
        lambda: opened.quote_many(np.zeros((2, 2), np.int64), 100),
        lambda: opened.quote_many(np.zeros(2, np.int64), 100),
        lambda: opened.quote_many(np.zeros((1, 2)), 100),
    ]
    for call in calls:
        with pytest.raises(ConfigError):
            call()
    assert len(opened.orders) == 0


def test_codes_that_do_not_exist_are_rejected_orders() -> None:
    opened = session(tape(*BOOK, *ENDS))
    wrong = [
        (9, YES, BUY, 4_000, 100),
        (-3, YES, BUY, 4_000, 100),
        (0, 2, BUY, 4_000, 100),
        (0, YES, -1, 4_000, 100),
        (0, YES, BUY, 4_000, 100, 7),
    ]
    numbers = [opened.place(*request) for request in wrong]
    reasons = [Reason(opened.orders["reason"][number]) for number in numbers]
    assert reasons == [Reason.BAD_TICKER, Reason.BAD_TICKER, Reason.BAD_REQUEST, Reason.BAD_REQUEST, Reason.BAD_REQUEST]
    assert all(reason.text for reason in reasons)


@pytest.mark.parametrize(
    ("action", "side", "price", "cost"), [(BUY, YES, 4_800, 4_800_000), (BUY, YES, 4_400, 4_400_000), (BUY, NO, 5_500, 5_500_000)]
)
def test_an_order_needs_its_price_to_the_last_micro_dollar(action: int, side: int, price: int, cost: int) -> None:
    """Ten contracts, taken at the ask or resting below it, cost ten times their price, without fees."""
    outcomes = []
    for bankroll in (cost - 1, cost):
        opened = session(tape(*BOOK, *ENDS), bankroll=bankroll)
        order = opened.place(0, side, action, price, 1_000)
        outcomes.append((Reason(opened.orders["reason"][order]), Status(opened.orders["status"][order]) is Status.REJECTED))
    assert outcomes == [(Reason.INSUFFICIENT_CASH, True), (Reason(0), False)]


def test_a_tape_without_events_has_one_sample_and_no_decision() -> None:
    empty = Tape(np.zeros(0, np.int64), np.zeros(0, np.int64), ("T0",), 5, 5)
    opened = Session(empty, FREE, BacktestSettings())
    assert not opened.step()
    assert (opened.steps, opened.result().samples["ts"].tolist()) == (0, [5])


def test_settings_that_do_not_fit_the_tape_are_refused() -> None:
    with pytest.raises(ConfigError):
        Session(tape(*BOOK, *ENDS), FREE, BacktestSettings(cadence=10))
    for name, value in (
        ("cadence", 0),
        ("bankroll", -1),
        ("max_orders", 1.5),
        ("execution", "maker"),
        ("order_latency", True),
    ):
        with pytest.raises(ConfigError, match=name):
            BacktestSettings(**{name: value})


def test_samples_are_on_their_grid_and_at_the_end_of_the_tape() -> None:
    opened = finish(session(tape(*BOOK, life(6, CLOSE), printed(125, YES, 4_000, 1))))
    assert (opened.result().samples["ts"] // SECOND).tolist() == [0, 60, 120, 125]
    opened = finish(session(tape(*BOOK, printed(120, YES, 4_000, 1)), cadence=500 * SECOND))
    assert (opened.result().samples["ts"] // SECOND).tolist() == [0, 60, 120]


@pytest.mark.parametrize("word", [pack(LEVEL, 1, YES, 5, 100), pack(LEVEL, 0, YES, 102, 100), -1], ids=["ticker", "level", "sign"])
def test_events_of_markets_and_levels_that_a_tape_does_not_have_are_refused(word: int) -> None:
    wrong = Tape(np.array([0, SECOND]), np.array([pack(LEVEL, 0, YES, 45, 100), word]), ("T0",), 0, SECOND)
    with pytest.raises(ConfigError, match="event 1 is of ticker"):
        Session(wrong, FREE, BacktestSettings())


# Orders in transit


@pytest.mark.parametrize("withdraw", [lambda opened: opened.cancel_all(), lambda opened: opened.cancel(0)], ids=["all", "one"])
@pytest.mark.parametrize("cadence", [SECOND, SECOND // 4])
def test_a_quote_after_its_cancel_is_sent_again_with_latency(withdraw: Callable[[Session], object], cadence: int) -> None:
    # With the shorter cadence, the first quote is still in transit.
    opened = session(tape(*BOOK, *ENDS), order_latency=SECOND // 2, cadence=cadence)
    opened.quote(0, 4_400, 0, 100)
    opened.step()
    withdraw(opened)
    opened.quote(0, 4_400, 0, 100)
    while opened.now < 4 * SECOND:
        opened.step()
    assert opened.orders["status"].tolist() == [Status.CANCELLED, Status.RESTING]


def test_a_quote_whose_amendment_is_in_transit_is_replaced() -> None:
    opened = session(tape(*BOOK, *ENDS), order_latency=SECOND // 2)
    opened.quote(0, 4_400, 0, 100)
    opened.step()
    opened.amend(0, 4_300, 100)
    opened.quote(0, 4_400, 0, 100)
    opened.step()
    assert opened.orders[["status", "price"]].tolist() == [(Status.CANCELLED, 4_300), (Status.RESTING, 4_400)]


# Full arrays, and threads


def test_a_run_with_more_rows_than_reserved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROWS, "fills", 64)
    settings = BacktestSettings(cadence=SECOND, bankroll=10**12)
    with pytest.raises(ConfigError, match="it needs more rows than there are"):
        Session(busy_tape(), LIVE, settings).run_compiled(follow, np.array([200, 0]))
    opened = Session(busy_tape(), LIVE, settings)
    with pytest.raises(ConfigError, match="it needs more rows than there are"):
        while opened.step():
            opened.place(0, YES, BUY, 0, 100, Tif.IOC)


@pytest.mark.parametrize("latency", [SECOND // 3, 5 * SECOND])
def test_messages_in_transit_move_to_the_start_of_their_array(monkeypatch: pytest.MonkeyPatch, latency: int) -> None:
    settings = BacktestSettings(cadence=SECOND, order_latency=latency, bankroll=10**12)
    whole = Session(busy_tape(), LIVE, settings)
    whole.run_compiled(follow, np.array([200, 0]))
    monkeypatch.setitem(ROWS, "messages", 256)
    small = Session(busy_tape(), LIVE, settings)
    small.run_compiled(follow, np.array([200, 0]))
    assert small.result().digest() == whole.result().digest()


def test_sessions_in_threads_do_not_disturb_each_other() -> None:
    def digest(_: int = 0) -> str:
        opened = Session(busy_tape(), LIVE, BacktestSettings(cadence=SECOND))
        opened.run_compiled(follow, np.array([200, 0]))
        assert len(opened.fills) > 100
        return opened.result().digest()

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(digest, range(8))) == {digest()}
