"""Drawdowns, Sharpe ratios, fill ratios, slippage, markouts and exposure."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.engine.codes import F_TS
from bellwether.replay.results.curve import max_drawdown, sharpe
from bellwether.replay.results.execution import fill_ratio, mean, median, notional, slippage, weighted_mean
from bellwether.replay.results.exposure import exposure
from bellwether.replay.results.markouts import NONE, markouts, tops_of
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, PRINT, SETTLE, VALID, VOID, Tape
from bellwether.replay.units import BUY, MINUTE, NO, SECOND, SELL, YES
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
    assert found.returns == len(returns)
    if len(returns) < 2 or len(set(returns)) == 1:
        assert found.ratio is None
    else:
        assert found.ratio == pytest.approx(statistics.mean(returns) / statistics.stdev(returns), rel=1e-9, abs=1e-12)
        assert found.annualised == pytest.approx(found.ratio * math.sqrt(525_960), rel=1e-12)


def test_samples_nearer_than_the_interval_are_left_out() -> None:
    ts = np.array([0, 0, 59, 60, 61, 120, 150]) * SECOND
    equity = np.array([100, 1, 1, 110, 1, 99, 1])
    assert sharpe(ts, equity, MINUTE) == sharpe(minutes(3), np.array([100, 110, 99]), MINUTE)
    assert sharpe(ts, equity, MINUTE).returns == 2


def test_a_return_from_nothing_makes_the_ratio_undefined() -> None:
    assert sharpe(minutes(4), np.array([100, 0, 50, 60]), MINUTE)[:2] == (None, None)
    assert sharpe(minutes(3), np.array([100, 50, 0]), MINUTE).ratio is not None


# Fill ratios, slippage and means of orders and fills


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(("requested", "filled", "ratio"), [([10_000], [8_000], 0.8), ([1_000, 3_000], [1_000, 0], 0.25), ([], [], None)])
def test_fill_ratios(requested: list[int], filled: list[int], ratio: float | None) -> None:
    assert fill_ratio(ints(*requested), ints(*filled)) == ratio


def test_buying_10_at_48_with_the_middle_at_46_and_a_half_slips_15_cents() -> None:
    assert slippage(ints(BUY), ints(4800), ints(1_000), ints(9300)) == (150_000, 1_000)


def test_a_sale_below_the_middle_slips_and_one_above_it_gains() -> None:
    assert slippage(ints(SELL), ints(4500), ints(5_000), ints(9300)).micros == 750_000
    assert slippage(ints(SELL), ints(4800), ints(1_000), ints(9300)).micros == -150_000


def test_a_sale_turns_over_as_much_as_a_purchase() -> None:
    assert notional(ints(4800, 4800), ints(1_000, 1_000)) == 2 * 4_800_000


def test_the_weighted_mean_is_exact_beyond_64_bits() -> None:
    large = 10**12
    assert weighted_mean(ints(large, large + 4), ints(10**9, 3 * 10**9)) == large + 3
    assert weighted_mean(ints(-5, 3), ints(1, 3)) == 1.0


@pytest.mark.parametrize("function", [mean, median])
def test_of_nothing_there_is_no_mean_and_no_median(function) -> None:
    assert function(ints()) is None


def test_the_median_of_an_even_number_lies_between() -> None:
    assert median(ints(1, 9, 4, 6)) == 5.0
    assert mean(ints(1, 9, 4, 6)) == 5.0


# Markouts on a book whose states are all known


RISING = tape(*book(0, 400, 420), (10, LEVEL, 0, YES, 500, 10), (10, LEVEL, 0, NO, 580, 0), (10, LEVEL, 0, NO, 480, 10))


def one(on: Tape, row: list[int], *seconds: int) -> list[int]:
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
def test_a_markout_is_what_the_middle_of_its_horizon_pays(on: Tape, row: list[int], expected: dict[int, int]) -> None:
    assert dict(zip(expected, one(on, row, *expected), strict=True)) == expected


def test_the_book_of_the_horizon_counts_with_all_its_events() -> None:
    nearly = fill(5, 410)
    nearly[8] -= 1
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
        rows = found.of(ticker)
        expected = _tops(events, ticker)
        known = {
            round(ts / SECOND): (_tenths(bid), _tenths(ask))
            for ts, bid, ask in zip(found.ts[rows], found.bid[rows], found.ask[rows], strict=True)
        }
        state = (-1, -1)
        for at in range(900):
            state = known.get(at, state)
            assert state == expected[at], (ticker, at)


def _tenths(price: int) -> int:
    return price if price < 0 else price // 10


def _tops(events: list, ticker: int) -> list[tuple[int, int]]:
    levels, valid, result, left = ({}, {}), True, [], [event for event in events if event[2] == ticker]
    for at in range(900):
        while left and left[0][0] <= at:
            _, kind, _, side, price, value = left.pop(0)
            if kind == LEVEL:
                levels[side][price] = value
            elif kind in (INVALID, VALID):
                valid = kind == VALID
        yes, no = (max((price for price, value in side.items() if value), default=None) for side in levels)
        result.append((-1 if yes is None or not valid else yes, -1 if no is None or not valid else 1000 - no))
    return result


def test_every_horizon_looks_up_the_last_row_up_to_it() -> None:
    seconds = (300, 1, 30, 0)
    generator = np.random.default_rng(1)
    times = np.sort(generator.integers(50, 700, 400)).tolist()
    prices = generator.integers(400, 600, 400).tolist()
    events = [
        event for at, price in zip(times, prices, strict=True) for event in ((at, LEVEL, 0, YES, price, 1), (at, LEVEL, 0, NO, 300, 1))
    ]
    on = tape(*events, end=720)
    tops = tops_of(on)
    made = [fill(at, 100) for at in range(0, 720, 3)]
    for row, found in zip(made, markouts(on, fills(*made), seconds).tolist(), strict=True):
        for horizon, value in zip(seconds, found, strict=True):
            at = fills(row)[0, F_TS] + horizon * SECOND
            known = tops.ts <= at
            worth = tops.worth[known][-1] if known.any() and at <= tops.until else NONE
            assert value == (NONE if worth == NONE else worth - 100_000)


# Holding times of positions, and their returns


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
    assert exposure(on, held, apart=apart).share == pytest.approx(expected)


def test_a_tape_without_duration_has_no_share() -> None:
    assert exposure(tape(end=0), fills(), apart=False).share is None


@pytest.mark.parametrize(
    ("on", "traded", "net", "apart"),
    [
        (QUIET, [fill(1, 400), fill(2, 500), fill(3, 480, action=SELL)], (30_000, 0), (30_000, 0)),
        (QUIET, [fill(1, 400), fill(2, 550, side=NO)], (50_000, 0), (0, 0)),
        (SETTLED, [fill(1, 400, action=SELL)], (0, 400_000), (0, 400_000)),
        (SETTLED, [fill(1, 400, action=SELL), fill(2, 300, lots=300)], (100_000, -600_000), (100_000, -600_000)),
    ],
    ids=["sale over the average cost", "other side", "sale of nothing held", "short that flips"],
)
def test_what_trading_and_settlement_realise(on: Tape, traded: list[list[int]], net: tuple[int, int], apart: tuple[int, int]) -> None:
    assert exposure(on, fills(*traded), apart=False)[1:] == net
    assert exposure(on, fills(*traded), apart=True)[1:] == apart


def test_a_settlement_pays_each_side_its_value_and_a_void_pays_nothing_beyond_the_cost() -> None:
    scalar = tape((60, SETTLE, 0, 0, 0, 250_000), end=100)
    assert exposure(scalar, fills(fill(1, 400)), apart=False).settled == -150_000
    assert exposure(scalar, fills(fill(1, 600, side=NO)), apart=False).settled == 150_000
    assert exposure(SETTLED, fills(fill(1, 400, ticker=1)), apart=False).settled == 0


def test_a_share_of_a_cent_is_rounded_against_the_holder() -> None:
    odd = tape((60, SETTLE, 0, 0, 0, 333_333), end=100)
    assert exposure(odd, fills(fill(1, 400, lots=1)), apart=False).settled == 3_333 - 4_000
    assert exposure(odd, fills(fill(1, 400, lots=1, action=SELL)), apart=True).settled == 4_000 - 3_334


@pytest.mark.parametrize("apart", [False, True])
def test_the_cost_of_millions_of_contracts_is_parted_exactly(apart: bool) -> None:
    many = 900_000_000
    bought = fills(fill(1, 500, lots=many), fill(2, 333, lots=many // 3), fill(3, 480, lots=many - 1, action=SELL))
    cost = 10 * (500 * many + 333 * (many // 3))
    removed = cost * (many - 1) // (many + many // 3)
    assert exposure(QUIET, bought, apart=apart).traded == 10 * 480 * (many - 1) - removed
