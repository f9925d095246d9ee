"""Holding times of positions, and their returns."""

from __future__ import annotations

import numpy as np
import pytest

from bellwether.replay.results.exposure import exposure
from bellwether.replay.tape.layout import SETTLE, VOID, Tape
from bellwether.replay.units import NO, SELL
from tests.unit.replay.results.tapes import fill, fills, tape

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
