"""Queue positions and fills of resting orders under each queue model."""

from __future__ import annotations

from math import floor, log, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.replay.engine import Session
from bellwether.replay.engine.codes import Queue
from bellwether.replay.engine.queue import _ahead_after_change, log_weight
from bellwether.replay.engine.state import ORDER
from bellwether.replay.tape.layout import INVALID, TRADED, VALID
from bellwether.replay.units import BUY, SECOND, YES
from tests.reference.replay.market import ahead_after
from tests.unit.replay.engine.small_tapes import BOOK, Event, level, life, printed, session, tape


def after(*events: Event, **settings: object) -> Session:
    """Place an order at 45 cents at second 0, apply events, and return the session at second 5."""
    opened = session(tape(*BOOK, *events, level(9, YES, 100, 100)), **settings)
    opened.place(0, YES, BUY, 4_500, 1_000)
    while opened.now < 5 * SECOND:
        opened.step()
    return opened


def ahead(opened: Session) -> int:
    """Return the lots ahead of order 0."""
    return int(opened.orders[0, (ORDER.names or ()).index("ahead")])


MODELS = ("trade_only", "reconciled", "proportional", "power", "log", "optimistic")


@pytest.mark.parametrize("queue", MODELS)
def test_a_cut_moves_the_only_order_up_unless_only_trades_do(queue: str) -> None:
    assert ahead(after(level(1, YES, 4_500, 7_000), queue=queue)) == (10_000 if queue == "trade_only" else 7_000)


@pytest.mark.parametrize(("queue", "expected"), zip(MODELS, (10_000, 10_000, 8_000, 8_000, 8_000, 6_000), strict=True))
def test_models_differ_in_whose_order_was_cancelled(queue: str, expected: int) -> None:
    assert ahead(after(level(1, YES, 4_500, 20_000), level(2, YES, 4_500, 16_000), queue=queue)) == expected


@pytest.mark.parametrize("queue", MODELS)
def test_a_cut_that_prints_made_is_not_counted_twice(queue: str) -> None:
    opened = after(printed(1, YES, 4_500, 4_000), level(1, YES, 4_500, 6_000, kind=TRADED), queue=queue)
    assert ahead(opened) == 6_000


@pytest.mark.parametrize("queue", MODELS)
def test_an_invalid_book_moves_no_place_until_it_is_valid(queue: str) -> None:
    gap = life(1, INVALID), level(1, YES, 4_500, 0), level(2, YES, 4_500, 3_000)
    assert ahead(after(*gap, queue=queue)) == 10_000
    assert ahead(after(*gap, life(3, VALID), queue=queue)) == (10_000 if queue == "trade_only" else 3_000)


@pytest.mark.parametrize(
    ("queue", "exponent", "expected"),
    [
        # 100 contracts are ahead and 300 behind. Of 40 cancelled ones, a quarter, a tenth, a 28th, or log 101 to log 301 are ahead,
        # rounded down. The third share is itself rounded down to a multiple of 2^-24, which takes a lot from a whole result.
        ("power", 1, 10_000 - 999),
        ("power", 2, 10_000 - 399),
        ("power", 3, 10_000 - 142),
        ("log", 3, 10_000 - floor(4_000 * log(101) / (log(101) + log(301)))),
    ],
)
def test_cancels_are_ahead_and_behind_as_the_function_says(queue: str, exponent: int, expected: int) -> None:
    cut = level(1, YES, 4_500, 40_000), level(2, YES, 4_500, 36_000)
    assert ahead(after(*cut, queue=queue, queue_exponent=exponent)) == expected


def test_what_is_cancelled_beyond_those_behind_was_ahead() -> None:
    cut = level(1, YES, 4_500, 11_000), level(2, YES, 4_500, 5_000)
    assert ahead(after(*cut, queue="log")) == 5_000
    assert ahead(after(*cut, queue="power")) == 10_000 - 6_000 * 1_000 // 1_001


SIZES = st.integers(0, 2**34)
CUTS = {"power": Queue.POWER, "log": Queue.LOG, "proportional": Queue.PROPORTIONAL, "optimistic": Queue.OPTIMISTIC}


@given(st.sampled_from(["power", "log"]), st.integers(1, 100), SIZES, SIZES, SIZES, st.booleans())
def test_a_change_leaves_an_order_where_the_reference_says_and_between_the_bounds(
    queue: str, exponent: int, front: int, recorded: int, value: int, traded: bool
) -> None:
    cut = max(0, recorded - value)
    found = _ahead_after_change(int(CUTS[queue]), exponent, front, recorded, cut, value, traded)
    assert found == ahead_after(queue, front, recorded, value, by_prints=traded, exponent=exponent)
    assert _ahead_after_change(int(Queue.OPTIMISTIC), 1, front, recorded, cut, value, traded) <= found <= min(front, value)


@given(st.integers(0, 2**34))
def test_the_logarithm_is_that_of_mathematics_to_four_places(lots: int) -> None:
    assert log_weight(lots) / 2**16 == pytest.approx(log2(1 + lots / 100), abs=5e-5)
