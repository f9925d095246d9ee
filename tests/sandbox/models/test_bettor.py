"""A personality in the arena bets according to its belief, states its probability, and keeps its belief between calls."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from bellwether.arena.decision import Action, response_format
from bellwether.arena.market import Market, MarketStatus
from bellwether.arena.methodology import load_methodology
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.prompt import Holding, Portfolio, build_messages
from bellwether.arena.units import MICROS
from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.models import Truth
from bellwether.sandbox.models.replies import ReplyWriter
from bellwether.sandbox.models.request import read_request
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.model import ListedMarket
from bellwether.sandbox.timestamps import to_instant

SUNDAY = date(2025, 5, 4)
AT = to_instant(datetime(2025, 5, 4, tzinfo=UTC))
V1, V2 = load_methodology("v1"), load_methodology("v2")
CASH = V1.cash


@pytest.fixture(scope="module")
def venue(world: GeneratedWorld) -> GeneratedPolymarket:
    return GeneratedPolymarket(world)


@pytest.fixture(scope="module")
def known(world: GeneratedWorld, venue: GeneratedPolymarket) -> Truth:
    return Truth(world, venue)


@pytest.fixture(scope="module")
def open_markets(venue: GeneratedPolymarket, known: Truth) -> list[ListedMarket]:
    """Markets open on that Sunday with an uncertain outcome."""
    found = [market for home in range(125, 150) for event in venue.day(home) for market in event.markets]
    return [
        market
        for market in found
        if market.opens < AT < market.closes and (seen := known.estimate(market.id, AT, AT)) and 0.2 < seen.probability < 0.8
    ]


def listed(market: ListedMarket, yes: float) -> Market:
    """Return the market at this price of the outcome that its claim pays."""
    first = round(MICROS * yes)
    prices = (first, MICROS - first) if market.yes == 0 else (MICROS - first, first)
    return Market(market.id, market.question, market.outcomes, prices, market.tokens, status=MarketStatus.ACTIVE)


def answer(
    known: Truth,
    model: str,
    markets: list[Market],
    rules: Any = V1,
    held: tuple[Holding, ...] = (),
    now: int = AT,
    sample: int = 0,
    **more: Any,
) -> Any:
    asked = build_messages(rules, Portfolio(CASH, held), markets, today=SUNDAY, week=1)
    request = read_request(json.dumps({"model": model, "messages": asked, **more}).encode())
    return ReplyWriter(known, request, now).reply(sample)


def decided(known: Truth, model: str, markets: list[Market], rules: Any = V1, **more: Any) -> Any:
    return parse_decision(answer(known, model, markets, rules, **more).content or "", Limits.of(rules, CASH))


@pytest.mark.parametrize("rules", [V1, V2])
def test_the_calibrated_one_bets_what_it_knows_on_the_widest_edges(known: Truth, open_markets: list[ListedMarket], rules: Any) -> None:
    p = {market.id: known.estimate(market.id, AT, AT).probability for market in open_markets[:5]}  # type: ignore[union-attr]
    shifts = dict(zip(p, (-0.15, 0.12, 0.02, -0.18, 0.1), strict=True))
    made = decided(known, "calibrated", [listed(market, p[market.id] + shifts[market.id]) for market in open_markets[:5]], rules)
    assert made.action is Action.BET
    wanted = sorted(p, key=lambda market_id: -abs(shifts[market_id]))[:3]
    assert [bet.market_id for bet in made.bets] == wanted
    for bet in made.bets:
        assert bet.probability == pytest.approx(p[bet.market_id] if shifts[bet.market_id] < 0 else 1 - p[bet.market_id], abs=1e-4)
        assert bet.amount == pytest.approx(rules.largest_bet(CASH) / (3 if rules is V2 else 1) * bet.probability, abs=10_200)
        yes_side = open_markets[list(p).index(bet.market_id)].outcomes[open_markets[list(p).index(bet.market_id)].yes]
        assert (bet.side.casefold() == yes_side.casefold()) == (shifts[bet.market_id] < 0)


def test_it_knows_the_probability_of_the_stated_date_and_nothing_later(known: Truth, open_markets: list[ListedMarket]) -> None:
    hour = 3_600_000_000
    for market in open_markets[:20]:
        midnight, later = market.claim.probabilities_at(np.asarray([AT, AT + 5 * hour]))
        said = [known.estimate(market.id, AT, now) for now in (AT, AT + 5 * hour, AT + 24 * hour, AT + 900 * hour)]
        later = later if market.answered > AT + 5 * hour else None
        assert [one and one.probability for one in said] == [midnight, later, midnight, midnight]
    assert known.estimate("1", AT, AT) is None


def test_it_knows_nothing_of_a_question_that_has_its_answer(known: Truth, venue: GeneratedPolymarket) -> None:
    """Otherwise it would know which proposals are wrong, and buy the right side for a cent."""
    answered = [
        market for home in range(60, 120) for event in venue.day(home) for market in event.markets if market.answered <= AT < market.closes
    ]
    assert answered
    assert [known.estimate(market.id, AT, AT) for market in answered] == [None] * len(answered)


def test_a_position_that_is_too_dear_is_sold(known: Truth, open_markets: list[ListedMarket]) -> None:
    market = open_markets[0]
    p = known.estimate(market.id, AT, AT).probability  # type: ignore[union-attr]
    side = market.outcomes[market.yes].upper()
    price = round(MICROS * (p + 0.15))
    held = (
        Holding("c/f/2025-04-27/1", market.question, side, MICROS, MICROS // 2, price, price, True),
        Holding("c/f/2025-04-27/2", "Nobody lists this?", "YES", MICROS, MICROS // 2, 990_000, 990_000, True),
        Holding("c/f/2025-04-27/3", market.question, side, MICROS, MICROS // 2, price, price, False),
    )
    made = decided(known, "calibrated", [listed(market, p)], held=held)
    assert made.action is Action.SELL
    assert [sell.position_id for sell in made.sells] == ["c/f/2025-04-27/1"]


def test_some_answer_badly_and_some_refuse(known: Truth, open_markets: list[ListedMarket]) -> None:
    markets = [listed(market, 0.5) for market in open_markets[:5]]
    bad = [parse_decision(answer(known, "malformed", markets, sample=sample).content or "", Limits.of(V1, CASH)) for sample in range(14)]
    assert sum(one.action is Action.INVALID for one in bad) >= 10
    assert decided(known, "refusing", markets).action is Action.INVALID
    assert answer(known, "refusing", markets, response_format=response_format()).refusal


def test_a_strict_schema_gets_every_field(known: Truth, open_markets: list[ListedMarket]) -> None:
    said = json.loads(answer(known, "calibrated", [listed(open_markets[0], 0.5)], response_format=response_format()).content)
    assert list(said) == ["action", "bets", "sells", "reasoning"]
    assert parse_decision(json.dumps(said), Limits.of(V1, CASH)).action is not Action.INVALID


def test_it_believes_the_same_months_later(known: Truth, open_markets: list[ListedMarket]) -> None:
    markets = [listed(market, 0.5) for market in open_markets[:20]]
    later = to_instant(datetime(2025, 5, 4, tzinfo=UTC) + timedelta(days=200))
    for model in ("calibrated", "noisy", "malformed", "random"):
        assert answer(known, model, markets) == answer(known, model, markets, now=later)


def test_it_holds_where_prices_are_right_or_no_bet_is_possible(known: Truth, open_markets: list[ListedMarket]) -> None:
    p = known.estimate(open_markets[0].id, AT, AT).probability  # type: ignore[union-attr]
    assert decided(known, "calibrated", [listed(open_markets[0], p + 0.01)]).action is Action.HOLD
    assert decided(known, "calibrated", []).action is Action.HOLD
