"""Interventions of operators, and results as known before and after: a cancelled market, a closed agent, an archived cohort."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.rankings.equity import WINDOWS, compute_window_equity
from bellwether.arena.records import InterventionKind, load_by_subject, load_interventions
from bellwether.arena.results import Facts, newest_fact_time
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.interventions import archive_cohort, cancel_market, close_agent
from bellwether.arena.weekly.queries import is_week_decided, query_agent, query_cohort, read_as_known, stored_tables
from bellwether.calibration.inference import Inference
from bellwether.errors import ConfigError
from bellwether.tables import arena as tables
from bellwether.tables import table
from bellwether.tables.arena_rankings import INPUTS
from tests.arena.weeks import SEVEN, Arena

START = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A live week of rules. An hour later one market is cancelled and one agent closed, and evidence and decisions are updated."""
    arena = Arena(tmp_path_factory.mktemp("operators"), now=START, lineup="rules")
    week = START.date()
    arena.decide(week)
    arena.evidence(week)
    arena.now = START + HOUR
    with arena.journal() as journal:
        world = arena.world(journal)
        market = sorted(arena.read(tables.TRADES)["market_id"])[0]
        cancel_market(world, market, "ann", "the question was withdrawn")
        close_agent(world, f"{week}/random", "ann", "its key was stolen")
    arena.evidence(week)
    arena.decide(week)
    arena.books()
    return arena


def _cancelled(arena: Arena) -> dict[str, object]:
    return arena.read(tables.EVIDENCE).filter(pl.col("cancelled_by").is_not_null()).row(0, named=True)


def test_a_cancellation_refunds_what_is_held_from_when_it_is_known(arena: Arena) -> None:
    word = _cancelled(arena)
    assert (word["cancelled_by"], word["known_at"]) == ("ann (the question was withdrawn)", START + HOUR)
    found = arena.results()
    assert found.violations == []
    ledger = found.frames["arena/ledger"].filter(pl.col("market_id") == word["market_id"])
    refunds = ledger.filter(pl.col("kind") == "REFUND")
    assert refunds["known_at"].unique().to_list() == [START + HOUR]
    assert refunds["amount"].sum() == -ledger.filter(pl.col("kind") == "BUY")["amount"].sum() > 0
    settled = found.frames["arena/settlements"].row(by_predicate=pl.col("market_id") == word["market_id"], named=True)
    assert (settled["result"], settled["rule"]) == ("cancelled", "cancelled by ann (the question was withdrawn)")
    assert word["market_id"] not in found.frames["arena/scores"]["market_id"]


def test_results_are_shown_as_they_were_known(arena: Arena) -> None:
    rules = methodologies(arena.registry)
    before, after = (read_as_known(arena.lake, rules, at) for at in (START + HOUR / 2, START + HOUR))
    assert before(tables.SETTLEMENTS).is_empty()
    assert "REFUND" not in before(tables.LEDGER)["kind"]
    assert after(tables.LEDGER).equals(arena.read(tables.LEDGER))
    for one in (tables.AGENTS, tables.DECISIONS, tables.TRADES, tables.EVIDENCE, tables.UNIVERSE, tables.LEADERBOARD):
        assert after(one).equals(arena.read(one)), one.name
    closed = {
        at: query_cohort(rows, START.date()).filter("closed")["family"].to_list() for at, rows in (("before", before), ("after", after))
    }
    assert closed == {"before": [], "after": ["random"]}
    assert set(before(tables.POSITIONS)["status"]) == {"open"}
    assert "settled" in after(tables.POSITIONS)["status"]
    positions = query_agent(before, START.date(), "random")["positions"]
    assert positions["position_id"].to_list() == sorted(
        arena.read(tables.TRADES).filter(pl.col("agent_id").str.ends_with("/random"))["trade_id"]
    )
    nothing = read_as_known(arena.lake, rules, START - HOUR)
    assert nothing(tables.LEADERBOARD).is_empty()
    assert nothing(tables.UNIVERSE).is_empty()
    with pytest.raises(ConfigError, match="no cohort started"):
        query_cohort(nothing, START.date())


def test_an_intervention_is_recorded_once(arena: Arena) -> None:
    with arena.journal() as journal:
        world = arena.world(journal)
        first = load_interventions(world.records)
        again = cancel_market(world, first[0].subject, "bob", "again")
        assert again == first[0]
        assert close_agent(world, f"{START.date()}/random", "bob", "again") == first[1]
        assert load_interventions(world.records) == first
    assert arena.evidence(START.date()).filter(pl.col("cancelled_by").is_not_null()).height == 1


def test_a_cancellation_never_takes_the_place_of_a_look(arena: Arena, tmp_path: Path) -> None:
    """The clock of a sandbox does not move, so evidence and a cancellation may have the same time. Both must be kept."""
    other = Arena(tmp_path, now=START, lineup="rules")
    other.decide(START.date())
    looks = other.evidence(START.date())
    with other.journal() as journal:
        word = cancel_market(other.world(journal), looks["market_id"][0], "ann", "r")
    assert word.at == START + timedelta(microseconds=1)
    assert other.evidence(START.date()).height == looks.height + 1


@pytest.mark.parametrize(
    ("agent", "found"),
    [
        ("nobody", "COHORT/FAMILY"),
        ("2026-06-28/nobody", "unknown agent"),
        ("2026-06-21/hold", "unknown agent"),
        ("2026-13-01/hold", "COHORT"),
    ],
)
def test_an_agent_that_there_is_not_is_refused(arena: Arena, agent: str, found: str) -> None:
    with arena.journal() as journal, pytest.raises(ConfigError, match=found):
        close_agent(arena.world(journal), agent, "ann", "r")


def test_a_market_without_a_bet_and_an_intervention_without_a_reason_are_refused(arena: Arena) -> None:
    with arena.journal() as journal:
        world = arena.world(journal)
        with pytest.raises(ConfigError, match="no agent has bet on this market"):
            cancel_market(world, "no-market", "ann", "r")
        for by, reason in (("", "r"), ("ann", " "), ("ann", "two\nlines")):
            with pytest.raises(ConfigError, match="give one line of text"):
                cancel_market(world, "no-market", by, reason)


def test_a_closed_agent_decides_no_more_and_nobody_waits_for_it(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=START - SEVEN, lineup="rules")
    first = arena.now.date()
    arena.decide(first)
    with arena.journal() as journal:
        close_agent(arena.world(journal), f"{first}/hold", "ann", "it never bets")
        assert list(load_by_subject(arena.world(journal).records, InterventionKind.CLOSE)) == [f"{first}/hold"]
    arena.now = START
    done = arena.decide(START.date())
    asked = [task.key.agent.agent_id for task, _ in done.decisions]
    assert f"{first}/hold" not in asked
    assert len(asked) == 7
    with arena.journal() as journal:
        assert is_week_decided(arena.world(journal), START.date(), arena.now)
    before = arena.read(tables.DECISIONS)
    arena.decide(first)
    assert arena.read(tables.DECISIONS).equals(before), "what it had decided stays"


def test_now_is_the_newest_fact_a_mark_included(arena: Arena) -> None:
    facts = Facts.load(arena.lake)
    assert newest_fact_time(facts) == START + HOUR
    mark = {
        "day": START.date(),
        "market_id": "m",
        "outcome": "YES",
        "price": 0.5,
        "source": "live",
        "disagrees": False,
        "reconstructed": False,
    }
    later = tables.PRICES.frame([{**mark, "at": START + 2 * HOUR}])
    assert newest_fact_time(replace(facts, prices=later)) == START + 2 * HOUR
    assert newest_fact_time(replace(facts, prices=later).as_known(START + HOUR)) == START + HOUR


ARCHIVED = datetime(2026, 6, 14, 0, 10, tzinfo=UTC)
WEEKS = [ARCHIVED.date() + number * SEVEN for number in range(3)]
OLD = WEEKS[1]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """Three live cohorts. The second is archived an hour after the third has decided, followed by marks."""
    arena = Arena(tmp_path_factory.mktemp("archived"), lineup="rules")
    for week in WEEKS:
        arena.now = datetime(week.year, week.month, week.day, 0, 10, tzinfo=UTC)
        arena.decide(week)
    arena.now += timedelta(hours=1)
    with arena.journal() as journal:
        archive_cohort(arena.world(journal), OLD, "ann", "its prompts were wrong")
    arena.decide(OLD)
    arena.books()
    with arena.journal() as journal:
        arena.marked = [store_tick(arena.world(journal))[1], store_tick(arena.world(journal))[1]]  # type: ignore[attr-defined]
    return arena


def test_an_archived_cohort_is_not_marked(archived: Arena) -> None:
    prices = archived.read(tables.PRICES)
    held = archived.read(tables.POSITIONS).filter(status="open").with_columns(cohort=pl.col("agent_id").str.slice(0, 10))
    of_others = set(held.filter(pl.col("cohort") != str(OLD))["market_id"])
    alone = set(held.filter(pl.col("cohort") == str(OLD))["market_id"]) - of_others
    assert alone, "the archived cohort holds something that no other does"
    marked = set(prices["market_id"])
    assert marked <= of_others, "of those, what has a book with both sides"
    assert set(held.filter(pl.col("market_id").is_in(list(marked)))["cohort"]) >= {str(WEEKS[0]), str(WEEKS[2])}
    assert archived.marked == [prices.height, 0], "once"  # type: ignore[attr-defined]


def test_an_archived_cohort_is_in_no_ranking_and_there_when_it_is_asked_for(archived: Arena) -> None:
    inputs = RankingInputs(**{name: archived.read(table(f"arena/{name}")) for name in INPUTS}, cutoffs={})
    found = compute_rankings(inputs, Inference(replicates=0))
    assert found["arena/rankings"].filter(metric="finished")["n"].unique().to_list() == [3 + 1]
    assert found["arena/equity_by_age"].filter(age=0)["n"].unique().to_list() == [2]
    assert compute_window_equity(inputs, WINDOWS["ALL"])["n"].max() == 2
    assert archived.read(tables.LEADERBOARD)["cohorts"].unique().to_list() == [2]
    assert query_cohort(stored_tables(archived.lake), OLD).height == 4
    before = read_as_known(archived.lake, methodologies(archived.registry), archived.now - timedelta(minutes=1))
    assert before(tables.AGENTS).filter(week=OLD)["archived_at"].null_count() == 4, "it was not archived by then"
    assert before(tables.LEADERBOARD)["cohorts"].unique().to_list() == [3]


def test_an_archived_cohort_decides_no_more_and_the_first_word_stands(archived: Arena) -> None:
    agents = archived.read(tables.AGENTS).filter(week=OLD)
    assert agents["archived_by"].unique().to_list() == ["ann (its prompts were wrong)"]
    assert agents["closed_at"].null_count() == 0
    with archived.journal() as journal:
        world = archived.world(journal)
        again = archive_cohort(world, OLD, "bob", "another reason")
        assert (again.by, again.reason) == ("ann", "its prompts were wrong")
        assert list(load_by_subject(world.records, InterventionKind.ARCHIVE)) == [str(OLD)]
        assert sorted(load_by_subject(world.records, InterventionKind.CLOSE)) == sorted(agents["agent_id"])
        with pytest.raises(ConfigError, match="no cohort started"):
            archive_cohort(world, OLD - 9 * SEVEN, "ann", "why")
        with pytest.raises(ConfigError, match="--reason"):
            archive_cohort(world, OLD, "ann", " ")
