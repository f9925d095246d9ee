"""Knowledge of the models: about the market in question, and nothing later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.models import Truth
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.timestamps import DAY, to_datetime, to_instant
from bellwether.sandbox.world.model import Market

LATER = datetime(2025, 9, 1, tzinfo=UTC)
NOW = to_instant(LATER)


@pytest.fixture(scope="module")
def both(world: GeneratedWorld) -> Truth:
    return Truth(world, GeneratedPolymarket(world))


@pytest.fixture(scope="module")
def market(settled: list[Market]) -> Market:
    """A market with unique rules that was open for more than a day."""
    return next(one for one in settled if one.life.closes - one.life.opens > 3 * DAY and "20" in one.terms["rules_primary"])


def a_day_before(world: GeneratedWorld, market: Market) -> float:
    return world.truth(market.ticker, to_datetime(market.life.closes) - timedelta(days=1))


@pytest.mark.parametrize(
    "text",
    [
        "What of {ticker}?",
        '{{"ticker":"{ticker}"}}',
        "({ticker}.) Other words",
        "Question: {title}\n\nDescription: {rules}",
        "**Question:** {title}\n{rules}",
        "{title}\n{rules}",
        "Is it so? “{title}” {rules}",
        "I would like to know: {title} ({rules})",
        "  {title_upper}\n\n{rules_upper}",
    ],
)
def test_the_market_is_found_by_its_ticker_or_its_question(truth: Truth, world: GeneratedWorld, market: Market, text: str) -> None:
    title, rules = market.terms["title"], market.terms["rules_primary"]
    words = {"title": title, "rules": rules, "title_upper": title.upper().replace(" ", "  "), "rules_upper": rules.upper()}
    found = truth.find(text.format(ticker=market.ticker, **words), NOW)
    assert found is not None
    assert (found.id, found.probability) == (market.ticker, a_day_before(world, market))


def test_every_question_as_the_clean_tables_word_it_is_found(truth: Truth, world: GeneratedWorld) -> None:
    for home in range(100, 130):
        for market in (market for event in world.day(home).events if not event.is_combo for market in event.markets):
            terms, day = market.terms, to_datetime(market.life.closes).date()
            found = truth.find(f"{terms['title']} — {terms['yes_sub_title']}\n{terms['rules_primary']}\n{day}", NOW)
            assert found is not None
            assert found.id == market.ticker


def test_of_equal_questions_the_one_with_the_close_date_is_meant_and_else_their_mean(truth: Truth, world: GeneratedWorld) -> None:
    alike: dict[tuple[str, str], list[Market]] = {}
    for home in range(240):
        for market in (market for event in world.day(home).events if not event.is_combo for market in event.markets):
            alike.setdefault((market.terms["title"], market.terms["rules_primary"]), []).append(market)
    (title, rules), markets = next(
        item for item in alike.items() if len(item[1]) > 1 and len({one.event_ticker for one in item[1]}) == len(item[1])
    )
    for one in markets:
        found = truth.find(f"{title}\n{rules}\nCloses on {to_datetime(one.life.closes).date()}.", NOW)
        assert found is not None
        assert found.id == one.ticker
    unclear = truth.find(f"{title}\n{rules}", NOW)
    assert unclear is not None
    mean = sum(truth.by_id(one.ticker, NOW).probability for one in markets if one.life.created <= NOW) / len(markets)
    assert unclear.probability == pytest.approx(mean)


def test_nothing_is_known_that_comes_later_and_at_most_what_was_known_a_day_before_the_close(
    truth: Truth, world: GeneratedWorld, settled: list[Market]
) -> None:
    for market in settled[::10]:
        life = market.life
        for at in (life.created, life.opens + 1, (life.opens + life.closes) // 2, life.closes - 1, life.closes, life.settled + 30 * DAY):
            close = life.closes if at >= life.closes else life.scheduled
            known = min(at, max(life.opens, close - DAY))
            found = truth.by_id(market.ticker, at)
            assert found is not None
            assert found.probability == world.truth(market.ticker, to_datetime(known))


def test_a_text_about_nothing_has_a_probability_of_its_own(truth: Truth) -> None:
    found = [truth.subject(f"Will number {number} come up?", NOW) for number in range(200)]
    assert all(subject.id == "" and 0.05 <= subject.probability < 0.95 for subject in found)
    assert len({subject.probability for subject in found}) == 200
    assert found[3] == truth.subject("  WILL number 3\ncome up? ", NOW)


# --- Polymarket ----------------------------------------------------------------------------------------------------


def test_markets_of_polymarket_are_found_by_id_and_by_question(both: Truth, world: GeneratedWorld) -> None:
    polymarket = GeneratedPolymarket(world)
    for market in (market for home in range(140, 150) for event in polymarket.day(home) for market in event.markets):
        known = min(NOW, max(market.opens, market.answered - DAY))
        first = polymarket.truth(market.id, to_datetime(known))
        expected = 1 - first if market.yes else first
        for name in (market.id, market.condition_id, market.tokens[1]):
            found = both.by_id(name, NOW)
            assert found is not None
            assert (found.id, found.probability) == (market.id, pytest.approx(expected))
        asked = both.find(f"{market.question}\n{market.description}\n{to_datetime(market.answered).date()}", NOW)
        assert asked is not None
        assert asked.probability == pytest.approx(expected, abs=1e-9)


def test_the_answer_of_polymarket_is_not_known_while_the_resolution_is_pending(both: Truth, world: GeneratedWorld) -> None:
    polymarket = GeneratedPolymarket(world)
    pending = [
        market for home in range(140, 160) for event in polymarket.day(home) for market in event.markets if market.closes > market.answered
    ]
    assert pending
    for market in pending:
        assert both.by_id(market.id, market.answered) == both.by_id(market.id, market.closes + DAY)


# --- repeatable ----------------------------------------------------------------------------------------------------


def test_a_market_is_unknown_before_it_is_listed(world: GeneratedWorld, market: Market) -> None:
    truth, question = Truth(world), f"{market.terms['title']}\n{market.terms['rules_primary']}"
    for text in (market.ticker, question):
        assert truth.find(text, market.life.created - 1) is None
    for text in (market.ticker, question):
        assert truth.find(text, market.life.created) is not None
