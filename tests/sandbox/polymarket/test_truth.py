"""Both venues price the same truth with separate errors, and Polymarket's markets end by it in all the venue's ways."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from bellwether.sandbox.polymarket import quotes
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.listing import Listing
from bellwether.sandbox.polymarket.model import ListedEvent, ListedMarket
from bellwether.sandbox.polymarket.resolution_steps import HALF
from bellwether.sandbox.timestamps import DAY, HOUR, MINUTE, to_datetime
from bellwether.sandbox.world import GeneratedWorld


@pytest.fixture(scope="module")
def year(listing: Listing) -> list[ListedEvent]:
    """Events of more than a year."""
    return [event for home in range(400) for event in listing.day(home)]


def test_most_events_of_the_world_are_listed_with_the_same_truth_and_other_quotes(
    world: GeneratedWorld, listing: Listing, polymarket: GeneratedPolymarket
) -> None:
    listed = total = same = 0
    for home in range(150, 170):
        claims = {market.claim: market for event in listing.day(home) for market in event.markets}
        for event in world.day(home).events:
            total += not event.is_combo
            found = [(market, claims[market.latent]) for market in event.markets if not event.is_combo and market.latent in claims]
            listed += bool(found)
            for kalshi, market in found:
                at = to_datetime(market.opens) + timedelta(days=1)
                first = polymarket.truth(market.id, at)
                assert world.truth(kalshi.ticker, at) == pytest.approx(1 - first if market.yes else first)
                here, there = quotes.compute_quote(market, market.opens + 6 * HOUR), kalshi.tape()
                assert here is not None
                same += (here.bid, here.ask) == (int(there.bid[36]), int(there.ask[36])) if len(there.bid) > 36 else 0
    assert 0.85 < listed / total < 1
    assert same < listed / 3


def test_at_most_one_of_markets_that_exclude_each_other_wins(year: list[ListedEvent]) -> None:
    groups = [event for event in year if event.group]
    assert len(groups) > 300
    winners = Counter(sum(market.truth == 1000 for market in event.markets) for event in groups)
    assert set(winners) == {0, 1}
    assert winners[1] > winners[0]
    for event in groups:
        assert len({market.truth == HALF for market in event.markets}) == 1, "an event is void as a whole"


def test_markets_end_in_all_the_ways_of_the_venue(year: list[ListedEvent]) -> None:
    everything = [market for event in year for market in event.markets]
    seen: Counter[str] = Counter()
    for market in everything:
        words = [step.status for step in market.steps]
        values = [step.value for step in market.steps]
        final = next(step for step in market.steps if step.final)
        seen["before its announced end"] += market.ends is not None and market.closes < market.ends
        seen["hours after"] += market.ends is not None and 0 < market.closes - market.ends < DAY
        seen["weeks late"] += market.closes - market.answered > 7 * DAY
        seen["disputed"] += "disputed" in words
        seen["disputed twice"] += words.count("disputed") == 2
        seen["flipped by a dispute"] += "disputed" in words and values[0] != final.value
        seen["corrected after its resolution"] += final.value != market.truth
        seen["void"] += market.truth == HALF
        seen["closed while proposed"] += any(step.closed and not step.final for step in market.steps)
        seen[f"legacy {market.legacy}"] += bool(market.legacy)
        seen["swapped"] += market.outcomes == ("No", "Yes")
        seen["opponents"] += not {"Yes", "No", "Up", "Down"} & set(market.outcomes)
        seen["recurring"] += market.outcomes == ("Up", "Down")
        seen["no end"] += market.ends is None
        seen["no prices"] += market.hides_prices
    share = {way: count / len(everything) for way, count in seen.items()}
    bounds = {
        "before its announced end": (0.1, 0.4),
        "hours after": (0.4, 0.8),
        "weeks late": (0.01, 0.05),
        "disputed": (0.01, 0.04),
        "disputed twice": (0.001, 0.01),
        "flipped by a dispute": (0.003, 0.03),
        "corrected after its resolution": (0.001, 0.006),
        "void": (0.005, 0.05),
        "closed while proposed": (0.05, 0.25),
        "legacy zero": (0.0005, 0.01),
        "legacy frayed": (0.0005, 0.01),
        "legacy silent": (0.002, 0.03),
        "swapped": (0.01, 0.05),
        "opponents": (0.01, 0.06),
        "recurring": (0.15, 0.35),
        "no end": (0.003, 0.05),
        "no prices": (0.001, 0.01),
    }
    assert share.keys() - {"legacy "} == bounds.keys()
    for way, (low, high) in bounds.items():
        assert low < share[way] < high, (way, share[way])
    for market in everything:
        right = HALF if market.truth == HALF else 1000 if market.claim.pays else 0
        assert market.truth in (right, None)
        assert (market.truth is None) == (market.legacy == "zero")


def wire_prices(one: dict[str, Any]) -> tuple[float, ...]:
    return tuple(map(float, json.loads(one["outcomePrices"])))


def test_the_wire_ends_with_the_outcome(at: Any, polymarket: GeneratedPolymarket, markets: list[ListedMarket]) -> None:
    """Whatever happened before, final prices and winner flags state the outcome."""
    chosen = [one for one in markets if len(one.steps) > 2 or one.legacy or one.truth == HALF] + markets[::120]
    kinds = set()
    for market in chosen:
        last = at(to_datetime(market.steps[-1].at))
        one, clob = last.get(f"/gamma/markets/{market.id}"), last.get(f"/clob/markets/{market.condition_id}")
        outcome, prices = polymarket.outcome(market.id), wire_prices(one)
        winners = [token["outcome"] for token in clob["tokens"] if token["winner"]]
        assert one["closed"] is clob["closed"] is True
        kinds.add(outcome if outcome in ("50-50", "") else "named")
        if outcome == "50-50":
            assert prices == (0.5, 0.5)
            assert (winners, clob["is_50_50_outcome"]) == ([], True)
            continue
        assert clob["is_50_50_outcome"] is False
        if outcome == "":
            assert prices == (0, 0)
            assert winners == []
            assert "umaResolutionStatus" not in one
            continue
        assert winners == [outcome]
        assert prices[market.outcomes.index(outcome)] == pytest.approx(1, abs=1e-5)
        assert (set(prices) == {0.0, 1.0}) == (market.legacy != "frayed")
        assert (one.get("umaResolutionStatus") == "resolved") == (not market.legacy)
    assert kinds == {"50-50", "named", ""}


def test_prices_are_pinned_while_a_proposal_stands_and_flip_after_the_dispute(at: Any, markets: list[ListedMarket]) -> None:
    flipped = [
        one
        for one in markets
        if "disputed" in {step.status for step in one.steps}
        and one.steps[0].value != one.truth
        and HALF not in (one.truth, one.steps[0].value)
    ]
    assert flipped
    for market in flipped:
        proposed, last = market.steps[0], market.steps[-1]
        then = at(to_datetime(proposed.at + MINUTE)).get(f"/gamma/markets/{market.id}")
        assert then["umaResolutionStatus"] == "proposed"
        assert json.loads(then["umaResolutionStatuses"]) == ["proposed"]
        assert then["closed"] == proposed.closed
        first = wire_prices(then)
        assert max(first) > 0.99
        after = at(to_datetime(last.at)).get(f"/gamma/markets/{market.id}")
        assert "disputed" in json.loads(after["umaResolutionStatuses"])
        assert first.index(max(first)) != wire_prices(after).index(1.0)


def test_nobody_has_won_while_the_resolution_is_only_proposed(at: Any, markets: list[ListedMarket]) -> None:
    early = [one for one in markets if one.steps[0].closed and not one.steps[0].final]
    assert early
    for market in early[::4]:
        then = at(to_datetime(market.steps[0].at))
        one, clob = then.get(f"/gamma/markets/{market.id}"), then.get(f"/clob/markets/{market.condition_id}")
        assert one["closed"] is True
        assert one["umaResolutionStatus"] == "proposed"
        assert "umaEndDate" not in one
        assert not any(token["winner"] for token in clob["tokens"])
        assert clob["is_50_50_outcome"] is False
