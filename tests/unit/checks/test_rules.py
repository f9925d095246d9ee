"""Every rule passes on ordinary rows and fails on altered ones; checks of the whole lake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.checks import rules_for, validate
from bellwether.checks.operations import LAKE_CHECKS
from bellwether.checks.rule import Observation, rules_by_table
from bellwether.checks.venues import few_rejects
from bellwether.forecasting import forecaster
from bellwether.lake import Lake
from bellwether.questions import Release, build
from bellwether.tables import table
from bellwether.tables.benchmark import HORIZONS
from tests.rows import filled
from tests.unit.clean.rows import (
    CLOSE,
    DAY,
    FETCHED,
    KNOWN,
    OPEN,
    PM_END,
    market,
    markets,
    polymarket_event,
    polymarket_market,
    polymarket_price,
    polymarket_winner,
    price,
    prices,
    pull,
    raw_candle,
    raw_event,
    raw_market,
    raw_series,
    resolution,
)

RULES = rules_by_table()
OVER = Decimal("1.2")
CHEAP = Decimal("0.3")

BOOK = {
    f"{side}_{part}": Decimal(value)
    for side in ("yes_bid", "yes_ask", "price")
    for part, value in [("open", "0.4"), ("high", "0.5"), ("low", "0.3")]
}


@cache
def ordinary_rows(name: str) -> pl.DataFrame:
    """Return ordinary rows of the table, usually two."""
    recipe = Release(name="test", description="test", cutoff=CLOSE - timedelta(days=60), seed=1)
    rows = [market("A", outcome="no", settlement_value=Decimal("0")), market("B", event_id="E2")]
    questions = build(recipe, markets(*rows).lazy(), prices(price(170, "A"), price(2, "B")).lazy())
    if name == "benchmark/questions":
        return questions
    if name == "benchmark/forecasts":
        return forecaster("random").forecast(questions)
    made: dict[str, list[dict[str, Any]]] = {
        "raw/kalshi_rejects": [reject(0), reject(1)],
        "raw/kalshi_series_rejects": [reject(0)],
        "raw/kalshi_archive_rejects": [reject(0), reject(0, day=DAY + timedelta(days=1))],
        "raw/polymarket_rejects": [reject(0, venue="polymarket"), reject(1, venue="polymarket")],
        "raw/kalshi_pulls": [pull(), pull(day=DAY + timedelta(days=1))],
        "raw/polymarket_pulls": [pull(), pull(day=DAY + timedelta(days=1))],
        "raw/polymarket_events": [polymarket_event("71"), polymarket_event("72")],
        "raw/polymarket_markets": [
            polymarket_market("501", best_bid=Decimal("0.1"), best_ask=Decimal("0.2")),
            polymarket_market(
                "502", market_type="named", outcomes=["Up", "Down"], yes_token=None, no_token=None, closed=False, closed_at=None
            ),
            polymarket_market("503", market_type="multi", outcomes=[], outcome_prices=[], token_ids=[], yes_token=None, no_token=None),
            polymarket_market("504", token_ids=[], outcome_prices=[], yes_token=None, no_token=None),
        ],
        "raw/polymarket_winners": [polymarket_winner(0), polymarket_winner(1)],
        "raw/polymarket_prices": [polymarket_price(2), polymarket_price(1)],
        "clean/resolutions": [
            resolution("501"),
            resolution("502", outcome=None, winner="Down", settlement_value=Decimal(0), market_type="named"),
            resolution(
                "503", status="disputed", outcome=None, winner=None, settlement_value=None, outcome_reason="disputed", settled_at=None
            ),
        ],
        "raw/kalshi_series": [raw_series("S1"), raw_series("S2")],
        "raw/kalshi_events": [raw_event("E1"), raw_event("E2", mutually_exclusive=True, collateral_return_type="MECNET")],
        "raw/kalshi_markets": [
            raw_market("A", yes_bid=Decimal("0.1"), yes_ask=Decimal("0.2")),
            raw_market("B", status="closed", result=""),
        ],
        "raw/kalshi_archive": [raw_market("A"), raw_market("B", result="no", settlement_value=Decimal("0"))],
        "raw/kalshi_candles": [raw_candle(2, **BOOK), raw_candle(1, yes_bid_close=None, price_close=None)],
        "clean/markets": [
            *rows,
            market("C", outcome=None, outcome_reason="scalar", settlement_value=Decimal("0.24"), market_type="scalar"),
            market("D", venue="polymarket", day=DAY + timedelta(days=20)),
        ],
        "clean/prices": [price(2), price(1, bid=None)],
        "raw/recording_gaps": [gap(0, kind="partial"), gap(1, kind="book", cause="break")],
        "replay/episodes": [episode_market("A", result="YES"), episode_market("B")],
        "replay/books": [book("A"), book("B", bid=None, bid_size=Decimal(0), bid_depth=Decimal(0)), dark_book("C")],
        "replay/orders": [order(0), order(1, filled=Decimal(4))],
        "replay/fills": [fill(0), fill(1, role="taker")],
        "replay/backtests": [backtest("random"), backtest("passive")],
        "arena/universe": [filled("arena/universe", market_id=name, outcomes=["Yes", "No"], prices=[None, None]) for name in "ab"],
        "arena/decisions": [
            filled("arena/decisions", decision_id="a", state="finished", action="BET"),
            filled("arena/decisions", decision_id="b", state="finished", action="INVALID", problem="no JSON"),
        ],
        "arena/trades": [
            filled(
                "arena/trades",
                trade_id="a",
                action="BUY",
                shares=Decimal(1),
                price=Decimal("0.4"),
                bid=CHEAP,
                mid=Decimal("0.4"),
                ask=Decimal("0.5"),
            ),
            filled("arena/trades", trade_id="b", action="SELL", shares=Decimal(1), price=Decimal("0.4")),
        ],
        "arena/prices": [filled("arena/prices", market_id=name, price=Decimal("0.4")) for name in "ab"],
        "arena/leaderboard": [filled("arena/leaderboard", family=name, cost=Decimal(0)) for name in "ab"],
    }
    return table(name).validate(table(name).frame(made[name]))


def change(**columns: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that changes the first row of a frame."""

    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        first = pl.int_range(pl.len()) == 0
        values = {name: value if isinstance(value, pl.Expr) else pl.lit(value) for name, value in columns.items()}
        return frame.with_columns(
            pl.when(first).then(value.cast(frame.schema[name])).otherwise(name).alias(name) for name, value in values.items()
        )

    return changed


def repeat_first_row(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([frame, frame.head(1)])


def same_question_twice(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.lit("Will it rain?").alias("question"), pl.lit("E").alias("event_id"))


def reject(ordinal: int, **changes: Any) -> dict[str, Any]:
    row = {
        "day": DAY,
        "venue": "kalshi",
        "table": "raw/kalshi_markets",
        "record_id": f"T{ordinal}",
        "reason": "no close time",
        "body": "{}",
    }
    return {**row, **FETCHED, "ordinal": ordinal, **changes}


def gap(number: int, **changes: Any) -> dict[str, Any]:
    return {"recording": "one", "gap": number, "connection": 1, "sid": 1, "markets": ["A"], **changes}


def episode_market(ticker: str, **changes: Any) -> dict[str, Any]:
    """Return a market of an exclusive event that resolved no."""
    row = {"episode": "E", "ticker": ticker, "start_at": OPEN, "end_at": CLOSE, "gaps": 0, "result": "NO", "mutually_exclusive": True}
    return {**filled("replay/episodes"), **row, "settlement_value": Decimal(0), **changes}


def book(ticker: str, **changes: Any) -> dict[str, Any]:
    """Return a book with 5 contracts at each best price and 9 at its best five."""
    sides = {"bid": CHEAP, "ask": Decimal("0.4")}
    amounts = {f"{side}_{name}": Decimal(size) for side in sides for name, size in (("size", 5), ("depth", 9))}
    return {**filled("replay/books"), "ticker": ticker, **sides, **amounts, "valid": True, **changes}


def dark_book(ticker: str) -> dict[str, Any]:
    return {**filled("replay/books"), "ticker": ticker}


def order(number: int, **changes: Any) -> dict[str, Any]:
    amounts = {"size": Decimal(5), "filled": Decimal(3)}
    return {**filled("replay/orders"), "order_id": number, **amounts, **changes}


def fill(number: int, **changes: Any) -> dict[str, Any]:
    return {**filled("replay/fills"), "fill_id": number, "role": "maker", "price": Decimal("0.4"), "size": Decimal(2), **changes}


def backtest(agent: str, **changes: Any) -> dict[str, Any]:
    money = {"bankroll": Decimal(1000), "final_equity": Decimal("990.5"), "pnl": Decimal("-9.5")}
    return {**filled("replay/backtests"), "agent": agent, "failure": None, **money, **changes}


def rejects(count: int) -> pl.DataFrame:
    """Return this many rejects of one day, and one of the next."""
    rows = [*(reject(ordinal) for ordinal in range(count)), reject(0, day=DAY + timedelta(days=1))]
    return table("raw/kalshi_rejects").validate(table("raw/kalshi_rejects").frame(rows))


RAW_MARKET: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "unique_key": repeat_first_row,
    "closes_within_its_day": change(close_time=CLOSE + timedelta(hours=4)),
    "prices_between_0_and_1": change(no_ask=OVER),
    "known_status": change(status="postponed"),
    "known_result": change(result="maybe"),
    "known_market_type": change(market_type="ternary"),
    "settled_has_result": change(result=""),
    "bid_at_or_below_ask": change(yes_bid=Decimal("0.6"), yes_ask=Decimal("0.5")),
    "opens_before_it_closes": change(open_time=CLOSE),
    "settles_after_it_closes": change(settled_at=CLOSE - timedelta(seconds=1)),
}

PULL: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "unique_key": repeat_first_row,
    "ends_after_it_starts": change(started_at=KNOWN + timedelta(seconds=1)),
    "has_pages": change(requests=0),
}

BAD: dict[str, dict[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "raw/kalshi_series": {"unique_key": repeat_first_row, "has_category": change(category=None)},
    "raw/kalshi_events": {
        "unique_key": repeat_first_row,
        "has_series": change(series_ticker=None),
        "has_title": change(title=None),
        "exclusive_exactly_when_mecnet": change(mutually_exclusive=True),
    },
    "raw/kalshi_markets": RAW_MARKET,
    "raw/kalshi_archive": RAW_MARKET,
    "raw/kalshi_candles": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(yes_ask_high=-OVER),
        "known_period": change(period_minutes=5),
        "ends_on_its_period": change(end_at=CLOSE - timedelta(minutes=90)),
        "low_at_or_below_high": change(price_low=Decimal("0.6")),
        "bid_at_or_below_ask": change(yes_bid_close=Decimal("0.6"), yes_ask_close=Decimal("0.5")),
        "volume_not_negative": change(volume=Decimal("-0.01")),
    },
    "clean/markets": {
        "unique_key": repeat_first_row,
        "closes_within_its_day": change(close_time=CLOSE - timedelta(days=1)),
        "known_outcome": change(outcome="maybe"),
        "outcome_only_when_settled": change(status="determined"),
        "outcome_or_reason": change(outcome_reason="void"),
        "outcome_agrees_with_payout": change(settlement_value=Decimal("1")),
        "prices_between_0_and_1": change(last_price=OVER),
        "known_status": change(status="finalized"),
        "settled_has_known_result": change(outcome=None, outcome_reason="unknown result"),
        "outcome_has_question": change(question=None),
        "opens_before_it_closes": change(open_time=CLOSE + timedelta(days=1)),
        "settles_after_it_closes": change(settled_at=OPEN),
        "volume_not_negative": change(volume=Decimal("-1")),
    },
    "clean/prices": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(bid=OVER),
        "bid_at_or_below_ask": change(bid=Decimal("0.9")),
        "known_after_it_stood": change(at=KNOWN + timedelta(seconds=1)),
    },
    "benchmark/questions": {
        "unique_key": repeat_first_row,
        "not_empty": lambda frame: frame.clear(),
        "id_names_the_market": change(id="KXRAIN"),
        "ground_truth_is_binary": change(ground_truth="void"),
        "question_has_text": change(question=" \n"),
        "question_names_the_market": same_question_twice,
        "closed_after_cutoff": change(cutoff=CLOSE),
        "settled_after_cutoff": change(settled_at=pl.col("cutoff")),
        **{
            f"price_{name}_in_time": change(**{f"price_{name}_at": CLOSE - timedelta(hours=hours) + timedelta(microseconds=1)})
            for name, hours in HORIZONS.items()
        },
        **{
            f"price_{name}_has_instant": lambda frame, name=name: frame.with_columns(
                pl.lit(None, pl.Decimal(10, 6)).alias(f"price_{name}"),
                pl.lit(CLOSE).cast(frame.schema["close_time"]).alias(f"price_{name}_at"),
            )
            for name in HORIZONS
        },
        "prices_between_0_and_1": change(market_probability=-0.1),
    },
    "benchmark/forecasts": {
        "unique_key": repeat_first_row,
        "p_yes_is_probability": change(p_yes=float("nan")),
        "confidence_is_probability": change(confidence=1.01),
        "answer_is_binary": change(answer="perhaps"),
        "forecast_or_reason": change(error="both"),
        "answer_agrees_with_forecast": change(answer=pl.when(pl.col("answer") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))),
        "coverage": change(p_yes=None, error="no answer"),
        "served_model_is_requested": change(model="openai/gpt-4o", served_model="gpt-4o-mini"),
        "one_served_model": lambda frame: frame.with_columns(served_model=pl.Series(["gpt-4o", "gpt-4o-2024-08-06"])),
    },
    "raw/kalshi_rejects": {"few_rejects": lambda frame: rejects(11)},
    "raw/polymarket_rejects": {"few_rejects": lambda frame: rejects(11)},
    "raw/kalshi_series_rejects": {"few_rejects": lambda frame: rejects(11)},
    "raw/kalshi_archive_rejects": {"few_rejects": lambda frame: rejects(11)},
    "raw/recording_gaps": {"unique_key": repeat_first_row, "nothing_lost": change(kind="lost")},
    "raw/kalshi_pulls": PULL,
    "raw/polymarket_pulls": PULL,
    "raw/polymarket_events": {
        "unique_key": repeat_first_row,
        "has_title": change(title=None),
        "has_tags": change(tags=pl.lit([], pl.List(pl.String))),
    },
    "raw/polymarket_markets": {
        "unique_key": repeat_first_row,
        "ends_within_its_day": change(end_time=PM_END + timedelta(hours=2)),
        "prices_between_0_and_1": change(last_trade_price=OVER),
        "outcome_prices_between_0_and_1": change(outcome_prices=pl.lit([OVER, -OVER])),
        "a_price_and_a_token_per_outcome": change(token_ids=pl.lit(["111"])),
        "known_market_type": change(market_type="ternary"),
        "known_uma_status": change(uma_resolution_status="pondered"),
        "yes_and_no_differ": change(no_token="111"),
        "bid_at_or_below_ask": change(best_bid=Decimal("0.6"), best_ask=Decimal("0.5")),
        "closed_has_a_time": change(closed_at=None),
        "has_event": change(event_id=None),
    },
    "raw/polymarket_winners": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(price=OVER),
        "at_most_one_winner": lambda frame: frame.with_columns(winner=pl.lit(True)),
        "no_winner_at_half": change(is_50_50_outcome=True),
    },
    "raw/polymarket_prices": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(price=OVER),
        "known_after_it_stood": change(at=KNOWN + timedelta(seconds=1)),
    },
    "replay/episodes": {
        "unique_key": repeat_first_row,
        "known_result": change(result="yes"),
        "at_most_one_winner": lambda frame: frame.with_columns(result=pl.lit("YES")),
        "prices_between_0_and_1": change(settlement_value=OVER),
        "ends_after_it_starts": change(end_at=OPEN),
        "settled": change(result=None),
        "no_gaps": change(gaps=1),
    },
    "replay/books": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(ask=OVER),
        "nothing_of_an_invalid_book": change(valid=False),
        "a_price_has_contracts": change(bid_depth=Decimal(4)),
        "bid_below_ask": change(bid=Decimal("0.4")),
    },
    "replay/orders": {"unique_key": repeat_first_row, "filled_within_its_size": change(filled=Decimal(6))},
    "replay/fills": {
        "unique_key": repeat_first_row,
        "prices_between_0_and_1": change(price=OVER),
        "fills_something": change(size=Decimal(0)),
        "known_role": change(role="broker"),
    },
    "replay/backtests": {
        "unique_key": repeat_first_row,
        "pnl_is_the_change": change(pnl=Decimal("-9.4")),
        "agent_did_not_fail": change(failure="ValueError: no"),
        "all_settled": change(unsettled=True),
    },
    "arena/universe": {
        "unique_key": repeat_first_row,
        "prices_fit_outcomes": change(outcomes=pl.lit(["Yes"])),
        "one_digest": change(digest="another"),
    },
    "arena/decisions": {
        "unique_key": repeat_first_row,
        "known_action": change(action="WAIT"),
        "invalid_says_why": change(action="INVALID"),
        "is_finished": change(state="open"),
        "served_model_is_requested": change(model="openai/gpt-4o", served_model="gpt-4o-mini"),
    },
    "arena/trades": {
        "unique_key": repeat_first_row,
        "known_action": change(action="HOLD"),
        "moves_something": change(shares=Decimal(0)),
        "price_is_a_price": change(price=OVER),
        "price_was_quoted": change(mid=Decimal("0.6")),
    },
    "arena/prices": {"unique_key": repeat_first_row, "price_is_a_price": change(price=OVER), "sources_agree": change(disagrees=True)},
    "arena/leaderboard": {
        "unique_key": repeat_first_row,
        "profit_is_the_change": change(profit=Decimal(1)),
        "costs_are_known": change(cost=None),
    },
    "clean/resolutions": {
        "unique_key": repeat_first_row,
        "known_status": change(status="finalized"),
        "winner_only_when_settled": change(status="disputed"),
        "winner_or_reason": change(outcome_reason="void"),
        "outcome_is_the_winner": change(outcome="no", settlement_value=Decimal(0)),
        "outcome_agrees_with_value": change(settlement_value=Decimal(0)),
        "sources_agree": change(winner=None, outcome=None, outcome_reason="contradictory evidence"),
        "prices_between_0_and_1": change(settlement_value=OVER),
    },
}


def test_every_rule_of_every_table_has_a_frame_that_breaks_it() -> None:
    assert {name: {rule.name for rule in rules} for name, rules in RULES.items()} == {name: set(bad) for name, bad in BAD.items()}


def test_ordinary_rows_meet_every_rule() -> None:
    for name in RULES:
        outcomes = validate(table(name), ordinary_rows(name), rules_for(name))
        assert [outcome.name for outcome in outcomes] == [rule.name for rule in rules_for(name)], name
        assert [outcome for outcome in outcomes if outcome.passed is not True] == [], name


def test_every_rule_fails_on_rows_made_bad() -> None:
    for name, bad in BAD.items():
        for rule, spoil in bad.items():
            rows = table(name).empty() if rule == "few_rejects" else ordinary_rows(name)
            (outcome,) = validate(table(name), spoil(rows), [made for made in rules_for(name) if made.name == rule])
            assert (outcome.passed, outcome.crashed) == (False, None), (name, rule)
            assert outcome.sample, (name, rule)


#: Changes of the first row that reach the limit of a rule and still meet it.
LIMITS = {
    "raw/kalshi_markets": {
        "bid_at_or_below_ask": change(yes_bid=Decimal("0.5"), yes_ask=Decimal("0.5")),
        "settles_after_it_closes": change(settled_at=pl.col("close_time")),
    },
    "raw/kalshi_candles": {"bid_at_or_below_ask": change(yes_bid_close=pl.col("yes_ask_close"))},
    "raw/kalshi_pulls": {"ends_after_it_starts": change(started_at=pl.col("finished_at"))},
    "clean/markets": {"settles_after_it_closes": change(settled_at=pl.col("close_time"))},
    "clean/prices": {"bid_at_or_below_ask": change(bid=pl.col("ask")), "known_after_it_stood": change(at=pl.col("known_at"))},
    "replay/books": {"a_price_has_contracts": change(bid_depth=pl.col("bid_size"))},
    "replay/orders": {"filled_within_its_size": change(filled=pl.col("size"))},
}


def test_rows_at_the_limit_of_a_rule_meet_it() -> None:
    for name, limits in LIMITS.items():
        for rule, reach in limits.items():
            (outcome,) = validate(table(name), reach(ordinary_rows(name)), [made for made in rules_for(name) if made.name == rule])
            assert outcome.passed, (name, rule)


def test_an_empty_partition_meets_every_rule_but_a_least_number_of_rows() -> None:
    for name in RULES:
        outcomes = validate(table(name), table(name).empty(), rules_for(name))
        expected = ["not_empty"] if name == "benchmark/questions" else []
        assert [outcome.name for outcome in outcomes if not outcome.passed] == expected, name


@pytest.mark.parametrize(("objects", "count", "passed"), [(0, 10, True), (0, 11, False), (5000, 50, True), (5000, 51, False)])
def test_a_share_of_a_large_pull_may_be_rejects(objects: int, count: int, passed: bool) -> None:
    (outcome,) = validate(table("raw/kalshi_rejects"), rejects(count), [few_rejects(objects)])
    assert (outcome.passed, outcome.failing_rows) == (passed, 0 if passed else count)


@pytest.mark.parametrize(("objects", "count", "passed"), [(0, 9, True), (0, 10, False), (5000, 49, True), (5000, 50, False)])
def test_a_share_of_a_whole_list_may_be_rejects_whatever_their_days(objects: int, count: int, passed: bool) -> None:
    (outcome,) = validate(table("raw/kalshi_archive_rejects"), rejects(count), [few_rejects(objects, listed=True)])
    assert (outcome.passed, outcome.failing_rows) == (passed, 0 if passed else count + 1)


NOW = datetime(2026, 3, 12, 9, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def observe(lake: Lake, name: str, now: datetime = NOW) -> Observation:
    (found,) = (one for one in LAKE_CHECKS if one.name == name)
    return found.evaluate(lake, now)


def write_markets(lake: Lake, day: date, *rows: dict[str, object]) -> None:
    frame = markets(*({**one, "day": day} for one in rows)) if rows else table("clean/markets").empty()
    lake.write(table("clean/markets"), (day.isoformat(),), frame, run_id="run")


def write_pull(lake: Lake, **changes: object) -> None:
    declared = table("raw/kalshi_pulls")
    lake.write(declared, (DAY.isoformat(),), declared.frame([pull(**changes)]), run_id="run")


def test_an_empty_lake_passes_every_check(lake: Lake) -> None:
    assert all(one.evaluate(lake, NOW).passed for one in LAKE_CHECKS)


@pytest.mark.parametrize(("age", "passed"), [(1, True), (2, True), (3, False)])
def test_a_lake_is_fresh_while_its_newest_day_is(lake: Lake, age: int, passed: bool) -> None:
    write_markets(lake, DAY, market())
    seen = observe(lake, "kalshi_is_fresh", datetime(DAY.year, DAY.month, DAY.day, 12, tzinfo=UTC) + timedelta(days=age))
    assert seen.passed is passed
    assert seen.numbers == {"newest day": DAY.isoformat(), "age (days)": age}


def test_a_day_without_markets_of_a_venue_does_not_make_it_fresh(lake: Lake) -> None:
    write_markets(lake, DAY - timedelta(days=9), market())
    write_markets(lake, DAY, market(venue="polymarket", market_id="501"))
    assert not observe(lake, "kalshi_is_fresh").passed
    assert observe(lake, "polymarket_is_fresh").passed


def test_days_that_were_not_pulled_and_days_without_markets_are_named(lake: Lake) -> None:
    for offset in (0, 1, 4):
        write_markets(lake, DAY + timedelta(days=offset), market())
    write_markets(lake, DAY + timedelta(days=2))
    seen = observe(lake, "kalshi_days_are_complete")
    assert not seen.passed
    assert seen.found == "not pulled: 2026-03-13; without markets: 2026-03-12"
    assert seen.numbers == {"days": 3, "not pulled": 1, "without markets": 1}


def test_a_day_with_outcomes_and_no_price_at_all_is_named(lake: Lake) -> None:
    write_markets(lake, DAY, market("A"), market("B"))
    assert not observe(lake, "kalshi_markets_have_prices").passed
    lake.write(table("clean/prices"), (DAY.isoformat(),), prices(price(market_id="A")), run_id="run")
    seen = observe(lake, "kalshi_markets_have_prices")
    assert seen.passed
    assert seen.numbers == {"markets with an outcome": 2, "of these with prices": 1, "share with prices": 0.5}


def test_markets_without_an_outcome_need_no_prices(lake: Lake) -> None:
    write_markets(lake, DAY, market(outcome=None, outcome_reason="undetermined", status="closed"))
    assert observe(lake, "kalshi_markets_have_prices").passed


@pytest.mark.parametrize(("refused", "passed"), [(0, True), (5, True), (6, False)])
def test_being_refused_for_the_rate_is_an_alarm_and_waiting_is_not(lake: Lake, refused: int, passed: bool) -> None:
    write_pull(lake, attempts=100, failures_rate_limit=refused, limited_seconds=500.0)
    seen = observe(lake, "kalshi_rate_limit_time")
    assert seen.passed is passed
    assert seen.numbers["seconds waited for the rate"] == 500.0
    assert seen.numbers["refused for the rate"] == refused
