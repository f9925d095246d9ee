"""Queue positions and fills of resting orders under each queue model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bellwether.errors import ConfigError
from bellwether.replay.engine import Session
from bellwether.replay.engine import queue as kernels
from bellwether.replay.engine.codes import Queue
from bellwether.replay.engine.session import parse_queue
from bellwether.replay.tape.layout import INVALID, TRADED, VALID
from bellwether.replay.units import BUY, SECOND, YES
from tests.reference.replay.market import ahead_after, sampled_place
from tests.unit.replay.engine.small_tapes import BOOK, Event, from_python, level, life, printed, session, tape


def after(*events: Event, **settings: object) -> Session:
    """Place an order at 45 cents at second 0, apply events, and return the session at second 5."""
    opened = session(tape(*BOOK, *events, level(9, YES, 100, 100)), **settings)
    opened.place(0, YES, BUY, 4_500, 1_000)
    while opened.now < 5 * SECOND:
        opened.step()
    return opened


def ahead(opened: Session) -> int:
    """Return the lots ahead of order 0."""
    return int(opened.orders["ahead"][0])


MODELS = ("trade_only", "proportional", "proportional:3", "optimistic", "sampled:2")


@pytest.mark.parametrize("queue", MODELS)
def test_a_cut_moves_the_only_order_up_unless_only_trades_do(queue: str) -> None:
    assert ahead(after(level(1, YES, 4_500, 7_000), queue=queue)) == (10_000 if queue == "trade_only" else 7_000)


@pytest.mark.parametrize(("queue", "expected"), zip(MODELS[:-1], (10_000, 8_000, 8_000, 6_000), strict=True))
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
    ("queue", "expected"),
    [
        # 100 contracts are ahead and 300 behind. Of 40 cancelled ones, a quarter, a tenth, or a 28th are ahead, rounded down.
        ("proportional:1", 10_000 - 1_000),
        ("proportional:2", 10_000 - 399),
        ("proportional:3", 10_000 - 142),
    ],
)
def test_cancels_are_ahead_and_behind_as_the_exponent_says(queue: str, expected: int) -> None:
    assert ahead(after(level(1, YES, 4_500, 40_000), level(2, YES, 4_500, 36_000), queue=queue)) == expected


def test_what_is_cancelled_beyond_those_behind_was_ahead() -> None:
    assert (
        ahead(after(level(1, YES, 4_500, 11_000), level(2, YES, 4_500, 5_000), queue="proportional:3")) == 10_000 - 6_000 * 1_000 // 1_001
    )


@pytest.mark.parametrize(
    "queue", ["power", "reconciled", "proportional:0", "proportional:101", "proportional:x", "optimistic:2", "sampled", "sampled:-1"]
)
def test_other_queue_models_are_refused(queue: str) -> None:
    with pytest.raises(ConfigError, match="reading a queue model"):
        after(queue=queue)


cancelled_ahead, draw_place = from_python(kernels.cancelled_ahead), from_python(kernels.draw_place)
SIZES = st.integers(0, 2**31 - 1)
MODEL = st.one_of(st.just("optimistic"), st.integers(1, 100).map("proportional:{}".format), st.integers(0, 100).map("sampled:{}".format))


@given(MODEL, SIZES, SIZES, SIZES, st.integers(0, 2**40), st.integers(0, 1))
def test_a_cancel_leaves_an_order_where_the_reference_says_and_between_the_bounds(
    name: str, front: int, recorded: int, value: int, event: int, side: int
) -> None:
    queue, number = parse_queue(name)
    cut = max(0, recorded - value)
    place = draw_place(number, side, event, value) if queue == Queue.SAMPLED else 0
    if queue == Queue.SAMPLED:
        assert place == sampled_place(number, side, event, value)
    found = min(front - cancelled_ahead(int(queue), number, front, recorded, cut, place), value)
    assert found == ahead_after(name, front, recorded, value, by_prints=False, place=place)
    assert min(max(0, front - cut), value) <= found <= min(front, value)
