"""Markets are nearly efficient: prices follow the truth with a small mean-reverting error, and nearly all books are two-sided."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from bellwether.sandbox.models.arena_bets import ArenaPrompt, Belief, PromptMarket, decide_bets
from bellwether.sandbox.polymarket import quotes
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.timestamps import DAY, midnight
from bellwether.sandbox.world import GeneratedWorld
from bellwether.sandbox.world.latent_paths import SLOT, PathClaim
from bellwether.sandbox.world.model import FIRST_DAY
from bellwether.sandbox.world.tape import NO_ASK, NO_BID, draw_traders_error

BEGIN = midnight(FIRST_DAY)
#: Sundays at midnight.
SUNDAYS = [BEGIN + home * DAY for home in range(123, 200, 14)]


class Seen(NamedTuple):
    """An open market at an instant. Prices are in dollars."""

    bid: float
    ask: float
    price: float
    known: float
    answered: bool

    @property
    def one_sided(self) -> bool:
        return self.bid <= NO_BID or self.ask >= NO_ASK / 1000


def known_at(claim: object, at: int) -> float:
    return float(claim.probabilities_at(np.asarray([at], dtype=np.int64))[0])  # type: ignore[attr-defined]


def on_kalshi(world: GeneratedWorld, at: int) -> Iterator[Seen]:
    home = (at - BEGIN) // DAY
    for event in (event for day in range(home, home + 60) for event in world.day(day).events if not event.is_combo):
        for market in event.markets:
            if market.life.opens <= at < market.life.closes:
                tape = market.tape()
                slot = tape.at(at)
                price = float(tape.twice_price[slot]) / 2000
                yield Seen(tape.bid[slot] / 1000, tape.ask[slot] / 1000, price, known_at(market.latent, at), False)


def on_polymarket(venue: GeneratedPolymarket, at: int) -> Iterator[Seen]:
    home = (at - BEGIN) // DAY
    for market in (market for day in range(max(home - 40, 0), home + 62) for event in venue.day(day) for market in event.markets):
        quote = quotes.compute_quote(market, at)
        if quote is not None and at < market.closes:
            yield Seen(quote.bid / 1000, quote.ask / 1000, quote.twice_price / 2000, known_at(market.claim, at), at >= market.answered)


@pytest.fixture(scope="module")
def drawn() -> GeneratedWorld:
    return GeneratedWorld(7)


@pytest.fixture(scope="module")
def generated(drawn: GeneratedWorld) -> GeneratedPolymarket:
    return GeneratedPolymarket(drawn)


@pytest.fixture(scope="module")
def open_markets(drawn: GeneratedWorld, generated: GeneratedPolymarket) -> dict[str, list[Seen]]:
    """All open markets at midnight of six Sundays, by venue."""
    return {
        "kalshi": [one for at in SUNDAYS for one in on_kalshi(drawn, at)],
        "polymarket": [one for at in SUNDAYS for one in on_polymarket(generated, at)],
    }


@pytest.mark.parametrize("venue", ["kalshi", "polymarket"])
def test_prices_are_off_by_about_three_points(open_markets: dict[str, list[Seen]], venue: str) -> None:
    errors = np.asarray([one.price - one.known for one in open_markets[venue] if not one.answered])
    in_doubt = np.asarray([one.price - one.known for one in open_markets[venue] if not one.answered and 0.1 < one.known < 0.9])
    even = np.asarray([one.price - one.known for one in open_markets[venue] if not one.answered and 0.4 < one.known < 0.6])
    assert len(in_doubt) > 700
    assert abs(in_doubt.mean()) < 4 * in_doubt.std() / math.sqrt(len(in_doubt))
    assert abs(errors.mean()) < 0.002
    assert 0.02 < in_doubt.std() < 0.035
    assert 0.025 < even.std() < 0.04
    assert np.abs(errors).max() < 0.2, "no price is stale, and none is made up for a missing side"


@pytest.mark.parametrize("venue", ["kalshi", "polymarket"])
def test_as_many_books_lack_a_side_as_at_the_venue(open_markets: dict[str, list[Seen]], venue: str) -> None:
    """Of the 500 largest markets of Polymarket in March 2026, 60 had one-sided books, nearly all of them almost settled."""
    rows = open_markets[venue]
    missing = [one for one in rows if one.one_sided]
    assert 0.09 < len(missing) / len(rows) < 0.16
    assert sum(0.1 < one.known < 0.9 and not one.answered for one in missing) / len(rows) < 0.02
    assert all(one.bid <= one.price <= one.ask for one in rows)


def test_the_error_reverts_to_zero_within_days() -> None:
    """Compared with its recursion, and with its correlations."""
    paths = np.asarray([draw_traders_error((7, 4, number), 1_000) for number in range(1_500)])
    kept = math.exp(-1 / 144)
    shocks = (paths[:, 1:] - kept * paths[:, :-1]) / math.sqrt(1 - kept**2)
    inside = (np.abs(paths[:, 1:]) < 4) & (np.abs(paths[:, :-1]) < 4)
    assert shocks[inside].std() == pytest.approx(1, abs=0.005)
    assert np.corrcoef(shocks[:, 1:].ravel(), shocks[:, :-1].ravel())[0, 1] == pytest.approx(0, abs=0.005)
    assert paths[:, [0, 500, 999]].std(axis=0) == pytest.approx([1, 1, 1], abs=0.08)
    assert paths.mean() == pytest.approx(0, abs=4 * math.sqrt(2 * 144 / paths.size))
    for lag in (1, 36, 144, 432):
        assert np.corrcoef(paths[:, 0], paths[:, lag])[0, 1] == pytest.approx(math.exp(-lag / 144), abs=0.1)


def test_outcomes_are_drawn_from_the_latent_probability(generated: GeneratedPolymarket) -> None:
    """One market per event, at a random instant independent of its outcome: scores are neither worse nor better than chance."""
    draw = np.random.default_rng(20261126)
    known, paid, off = [], [], []
    for home in range(85, 285):
        for event in generated.day(home):
            market = event.markets[int(draw.integers(len(event.markets)))]
            slot = int(draw.integers(market.claim.slots))
            known.append(market.claim.probabilities()[slot])
            paid.append(market.claim.pays)
            off.append(quotes.build_tape(market).twice_price[slot] / 2000 - known[-1])
    p, o, error = np.asarray(known), np.asarray(paid, float), np.asarray(off)
    variance = p * (1 - p)
    assert len(p) > 1_500
    assert abs((o - p).sum()) < 3.3 * math.sqrt(variance.sum())
    sure = variance > 1e-3
    expected = variance[sure]
    surprise = ((o - p)[sure] ** 2 - expected).sum() / math.sqrt((expected * (1 - 4 * expected)).sum())
    assert abs(surprise) < 3.3, "squared errors are as large as those of coins with these probabilities"
    for low in np.arange(0, 1, 0.1):
        some = (p >= low) & (p < low + 0.1)
        assert abs((o - p)[some].sum()) < 3.9 * math.sqrt(variance[some].sum()), low
    products = error * (o - p)
    assert abs(products.mean()) < 3.3 * products.std() / math.sqrt(len(p)), "the error of a price does not know the outcome"


def bets_of(venue: GeneratedPolymarket, at: int) -> list[tuple[float, float, bool]]:
    """Return the bets of an agent with $10,000 that knows the current truth: probability, price of a dollar of payout, and whether it pays."""
    home = (at - BEGIN) // DAY
    markets = [one for day in range(home, home + 62) for event in venue.day(day) for one in event.markets]
    claims: dict[str, PathClaim] = {one.id: one.claim for one in markets if one.opens <= at - SLOT and at + DAY < one.answered}
    prices = {one.id: float(quotes.compute_twice_prices(one, np.asarray([at]))[0]) / 2000 for one in markets if one.id in claims}
    listed = tuple(PromptMarket(name, name, {"YES": price, "NO": 1 - price}) for name, price in prices.items())
    slip = ArenaPrompt(at=at, least=50, most=2_500, together=False, markets=listed, positions=())
    made = decide_bets(slip, lambda name: Belief("YES", known_at(claims[name], at)), "")
    sides = [(one["probability"], one["market_id"], one["side"] == "YES") for one in made.get("bets", ())]
    return [(p, prices[name] if yes else 1 - prices[name], claims[name].pays == yes) for p, name, yes in sides]


def test_who_knows_the_truth_gains_a_little(generated: GeneratedPolymarket) -> None:
    """Profitable on average, by a few cents per dollar of each bet."""
    bets = [one for at in range(BEGIN + 123 * DAY, BEGIN + 270 * DAY, 7 * DAY) for one in bets_of(generated, at)]
    edges = [p / cost - 1 for p, cost, _ in bets]
    gains = [won / cost - 1 for _, cost, won in bets]
    assert len(bets) > 50
    assert 0.05 < np.mean(edges) < 0.3
    assert np.mean(gains) == pytest.approx(np.mean(edges), abs=3.3 * np.std(gains) / math.sqrt(len(gains)))
