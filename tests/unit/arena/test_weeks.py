"""Past weeks: each decided once, the same after every interruption, with a balanced ledger."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.as_known import stored_tables
from bellwether.arena.decision import DecisionState
from bellwether.arena.methodology import methodologies
from bellwether.arena.results import Facts, compute_results, find_changed_cash
from bellwether.arena.weekly.context import freeze_cohort, freeze_universe
from bellwether.arena.weekly.decisions import decide_week
from bellwether.arena.weekly.evidence import list_due_markets
from bellwether.arena.weekly.queries import explain_decision, query_agent, query_cohort
from bellwether.arena.weekly.summary import preview_week
from bellwether.errors import BellwetherError, ConfigError, VenueError
from bellwether.forecasting.prompt import prompt_hash
from bellwether.journal.records import Records
from bellwether.lake.sql import sql_text
from bellwether.lake.warehouse import publish
from bellwether.lake.warehouse import query as query_warehouse
from bellwether.tables import arena as tables
from tests.unit.arena.weeks import SEVEN, WEEK, Arena

FAMILIES = ["favourite", "hold", "mute", "oracle", "proportional", "random"]
NAMES = ("agents", "decisions", "refusals", "trades", "evidence", "prices")


def decide_twice(folder: Path) -> Arena:
    """Return an arena whose two weeks were decided one after the other without interruptions, with their evidence."""
    arena = Arena(folder)
    for week in (WEEK, WEEK + SEVEN):
        arena.decide(week)
        arena.evidence(week)
    return arena


def assert_equal(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert rows.equals(other[name]), name


def test_past_weeks_are_reconstructed_and_each_agent_decides_once_a_week(tmp_path: Path) -> None:
    """All agents share one universe, each call is made once, and the cohort decides in order. A second run sends nothing and keeps the bytes."""
    arena = decide_twice(tmp_path)
    universe, agents, trades, decisions = map(arena.read, (tables.UNIVERSE, tables.AGENTS, tables.TRADES, tables.DECISIONS))
    first, at = universe.filter(week=WEEK), datetime(2026, 4, 19, 0, 5, tzinfo=UTC)
    assert (first.height, first["known_at"].unique().to_list(), first["reconstructed"].all()) == (10, [at], True)
    assert first["volume"].null_count() == first["tick"].null_count() == first.height
    assert first.filter(~pl.col("closes_at").is_between(at + timedelta(days=1), at + timedelta(days=14))).is_empty()
    assert agents["reconstructed"].all()
    own = trades.filter(week=WEEK)
    assert (own["quote_source"].unique().to_list(), own["known_at"].unique().to_list()) == (["prices-history"], [at])
    assert own["bid"].null_count() == own["ask"].null_count() == own.height > 0

    assert Counter(decisions["agent_id"]) == {f"{WEEK}/{name}": 2 for name in FAMILIES} | {f"{WEEK + SEVEN}/{name}": 1 for name in FAMILIES}
    for _, rows in decisions.with_columns(cohort=pl.col("agent_id").str.slice(0, 10)).group_by("week", "cohort"):
        assert sorted(rows["place"]) == [1, 2, 3, 4, 5, 6]
    assert dict(decisions.filter(week=WEEK).select("agent_id", "action").iter_rows()) == {
        f"{WEEK}/{name}": {"hold": "HOLD", "mute": "INVALID"}.get(name, "BET") for name in FAMILIES
    }
    calls = [
        f"{cohort}/{name}/{week}"
        for cohort, week in ((WEEK, WEEK), (WEEK, WEEK + SEVEN), (WEEK + SEVEN, WEEK + SEVEN))
        for name in ("mute", "oracle")
    ]
    assert sorted(arena.calls) == sorted(f"{name} {sample}" for name in calls for sample in ((0, 1) if "mute" in name else (0,)))

    before, asked = arena.stored(), len(arena.calls)
    files = {one.name: [stored.digest for stored in arena.lake.manifests(one).values()] for one in (tables.TRADES, tables.DECISIONS)}
    for week in (WEEK, WEEK + SEVEN):
        arena.decide(week, run="again")
    assert len(arena.calls) == asked
    assert_equal(arena.stored(), before)
    assert files == {
        one.name: [stored.digest for stored in arena.lake.manifests(one).values()] for one in (tables.TRADES, tables.DECISIONS)
    }


def test_the_money_of_a_week_is_that_of_a_count_by_hand(tmp_path: Path) -> None:
    """`oracle` buys YES of 128 at .16, of 129 at .26 and of 130 at .36 for $300 each; 129 is the only one of them that resolves to No."""
    arena = Arena(tmp_path)
    arena.decide()
    for number in range(3):
        arena.evidence(WEEK + number * SEVEN)
    found = arena.results()
    assert found.violations == []
    trades = arena.read(tables.TRADES).filter(agent_id=f"{WEEK}/oracle")
    assert trades.select("market_id", "price", "shares").rows() == [
        ("128", Decimal("0.16"), Decimal(1875)),
        ("129", Decimal("0.26"), Decimal("1153.846154")),
        ("130", Decimal("0.36"), Decimal("833.333333")),
    ]
    board = {row["family"]: row for row in found.frames["arena/leaderboard"].iter_rows(named=True)}
    assert board["oracle"]["cash"] == board["oracle"]["total"] == 10_000 - 900 + Decimal(1875) + Decimal("833.333333")
    assert (board["hold"]["bets"], board["hold"]["profit"], board["hold"]["decisions"], board["mute"]["invalid"]) == (0, 0, 1, 1)
    ledger = found.frames["arena/ledger"]
    cash = ledger.group_by("agent_id").agg(pl.col("amount").sum(), pl.col("cash").last())
    assert cash.filter(pl.col("cash") != 10_000 + pl.col("amount")).is_empty()


def test_evidence_that_comes_later_is_reported_where_it_changes_the_cash_of_a_decision(tmp_path: Path) -> None:
    arena = decide_twice(tmp_path)
    facts = {name: arena.read(getattr(tables, name.upper())) for name in NAMES}
    assert find_changed_cash(Facts(**facts), arena.results().ledger) == []
    less = Facts(**{**facts, "evidence": facts["evidence"].filter(pl.col("week") > WEEK)})
    assert find_changed_cash(less, compute_results(less, methodologies(arena.registry)).ledger)


class Killed(BaseException):
    """Exception that replaces a kill."""


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_that_was_killed_at_the_universe_or_the_cohort_ends_like_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The run is killed before the result of a step is stored. `test_decisions.py` kills at all later writes."""
    undisturbed, arena, done, once = Arena(tmp_path / "undisturbed"), Arena(tmp_path / "arena"), [0], Records.once

    def killed(self: Records, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        def work() -> bytes:
            body = make()
            done[0] += 1
            if done[0] == step:
                raise Killed
            return body

        return once(self, kind, subject, work, number)

    with monkeypatch.context() as patch:
        patch.setattr(Records, "once", killed)
        with pytest.raises(Killed):
            arena.decide()
    arena.decide(run="second")
    undisturbed.decide()
    assert arena.calls == undisturbed.calls
    assert_equal(arena.stored(), undisturbed.stored())


def test_two_runs_at_once_make_one_set_of_decisions(tmp_path: Path) -> None:
    undisturbed, arena = Arena(tmp_path / "undisturbed"), Arena(tmp_path / "arena")
    undisturbed.decide()
    failed: list[BaseException] = []

    def run(name: str) -> None:
        try:
            with arena.journal() as journal:
                decide_week(arena.world(journal, name), WEEK)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failed == []
    arena.decide(run="three")
    assert sorted(arena.calls) == sorted(set(arena.calls))
    assert_equal(arena.stored(), undisturbed.stored())


def test_a_week_before_a_decided_one_is_left_open(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="rules")
    arena.decide(WEEK)
    with arena.journal() as journal:
        freeze_universe(arena.world(journal), WEEK + SEVEN, "polymarket")
    arena.decide(WEEK + 2 * SEVEN)
    late = arena.decide(WEEK + SEVEN)
    old = [one for task, one in late.decisions if task.key.agent.cohort == WEEK]
    assert {one.state for one in old} == {DecisionState.OPEN}
    assert all("decided in order" in one.reason for one in old)
    assert {one.state for task, one in late.decisions if task.key.agent.cohort == WEEK + SEVEN} == {DecisionState.FINISHED}


def test_an_outage_of_the_venue_leaves_the_week_open(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=datetime(2026, 6, 28, 0, 10, tzinfo=UTC), lineup="rules")
    with arena.journal() as journal:
        freeze_universe(arena.world(journal), arena.now.date(), "polymarket")

    def breaks() -> None:
        raise VenueError("GET /books", 1, "the venue is down", "Wait", kind="outage")

    arena.venue.away = breaks
    first = arena.decide(arena.now.date())
    assert Counter(one.state for _, one in first.decisions) == {DecisionState.READ: 3, DecisionState.FINISHED: 1}, "HOLD needs no quote"
    arena.venue.away = lambda: None
    second = arena.decide(arena.now.date())
    assert {one.state for _, one in second.decisions} == {DecisionState.FINISHED}


def test_an_arena_without_a_week_has_results_without_rows(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    found = arena.results()
    assert found.violations == []
    assert {name: rows.height for name, rows in found.frames.items()} == dict.fromkeys(found.frames, 0)
    assert arena.tick()[1] == 0
    with arena.journal() as journal:
        assert list_due_markets(arena.world(journal)) == []


def test_a_cohort_starts_late_only_when_it_is_asked_for(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=datetime(2026, 6, 28, 12, tzinfo=UTC), lineup="rules")
    with arena.journal() as journal:
        world = arena.world(journal)
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=False) is None
        one = freeze_cohort(world, arena.now.date(), reconstructed=False, forced=True)
        assert one is not None
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=True) == one
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=False) == one
        with pytest.raises(ConfigError):
            freeze_universe(world, arena.now.date() + SEVEN, "polymarket")


def test_a_preview_changes_nothing_and_shows_what_is_then_sent(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    with arena.journal() as journal:
        world = arena.world(journal)
        (universe,), prompts = preview_week(world, WEEK)
        assert world.records.stored("universe", WEEK.isoformat()) is None
        assert world.records.stored("cohort", WEEK.isoformat()) is None
    assert arena.calls == []
    assert all(one.tokens > 500 for one in prompts if one.member in ("oracle", "mute"))
    arena.decide()
    asked = dict(arena.read(tables.DECISIONS).select("decision_id", "prompt_hash").iter_rows())
    assert {one.decision_id: prompt_hash(one.messages) for one in prompts} == asked
    assert universe.universe.digest == arena.read(tables.UNIVERSE)["digest"][0]


def test_weeks_cohorts_agents_and_decisions_are_explained(tmp_path: Path) -> None:
    arena = decide_twice(tmp_path)
    found = arena.results().frames
    for table in (tables.POSITIONS, tables.PORTFOLIOS, tables.SCORES, tables.LEDGER):
        arena.lake.write(table, (), found[table.name], run_id="test")
    weeks = query_warehouse(publish(arena.lake, tmp_path / "w.duckdb").path, sql_text("analysis/arena_weeks"), {})
    assert weeks.select("week", made=pl.sum_horizontal("made", "invalid", "unfinished")).rows() == [(WEEK + SEVEN, 12), (WEEK, 6)]
    read = stored_tables(arena.lake)
    assert query_cohort(read, WEEK)["family"].sort().to_list() == FAMILIES
    mine = query_agent(read, WEEK, "oracle")
    assert mine["decisions"].height == 2
    assert mine["cash movements"].height >= mine["positions"].height > 0
    one = explain_decision(read, f"{WEEK}/oracle/{WEEK}")
    refused: list[Callable[[], object]] = [
        lambda: query_agent(read, WEEK, "nobody"),
        lambda: query_cohort(read, WEEK - SEVEN),
        lambda: explain_decision(read, "oracle"),
    ]
    for query in refused:
        with pytest.raises(ConfigError):
            query()
    with pytest.raises(ConfigError, match=f"no such decision; did you mean {WEEK}/oracle/{WEEK}"):
        explain_decision(read, f"{WEEK}/oracles/{WEEK}")
    assert one["messages"]["content"][1].count("\n- market_id ") == 10
    assert one["trades"].height == one["decision"]["legs"].item() == 3
    assert one["messages"]["content"][2].startswith("{")
    assert "BUY" in set(one["cash"]["kind"])


def test_a_week_that_has_not_begun_is_no_week(tmp_path: Path) -> None:
    with pytest.raises(BellwetherError):
        Arena(tmp_path, now=datetime(2026, 4, 18, tzinfo=UTC)).decide(date(2026, 4, 19))
