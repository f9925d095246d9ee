"""The arena in Dagster: weeks of one run, results behind checks, and schedules and sensors that request due work."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner

from assets.arena import jobs, runs
from assets.arena.assets import WEEK as PARTITIONS
from assets.arena.jobs import AGENTS, BOOKS, MARKS, make_decisions, poll_markets, reconstruct_marks
from assets.arena.queries import open_table_reader
from assets.summary.jobs import _PROCESS, publish_warehouse
from bellwether.arena.identity import week_of
from bellwether.arena.methodology import methodologies
from bellwether.arena.results import Facts, compute_results
from bellwether.arena.weekly.interventions import cancel_market, close_agent
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import explain_decision, query_cohort
from bellwether.errors import ConfigError, VenueError
from bellwether.settings import settings
from bellwether.tables import table
from cli.main import main
from orchestration.asset_declarations import key
from orchestration.partitions import DAY, RANGE_END, RANGE_START, keys_between
from orchestration.run_priority import PROMPT
from orchestration.runner import RunFailed
from tests.demo_home import WEEKS, World, open_world
from tests.graph.worlds import location, manifest, resource, rows, tick, without_history

FIRST, SECOND = WEEKS
SEVEN = timedelta(days=7)


def test_a_methodology_that_is_asked_for_reaches_the_universe_and_the_cohort(
    demo: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The methodology names the venue, so both steps must use the same one."""
    asked: list[dict[str, Any]] = []
    with without_history(demo, tmp_path) as world:
        work = world.runner()
    monkeypatch.setattr(work, "launch", lambda job, label, *, partitions, config: asked.append(config))
    monkeypatch.setattr(runs, "update_results", lambda work, **how: None)
    runs.run_weeks(work, [FIRST - SEVEN], lineup=None, methodology="v1-kalshi", dollars=3.0)
    steps = {"week": {"config": {"methodology": "v1-kalshi", "dollars": 3.0}}, "arena__universe": {"config": {"methodology": "v1-kalshi"}}}
    assert asked == [{"ops": steps}]
    dg.validate_run_config(demo.defs.resolve_job_def("arena_week"), asked[0])


def test_the_books_are_folded_and_the_failure_reported_when_the_present_cannot_be_marked(
    demo_copy: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise VenueError("prices of 3 outcomes", 5, "the venue is away")

    launched: list[str] = []
    monkeypatch.setattr(runs, "store_tick", away)
    monkeypatch.setattr(runs, "_has_new_submissions", lambda work: True)
    work = demo_copy.runner()
    monkeypatch.setattr(work, "launch", lambda job, label, **how: launched.append(label))
    failed = runs.update_results(work, present=True)
    assert (launched, "the venue is away" in str(failed)) == (["arena books"], True)
    monkeypatch.setattr(runs, "run_weeks", lambda work, weeks, **config: failed)
    monkeypatch.setattr("assets.summary.runs.publish", lambda work: launched.append("publication"))
    done = CliRunner().invoke(main, ["arena", "run", "--week", str(FIRST)])
    assert done.exit_code == 1
    assert "the venue is away. All else is done; the same command marks it" in " ".join(done.stderr.split())
    assert launched[-1] == "publication"
    assert "Leaderboard of v1" in done.stdout


def test_weeks_of_the_sandbox_are_partitions_up_to_the_present_one() -> None:
    keys = PARTITIONS.get_partition_keys()
    assert keys[-1] == str(week_of(settings().now()))
    assert date.fromisoformat(keys[0]) <= FIRST
    assert all(date.fromisoformat(name).isoweekday() == 7 for name in keys)


def test_books_that_do_not_balance_rank_nobody(demo_copy: World) -> None:
    partition, board = (str(FIRST),), rows(demo_copy, "arena/leaderboard")
    right = demo_copy.lake.slice(table("arena/trades"), [partition]).read()
    # A sale of more shares than were bought, as if the position were another agent's.
    demo_copy.lake.write(table("arena/trades"), partition, right.with_columns(position_id=pl.lit("nobody's")), run_id="wrong")
    with pytest.raises(RunFailed, match="the books do not balance"):
        demo_copy.runner().launch(BOOKS, "books")
    assert rows(demo_copy, "arena/leaderboard").equals(board)


@pytest.mark.nightly
def test_live_weeks_on_two_venues_decide_and_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The venue changes between two weeks. The older cohort continues on its venue, and each week's run marks current prices."""
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("BELLWETHER_LINEUP", "rules")
    start = datetime(*(week_of(settings().now()) - 2 * SEVEN).timetuple()[:3], 0, 10, tzinfo=UTC)
    weeks = [(start + number * SEVEN).date() for number in range(2)]
    for number, methodology in enumerate((None, "v1-kalshi")):
        monkeypatch.setenv("BELLWETHER_SANDBOX_NOW", (start + number * SEVEN).isoformat())
        settings.cache_clear()
        world = open_world(tmp_path)
        runs.run_weeks(world.runner(), [(start + number * SEVEN).date()], methodology=methodology)
    second = rows(world, "arena/universe").filter(week=weeks[1])
    assert second["venue"].unique().sort().to_list() == ["kalshi", "polymarket"]
    event = world.instance.get_latest_materialization_event(key("arena/universe"))
    assert event is not None and event.asset_materialization is not None
    digests = {name: value.value for name, value in event.asset_materialization.metadata.items() if name.endswith(": digest")}
    assert digests.keys() == {"kalshi: digest", "polymarket: digest"} and len(set(digests.values())) == 2
    decisions = rows(world, "arena/decisions")
    assert decisions.group_by("week", "state").len().sort("week").rows() == [(weeks[0], "finished", 4), (weeks[1], "finished", 8)]
    prices, held = rows(world, "arena/prices"), rows(world, "arena/positions").filter(status="open")
    assert not prices["reconstructed"].any()
    listed = set(rows(world, "arena/trades").filter(quote_source="listing")["market_id"])
    assert set(held["market_id"]) - listed <= set(prices["market_id"])
    assert set(held["market_id"]) - listed
    assert prices["day"].unique().sort().to_list() == weeks
    assert rows(world, "arena/portfolios").filter(pl.col("invested") > 0).height > 0


@pytest.mark.nightly
def test_the_books_have_the_marks_of_the_day_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are written for the current day, which is not yet a partition of the graph."""
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("BELLWETHER_LINEUP", "rules")
    settings.cache_clear()
    world, now = open_world(tmp_path), settings().now()
    runs.run_weeks(world.runner(), [week_of(now)])
    assert now.date().isoformat() not in DAY.get_partition_keys()
    assert rows(world, "arena/prices")["at"].max() == now
    assert rows(world, "arena/portfolios").filter(pl.col("at") == now, pl.col("invested") > 0).height > 0
    folded = compute_results(Facts.load(world.lake), methodologies(world.config.registry)).frames
    for name in ("arena/portfolios", "arena/leaderboard"):
        assert rows(world, name).equals(table(name).validate(folded[name])), name
    _check_tick(world, now, monkeypatch)


def _check_tick(world: World, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule sends no request to a venue; its run stores the marks at six ticks, and no second run is requested meanwhile."""

    def ask() -> dg.RunRequest | dg.SkipReason:
        with (
            monkeypatch.context() as patch,
            dg.build_schedule_context(instance=world.instance, resources={"arena": resource(world, "arena")}) as context,
        ):
            patch.setattr(Polymarket, "fetch_midpoints", None)
            return jobs.mark_positions(context)  # type: ignore[return-value]

    prices, day = table("arena/prices"), (str(now.date()),)
    stored = rows(world, "arena/prices")
    world.lake.write(prices, day, stored.clear(), run_id="emptied")
    asked = ask()
    assert isinstance(asked, dg.RunRequest) and asked.tags == PROMPT
    pauses: list[int] = []
    monkeypatch.setattr(jobs, "sleep", pauses.append)
    done = world.defs.resolve_job_def(jobs.MARKS_NOW.name).execute_in_process(instance=world.instance)
    assert (done.success, pauses, len(done.get_asset_materialization_events())) == (True, [600] * 5, 1)
    assert rows(world, "arena/prices").drop("known_at").equals(stored.drop("known_at"))
    event = world.instance.get_latest_materialization_event(key("arena/prices"))
    assert event is not None and event.asset_materialization is not None and event.asset_materialization.partition == day[0]
    world.instance.create_run_for_job(jobs.MARKS_NOW, status=dg.DagsterRunStatus.STARTED)
    assert isinstance(ask(), dg.SkipReason)


def test_ticks_begin_ten_minutes_apart_although_they_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    began, now = list[datetime](), [datetime(2026, 6, 29, 12, tzinfo=UTC)]

    def take_two_minutes(world: object) -> tuple[date, int]:
        began.append(now[0])
        wait(120)
        return now[0].date(), 0

    def wait(seconds: float) -> None:
        now[0] += timedelta(seconds=seconds)

    monkeypatch.setattr("bellwether.arena.weekly.held_prices.store_tick", take_two_minutes)
    monkeypatch.setattr(jobs, "settings", lambda: SimpleNamespace(now=lambda: now[0]))
    monkeypatch.setattr(jobs, "sleep", wait)
    with dg.build_op_context() as context:
        jobs.store_marks(context, arena=SimpleNamespace(world=lambda run: None))
    assert [at.minute for at in began] == [0, 10, 20, 30, 40, 50]
    assert now[0].minute == 52


def test_the_clock_requests_the_present_week_alone(demo: World) -> None:
    def ask(at: datetime) -> dg.RunRequest | dg.SkipReason:
        means = {"arena": resource(demo, "arena")}
        with dg.build_schedule_context(instance=demo.instance, scheduled_execution_time=at, resources=means) as context:
            found = make_decisions(context)
        assert isinstance(found, dg.RunRequest | dg.SkipReason)
        return found

    present = week_of(demo.config.now())
    at = datetime(*present.timetuple()[:3], 0, 5, tzinfo=UTC)
    asked, again = ask(at), ask(at)
    assert isinstance(asked, dg.RunRequest) and isinstance(again, dg.RunRequest)
    assert asked.partition_key == str(present)
    assert asked.run_config == {"ops": {"week": {"config": {"forced": True}}}}
    assert again.run_key == asked.run_key, "fired twice, it is one run"
    for other, reason in (
        (at + 21 * SEVEN, ""),
        (at - SEVEN, ""),
        (at + timedelta(hours=3), "on request only"),
        (at + timedelta(days=2), "the deadline of"),
    ):
        skipped = ask(other)
        assert isinstance(skipped, dg.SkipReason) and reason in str(skipped.skip_message), other


def test_sensors_request_nothing_where_no_live_cohort_holds_anything(demo: World) -> None:
    assert not tick(demo, poll_markets).run_requests
    with dg.build_schedule_context(instance=demo.instance, resources={"arena": resource(demo, "arena")}) as context:
        skipped = jobs.mark_positions(context)
    assert isinstance(skipped, dg.SkipReason) and "no live cohort has an open position" in str(skipped.skip_message)


def test_marks_of_past_weeks_are_requested_once_their_trades_change(demo_copy: World) -> None:
    assert not tick(demo_copy, reconstruct_marks).run_requests
    trades, week = table("arena/trades"), (str(SECOND),)
    own = demo_copy.lake.slice(trades, [week]).read()
    before = manifest(demo_copy, "arena/trades", *week)
    demo_copy.lake.write(trades, week, [own[:1], own[1:]], run_id="others")
    assert before != manifest(demo_copy, "arena/trades", *week)
    found, again = (tick(demo_copy, reconstruct_marks).run_requests for _ in range(2))
    assert found and [one.run_key for one in found] == [one.run_key for one in again], "fired twice, they are the same runs"
    assert found[0].tags[RANGE_START] == str(SECOND), "the days before are not concerned"


@pytest.mark.nightly
def test_requested_marks_of_past_weeks_are_up_to_date_afterwards(demo_copy: World) -> None:
    demo_copy.lake.write(table("arena/trades"), (str(SECOND),), rows(demo_copy, "arena/trades").filter(week=SECOND), run_id="others")
    location(demo_copy, "arena/prices", str(SECOND)).unlink()
    found = tick(demo_copy, reconstruct_marks).run_requests
    assert found
    for one in found:
        days = keys_between(DAY, one.tags[RANGE_START], one.tags[RANGE_END], demo_copy.instance)
        demo_copy.runner().launch(MARKS, "marks", partitions=days)
    assert not tick(demo_copy, reconstruct_marks).run_requests


def test_marks_alone_are_published_once_an_hour(demo_copy: World) -> None:
    cursor = f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}"
    last = max(demo_copy.lake.manifests(table("arena/prices")))
    demo_copy.lake.write(table("arena/prices"), last, table("arena/prices").empty(), run_id="tick")
    found = tick(demo_copy, publish_warehouse, cursor)
    assert not found.run_requests and "once an hour" in str(found.skip_message)
    demo_copy.lake.write(table("arena/leaderboard"), (), rows(demo_copy, "arena/leaderboard").head(1), run_id="more")
    assert tick(demo_copy, publish_warehouse, cursor).run_requests


def print_board(*options: str) -> str:
    """Return the printed leaderboard without its last line, which has its time."""
    done = CliRunner().invoke(main, ["leaderboard", "arena", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.rsplit("As of ", 1)[0]


@pytest.mark.nightly
def test_operators_close_agents_and_cancel_markets(demo_copy: World) -> None:
    agent, bought = f"{FIRST}/hold", rows(demo_copy, "arena/trades").filter(pl.col("week") == FIRST)
    market, board = bought["market_id"][0], print_board()
    later = demo_copy.config.now() + timedelta(hours=1)
    arena = dataclasses.replace(resource(demo_copy, "arena").world("operators"), now=lambda: later)
    close_agent(arena, agent, "ann", "it never bets")
    work = demo_copy.runner()
    work.launch(AGENTS, "agents", partitions=[str(FIRST)])
    assert rows(demo_copy, "arena/agents").filter(pl.col("closed_at").is_not_null())["agent_id"].to_list() == [agent]
    runs.apply_intervention(work, cancel_market(arena, market, "ann", "withdrawn"))
    mine = rows(demo_copy, "arena/ledger").filter(pl.col("market_id") == market)
    assert mine["amount"].sum() == 0, "what was paid is taken back, and the cost refunded"
    assert print_board() != board
    assert print_board("--known-at", f"{demo_copy.config.now():%Y-%m-%d}") == board, "what was known before the cancellation stays"
    read = open_table_reader(datetime.combine(FIRST, time(12), UTC))
    assert set(query_cohort(read, FIRST)["scored"]) == {0}
    with pytest.raises(ConfigError, match="no such decision"):
        explain_decision(open_table_reader(datetime.combine(FIRST, time(), UTC)), f"{FIRST}/favourite/{FIRST}")
    read = open_table_reader(datetime.combine(FIRST, time(0, 5), UTC))
    assert set(explain_decision(read, f"{FIRST}/favourite/{FIRST}")["cash"]["kind"]) == {"BUY"}
    assert "no agent has bet" in refused("admin", "cancel", "no-market", "--reason", "r")
    assert "COHORT[/FAMILY]" in refused("admin", "close", "hold", "--reason", "r")


def refused(*words: str) -> str:
    done = CliRunner().invoke(main, ["arena", *words])
    assert done.exit_code != 0
    return " ".join((done.output + str(done.exception)).split())


@pytest.mark.nightly
def test_submitted_forecasts_are_ranked_with_the_next_books(demo_copy: World, tmp_path: Path) -> None:
    universe = rows(demo_copy, "arena/universe").filter(week=FIRST)
    binary = universe.filter(pl.col("outcomes").list.sort() == pl.lit(["No", "Yes"]))["market_id"]
    stated = f"{FIRST - timedelta(days=1)}T12:00:00Z"
    lines = pl.DataFrame({"market_id": binary, "probability": [0.3] * len(binary), "stated_at": stated, "week": str(FIRST)})
    unlisted = pl.DataFrame({"market_id": ["nowhere"], "probability": [0.3], "stated_at": stated, "week": str(FIRST)})
    pl.concat([lines, unlisted]).write_csv(tmp_path / "f.csv")
    asked = ["submit", str(tmp_path / "f.csv"), "--forecaster", "outsider"]
    taken = CliRunner().invoke(main, [*asked[:3], "favourite"])
    assert "a family of the arena" in taken.output
    assert f"{len(binary)} forecasts valid, 1 refused" in CliRunner().invoke(main, asked).output
    lines.write_csv(tmp_path / "f.csv")
    told = CliRunner().invoke(main, asked).output
    assert f"{len(binary)} forecasts accepted, 0 refused\n{len(binary)} of them are on a market of their week" in told
    work = demo_copy.runner()
    runs.update_results(work)
    assert work.stats.by_job.keys() == {"arena_books"}
    found = rows(demo_copy, "arena/submissions")
    assert found.select(pl.len(), pl.col("late").all(), pl.col("reconstructed").all()).row(0) == (len(binary), True, True)
    mine = rows(demo_copy, "arena/rankings").filter(family="outsider", metric="brier_stated").row(0, named=True)
    assert mine["n"] > 0
    assert mine["contaminated"], "it was received when the week was over"
    again = demo_copy.runner()
    runs.update_results(again)
    assert again.stats.runs == 0
    then = CliRunner().invoke(main, ["leaderboard", "arena", "--known-at", str(FIRST + 5 * SEVEN)])
    assert "hold" in then.output and "outsider" not in then.output, "it was not received by then"
