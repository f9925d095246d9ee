"""Markouts against a book of which every state is known."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from bellwether.replay.engine.codes import F_TS
from bellwether.replay.results.markouts import NONE, markouts, tops_of
from bellwether.replay.tape.layout import CLOSE, INVALID, LEVEL, MAX_LOTS, PRINT, SETTLE, VALID, VOID, Tape
from bellwether.replay.units import BUY, NO, SECOND, SELL, YES
from tests.replay.results.tapes import book, fill, fills, tape

RISING = tape(*book(0, 400, 420), (10, LEVEL, 0, YES, 500, 10), (10, LEVEL, 0, NO, 580, 0), (10, LEVEL, 0, NO, 480, 10))


def one(on: Tape, row: list[int], *seconds: int) -> list[int]:
    return markouts(on, fills(row), seconds)[0].tolist()


def test_a_purchase_before_a_rise_gains_and_a_sale_loses() -> None:
    assert one(RISING, fill(5, 405), 1, 5) == [5_000, 105_000]
    assert one(RISING, fill(5, 405, action=SELL), 1, 5) == [-5_000, -105_000]


def test_the_other_side_is_marked_by_its_own_middle() -> None:
    assert one(RISING, fill(5, 600, side=NO), 1, 5) == [-10_000, -110_000]


def test_the_book_of_the_horizon_counts_with_all_its_events() -> None:
    nearly = fill(5, 410)
    nearly[8] -= 1
    assert one(RISING, nearly, 5) == [0]
    assert one(RISING, fill(5, 410), 5) == [100_000]


def test_there_is_no_markout_while_a_side_is_empty() -> None:
    emptied = tape(*book(0, 400, 420), (10, LEVEL, 0, YES, 400, 0), (20, LEVEL, 0, YES, 380, 5))
    assert one(emptied, fill(5, 400), 1, 5, 30) == [10_000, NONE, 0]


def test_there_is_none_while_the_book_is_not_to_be_trusted_though_its_levels_are_rebuilt() -> None:
    gap = tape(*book(0, 400, 420), (10, INVALID, 0, 0, 0, 0), (20, LEVEL, 0, YES, 410, 7), (30, VALID, 0, 0, 0, 0))
    assert one(gap, fill(0, 400), 5, 10, 25, 30) == [10_000, NONE, NONE, 15_000]


def test_a_closed_market_has_none_until_it_is_settled_and_then_its_payment() -> None:
    ended = tape(*book(0, 400, 420), (10, CLOSE, 0, 0, 0, 0), (50, SETTLE, 0, 0, 0, 1_000_000), end=60)
    assert one(ended, fill(0, 400), 5, 10, 50, 300) == [10_000, NONE, 600_000, 600_000]
    assert one(ended, fill(0, 600, side=NO), 300) == [-600_000]


def test_a_void_market_has_none() -> None:
    assert one(tape(*book(0, 400, 420), (10, VOID, 0, 0, 0, 0)), fill(0, 400), 5, 10, 300) == [10_000, NONE, NONE]


def test_there_is_none_behind_the_end_of_the_tape() -> None:
    assert one(tape(*book(0, 400, 420), end=100), fill(50, 400), 50, 51) == [10_000, NONE]


def test_there_is_none_before_the_first_book() -> None:
    assert one(tape(*book(10, 400, 420)), fill(0, 400), 5, 10) == [NONE, 10_000]


def test_markets_do_not_mix() -> None:
    two = tape(*book(0, 400, 420), *book(0, 700, 720, ticker=1), (5, LEVEL, 1, YES, 710, 3), tickers=2)
    assert markouts(two, fills(fill(0, 400), fill(0, 700, ticker=1)), (1, 10)).tolist() == [[10_000, 10_000], [10_000, 15_000]]


def test_no_fills_have_no_markouts() -> None:
    assert markouts(RISING, fills(), (1, 5)).shape == (0, 2)


def test_a_tape_without_events_knows_nothing() -> None:
    assert one(tape(), fill(0, 400), 1) == [NONE]


def test_an_index_is_made_once_and_goes_with_its_tape() -> None:
    short_lived = tape(*book(0, 400, 420))
    assert tops_of(short_lived) is tops_of(short_lived)
    index, alive = weakref.ref(short_lived.ts.base), weakref.ref(short_lived)
    del short_lived
    gc.collect()
    assert alive() is None and index() is None


@pytest.mark.parametrize("seed", range(5))
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
        known = {round(ts / SECOND): (bid, ask) for ts, bid, ask in zip(found.ts[rows], found.bid[rows], found.ask[rows], strict=True)}
        state = (-1, -1)
        for at in range(900):
            state = known.get(at, state)
            assert state == expected[at], (ticker, at)


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


@pytest.mark.parametrize("seconds", [(1, 5, 30, 300), (300, 1, 30, 0), (7,)])
def test_every_horizon_looks_up_the_last_row_up_to_it(seconds: tuple[int, ...]) -> None:
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


def test_the_largest_size_fits() -> None:
    large = tape((0, LEVEL, 0, YES, 400, MAX_LOTS), (0, LEVEL, 0, NO, 580, MAX_LOTS))
    assert one(large, fill(0, 400, action=BUY), 1) == [10_000]
