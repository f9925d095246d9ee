"""Acceptance rows that concern several parts of the arena, or those of others that it rests on, each by its id."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from bellwether.arena.deciding import Task, decide_all
from bellwether.arena.decision import DecisionState, Reason
from bellwether.arena.identity import AgentKey, DecisionKey
from bellwether.arena.ledger import fold
from bellwether.arena.lineup import lineup
from bellwether.arena.market import MarketStatus
from bellwether.arena.marks import Price, Source, curves
from bellwether.arena.scores import score_bets, summary
from bellwether.arena.universe import market_of, status_of
from bellwether.errors import ConfigError, VenueError
from bellwether.journal import Journal, Outcome
from bellwether.venues.polymarket import looks
from tests.arena.deciding import Provider, means, tasks
from tests.arena.test_settlement import seen
from tests.arena.world import AGENT, COHORT, NOW, account, agent, bet, bets, binary, bought, run, usd, won
from tests.venues.polymarket.clients import clob, gamma
from tests.venues.polymarket.objects import NO, YES, market, read, reject, row
from tests.venues.venue import Script, answer

FIRST_TRADE = bought("100", "60")


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    with Journal(f"sqlite:///{tmp_path}/journal.db") as made:
        yield made


def test_b25_a_store_that_fails_changes_nothing_and_the_next_run_executes_once(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    saw: list[str] = []
    (task,) = tasks(families=["acme"])
    from bellwether.arena import deciding

    def full(*_: Any) -> bytes:
        raise VenueError("storing the execution", 1, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(deciding, "_executed", full)
        (failed,) = decide_all([task], means(journal, saw.append))
    assert (failed.state, failed.execution) == (DecisionState.READ, None)
    assert "the disk is full" in failed.reason
    (done,) = decide_all([task], means(journal, saw.append))
    assert done.execution is not None
    assert (done.state, len(done.execution.trades)) == (DecisionState.FINISHED, 2)
    assert len([words for words in saw if words.startswith("asked")]) == 1


def test_r14_a_bet_is_scored_once() -> None:
    book = fold([AGENT], [FIRST_TRADE, FIRST_TRADE], [won("Yes"), won("Yes")._replace(number=2)])
    assert [score.trade_id for score in score_bets(book)] == [FIRST_TRADE.trade_id]


def test_d7_and_a9_a_trade_of_another_cohorts_decision_is_refused() -> None:
    other = AgentKey(COHORT + timedelta(days=7), "acme").agent_id
    book = fold([AGENT], [FIRST_TRADE._replace(trade_id=f"{other}/{COHORT}/1", position_id=f"{other}/{COHORT}/1")], [])
    assert [(one.rule, one.found) for one in book.violations] == [("every trade can be booked", f"it is not of agent {AGENT.agent_id}")]
    assert book.accounts[AGENT.agent_id].cash == usd("10000")


def _two_cohorts() -> list[Task]:
    first = tasks(families=["acme", "zeta"])
    later = [replace(task, key=DecisionKey(AgentKey(COHORT + timedelta(days=7), task.key.agent.family), task.key.week)) for task in first]
    return [*later, *first]


def test_d17_a_cohort_that_fails_leaves_the_other_alone(journal: Journal) -> None:
    out = means(journal)
    assert isinstance(out.ask, Provider)
    failing = _two_cohorts()
    broken = [replace(task, model="beta") if task.key.agent.cohort > COHORT else task for task in failing]
    out.ask.fails["beta"] = Outcome.TIMEOUT
    found = decide_all(broken, out)
    states = {(one.decision_id[:10], one.state) for one in found}
    assert states == {("2026-03-08", DecisionState.OPEN), ("2026-03-01", DecisionState.FINISHED)}
    assert len(found) == 4, "no other cohort takes the place of the failed one"


def test_d18_an_outage_of_every_agent_is_named_for_each(journal: Journal) -> None:
    out = means(journal)
    assert isinstance(out.ask, Provider)
    out.ask.fails |= dict.fromkeys(("acme", "zeta"), Outcome.TIMEOUT)
    found = decide_all(_two_cohorts(), out)
    assert Counter(one.decision_id[:10] for one in found if one.problem) == {"2026-03-08": 2, "2026-03-01": 2}
    assert {one.reason for one in found} == {"timeout: the provider's words"}


@pytest.mark.parametrize(
    ("case", "families", "said"),
    [("A7", 'gpt = ""', "no model is called ''"), ("A8", 'gpt = "gpt-0"', "no model is called 'gpt-0'")],
)
def test_a7_and_a8_an_agent_without_a_known_model_is_refused(tmp_path: Path, case: str, families: str, said: str) -> None:
    (tmp_path / "lineups.toml").write_text(f'[mine]\ntitle = "t"\n[mine.families]\n{families}\n')
    with pytest.raises(ConfigError, match=said):
        lineup("mine", tmp_path)


# --- markets of the wire ------------------------------------------------------------------------------------------


def test_m3_and_m10_a_market_whose_fields_cannot_be_read_is_never_guessed() -> None:
    """Where the reference falls back on other fields, a market without outcomes is set aside with its reason, and never offered."""
    parsed = read(market(1, outcomes="[", outcomePrices="["), market(2))
    assert [one["market_id"] for one in parsed.rows.iter_rows(named=True)] == ["2"]
    assert parsed.rejects.height == 1
    unread = market_of({**row(market()), "outcomes": [], "outcome_prices": None, "token_ids": []}, NOW)
    assert (unread.status, unread.prices) == (MarketStatus.CLOSED, ())


def test_m4_a_market_without_an_end_is_set_aside_and_gets_no_date() -> None:
    (field, value, reason) = reject(market(endDate=..., active=True, closed=False, acceptingOrders=True))
    assert (field, value, reason) == ("endDate", None, "missing: without an end a market belongs to no day")
    assert market_of({**row(market()), "end_time": None}, NOW).closes_at is None


def test_m8_an_empty_price_is_none_and_no_zero() -> None:
    found = market_of({**row(market()), "outcome_prices": [None, Decimal(1)]}, NOW)
    assert found.prices == (None, usd(1))


def test_m14_the_token_that_pays_one_won() -> None:
    found = seen_flags(["Yes"])
    assert found.ruling is not None
    assert found.ruling.winner == "Yes"


def seen_flags(winners: list[str]) -> Any:
    from tests.arena.test_settlement import CLOSED
    from tests.arena.test_settlement import look as looked

    (one,) = seen({**looked(CLOSED + timedelta(days=1), ["0", "1"]), "outcome_prices": None, "winners": winners})
    return one


async def test_m23_an_answer_that_is_no_list_is_an_error_and_no_empty_universe() -> None:
    async with gamma(Script(answer({}))) as client:
        with pytest.raises(VenueError):
            await looks.largest_open(client, 10)


async def test_m24_a_list_that_fails_is_asked_for_again_and_then_an_error() -> None:
    venue = Script(httpx.Response(502))
    async with gamma(venue) as client:
        with pytest.raises(VenueError, match="502"):
            await looks.largest_open(client, 10)
    assert len(venue.requests) > 2


@pytest.mark.parametrize("failure", [httpx.Response(500), httpx.ReadTimeout("15 s")], ids=["500", "hang"])
async def test_m25_a_look_at_one_market_that_fails_is_an_error(failure: httpx.Response | Exception) -> None:
    async with gamma(Script(failure)) as client:
        with pytest.raises(VenueError):
            await looks.by_id(client, ["531202"])


async def test_m25_a_market_that_the_venue_does_not_know_is_left_out() -> None:
    async with gamma(Script(answer({"markets": []}))) as client:
        assert (await looks.by_id(client, ["531202"])).rows == ()


def test_m27_a_market_that_closes_between_two_looks_is_closed() -> None:
    found = market_of(row(market(umaResolutionStatus=...)), NOW)
    assert found.status is MarketStatus.CLOSED
    done = run(bets(bet(), bet(market_id=found.market_id)), account(), binary(), found)
    assert [(one.leg, one.reason) for one in done.refusals] == [(2, Reason.MARKET_NOT_ACTIVE)]


def test_m28_a_later_look_with_missing_fields_takes_nothing_back() -> None:
    """The frozen universe keeps what it was frozen with; a look changes the status alone."""
    from bellwether.arena.weekly.deciding import _with_status

    known = {"m": binary(volume=5)}
    bare = dict.fromkeys(row(market())) | {"market_id": "m", "closed": True, "uma_statuses": []}
    after = _with_status(known, {"m": status_of(bare)})
    assert after["m"] == replace(known["m"], status=MarketStatus.CLOSED)


def _page(first: int, cursor: str | None) -> httpx.Response:
    items = [market(first + number, closed=False, active=True, acceptingOrders=True, umaResolutionStatus=...) for number in range(100)]
    return answer({"markets": items, **({"next_cursor": cursor} if cursor else {})})


async def test_m35_three_pages_are_three_hundred_rows_and_a_cursor_that_repeats_ends_in_an_error() -> None:
    async with gamma(Script(_page(0, "a"), _page(0, "a"), _page(100, "b"), _page(200, None))) as client:
        assert len((await looks.largest_open(client, 300)).rows) == 300
    async with gamma(Script(_page(0, "a"), _page(0, "a"), _page(100, "a"))) as client:
        with pytest.raises(VenueError):
            await looks.largest_open(client, 500)


async def test_m36_a_page_that_was_refused_for_haste_is_asked_for_again() -> None:
    busy = httpx.Response(429, headers={"Retry-After": "1"})
    venue = Script(_page(0, "a"), _page(0, "a"), busy, busy, _page(100, None))
    async with gamma(venue) as client:
        assert len((await looks.largest_open(client, 500)).rows) == 200
    assert len(venue.requests) == 5


# --- prices -------------------------------------------------------------------------------------------------------


async def test_v7_books_that_cannot_be_fetched_fail_the_mark_and_are_no_prices() -> None:
    venue = Script(httpx.Response(503))
    async with clob(venue) as client:
        with pytest.raises(VenueError, match="503"):
            await looks.books(client, [YES, NO])
    assert len(venue.requests) > 2


async def test_v8_without_tokens_there_is_no_call() -> None:
    venue = Script(httpx.Response(500))
    async with clob(venue) as client:
        assert await looks.books(client, []) == {}
    assert venue.requests == []


@pytest.mark.parametrize("said", [answer({}, status=404), answer({"history": []})], ids=["404", "missing"])
async def test_v10_a_past_price_that_is_not_there_is_none(said: httpx.Response) -> None:
    async with clob(Script(said)) as client:
        assert await looks.past_prices(client, {YES: (NOW - timedelta(hours=2), NOW)}) == {YES: []}


async def test_v10_a_past_price_that_is_no_price_is_left_out_or_an_error() -> None:
    async with clob(Script(answer({"history": "oops"}))) as client:
        with pytest.raises(VenueError):
            await looks.past_prices(client, {YES: (NOW - timedelta(hours=2), NOW)})


def test_v22_a_price_that_is_corrected_restates_the_portfolio_and_a_second_time_changes_nothing() -> None:
    book = fold([agent("9060")], [FIRST_TRADE], [])
    wrong, right = (Price("m", "YES", NOW + timedelta(minutes=10), usd(price), Source.LIVE) for price in ("0.8", "0.2"))
    assert curves(book, [wrong])[-1].total == usd(9080)
    assert curves(book, [right])[-1].total == usd(9020)
    assert curves(book, [right, right]) == curves(book, [right])


# --- tables -------------------------------------------------------------------------------------------------------


def test_k8_scores_and_win_rate_of_agents_whatever_the_case_of_the_winner() -> None:
    mine = agent(family="acme")
    other = agent(family="beta")
    theirs = f"{other.agent_id}/{COHORT}/1"
    bets = [
        FIRST_TRADE._replace(confidence=0.8),
        bought("100", "60", market_id="n", leg=2, side="NO", confidence=0.8),
        FIRST_TRADE._replace(trade_id=theirs, position_id=theirs, agent_id=other.agent_id, confidence=0.7),
    ]
    book = fold([mine, other], bets, [won("YES"), won("no", market_id="n")])
    found = {name: summary([one for one in score_bets(book) if one.agent_id == name]) for name in (mine.agent_id, other.agent_id)}
    assert found[mine.agent_id].brier_size == pytest.approx(0.04)
    assert found[other.agent_id].brier_size == pytest.approx(0.09)
    assert {one.win_rate for one in found.values()} == {1.0}
