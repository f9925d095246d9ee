"""How long positions were held."""

from __future__ import annotations

import pytest

from bellwether.replay.results.exposure import time_in_market
from bellwether.replay.tape.layout import SETTLE, VOID
from bellwether.replay.units import NO, SELL
from tests.replay.results.tapes import fill, fills, tape

QUIET = tape(end=100)
SETTLED = tape((60, SETTLE, 0, 0, 0, 0), (80, VOID, 1, 0, 0, 0), tickers=2, end=100)


@pytest.mark.parametrize("apart", [False, True])
def test_a_position_is_held_from_the_purchase_to_the_sale(apart: bool) -> None:
    assert time_in_market(QUIET, fills(fill(10, 400), fill(35, 500, action=SELL)), apart=apart) == 0.25


def test_a_position_left_is_held_to_the_end() -> None:
    assert time_in_market(QUIET, fills(fill(90, 400)), apart=False) == pytest.approx(0.1)


def test_yes_and_no_net_unless_they_are_kept_apart() -> None:
    both = fills(fill(10, 400), fill(30, 500, side=NO))
    assert time_in_market(QUIET, both, apart=False) == pytest.approx(0.2)
    assert time_in_market(QUIET, both, apart=True) == pytest.approx(0.9)


def test_a_part_that_is_sold_leaves_a_position() -> None:
    assert time_in_market(QUIET, fills(fill(10, 400, lots=200), fill(20, 400, action=SELL)), apart=False) == pytest.approx(0.9)


def test_a_short_is_a_position() -> None:
    assert time_in_market(QUIET, fills(fill(50, 400, action=SELL)), apart=True) == 0.5


def test_a_settlement_and_a_void_end_a_position() -> None:
    assert time_in_market(SETTLED, fills(fill(10, 400)), apart=False) == 0.5
    assert time_in_market(SETTLED, fills(fill(10, 400, ticker=1)), apart=False) == pytest.approx(0.7)


def test_positions_in_two_markets_at_once_count_once() -> None:
    assert time_in_market(SETTLED, fills(fill(10, 400), fill(40, 400, ticker=1)), apart=False) == pytest.approx(0.7)


def test_without_fills_nothing_was_held() -> None:
    assert time_in_market(QUIET, fills(), apart=False) == 0.0


def test_a_tape_without_duration_has_no_share() -> None:
    assert time_in_market(tape(end=0), fills(), apart=False) is None
