"""Interventions of operators, and results as known before and after: a cancelled market, a closed agent, an archived cohort."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.as_known import read_as_known, stored_tables
from bellwether.arena.identity import week_of
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import RankingInputs, compute_rankings
from bellwether.arena.records import Intervention, InterventionKind, load_by_subject, load_interventions
from bellwether.arena.results import Facts, newest_fact_time
from bellwether.arena.weekly.interventions import archive_cohort, cancel_market, close_agent
from bellwether.arena.weekly.queries import is_week_decided, query_agent, query_cohort
from bellwether.calibration.bootstrap import Inference
from bellwether.errors import ConfigError
from bellwether.journal.records import Records
from bellwether.lake import Lake
from bellwether.tables import TABLES, table
from bellwether.tables import arena as tables
from bellwether.tables.arena_rankings import INPUTS
from tests.unit.arena.weeks import SEVEN, Arena
from tests.unit.arena.world import row_of

START = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)


def intervene(folder: Path) -> Arena:
    """Return a live week of rules. An hour later one market is cancelled and one agent closed, and evidence and decisions are updated."""
    arena = Arena(folder, now=START, lineup="rules")
    week = START.date()
    arena.decide(week)
    arena.evidence(week)
    arena.now = START + HOUR
    with arena.journal() as journal:
        world = arena.world(journal)
        cancel_market(world, sorted(arena.read(tables.TRADES)["market_id"])[0], "ann", "the question was withdrawn")
        close_agent(world, f"{week}/random", "ann", "its key was stolen")
    arena.evidence(week)
    arena.decide(week)
    arena.books()
    return arena


def test_a_cancellation_refunds_what_is_held_from_when_it_is_known_and_is_recorded_once(tmp_path: Path) -> None:
    arena = intervene(tmp_path)
    word = arena.read(tables.EVIDENCE).filter(pl.col("cancelled_by").is_not_null()).row(0, named=True)
    assert (word["cancelled_by"], word["known_at"]) == ("ann (the question was withdrawn)", START + HOUR)
    ledger = arena.read(tables.LEDGER).filter(market_id=word["market_id"])
    refunds = ledger.filter(kind="REFUND")
    assert refunds["known_at"].unique().to_list() == [START + HOUR]
    assert refunds["amount"].sum() == -ledger.filter(kind="BUY")["amount"].sum() > 0
    settled = arena.read(tables.SETTLEMENTS).row(by_predicate=pl.col("market_id") == word["market_id"], named=True)
    assert (settled["result"], settled["rule"]) == ("cancelled", "cancelled by ann (the question was withdrawn)")
    assert word["market_id"] not in arena.read(tables.SCORES)["market_id"]
    with arena.journal() as journal:
        world = arena.world(journal)
        first = load_interventions(world.records)
        assert cancel_market(world, first[0].subject, "bob", "again") == first[0]
        assert close_agent(world, f"{START.date()}/random", "bob", "again") == first[1]
        assert load_interventions(world.records) == first
    assert arena.evidence(START.date()).filter(pl.col("cancelled_by").is_not_null()).height == 1


def test_results_are_shown_as_they_were_known(tmp_path: Path) -> None:
    arena = intervene(tmp_path)
    rules = methodologies(arena.registry)
    before, after = (read_as_known(arena.lake, rules, at) for at in (START + HOUR / 2, START + HOUR))
    assert before(tables.SETTLEMENTS).is_empty()
    assert "REFUND" not in before(tables.LEDGER)["kind"]
    assert after(tables.LEDGER).equals(arena.read(tables.LEDGER))
    for one in (tables.AGENTS, tables.DECISIONS, tables.TRADES, tables.EVIDENCE, tables.UNIVERSE, tables.LEADERBOARD):
        assert after(one).equals(arena.read(one)), one.name
    closed = [query_cohort(rows, START.date()).filter("closed")["family"].to_list() for rows in (before, after)]
    assert closed == [[], ["random"]]
    assert set(before(tables.POSITIONS)["status"]) == {"open"}
    assert "settled" in after(tables.POSITIONS)["status"]
    positions = query_agent(before, START.date(), "random")["positions"]
    own = arena.read(tables.TRADES).filter(pl.col("agent_id").str.ends_with("/random"))
    assert positions["position_id"].to_list() == sorted(own["trade_id"])
    nothing = read_as_known(arena.lake, rules, START - HOUR)
    assert nothing(tables.LEADERBOARD).is_empty()
    assert nothing(tables.UNIVERSE).is_empty()


def test_a_cancellation_never_takes_the_place_of_a_look(tmp_path: Path) -> None:
    """A clock that stands gives evidence and a cancellation the same time. Both must be kept."""
    other = Arena(tmp_path, now=START, lineup="rules")
    other.decide(START.date())
    looks = other.evidence(START.date())
    with other.journal() as journal:
        word = cancel_market(other.world(journal), looks["market_id"][0], "ann", "r")
    assert word.at == START + timedelta(microseconds=1)
    assert other.evidence(START.date()).height == looks.height + 1


def test_interventions_without_a_subject_or_a_reason_are_refused(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=START, lineup="rules")
    arena.decide(START.date())
    with arena.journal() as journal:
        world = arena.world(journal)
        for agent in ("nobody", "2026-06-28/nobody", "2026-06-21/hold", "2026-13-01/hold"):
            with pytest.raises(ConfigError):
                close_agent(world, agent, "ann", "r")
        for market, by, reason in (
            ("no-market", "ann", "r"),
            ("no-market", "", "r"),
            ("no-market", "ann", " "),
            ("no-market", "ann", "two\nlines"),
        ):
            with pytest.raises(ConfigError):
                cancel_market(world, market, by, reason)
        for cohort, reason in ((START.date() - 9 * SEVEN, "why"), (START.date(), " ")):
            with pytest.raises(ConfigError):
                archive_cohort(world, cohort, "ann", reason)
        assert load_interventions(world.records) == []


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


def test_now_is_the_newest_fact_a_mark_included() -> None:
    at = {"agents": START, "decisions": START + HOUR / 2, "refusals": START, "trades": START, "evidence": START + HOUR}
    rows = {name: getattr(tables, name.upper()).frame([row_of(f"arena/{name}", known_at=known_at)]) for name, known_at in at.items()}
    facts = Facts(**rows, prices=tables.PRICES.empty())
    assert newest_fact_time(facts) == START + HOUR
    marked = replace(facts, prices=tables.PRICES.frame([row_of("arena/prices", at=START + 2 * HOUR)]))
    assert newest_fact_time(marked) == START + 2 * HOUR
    assert newest_fact_time(marked.as_known(START + HOUR)) == START + HOUR


def test_an_archived_cohort_is_neither_marked_nor_ranked_and_decides_no_more(tmp_path: Path) -> None:
    """Two live cohorts. The first is archived an hour after the second has decided, followed by a mark."""
    old, new = START.date() - SEVEN, START.date()
    arena = Arena(tmp_path, now=START - SEVEN, lineup="rules")
    arena.decide(old)
    arena.now = START
    arena.decide(new)
    arena.now += HOUR
    with arena.journal() as journal:
        world = arena.world(journal)
        archive_cohort(world, old, "ann", "its prompts were wrong")
        assert archive_cohort(world, old, "bob", "another reason").by == "ann", "the first intervention stands"
        assert list(load_by_subject(world.records, InterventionKind.ARCHIVE)) == [str(old)]
    arena.decide(old)
    arena.books()
    changed = arena.tick()[1]

    agents = arena.read(tables.AGENTS).filter(week=old)
    assert agents["archived_by"].unique().to_list() == ["ann (its prompts were wrong)"]
    assert agents["closed_at"].null_count() == 0
    held = arena.read(tables.POSITIONS).filter(status="open").with_columns(cohort=pl.col("agent_id").str.slice(0, 10))
    marked = set(arena.read(tables.PRICES)["market_id"])
    assert marked == set(held.filter(cohort=str(new))["market_id"])
    assert set(held["market_id"]) > marked, "the archived cohort holds a market that no other does"
    assert (changed, arena.tick()[1]) == (len(marked), 0)

    inputs = RankingInputs(**{name: arena.read(table(f"arena/{name}")) for name in INPUTS}, cutoffs={})
    found = compute_rankings(inputs, Inference(replicates=0))
    assert found["arena/rankings"].filter(metric="finished")["n"].unique().to_list() == [1]
    assert found["arena/equity_by_age"].filter(age=0)["n"].unique().to_list() == [1]
    assert arena.read(tables.LEADERBOARD)["cohorts"].unique().to_list() == [1]
    assert query_cohort(stored_tables(arena.lake), old).height == 4
    before = read_as_known(arena.lake, methodologies(arena.registry), arena.now - timedelta(minutes=1))
    assert before(tables.AGENTS).filter(week=old)["archived_at"].null_count() == 4, "it was not archived by then"
    assert before(tables.LEADERBOARD)["cohorts"].unique().to_list() == [2]


# --- interrupted -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Exception that replaces a kill."""


def settle(arena: Arena) -> None:
    """Cancel a market, close an agent, collect evidence of all due markets, and rebuild the ledger."""
    with arena.journal() as journal:
        world = arena.world(journal)
        cancel_market(world, sorted(arena.read(tables.TRADES)["market_id"])[0], "ann", "withdrawn")
        close_agent(world, sorted(arena.read(tables.AGENTS)["agent_id"])[0], "ann", "unwanted")
    arena.evidence(week_of(arena.now))
    arena.books()


def contents(arena: Arena) -> tuple[dict[Any, str], list[Intervention]]:
    """Return the SHA-256 of every partition, and the interventions in the journal."""
    found = {(name, place): one.digest for name, declared in TABLES.items() for place, one in arena.lake.manifests(declared).items()}
    with arena.journal() as journal:
        return found, load_interventions(arena.world(journal).records)


def kill_after(patch: pytest.MonkeyPatch, step: int) -> Counter[str]:
    """Raise `Killed` after write number `step` of the journal or the lake. Return the counts of writes."""
    done = Counter[str]()

    def kill_at(kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **more: Any) -> Any:
            made = real(*args, **more)
            done[kind] += 1
            if done.total() == step:
                raise Killed
            return made

        return write

    patch.setattr(Records, "once", kill_at("record", Records.once))
    patch.setattr(Lake, "write", kill_at("partition", Lake.write))
    return done


@pytest.mark.parametrize("step", [1, 2, 3, pytest.param(None, marks=pytest.mark.nightly)])
def test_a_settlement_that_stops_at_any_write_ends_like_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int | None
) -> None:
    """The first two writes are the interventions, the third the evidence, and the others tables that are computed from facts. None: all writes."""
    decided = Arena(tmp_path / "home", now=START, lineup="few")
    decided.decide(START.date())

    def copy(name: str) -> Arena:
        return Arena(Path(shutil.copytree(decided.home, tmp_path / name)), now=START + timedelta(days=20), lineup="few")

    undisturbed = copy("undisturbed")
    settle(undisturbed)
    expected = contents(undisturbed)
    assert undisturbed.read(tables.SETTLEMENTS).height > 2
    for last in count(1) if step is None else (step,):
        arena = copy(str(last))
        with monkeypatch.context() as patch:
            done = kill_after(patch, last)
            try:
                settle(arena)
            except Killed:
                pass
            else:
                assert (done["record"], done["partition"]) >= (2, 7)
                break
        stored, requests = arena.read(tables.EVIDENCE).height > 0, len(arena.venue.asked)
        settle(arena)
        assert contents(arena) == expected, last
        assert not stored or len(arena.venue.asked) == requests, "a stored look is not repeated"
