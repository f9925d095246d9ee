"""Arrays that grow from a small initial size give the same result."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bellwether.replay.engine import ReplaySettings, Session, arrays
from bellwether.replay.engine.codes import Tif
from bellwether.replay.engine.kernel import best_bid, cancel, first_resting, next_step, order_price, place, strategy, tickers
from bellwether.replay.units import SECOND
from tests.unit.replay.engine.small_tapes import LIVE, busy_tape

POST_ONLY = int(Tif.POST_ONLY)


@strategy
def follow(sim, params):
    """Quote at both touches, and count quotes in params[1]."""
    while next_step(sim):
        for ticker in range(tickers(sim)):
            for side in range(2):
                order, bid = first_resting(sim, ticker, side), best_bid(sim, ticker, side)
                if order >= 0 and order_price(sim, order) != bid:
                    cancel(sim, order)
                    order = -1
                if order < 0 and bid > 0:
                    params[1] += 1
                    place(sim, ticker, side, 0, bid, params[0], POST_ONLY, 0)


def plain(opened: Session) -> str:
    """The same strategy in Python."""
    while opened.step():
        for ticker in range(len(opened.best)):
            for side in range(2):
                resting = [order for order in opened.resting(ticker) if opened.orders[order, 1] == side]
                bid = int(opened.best[ticker, side])
                if resting and opened.orders[resting[0], 3] != bid:
                    opened.cancel(resting.pop(0))
                if not resting and bid > 0:
                    opened.place(ticker, side, 0, bid, 200, Tif.POST_ONLY)
    return opened.result().digest()


@pytest.mark.parametrize("latency", [0, SECOND // 3])
def test_a_replay_that_outgrows_its_arrays_ends_the_same(monkeypatch: pytest.MonkeyPatch, latency: int) -> None:
    tape, settings = busy_tape(), ReplaySettings(cadence=SECOND, order_latency=latency, bankroll=10**12)
    whole = plain(Session(tape, LIVE, settings))
    monkeypatch.setattr(arrays, "FIRST_ROWS", 16)
    monkeypatch.setattr(arrays, "FIRST_MESSAGES", 2)
    assert plain(Session(tape, LIVE, settings)) == whole


def test_a_strategy_that_starts_in_the_middle_keeps_what_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tape, settings = busy_tape(), ReplaySettings(cadence=SECOND, bankroll=10**12)
    digests = []
    for rows in (64, 100_000):
        monkeypatch.setattr(arrays, "FIRST_ROWS", 16)
        monkeypatch.setattr(arrays, "COMPILED_ROWS", rows)
        opened = Session(tape, LIVE, settings)
        for _ in range(50):
            opened.step()
            for side in (0, 1):
                opened.place(0, side, 0, 4_000, 300)
        opened.run_compiled(follow, np.array([200, 0]))
        digests.append(opened.result().digest())
    assert digests[0] == digests[1]


def test_sessions_in_threads_do_not_disturb_each_other() -> None:
    def digest(_: int = 0) -> str:
        opened = Session(busy_tape(), LIVE, ReplaySettings(cadence=SECOND))
        opened.run_compiled(follow, np.array([200, 0]))
        assert len(opened.fills) > 100
        return opened.result().digest()

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(digest, range(8))) == {digest()}
