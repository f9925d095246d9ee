"""Resolution and settlement, from evidence to the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bellwether.arena.account import PositionStatus
from bellwether.arena.facts import Result, Settlement, Trade
from bellwether.arena.ledger import LedgerKind, fold, violations
from bellwether.arena.market import MarketStatus
from bellwether.arena.resolution import (
    CORRECTIONS,
    DAILY,
    FIRST,
    LONGEST,
    OPEN,
    Observation,
    PollState,
    build_evidence_row,
    cancellation,
    derive_settlements,
    find_awaited_markets,
    find_correctable_markets,
    find_due_markets,
    find_incidents,
    judge_evidence,
    next_poll_time,
)
from bellwether.arena.scores import score_bets
from bellwether.venues.polymarket.resolution import EVIDENCE
from tests.unit.arena.world import AGENT, KEY, NOW, V1, V2, agent, buy_trade, sell_trade, usd, won

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CLOSED = NOW + 10 * DAY


def make_evidence(
    at: datetime, prices: list[str], outcomes: tuple[str, ...] = ("Yes", "No"), uma: str | None = "resolved", **more: Any
) -> dict[str, Any]:
    words = sorted(name.lower() for name in outcomes)
    kind = "binary" if words == ["no", "yes"] else "named" if len(outcomes) == 2 else "multi"
    market = {
        "market_id": "m",
        "market_type": kind,
        "outcomes": list(outcomes),
        "closed": True,
        "uma_resolution_status": uma,
        "uma_statuses": [],
        "outcome_prices": [Decimal(price) for price in prices],
        "closed_at": CLOSED,
        "end_time": CLOSED,
        **more,
    }
    return build_evidence_row(market, fetched_at=at)


def observations(*looks: dict[str, Any]) -> list[Observation]:
    return judge_evidence(pl.DataFrame(looks, schema=EVIDENCE, orient="row"))


def twice(prices: list[str], outcomes: tuple[str, ...] = ("Yes", "No"), **more: Any) -> list[Observation]:
    return observations(*[make_evidence(CLOSED + n * HOUR / 2, prices, outcomes, **more) for n in (1, 2)])


TEN = buy_trade("10", "5")


def test_a_win_is_paid_and_scored() -> None:
    (settlement,) = derive_settlements(twice(["1", "0"]), V1)
    book = fold([agent("10000")], [TEN], [settlement])
    account = book.accounts[AGENT.agent_id]
    (position,) = account.positions.values()
    assert (account.cash, account.invested, position.status) == (usd(10005), 0, PositionStatus.SETTLED)
    (score,) = score_bets(book)
    assert (settlement.winner, score.brier_size, score.won) == ("Yes", 0.25, True)
    assert violations(book, [TEN]) == []


def test_a_bet_is_scored_though_its_position_was_sold() -> None:
    trades = [TEN, sell_trade("10", "7", TEN, 2)]
    book = fold([AGENT], trades, derive_settlements(twice(["1", "0"]), V1))
    assert [entry.kind for entry in book.entries] == [LedgerKind.BUY, LedgerKind.SELL]
    assert [score.brier_size for score in score_bets(book)] == [0.25]
    assert book.accounts[AGENT.agent_id].realized == usd(2)


def test_a_market_settles_as_a_whole_or_not_at_all() -> None:
    other = buy_trade(
        "8", "4", side="Maybe", agent_id="2026-03-01/b", trade_id="2026-03-01/b/2026-03-01/1", position_id="2026-03-01/b/2026-03-01/1"
    )
    agents, trades = [AGENT, agent(family="b")], [TEN, other]
    first = won("Yes", ("Yes", "No"))
    book = fold(agents, trades, [first])
    assert {position.status for account in book.accounts.values() for position in account.positions.values()} == {PositionStatus.OPEN}
    assert book.settlements == {}
    assert score_bets(book) == []
    assert [one.rule for one in violations(book, trades)] == ["every position of a market can be settled"]
    later = won("Yes", ("Yes", "Maybe"), at=first.known_at + DAY)
    settled = fold(agents, trades, [first, later])
    assert {position.status for account in settled.accounts.values() for position in account.positions.values()} == {PositionStatus.SETTLED}


def test_a_resolution_without_a_winner_is_deferred() -> None:
    found = twice(["0.995", "0.005"])
    assert derive_settlements(found, V1) == derive_settlements(found, V2) == []


def test_an_unknown_winner_is_refunded_in_v1_after_the_grace_period() -> None:
    looks = [make_evidence(CLOSED + n * DAY, ["0.995", "0.005"]) for n in range(1, 17)]
    (settlement,) = derive_settlements(observations(*looks), V1)
    assert (settlement.result, settlement.known_at) == (Result.CANCELLED, CLOSED + 15 * DAY)
    assert derive_settlements(observations(*looks), V2) == []
    book = fold([AGENT], [TEN], [settlement])
    assert (book.accounts[AGENT.agent_id].cash, score_bets(book)) == (usd(10000), [])
    assert [entry.kind for entry in book.entries] == [LedgerKind.BUY, LedgerKind.REFUND]


def test_the_grace_period_starts_again_when_the_market_is_not_over() -> None:
    looks = [make_evidence(CLOSED + n * DAY, ["0.995", "0.005"], uma="disputed" if n == 8 else "resolved") for n in range(1, 17)]
    assert derive_settlements(observations(*looks), V1) == []


def test_a_winner_after_a_refund_corrects_it() -> None:
    looks = [make_evidence(CLOSED + n * DAY, ["0.995", "0.005"]) for n in range(1, 17)]
    both = derive_settlements(observations(*looks, make_evidence(CLOSED + 20 * DAY, ["1", "0"])), V1)
    assert [one.result for one in both] == [Result.CANCELLED, Result.WON]
    book = fold([AGENT], [TEN], both)
    assert [(entry.kind, entry.amount, entry.corrects) for entry in book.entries[1:]] == [
        (LedgerKind.REFUND, usd(5), False),
        (LedgerKind.REFUND, -usd(5), True),
        (LedgerKind.SETTLE, usd(10), False),
    ]
    assert violations(book, [TEN]) == []


def test_later_looks_change_nothing() -> None:
    found = twice(["1", "0"])
    again = found + observations(make_evidence(CLOSED + 3 * DAY, ["1", "0"]), make_evidence(CLOSED + 4 * DAY, ["1", "0"]))
    assert derive_settlements(again, V1) == derive_settlements(found, V1)
    assert find_incidents(again, V1) == []


def test_an_operators_cancellation_refunds() -> None:
    (settlement,) = derive_settlements([cancellation("m", CLOSED, "operator")], V2)
    book = fold([agent("10000", rules="v2")], [buy_trade("4", "2")], [settlement])
    assert [(entry.kind, entry.amount) for entry in book.entries] == [(LedgerKind.BUY, -usd(2)), (LedgerKind.REFUND, usd(2))]
    assert score_bets(book) == []


FOUR = buy_trade("4", "1")


def test_a_position_that_is_open_on_a_settled_market_is_a_violation() -> None:
    book = fold([AGENT], [FOUR], [])
    book.settlements["v1", "m"] = won("Yes")
    assert [one.rule for one in violations(book, [FOUR])] == ["a market settles as a whole"]


def test_one_look_is_enough_when_the_window_for_disputes_has_passed() -> None:
    assert derive_settlements(observations(make_evidence(CLOSED + HOUR, ["1", "0"])), V1) == []
    (settlement,) = derive_settlements(observations(make_evidence(CLOSED + 2 * HOUR, ["1", "0"])), V1)
    assert settlement.known_at == CLOSED + 2 * HOUR


def test_the_same_look_twice_is_one_look() -> None:
    one = make_evidence(CLOSED + HOUR, ["1", "0"])
    assert derive_settlements(observations(one, one), V1) == []


def test_looks_that_contradict_each_other_confirm_nothing() -> None:
    found = observations(make_evidence(CLOSED + HOUR / 2, ["1", "0"]), make_evidence(CLOSED + HOUR, ["0", "1"]))
    assert derive_settlements(found, V1) == []


def test_a_disputed_market_is_not_settled() -> None:
    assert derive_settlements(twice(["1", "0"], uma="disputed"), V1) == []
    assert derive_settlements(twice(["1", "0"], uma="proposed"), V1) == []


def test_half_and_half_pays_half() -> None:
    (settlement,) = derive_settlements(twice(["0.5", "0.5"]), V1)
    book = fold([AGENT], [buy_trade("1000", "600")], [settlement])
    assert (settlement.result, book.accounts[AGENT.agent_id].cash, score_bets(book)) == (Result.SPLIT, usd(9400) + usd(500), [])


def test_fractions_pay_what_they_say() -> None:
    (settlement,) = derive_settlements(twice(["0.3", "0.7"]), V1)
    assert (settlement.result, dict(settlement.payouts)) == (Result.SPLIT, {"yes": 300_000, "no": 700_000})


@pytest.mark.parametrize(
    ("case", "outcomes", "prices", "winner"),
    [
        ("the first of three", ("Alice", "Bob", "Carol"), ["1", "0", "0"], "Alice"),
        ("yes", ("Yes", "No"), ["1", "0"], "Yes"),
        ("the second of two", ("Left", "Right"), ["0", "1"], "Right"),
        ("yes in the second place", ("No", "Yes"), ["0", "1"], "Yes"),
    ],
)
def test_winners_are_found_by_name(case: str, outcomes: tuple[str, ...], prices: list[str], winner: str) -> None:
    (settlement,) = derive_settlements(twice(prices, outcomes), V1)
    assert (settlement.winner, settlement.payouts[winner.casefold()], sum(settlement.payouts.values())) == (winner, 1_000_000, 1_000_000)


@pytest.mark.parametrize("flags", [["Yes"], ["yes"]])
def test_the_flag_of_the_winner_counts(flags: list[str]) -> None:
    looks = [{**make_evidence(CLOSED + n * HOUR, ["0.97", "0.03"], uma=None), "winners": flags} for n in (1, 2)]
    (settlement,) = derive_settlements(observations(*looks), V1)
    assert settlement.winner == "Yes"


@pytest.mark.parametrize(("case", "prices"), [("none", []), ("one", ["0.99"]), ("undecided", ["0.55", "0.44"])])
def test_prices_that_decide_nothing(case: str, prices: list[str]) -> None:
    assert derive_settlements(twice(prices, uma=None), V1) == []


def test_a_market_that_is_open_again_stays_resolved_and_is_an_incident() -> None:
    found = [*twice(["1", "0"]), *observations(make_evidence(CLOSED + DAY, ["0.6", "0.4"], uma=None, closed=False))]
    assert len(derive_settlements(found, V1)) == 1
    assert [incident.found for incident in find_incidents(found, V1)] == ["not closed"]


def test_a_corrected_winner_takes_back_and_pays_anew_and_the_past_remains() -> None:
    no = buy_trade("20", "5", side="NO", leg=2)
    first, second = won("Yes"), won("No", at=NOW.replace(day=25))
    book = fold([AGENT], [TEN, no], [first, second])
    account = book.accounts[AGENT.agent_id]
    assert account.cash == usd(10000) - usd(10) + usd(20)
    assert account.realized == usd(10)
    assert [score.won for score in score_bets(book)] == [False, True]
    assert violations(book, [TEN, no]) == []
    then = fold([AGENT], [TEN, no], [first, second], known_at=first.known_at)
    assert then.accounts[AGENT.agent_id].cash == usd(10000)
    assert [score.won for score in score_bets(then)] == [True, False]


def test_cohorts_of_two_methodologies_settle_by_their_own_rules() -> None:
    looks = observations(*[make_evidence(CLOSED + n * DAY, ["0.995", "0.005"]) for n in range(1, 17)])
    second = TEN._replace(agent_id="2026-03-01/b", trade_id="2026-03-01/b/2026-03-01/1", position_id="2026-03-01/b/2026-03-01/1")
    book = fold([AGENT, agent(family="b", rules="v2")], [TEN, second], [*derive_settlements(looks, V1), *derive_settlements(looks, V2)])
    assert [position.status for account in book.accounts.values() for position in account.positions.values()] == ["settled", "open"]


def test_a_trade_on_a_settled_market_is_a_violation_and_not_booked() -> None:
    late = buy_trade("5", "2", leg=2, executed_at=NOW.replace(day=21), position_id=TEN.trade_id)
    book = fold([AGENT], [TEN, late], [won("Yes")])
    assert [one.where for one in violations(book, [TEN, late])] == [late.trade_id]
    assert book.accounts[AGENT.agent_id].cash == usd(10005)


@pytest.mark.parametrize(
    "trade",
    [
        TEN._replace(agent_id="2026-03-01/zoe", trade_id="2026-03-01/zoe/2026-03-01/1"),
        TEN._replace(trade_id="2026-03-01/b/2026-03-01/1"),
        TEN._replace(trade_id=KEY.trade_id(2), position_id="2026-03-01/b/2026-03-01/1"),
        sell_trade("11", "6", TEN, 2),
        sell_trade("1", "1", TEN, 2, side="NO"),
        TEN,
    ],
)
def test_a_trade_that_does_not_fit_is_a_violation(trade: Trade) -> None:
    book = fold([AGENT], [TEN, trade], [])
    assert [one.rule for one in violations(book, [TEN])] == ["every trade can be booked"]
    assert book.accounts[AGENT.agent_id].cash == usd(9995)


def test_money_that_was_spent_before_it_is_taken_back_is_owed() -> None:
    spent = buy_trade("10", "105", market_id="n", leg=2, executed_at=NOW.replace(day=21))
    trades = [buy_trade("100", "90"), spent]
    book = fold([agent("100")], trades, [won("No", at=NOW.replace(day=25)), won("Yes")])
    assert [entry.cash for entry in book.entries] == [usd(10), usd(110), usd(5), -usd(95), -usd(95)]
    assert violations(book, trades) == []


def test_only_markets_that_somebody_waits_for_are_looked_at() -> None:
    assert find_awaited_markets(fold([AGENT], [], [])) == []
    assert find_awaited_markets(fold([AGENT], [TEN], [])) == ["m"]
    assert find_awaited_markets(fold([AGENT], [TEN, sell_trade("10", "6", TEN, 2)], [])) == ["m"]
    assert find_awaited_markets(fold([AGENT], [TEN], [won("Yes")])) == []
    assert find_awaited_markets(fold([AGENT], [TEN], [Settlement("m", "v1", NOW + timedelta(days=1), Result.CANCELLED, {})])) == []


def test_a_market_is_awaited_until_every_methodology_has_settled_it() -> None:
    second = TEN._replace(agent_id="2026-03-01/b", trade_id="2026-03-01/b/2026-03-01/1", position_id="2026-03-01/b/2026-03-01/1")
    agents = [AGENT, agent(family="b", rules="v2")]
    assert find_awaited_markets(fold(agents, [TEN, second], [won("Yes")])) == ["m"]
    assert find_awaited_markets(fold(agents, [TEN, second], [won("Yes"), won("Yes", rules="v2")])) == []


def test_looks_become_rarer_while_nothing_happens() -> None:
    waits = [next_poll_time(PollState(MarketStatus.CLOSED, NOW, same=n)) for n in (1, 2, 3, 50)]
    assert waits == [NOW + FIRST, NOW + 2 * FIRST, NOW + 4 * FIRST, NOW + LONGEST]


def test_an_open_market_is_looked_at_when_it_closes() -> None:
    assert next_poll_time(PollState(MarketStatus.ACTIVE, NOW, closes_at=NOW + timedelta(days=3))) == NOW + OPEN
    assert next_poll_time(PollState(MarketStatus.ACTIVE, NOW, closes_at=NOW + timedelta(hours=1))) == NOW + timedelta(hours=1)
    assert next_poll_time(PollState(MarketStatus.ACTIVE, NOW, closes_at=NOW - timedelta(hours=1))) == NOW + FIRST
    assert next_poll_time(None) is None


def test_a_settled_market_is_looked_at_once_a_utc_day_during_the_window_for_corrections() -> None:
    book = fold([AGENT], [TEN], [won("Yes")])
    settled_at = next(iter(book.settlements.values())).known_at
    assert find_correctable_markets(book, settled_at + CORRECTIONS) == ["m"]
    assert find_correctable_markets(book, settled_at + CORRECTIONS + timedelta(seconds=1)) == []
    looked = PollState(MarketStatus.CLOSED, datetime(2026, 3, 3, 15, 20, tzinfo=UTC), same=9)
    assert next_poll_time(looked, settled=True) == datetime(2026, 3, 4, tzinfo=UTC)
    at = settled_at + timedelta(days=3)
    assert find_due_markets(book, {"m": PollState(MarketStatus.CLOSED, at)}, at) == []
    assert find_due_markets(book, {"m": PollState(MarketStatus.CLOSED, at - DAILY)}, at) == ["m"]
    assert find_due_markets(book, {"m": PollState(MarketStatus.CLOSED, at - DAILY)}, at, final=["m"]) == []


def test_a_missing_market_is_polled_less_and_less_often_but_once_a_day() -> None:
    waits = [next_poll_time(PollState(MarketStatus.ACTIVE, NOW, same=n, closes_at=NOW + CORRECTIONS, missing=True)) for n in (1, 2, 3, 50)]
    assert waits == [NOW + FIRST, NOW + 2 * FIRST, NOW + 4 * FIRST, NOW + DAILY]
