"""How long positions were held, and how they paid."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.replay.results.exposure import exposure
from bellwether.replay.tape.layout import SETTLE, VOID, Tape
from bellwether.replay.units import NO, SELL
from tests.replay.results.tapes import fill, fills, tape


def share(on: Tape, held: np.ndarray, *, apart: bool) -> float | None:
    return exposure(on, held, apart=apart).share


QUIET = tape(end=100)
SETTLED = tape((60, SETTLE, 0, 0, 0, 0), (80, VOID, 1, 0, 0, 0), tickers=2, end=100)


@pytest.mark.parametrize("apart", [False, True])
def test_a_position_is_held_from_the_purchase_to_the_sale(apart: bool) -> None:
    assert share(QUIET, fills(fill(10, 400), fill(35, 500, action=SELL)), apart=apart) == 0.25


def test_a_position_left_is_held_to_the_end() -> None:
    assert share(QUIET, fills(fill(90, 400)), apart=False) == pytest.approx(0.1)


def test_yes_and_no_net_unless_they_are_kept_apart() -> None:
    both = fills(fill(10, 400), fill(30, 500, side=NO))
    assert share(QUIET, both, apart=False) == pytest.approx(0.2)
    assert share(QUIET, both, apart=True) == pytest.approx(0.9)


def test_a_part_that_is_sold_leaves_a_position() -> None:
    assert share(QUIET, fills(fill(10, 400, lots=200), fill(20, 400, action=SELL)), apart=False) == pytest.approx(0.9)


def test_a_short_is_a_position() -> None:
    assert share(QUIET, fills(fill(50, 400, action=SELL)), apart=True) == 0.5


def test_a_settlement_and_a_void_end_a_position() -> None:
    assert share(SETTLED, fills(fill(10, 400)), apart=False) == 0.5
    assert share(SETTLED, fills(fill(10, 400, ticker=1)), apart=False) == pytest.approx(0.7)


def test_positions_in_two_markets_at_once_count_once() -> None:
    assert share(SETTLED, fills(fill(10, 400), fill(40, 400, ticker=1)), apart=False) == pytest.approx(0.7)


def test_without_fills_nothing_was_held() -> None:
    assert share(QUIET, fills(), apart=False) == 0.0


def test_a_tape_without_duration_has_no_share() -> None:
    assert share(tape(end=0), fills(), apart=False) is None


@pytest.mark.parametrize("apart", [False, True])
def test_a_sale_realises_its_gain_over_the_average_cost(apart: bool) -> None:
    bought = [fill(1, 400), fill(2, 500), fill(3, 480, action=SELL)]
    assert exposure(QUIET, fills(*bought), apart=apart)[1:] == (30_000, 0)


def test_buying_the_other_side_sells_what_is_held() -> None:
    assert exposure(QUIET, fills(fill(1, 400), fill(2, 550, side=NO)), apart=False)[1:] == (50_000, 0)
    assert exposure(QUIET, fills(fill(1, 400), fill(2, 550, side=NO)), apart=True)[1:] == (0, 0)


def test_selling_what_is_not_held_buys_the_other_side_or_opens_a_short() -> None:
    sold = fills(fill(1, 400, action=SELL))
    assert exposure(SETTLED, sold, apart=False)[1:] == (0, 400_000)
    assert exposure(SETTLED, sold, apart=True)[1:] == (0, 400_000)


def test_a_short_that_is_bought_back_and_flips_realises_the_short() -> None:
    flipped = fills(fill(1, 400, action=SELL), fill(2, 300, lots=300))
    assert exposure(SETTLED, flipped, apart=True)[1:] == (100_000, -600_000)
    assert exposure(SETTLED, flipped, apart=False)[1:] == (100_000, -600_000)


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
