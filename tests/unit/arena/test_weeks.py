"""Whole weeks in the sandbox: each decided once, the same at any time, with a balanced ledger."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.decision import DecisionState
from bellwether.arena.frames import prices_frame
from bellwether.arena.marks import HeldPrice, PriceObservation, PriceSource
from bellwether.arena.methodology import methodologies
from bellwether.arena.results import find_changed_cash
from bellwether.arena.weekly.context import freeze_cohort, freeze_universe
from bellwether.arena.weekly.decisions import decide_week
from bellwether.arena.weekly.evidence import FactRows, list_due_markets
from bellwether.arena.weekly.held_prices import reconstruct_prices, store_tick
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import explain_decision, is_week_decided, query_agent, query_cohort, query_week_status, stored_tables
from bellwether.arena.weekly.summary import preview_week
from bellwether.errors import ConfigError, LakeError, VenueError
from bellwether.files import try_lock
from bellwether.journal.records import Records
from bellwether.tables import arena as tables
from tests.arena.weeks import SEVEN, WEEK, Arena
from tests.damage import flip_bit

FAMILIES = ["calibrated", "favourite", "hold", "malformed", "proportional", "random"]


def _same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert rows.equals(other[name]), name


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """Two weeks decided one after the other without interruptions, with their evidence."""
    arena = Arena(tmp_path_factory.mktemp("arena"))
    for week in (WEEK, WEEK + SEVEN):
        arena.decide(week)
        arena.evidence(week)
    return arena


def test_damaged_evidence_of_live_cohorts_is_never_left_out(tmp_path: Path) -> None:
    week = date(2026, 6, 28)
    arena = Arena(tmp_path, now=datetime(2026, 6, 28, 0, 10, tzinfo=UTC), lineup="few")
    arena.decide(week)
    arena.evidence(week)
    (manifest,) = arena.lake.manifests(tables.EVIDENCE).values()
    flip_bit(Path(arena.lake.storage.location(manifest.file)))
    with arena.journal() as journal, pytest.raises(LakeError, match=r"arena/evidence: .* is damaged: .* restore the file from a backup"):
        FactRows.load(arena.world(journal), rebuilt=[week])


def test_a_past_week_is_reconstructed_and_says_so(decided: Arena) -> None:
    universe, agents, trades = (decided.read(table) for table in (tables.UNIVERSE, tables.AGENTS, tables.TRADES))
    first = universe.filter(pl.col("week") == WEEK)
    at = datetime(2026, 4, 19, 0, 5, tzinfo=UTC)
    assert first.height == 25
    assert first["known_at"].unique().to_list() == [at]
    assert first["reconstructed"].all()
    assert first["volume"].null_count() == first["tick"].null_count() == first.height
    assert first.filter(~pl.col("closes_at").is_between(at + timedelta(days=1), at + timedelta(days=14))).is_empty()
    assert agents["reconstructed"].all()
    assert agents.filter(pl.col("week") == WEEK)["family"].to_list() == FAMILIES
    own = trades.filter(pl.col("week") == WEEK)
    assert own["quote_source"].unique().to_list() == ["prices-history"]
    assert own["known_at"].unique().to_list() == [at]
    assert own["bid"].null_count() == own["ask"].null_count() == own.height > 0


def test_each_agent_decides_once_a_week_one_after_another(decided: Arena) -> None:
    """All agents share one universe, each call is made once, and the cohort decides in order."""
    decisions = decided.read(tables.DECISIONS)
    counts = Counter(decisions["agent_id"])
    assert [counts[f"{WEEK}/{family}"] for family in FAMILIES] == [2] * 6
    assert [counts[f"{WEEK + SEVEN}/{family}"] for family in FAMILIES] == [1] * 6
    for (_, _), rows in decisions.with_columns(cohort=pl.col("agent_id").str.slice(0, 10)).group_by("week", "cohort"):
        assert sorted(rows["place"]) == [1, 2, 3, 4, 5, 6]
    assert sorted(decided.calls) == sorted(set(decided.calls)), "no call is made twice"
    assert set(decisions.filter(pl.col("state") == "finished")["action"]) <= {"BET", "SELL", "HOLD", "INVALID"}


def test_the_money_adds_up(decided: Arena) -> None:
    found = decided.results()
    assert found.violations == []
    ledger = found.frames["arena/ledger"]
    assert ledger.height > 20
    cash = ledger.group_by("agent_id").agg(pl.col("amount").sum(), pl.col("cash").last())
    assert cash.filter(pl.col("cash") != 10_000 + pl.col("amount")).is_empty()
    board = found.frames["arena/leaderboard"]
    assert sorted(board["family"]) == FAMILIES
    assert board.filter(pl.col("profit") != pl.col("total") - pl.col("initial_cash")).is_empty()
    hold = board.row(by_predicate=pl.col("family") == "hold", named=True)
    assert (hold["bets"], hold["profit"], hold["decisions"], hold["cohorts"]) == (0, 0, 3, 2)
    facts = {
        name: decided.read(getattr(tables, name.upper())) for name in ("agents", "decisions", "refusals", "trades", "evidence", "prices")
    }
    from bellwether.arena.results import Facts

    assert find_changed_cash(Facts(**facts), found.ledger) == []
    # New evidence of the first week changes the cash of the second week's decisions, and is reported.
    first = {**facts, "evidence": facts["evidence"].filter(pl.col("week") > WEEK)}
    from bellwether.arena.results import compute_results

    less = compute_results(Facts(**first), methodologies(decided.registry))
    assert find_changed_cash(Facts(**first), less.ledger)


def test_a_second_run_asks_nobody_and_stores_the_same_bytes(decided: Arena) -> None:
    before, asked = decided.stored(), len(decided.calls)
    files = {table.name: [one.sha256 for one in decided.lake.manifests(table).values()] for table in (tables.TRADES, tables.DECISIONS)}
    decided.decide(WEEK, run="again")
    decided.decide(WEEK + SEVEN, run="again")
    assert len(decided.calls) == asked
    _same(decided.stored(), before)
    for table in (tables.TRADES, tables.DECISIONS):
        assert [one.sha256 for one in decided.lake.manifests(table).values()] == files[table.name]


class Killed(BaseException):
    """Exception that replaces a kill."""


@pytest.mark.parametrize("step", range(1, 6))
def test_a_run_that_was_killed_goes_on_and_ends_like_an_undisturbed_one(
    decided: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each run is killed after a step and before its result is stored: the universe, the cohort, a prompt, a parsed answer, an execution."""
    arena, done, once = Arena(tmp_path), [0], Records.once

    def killed(self: Records, kind: str, subject: str, make: Callable[[], bytes], number: int = 0) -> bytes:
        def work() -> bytes:
            body = make()
            done[0] += 1
            if done[0] == step:
                raise Killed
            return body

        return once(self, kind, subject, work, number)

    monkeypatch.setattr(Records, "once", killed)
    with pytest.raises(Killed):
        arena.decide(WEEK)
    arena.decide(WEEK, run="second")
    assert len(arena.calls) == len(set(arena.calls)), "what was answered is not asked again"
    _same(arena.stored(), {name: rows.filter(pl.col("week") == WEEK) for name, rows in decided.stored().items()})


def test_two_runs_at_once_make_one_set_of_decisions(decided: Arena, tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    failed: list[BaseException] = []

    def run(name: str) -> None:
        try:
            with arena.journal() as journal:
                decide_week(arena.world(journal, name), WEEK)
        except ConfigError as error:
            failed.append(error)
        except Exception as error:
            # If the other run holds the claim of the universe, this one reports that and does nothing.
            if "is writing it" not in str(error):
                failed.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert failed == []
    arena.decide(WEEK, run="three")
    assert sorted(arena.calls) == sorted(set(arena.calls))
    _same(arena.stored(), {name: rows.filter(pl.col("week") == WEEK) for name, rows in decided.stored().items()})


def test_a_week_before_a_decided_one_is_left_open(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="rules")
    arena.decide(WEEK)
    with arena.journal() as journal:
        world = arena.world(journal)
        freeze_universe(world, WEEK + SEVEN, "polymarket")
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

    arena.breaks = breaks
    first = arena.decide(arena.now.date())
    states = Counter(one.state for _, one in first.decisions)
    assert states[DecisionState.READ] == 3
    assert states[DecisionState.FINISHED] == 1, "who holds needs no quote"
    arena.breaks = lambda: None
    second = arena.decide(arena.now.date())
    assert {one.state for _, one in second.decisions} == {DecisionState.FINISHED}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A week decided while it begins."""
    arena = Arena(tmp_path_factory.mktemp("live"), now=datetime(2026, 6, 28, 0, 10, tzinfo=UTC))
    arena.decide(arena.now.date())
    return arena


def test_a_live_week_has_the_largest_open_markets_and_quotes_of_its_decisions(live: Arena) -> None:
    universe, trades = live.read(tables.UNIVERSE), live.read(tables.TRADES)
    assert not universe["reconstructed"].any()
    volumes = universe.sort("place")["volume"].to_list()
    assert volumes == sorted(volumes, reverse=True)
    assert universe["known_at"].unique().to_list() == [live.now]
    assert trades.height > 0
    assert set(trades["quote_source"]) == {"clob"}
    assert trades.select("bid", "mid", "ask", "unmatched").null_count().row(0) == (0, 0, 0, 0)
    assert trades.filter((pl.col("price") < pl.col("bid")) | (pl.col("price") > pl.col("ask"))).is_empty()
    assert universe.filter((pl.col("closes_at") <= pl.col("known_at")) | pl.col("prices").list.drop_nulls().list.len().eq(0)).is_empty()
    assert live.results().violations == []


def test_a_live_week_is_known_to_be_decided(live: Arena) -> None:
    with live.journal() as journal:
        world = live.world(journal)
        assert is_week_decided(world, live.now.date(), live.now)
        missed = live.now.date() - SEVEN
        assert not is_week_decided(world, missed, live.now - SEVEN), "its cohort may still be started"
        assert is_week_decided(world, missed, live.now - SEVEN + timedelta(hours=2)), "only somebody who asks starts it now"


def test_held_markets_are_looked_at_when_they_are_due(live: Arena) -> None:
    with live.journal() as journal:
        due = list_due_markets(live.world(journal))
    held = sorted(set(live.read(tables.TRADES)["market_id"]))
    assert due == held
    rows = live.evidence(live.now.date())
    assert sorted(rows["market_id"]) == held
    assert not rows["reconstructed"].any()
    with live.journal() as journal:
        assert list_due_markets(live.world(journal)) == [], "nothing is due at once again"


def test_a_tick_stores_prices_that_changed_and_a_second_one_nothing(live: Arena, tmp_path: Path) -> None:
    with live.journal() as journal:
        world = live.world(journal)
        day, changed = store_tick(world)
        quoted = live.read(tables.TRADES).filter(pl.col("quote_source") == "clob")["market_id"].unique().sort()
        prices = live.read(tables.PRICES)
        assert prices["market_id"].sort().equals(quoted), "what one side quotes alone has no mark"
        assert changed == prices.height > 0
        assert prices["at"].unique().to_list() == [datetime(2026, 6, 28, 0, 10, tzinfo=UTC)]
        assert store_tick(world) == (day, 0)
        assert reconstruct_prices(world, [day])[day].equals(prices), "what was seen live stays"
        rebuilt = prices.with_columns(pl.col("at") - timedelta(minutes=10), reconstructed=pl.lit(value=True))
        live.lake.write(tables.PRICES, (day.isoformat(),), rebuilt, run_id="rebuilt")
        assert store_tick(world) == (day, changed), "an equal price that was reconstructed is none that was seen"


def test_a_slow_tick_keeps_what_others_stored_meanwhile_and_marks_the_day_on_which_it_ends(
    live: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    midnight = datetime(2026, 6, 29, tzinfo=UTC)
    own = HeldPrice("other", "YES", midnight, 1, PriceSource.LIVE, midnight, reconstructed=False, known_at=midnight)

    def answer_late(data: Polymarket, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        with Path(f"{live.lake.uri}.marks.lock").open() as lock:
            assert not try_lock(lock), "other ticks wait"
        monkeypatch.setattr(live, "now", midnight + timedelta(minutes=2))
        live.lake.write(tables.PRICES, (str(midnight.date()),), prices_frame([own]), run_id="other")
        return {token: PriceObservation(500_000, live.now) for token in tokens}

    monkeypatch.setattr(live, "now", midnight - timedelta(minutes=1))
    with live.journal() as journal:
        world = live.world(journal)
        monkeypatch.setattr(Polymarket, "fetch_midpoints", answer_late)
        day, changed = store_tick(world)
    prices = live.lake.slice(tables.PRICES, [(str(day),)]).read()
    assert (day, prices.height, set(prices["at"])) == (midnight.date(), changed + 1, {midnight})
    assert "other" in prices["market_id"].to_list()


def test_an_arena_without_a_week_has_results_without_rows(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    found = arena.results()
    assert found.violations == []
    assert {name: rows.height for name, rows in found.frames.items()} == dict.fromkeys(found.frames, 0)
    assert query_week_status(arena.lake, methodologies()).is_empty()
    with arena.journal() as journal:
        world = arena.world(journal)
        assert store_tick(world)[1] == 0
        assert list_due_markets(world) == []


def test_a_cohort_starts_late_only_when_it_is_asked_for(tmp_path: Path) -> None:
    arena = Arena(tmp_path, now=datetime(2026, 6, 28, 12, tzinfo=UTC), lineup="rules")
    with arena.journal() as journal:
        world = arena.world(journal)
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=False) is None
        one = freeze_cohort(world, arena.now.date(), reconstructed=False, forced=True)
        assert one is not None
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=True) == one
        assert freeze_cohort(world, arena.now.date(), reconstructed=False, forced=False) == one
        with pytest.raises(ConfigError, match="it begins at"):
            freeze_universe(world, arena.now.date() + SEVEN, "polymarket")


def test_a_preview_changes_nothing(tmp_path: Path, decided: Arena) -> None:
    arena = Arena(tmp_path)
    with arena.journal() as journal:
        world = arena.world(journal)
        (universe,), prompts = preview_week(world, WEEK)
        assert world.records.stored("universe", WEEK.isoformat()) is None
        assert world.records.stored("cohort", WEEK.isoformat()) is None
    assert sorted(one.decision_id.split("/")[1] for one in prompts) == FAMILIES
    asked = {row["decision_id"]: row["prompt_hash"] for row in decided.read(tables.DECISIONS).iter_rows(named=True)}
    from bellwether.forecasting.prompt import prompt_hash

    assert {one.decision_id: prompt_hash(one.messages) for one in prompts} == {
        name: found for name, found in asked.items() if name.endswith(f"/{WEEK}") and name.startswith(str(WEEK))
    }
    assert all(one.tokens > 500 for one in prompts if one.member.startswith("sandbox"))
    assert arena.calls == []
    assert universe.universe.digest == decided.read(tables.UNIVERSE).filter(pl.col("week") == WEEK)["digest"][0]


def test_everything_behind_a_decision_is_told(decided: Arena) -> None:
    decided.lake.write(tables.LEDGER, (), decided.results().frames["arena/ledger"], run_id="test")
    name = f"{WEEK}/calibrated/{WEEK}"
    with decided.journal() as journal:
        found = explain_decision(journal, stored_tables(decided.lake), decided.world(journal), name)
        with pytest.raises(ConfigError, match="COHORT/FAMILY/WEEK"):
            explain_decision(journal, stored_tables(decided.lake), decided.world(journal), "calibrated")
        with pytest.raises(ConfigError, match="no record is stored"):
            explain_decision(journal, stored_tables(decided.lake), decided.world(journal), f"{WEEK}/nobody/{WEEK}")
    assert found.plan is not None
    assert found.intent is not None
    assert found.plan.messages[1]["content"].count("\n- market_id ") == 25
    assert found.trades.height == found.intent.decision.legs > 0
    assert found.answers[0].startswith("{")
    assert set(found.ledger["kind"]) >= {"BUY"}
    assert len(found.executions) == 1


def test_weeks_cohorts_and_agents_are_told(decided: Arena) -> None:
    found = decided.results().frames
    for table in (tables.POSITIONS, tables.PORTFOLIOS, tables.SCORES, tables.LEDGER):
        decided.lake.write(table, (), found[table.name], run_id="test")
    weeks = query_week_status(decided.lake, methodologies(decided.registry))
    assert weeks["week"].to_list() == [WEEK + SEVEN, WEEK]
    assert weeks["decisions"].to_list() == [12, 6]
    assert query_cohort(stored_tables(decided.lake), WEEK)["family"].to_list().count("hold") == 1
    mine = query_agent(stored_tables(decided.lake), WEEK, "calibrated")
    assert mine["decisions"].height == 2
    assert mine["cash movements"].height >= mine["positions"].height > 0
    with pytest.raises(ConfigError, match="the family is not in the cohort"):
        query_agent(stored_tables(decided.lake), WEEK, "nobody")
    with pytest.raises(ConfigError, match="no cohort started"):
        query_cohort(stored_tables(decided.lake), WEEK - SEVEN)


def test_live_weeks_open_decide_mark_and_resolve_under_a_moving_clock(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="rules")
    start = datetime(2026, 3, 1, 0, 10, tzinfo=UTC)
    for week in range(8):
        arena.now = start + week * SEVEN
        sunday = arena.now.date()
        if week < 2:
            arena.decide(sunday, forced=False)
        for hours in (1, 120):
            arena.now = start + week * SEVEN + timedelta(hours=hours)
            arena.evidence(sunday)
            if week < 2:
                with arena.journal() as journal:
                    store_tick(arena.world(journal))
    found = arena.results()
    assert found.violations == []
    evidence, prices = arena.read(tables.EVIDENCE), arena.read(tables.PRICES)
    assert not evidence["reconstructed"].any()
    assert (evidence["known_at"].dt.weekday().is_in([7, 5])).all(), "each look is dated when it was made"
    settled = found.frames["arena/settlements"]
    assert settled.height >= 2
    closed = evidence.filter("closed").group_by("market_id").agg(first=pl.col("known_at").min(), closed_at=pl.col("closed_at").min())
    late = settled.join(closed, on="market_id")
    assert (late["known_at"] >= late["closed_at"]).all(), "nothing counts before it was seen"
    assert prices.filter(~pl.col("price").is_between(0, 1)).is_empty()
    assert prices.height >= 4
    board = found.frames["arena/leaderboard"]
    assert not board["reconstructed"].any()
    assert board["cohorts"].to_list() == [2] * 4
    cash = found.frames["arena/ledger"]["amount"].sum()
    held = found.frames["arena/positions"].filter(pl.col("status") == "open")
    assert board["cash"].sum() == 80_000 + cash
    assert held.height < found.frames["arena/positions"].height
