"""The generated world's truth: prices are martingales that converge to the outcome."""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.timestamps import to_datetime
from bellwether.sandbox.world.model import Market, WorldEvent
from bellwether.sandbox.world.tape import GRIDS

HORIZONS = (timedelta(days=7), timedelta(days=1), timedelta(hours=6), timedelta(hours=1))
DAYS = range(30, 430)


@pytest.fixture(scope="module")
def events(world: GeneratedWorld) -> list[WorldEvent]:
    """Plain events of more than a year."""
    return [event for home in DAYS for event in world.day(home).events if not event.is_combo]


@pytest.fixture(scope="module")
def sample(events: list[WorldEvent]) -> list[Market]:
    """One market per event, chosen independently of its outcome, so that all are independent."""
    return [event.markets[index % len(event.markets)] for index, event in enumerate(events)]


@pytest.fixture(scope="module")
def truths(sample: list[Market]) -> np.ndarray:
    """Latent probabilities at the horizons before each close, for markets open then, and at the close."""
    before = np.asarray([*(horizon // timedelta(microseconds=1) for horizon in HORIZONS), 0])
    long = [market for market in sample if market.life.opens <= market.life.closes - before[0]]
    return np.asarray([market.latent.probabilities_at(market.life.closes - before) for market in long])


def test_expected_changes_of_the_truth_are_zero_at_every_horizon(truths: np.ndarray) -> None:
    changes = np.diff(truths, axis=1)
    error = changes.std(axis=0, ddof=1) / math.sqrt(len(changes))
    assert len(changes) > 1_000
    assert (changes.std(axis=0) > 0.02).all()
    assert (np.abs(changes.mean(axis=0)) < 4 * error).all()


def test_the_truth_is_calibrated_at_every_horizon(truths: np.ndarray) -> None:
    known, outcomes = truths[:, :-1], truths[:, -1]
    for column in known.T:
        bins = np.minimum((column * 10).astype(int), 9)
        surprise = sum(
            (outcomes[bins == one] - column[bins == one]).sum() ** 2 / max((column * (1 - column))[bins == one].sum(), 1e-9)
            for one in range(10)
            if (bins == one).any()
        )
        assert surprise < 29.6, "chi-square with 10 degrees of freedom, p = 0.001"


def test_probabilities_of_exclusive_markets_add_up_to_at_most_one(events: list[WorldEvent]) -> None:
    exclusive = [event for event in events[:400] if event.body["mutually_exclusive"]]
    totals = [sum(market.latent.probabilities() for market in event.markets) for event in exclusive]
    assert max(total.max() for total in totals) < 1 + 1e-9
    whole = sum(bool(np.allclose(total, 1.0)) for total in totals)
    assert 0 < whole < len(totals), "some events list every outcome, some do not"


def test_higher_rungs_of_a_ladder_are_less_probable(events: list[WorldEvent]) -> None:
    ladders = [event for event in events if event.markets[0].terms.get("strike_type") == "greater" and not event.body["mutually_exclusive"]]
    assert len(ladders) > 100
    for event in ladders:
        strikes = [market.terms["floor_strike"] for market in event.markets]
        assert strikes == sorted(strikes)
        for easy, hard in pairwise(event.markets):
            assert (easy.latent.probabilities() >= hard.latent.probabilities()).all()


def test_the_outcome_is_what_the_stated_number_says(events: list[WorldEvent]) -> None:
    checked = 0
    for event in events:
        for market in event.markets:
            words = market.determination.expiration_value
            if market.terms.get("strike_type") != "greater" or market.determination.result not in ("yes", "no") or not words:
                continue
            value = float("".join(letter for letter in words if letter in "0123456789.-"))
            if abs(value - market.terms["floor_strike"]) > 1e-9:
                assert (value > market.terms["floor_strike"]) == (market.determination.result == "yes"), (market.ticker, words)
                checked += 1
    assert checked > 500


def test_a_combo_is_worth_the_product_of_its_legs(world: GeneratedWorld) -> None:
    combos = [event.markets[0] for home in range(100, 130) for event in world.day(home).events if event.is_combo]
    for combo in combos:
        legs = combo.terms["mve_selected_legs"]
        when = to_datetime(combo.life.opens)
        product = math.prod(
            world.truth(leg["market_ticker"], when) if leg["side"] == "yes" else 1 - world.truth(leg["market_ticker"], when) for leg in legs
        )
        assert world.truth(combo.ticker, when) == pytest.approx(product, abs=1e-12)
        assert len({leg["event_ticker"] for leg in legs}) == len(legs)


@pytest.mark.parametrize("grid", GRIDS)
def test_prices_are_on_the_grid_and_the_book_is_never_crossed(events: list[WorldEvent], grid: str) -> None:
    markets = [market for event in events for market in event.markets if market.trading.grid == grid][:60]
    assert markets
    for market in markets:
        tape = market.tape()
        assert (tape.bid < tape.ask).all()
        for prices in (tape.bid, tape.ask, tape.price):
            on_grid = np.zeros(len(prices), dtype=bool)
            for start, end, step in GRIDS[grid]:
                on_grid |= (prices >= start) & (prices <= end) & ((prices - start) % step == 0)
            assert on_grid.all()


def test_the_world_has_what_the_real_one_has(world: GeneratedWorld) -> None:
    days = [world.day(home) for home in range(200, 565)]
    plain = [market for day in days for event in day.events if not event.is_combo for market in event.markets]
    results = [market.determination.result for market in plain]
    categories = {event.body["category"] for day in days for event in day.events if not event.is_combo}
    assert 12 <= len(plain) / len(days) <= 16
    assert 0.35 <= results.count("yes") / (results.count("yes") + results.count("no")) <= 0.45
    assert results.count("scalar") > 10
    assert results.count("void") > 5
    assert len(categories - {""}) == 16
    assert "" in categories
    assert len({market.series_ticker for market in plain}) > 300
    assert {len(event.markets) for day in days for event in day.events if not event.is_combo} >= {1, 2, 3, 4, 5, 6}
    assert any(market.life.scheduled > market.life.closes for market in plain)
    assert any(to_datetime(market.life.scheduled).year == 2099 for market in plain)
    assert any(market.life.disputed is not None for market in plain)
    assert any(market.life.settled - market.life.closes > 14 * 86_400_000_000 for market in plain)
    assert any(market.tape().volume[-1] == 0 for market in plain[:100])
    assert any(event.is_combo for day in days for event in day.events)
    titles = " ".join(market.terms["title"] for market in plain)
    assert all(text in titles for text in ("<script>", '"', "“", "é"))
