"""Drawdowns, Sharpe ratios, markouts and the time in market."""

from __future__ import annotations

import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.results.markouts import NONE, markouts, tops_of
from bellwether.replay.results.metrics import max_drawdown, sharpe, time_in_market
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, PRINT, SETTLE, VALID, VOID, Tape
from bellwether.replay.units import MINUTE, NO, SECOND, SELL, YES
from tests.unit.replay.results.tapes import book, fill, fills, tape

curves = st.lists(st.integers(1, 2_000_000_000), min_size=1, max_size=60).map(lambda values: np.array(values, np.int64))


def minutes(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) * MINUTE


def test_the_first_point_of_a_curve_counts_for_the_drawdown() -> None:
    assert max_drawdown(np.array([1000, 900, 950])) == 0.1


@pytest.mark.parametrize("equity", [[], [0, 5], [-1]])
def test_a_curve_without_a_positive_peak_has_no_drawdown(equity: list[int]) -> None:
    assert max_drawdown(np.array(equity, np.int64)) is None


@given(curves)
def test_the_drawdown_is_the_worst_of_all_pairs(equity: np.ndarray) -> None:
    pairs = [(early - late) / early for index, early in enumerate(equity.tolist()) for late in equity.tolist()[index:]]
    assert max_drawdown(equity) == max(pairs)


@given(curves)
def test_the_sharpe_ratio_is_that_of_the_textbook(equity: np.ndarray) -> None:
    values = equity.tolist()
    returns = [(late - early) / early for early, late in pairwise(values)]
    found = sharpe(minutes(len(equity)), equity, MINUTE)
    if len(returns) < 2 or len(set(returns)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(statistics.mean(returns) / statistics.stdev(returns), rel=1e-9, abs=1e-12)


def test_samples_nearer_than_the_interval_are_left_out() -> None:
    ts = np.array([0, 0, 59, 60, 61, 120, 150]) * SECOND
    equity = np.array([100, 1, 1, 110, 1, 99, 1])
    assert sharpe(ts, equity, MINUTE) == sharpe(minutes(3), np.array([100, 110, 99]), MINUTE)


def test_a_return_from_nothing_makes_the_ratio_undefined() -> None:
    assert sharpe(minutes(4), np.array([100, 0, 50, 60]), MINUTE) is None
    assert sharpe(minutes(3), np.array([100, 50, 0]), MINUTE) is not None


# Markouts on a book whose states are all known


RISING = tape(*book(0, 400, 420), (10, LEVEL, 0, YES, 500, 10), (10, LEVEL, 0, NO, 580, 0), (10, LEVEL, 0, NO, 480, 10))


def one(on: Tape, row: tuple[int, ...], *seconds: int) -> list[int]:
    return markouts(on, fills(row), seconds)[0].tolist()


QUOTED = book(0, 400, 420)
GAP = [(10, INVALID, 0, 0, 0, 0), (20, LEVEL, 0, YES, 410, 7), (30, VALID, 0, 0, 0, 0)]
EMPTIED = [(10, LEVEL, 0, YES, 400, 0), (20, LEVEL, 0, YES, 380, 5)]
ENDED = [(10, CLOSE, 0, 0, 0, 0), (50, SETTLE, 0, 0, 0, 1_000_000)]


@pytest.mark.parametrize(
    ("on", "row", "expected"),
    [
        (RISING, fill(5, 405), {1: 5_000, 5: 105_000}),
        (RISING, fill(5, 405, action=SELL), {1: -5_000, 5: -105_000}),
        (RISING, fill(5, 600, side=NO), {1: -10_000, 5: -110_000}),
        (tape(*QUOTED, *EMPTIED), fill(5, 400), {1: 10_000, 5: NONE, 30: 0}),
        (tape(*QUOTED, *GAP), fill(0, 400), {5: 10_000, 10: NONE, 25: NONE, 30: 15_000}),
        (tape(*QUOTED, *ENDED, end=60), fill(0, 400), {5: 10_000, 10: NONE, 50: 600_000, 300: 600_000}),
        (tape(*QUOTED, *ENDED, end=60), fill(0, 600, side=NO), {300: -600_000}),
        (tape(*QUOTED, (10, VOID, 0, 0, 0, 0)), fill(0, 400), {5: 10_000, 10: NONE, 300: NONE}),
        (tape(*QUOTED, end=100), fill(50, 400), {50: 10_000, 51: NONE}),
        (tape(*book(10, 400, 420)), fill(0, 400), {5: NONE, 10: 10_000}),
        (tape(), fill(0, 400), {1: NONE}),
    ],
    ids=[
        "rise",
        "sale",
        "other side",
        "empty side",
        "gap",
        "settled",
        "settled NO",
        "void",
        "end of the tape",
        "before the book",
        "no book",
    ],
)
def test_a_markout_is_what_the_middle_of_its_horizon_pays(on: Tape, row: tuple[int, ...], expected: dict[int, int]) -> None:
    assert dict(zip(expected, one(on, row, *expected), strict=True)) == expected


def test_the_book_of_the_horizon_counts_with_all_its_events() -> None:
    nearly = fill(5 - 1e-9, 410)
    assert one(RISING, nearly, 5) == [0]
    assert one(RISING, fill(5, 410), 5) == [100_000]


def test_fills_of_two_markets_are_marked_by_their_own() -> None:
    two = tape(*QUOTED, *book(0, 700, 720, ticker=1), (5, LEVEL, 1, YES, 710, 3), tickers=2)
    assert markouts(two, fills(fill(0, 400), fill(0, 700, ticker=1)), (1, 10)).tolist() == [[10_000, 10_000], [10_000, 15_000]]
    assert markouts(two, fills(), (1, 5)).shape == (0, 2)


@pytest.mark.parametrize("seed", range(2))
def test_the_index_agrees_with_a_book_kept_level_by_level(seed: int) -> None:
    generator = np.random.default_rng(seed)
    kinds = generator.choice([LEVEL, LEVEL, LEVEL, LEVEL, PRINT, INVALID, VALID], 3000)
    columns = (generator.integers(0, high, 3000).tolist() for high in (3, 2, 30, 4))
    times = np.sort(generator.integers(0, 900, 3000)).tolist()
    events = [
        (at, int(kind), ticker, side, 1 + price, value * 10 if kind == LEVEL else 1)
        for at, kind, ticker, side, price, value in zip(times, kinds, *columns, strict=True)
    ]
    found = tops_of(tape(*events, tickers=3))
    for ticker in range(3):
        rows = slice(found.first[ticker], found.first[ticker + 1])
        known = {round(ts / SECOND): worth for ts, worth in zip(found.ts[rows].tolist(), found.worth[rows].tolist(), strict=True)}
        state = NONE
        for at, worth in enumerate(_worth(events, ticker)):
            state = known.get(at, state)
            assert state == worth, (ticker, at)


def _worth(events: list, ticker: int) -> list[int]:
    """Return the midpoint in micro-dollars at each second; NONE without one. Prices of the events are in tenths of a cent."""
    levels, valid, result, left = ({}, {}), True, [], [event for event in events if event[2] == ticker]
    for at in range(900):
        while left and left[0][0] <= at:
            _, kind, _, side, price, value = left.pop(0)
            if kind == LEVEL:
                levels[side][price] = value
            elif kind in (INVALID, VALID):
                valid = kind == VALID
        yes, no = (max((price for price, value in side.items() if value), default=None) for side in levels)
        result.append(NONE if yes is None or no is None or not valid else 500 * (yes + 1000 - no))
    return result


# Holding times of positions


QUIET = tape(end=100)
SETTLED = tape((60, SETTLE, 0, 0, 0, 0), (80, VOID, 1, 0, 0, 0), tickers=2, end=100)


BOTH = fills(fill(10, 400), fill(30, 500, side=NO))


@pytest.mark.parametrize(
    ("on", "held", "apart", "expected"),
    [
        (QUIET, fills(fill(10, 400), fill(35, 500, action=SELL)), False, 0.25),
        (QUIET, fills(fill(10, 400), fill(35, 500, action=SELL)), True, 0.25),
        (QUIET, fills(fill(10, 400, lots=200), fill(20, 400, action=SELL)), False, 0.9),
        (QUIET, BOTH, False, 0.2),
        (QUIET, BOTH, True, 0.9),
        (QUIET, fills(fill(50, 400, action=SELL)), True, 0.5),
        (SETTLED, fills(fill(10, 400)), False, 0.5),
        (SETTLED, fills(fill(10, 400, ticker=1)), False, 0.7),
        (SETTLED, fills(fill(10, 400), fill(40, 400, ticker=1)), False, 0.7),
        (QUIET, fills(), False, 0.0),
    ],
    ids=["sold", "sold, apart", "sold in part", "netted", "both sides apart", "short", "settled", "void", "two at once", "no fill"],
)
def test_the_share_of_time_with_a_position(on: Tape, held: np.ndarray, apart: bool, expected: float) -> None:
    assert time_in_market(on, held, apart=apart) == pytest.approx(expected)


def test_a_tape_without_duration_has_no_share() -> None:
    assert time_in_market(tape(end=0), fills()) is None
