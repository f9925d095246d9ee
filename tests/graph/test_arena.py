"""The arena in Dagster and on the command line: weeks in one run, results behind checks, and schedules that request due work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from click.testing import CliRunner

from assets.arena import runs
from assets.arena.assets import BOOK_TABLES, DECIDED_TABLES
from assets.arena.jobs import AGENTS, BOOKS, MARKS
from assets.arena.marks import TICK, marks
from assets.arena.partitions import WEEK as WEEKS
from assets.arena.schedules import past_marks, resolutions, weekly_decisions
from assets.warehouse.sensors import _PROCESS, publisher
from bellwether.arena.identity import week_of
from bellwether.arena.lineup import load_registered_families
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings.standings import load_cutoffs, read_tables_as_known
from bellwether.arena.results import Facts, compute_results
from bellwether.arena.weekly.interventions import cancel_market, close_agent
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import query_week_status
from bellwether.errors import BellwetherError, VenueError
from bellwether.settings import settings
from bellwether.tables import TABLES, table
from cli.main import main
from orchestration.asset_declarations import key
from orchestration.checks import build_checks
from orchestration.partitions import DAY, RANGE_END, RANGE_START, keys_between
from orchestration.run_priority import PROMPT
from orchestration.runner import RunFailed
from orchestration.steps import failure_reasons
from resources import LakeResource
from resources.arena import ArenaResource
from tests.damage import flip_bit
from tests.orchestration.conftest import World, open_world

WEEK = date(2026, 5, 17)
SEVEN = timedelta(days=7)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two past weeks of the rules, with evidence up to the present, marks and ledger."""
    home = tmp_path_factory.mktemp("arena")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLWETHER_HOME", str(home))
        patch.setenv("BELLWETHER_LINEUP", "rules")
        settings.cache_clear()
        world = open_world(home)
        work = world.runner()
        runs.run_weeks(work, [WEEK, WEEK + SEVEN])
        assert work.stats.by_job.keys() == {"arena_week", "arena_evidence", "arena_marks", "arena_books"}
    settings.cache_clear()
    yield world
    world.instance.dispose()


@pytest.fixture
def here(arena: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same world, with the settings of its home."""
    monkeypatch.setenv("BELLWETHER_HOME", str(arena.config.home))
    monkeypatch.setenv("BELLWETHER_LINEUP", "rules")
    settings.cache_clear()
    return arena


def rows(world: World, name: str) -> pl.DataFrame:
    return world.lake.slice(table(name)).read()


def test_weeks_run_together_and_their_books_hold(here: World) -> None:
    decisions = rows(here, "arena/decisions")
    assert decisions.group_by("week").len().sort("week").rows() == [(WEEK, 4), (WEEK + SEVEN, 8)]
    assert decisions["state"].unique().to_list() == ["finished"]
    board = rows(here, "arena/leaderboard")
    assert sorted(board["family"]) == ["favourite", "hold", "proportional", "random"]
    assert board["open_positions"].sum() == 0, "every market of these weeks is resolved"
    assert board["profit"].sum() == rows(here, "arena/ledger")["amount"].sum()
    checks = here.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(key("arena/ledger"), "invariants"), dg.AssetCheckKey(key("arena/ledger"), "decided_on_these_books")]
    )
    assert [found.status.value for found in checks.values()] == ["SUCCEEDED", "SUCCEEDED"]


def test_a_broken_week_fails_its_own_check_and_its_run(here: World, tmp_path: Path) -> None:
    lake, declared = LakeResource(uri=str(tmp_path)), table("arena/trades")
    for week, own in rows(here, "arena/trades").partition_by("week", as_dict=True).items():
        broken = own.with_columns(action=pl.lit("LEND")) if week == (WEEK,) else own
        lake.lake.write(declared, (week[0].isoformat(),), broken, run_id="run")

    @dg.asset(key=key("arena/trades"), partitions_def=WEEKS)
    def trades() -> None:
        """Replace the trades of all weeks."""

    done = dg.materialize(
        [trades, *build_checks([trades])],
        resources={"lake": lake},
        tags={RANGE_START: WEEK.isoformat(), RANGE_END: (WEEK + SEVEN).isoformat()},
        raise_on_error=False,
    )
    assert [check.check_name for check in done.get_asset_check_evaluations() if not check.passed] == ["known_action"]
    (failure,) = (event for event in done.all_events if event.is_step_failure)
    assert set(failure_reasons(failure)) == {WEEK.isoformat()}


def test_what_is_done_is_not_run_again(here: World) -> None:
    work = here.runner()
    runs.run_weeks(work, [WEEK, WEEK + SEVEN])
    assert work.stats.runs == 0
    assert work.stats.fresh >= 3


def test_damaged_files_and_manifests_of_reconstructed_weeks_are_made_again_as_they_were(here: World) -> None:
    damaged = {}
    for name in (
        "arena/agents",
        "arena/universe",
        "arena/decisions",
        "arena/trades",
        "arena/evidence",
        "arena/prices",
        "arena/leaderboard",
    ):
        partition, manifest = next((place, found) for place, found in here.lake.manifests(table(name)).items() if found.rows)
        damaged[name, partition] = manifest
        if name in ("arena/universe", "arena/trades", "arena/evidence"):
            here.lake.storage.put(f"{manifest.file.rpartition('/')[0]}/manifest.json", b'{"x')
        else:
            flip_bit(Path(here.lake.storage.location(manifest.file)))
    runs.run_weeks(here.runner(), [WEEK, WEEK + SEVEN])
    for (name, partition), before in damaged.items():
        after = here.lake.manifests(table(name))[partition]
        here.lake.verify(after)
        assert after.sha256 == before.sha256, name
        aside = Path(here.lake.storage.location(before.file)).parent / "manifest.json.damaged"
        assert not aside.exists() or aside.read_bytes() == b'{"x'
        assert aside.exists() == (name in ("arena/universe", "arena/trades", "arena/evidence")), name


def test_the_damaged_manifest_of_a_live_week_is_left_to_a_person(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "is_all_reconstructed", lambda world: False)
    partition, manifest = next(iter(here.lake.manifests(table("arena/trades")).items()))
    place = Path(here.lake.storage.location(manifest.file)).parent / "manifest.json"
    text = place.read_bytes()
    place.write_bytes(b'{"x')
    try:
        with pytest.raises(BellwetherError):
            runs.run_weeks(here.runner(), [date.fromisoformat(partition[0])])
        assert place.read_bytes() == b'{"x'
    finally:
        place.write_bytes(text)


def test_a_methodology_that_is_asked_for_reaches_the_universe_and_the_cohort(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The methodology names the venue, so both steps must use the same one."""
    asked: list[dict[str, Any]] = []
    work = here.runner()
    monkeypatch.setattr(work, "launch", lambda job, label, *, partitions, config: asked.append(config))
    monkeypatch.setattr(runs, "update_results", lambda work, **how: None)
    runs.run_weeks(work, [WEEK - SEVEN], lineup=None, methodology="v1-kalshi", dollars=3.0)
    steps = {"week": {"config": {"methodology": "v1-kalshi", "dollars": 3.0}}, "arena__universe": {"config": {"methodology": "v1-kalshi"}}}
    assert asked == [{"ops": steps}]
    dg.validate_run_config(here.defs.resolve_job_def("arena_week"), asked[0])


def test_the_books_are_folded_and_the_failure_reported_when_the_present_cannot_be_marked(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> None:
        raise VenueError("prices of 3 outcomes", 5, "the venue is away")

    launched: list[str] = []
    monkeypatch.setattr(runs, "store_tick", away)
    monkeypatch.setattr(runs, "_has_new_submissions", lambda work: True)
    work = here.runner()
    monkeypatch.setattr(work, "launch", lambda job, label, **how: launched.append(label))
    failed = runs.update_results(work, present=True)
    assert (launched, "the venue is away" in str(failed)) == (["arena books"], True)
    monkeypatch.setattr(runs, "run_weeks", lambda work, weeks, **config: failed)
    monkeypatch.setattr("assets.warehouse.runs.publish", lambda work: launched.append("publication"))
    monkeypatch.setattr("assets.arena.results.demo", lambda as_json: {"arena": "shown"})
    done = CliRunner().invoke(main, ["arena", "run", "--week", str(WEEK), "--json"])
    assert done.exit_code == 1
    assert "the venue is away. All else is done; the same command marks it" in " ".join(done.stderr.split())
    assert launched[-1] == "publication"
    assert json.loads(done.stdout)["arena"] == "shown"


def test_a_week_needs_the_one_before_and_the_present_one_is_a_partition() -> None:
    keys = WEEKS.get_partition_keys()
    assert keys[0] == "2025-07-06"
    assert keys[-1] == "2026-06-28"
    assert all(date.fromisoformat(name).isoweekday() == 7 for name in keys)


def test_each_table_of_a_week_is_made_after_its_week_before(here: World) -> None:
    """This dependency makes a backfill build weeks in order."""
    graph = here.defs.resolve_asset_graph()
    for name in DECIDED_TABLES:
        node = graph.get(key(name))
        trades = {key("arena/trades")} if name == "arena/evidence" else set()
        assert node.parent_keys == {key("arena/universe"), key(name)} | trades
        mapping = node.partition_mappings[key(name)]
        assert isinstance(mapping, dg.TimeWindowPartitionMapping)
        assert (mapping.start_offset, mapping.end_offset) == (-1, -1)
    assert here.defs.resolve_assets_def(key("arena/decisions")).op.pool == "arena"


def test_books_that_do_not_hold_rank_nobody(here: World) -> None:
    partition = (WEEK.isoformat(),)
    right, board = here.lake.slice(table("arena/trades"), [partition]).read(), rows(here, "arena/leaderboard")
    # A sale of more shares than were bought, as if the position were another agent's.
    wrong = right.with_columns(position_id=pl.lit("nobody's"))
    here.lake.write(table("arena/trades"), partition, wrong, run_id="wrong")
    try:
        with pytest.raises(RunFailed, match="the books do not balance"):
            here.runner().launch(BOOKS, "books")
        assert rows(here, "arena/leaderboard").equals(board)
    finally:
        here.lake.write(table("arena/trades"), partition, right, run_id="right")
        here.runner().launch(BOOKS, "books")
    assert rows(here, "arena/leaderboard").equals(board)


def test_live_weeks_on_two_venues_decide_and_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The venue changes between two weeks. The older cohort continues on its venue, and each week's run marks current prices."""
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path))
    monkeypatch.setenv("BELLWETHER_LINEUP", "rules")
    start = datetime(2026, 6, 14, 0, 10, tzinfo=UTC)
    for number, methodology in enumerate((None, "v1-kalshi")):
        monkeypatch.setenv("BELLWETHER_SANDBOX_NOW", (start + number * SEVEN).isoformat())
        settings.cache_clear()
        world = open_world(tmp_path)
        runs.run_weeks(world.runner(), [(start + number * SEVEN).date()], methodology=methodology)
    second = rows(world, "arena/universe").filter(week=date(2026, 6, 21))
    assert second["venue"].unique().sort().to_list() == ["kalshi", "polymarket"]
    event = world.instance.get_latest_materialization_event(key("arena/universe"))
    assert event is not None and event.asset_materialization is not None
    digests = {name: value.value for name, value in event.asset_materialization.metadata.items() if name.endswith(": digest")}
    assert digests.keys() == {"kalshi: digest", "polymarket: digest"} and len(set(digests.values())) == 2
    decisions = rows(world, "arena/decisions")
    assert decisions.group_by("week", "state").len().sort("week").rows() == [
        (date(2026, 6, 14), "finished", 4),
        (date(2026, 6, 21), "finished", 8),
    ]
    prices, held = rows(world, "arena/prices"), rows(world, "arena/positions").filter(status="open")
    assert not prices["reconstructed"].any()
    listed = set(rows(world, "arena/trades").filter(quote_source="listing")["market_id"])
    assert set(held["market_id"]) - listed <= set(prices["market_id"])
    assert set(held["market_id"]) - listed
    assert prices["day"].unique().sort().to_list() == [date(2026, 6, 14), date(2026, 6, 21)]
    assert rows(world, "arena/portfolios").filter(pl.col("invested") > 0).height > 0
    told = query_week_status(world.lake, methodologies(world.config.registry))
    assert told["complete"].to_list() == [False, False]
    world.instance.dispose()
    settings.cache_clear()


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
    world.instance.dispose()
    settings.cache_clear()


def _check_tick(world: World, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensor sends no request to a venue; its run stores the marks, and no second run is requested meanwhile."""

    def ask() -> dg.RunRequest | dg.SkipReason:
        with (
            monkeypatch.context() as patch,
            dg.build_sensor_context(instance=world.instance, resources={"arena": _resource(world)}) as context,
        ):
            patch.setattr(Polymarket, "fetch_midpoints", None)
            return marks(context)  # type: ignore[return-value]

    prices, day = table("arena/prices"), (str(now.date()),)
    stored = rows(world, "arena/prices")
    world.lake.write(prices, day, stored.clear(), run_id="emptied")
    asked = ask()
    assert isinstance(asked, dg.RunRequest) and asked.tags == PROMPT
    assert world.defs.resolve_job_def(TICK.name).execute_in_process(instance=world.instance).success
    assert rows(world, "arena/prices").drop("known_at").equals(stored.drop("known_at"))
    event = world.instance.get_latest_materialization_event(key("arena/prices"))
    assert event is not None and event.asset_materialization is not None and event.asset_materialization.partition == day[0]
    world.instance.create_run_for_job(TICK, status=dg.DagsterRunStatus.STARTED)
    assert isinstance(ask(), dg.SkipReason)


def _resource(world: World) -> ArenaResource:
    found = world.defs.resources or {}
    arena = found["arena"]
    assert isinstance(arena, ArenaResource)
    return arena


def _tick(world: World, at: datetime) -> dg.RunRequest | dg.SkipReason:
    means = {"arena": _resource(world)}
    with dg.build_schedule_context(instance=world.instance, scheduled_execution_time=at, resources=means) as context:
        found = weekly_decisions(context)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def test_the_clock_asks_for_the_week_under_way_alone(here: World) -> None:
    assert isinstance(_tick(here, datetime(2026, 11, 22, 0, 5, tzinfo=UTC)), dg.SkipReason)
    assert isinstance(_tick(here, datetime(2026, 6, 21, 0, 5, tzinfo=UTC)), dg.SkipReason)
    asked = _tick(here, datetime(2026, 6, 28, 0, 5, tzinfo=UTC))
    assert isinstance(asked, dg.RunRequest)
    assert asked.partition_key == "2026-06-28"
    assert asked.run_config == {"ops": {"week": {"config": {"forced": True}}}}
    again = _tick(here, datetime(2026, 6, 28, 0, 5, tzinfo=UTC))
    assert isinstance(again, dg.RunRequest)
    assert again.run_key == asked.run_key, "fired twice, it is one run"
    missed = _tick(here, datetime(2026, 6, 28, 3, 5, tzinfo=UTC))
    assert isinstance(missed, dg.SkipReason)
    assert "on request only" in str(missed.skip_message)
    late = _tick(here, datetime(2026, 6, 30, 0, 5, tzinfo=UTC))
    assert isinstance(late, dg.SkipReason)
    assert "the deadline of" in str(late.skip_message)


def test_sensors_are_quiet_where_no_live_cohort_holds_anything(here: World) -> None:
    with dg.build_sensor_context(instance=here.instance, resources={"arena": _resource(here)}) as context:
        found = resolutions(context)
        tick = marks(context)  # type: ignore[arg-type]
    assert isinstance(found, dg.SkipReason)
    assert isinstance(tick, dg.SkipReason)
    assert "no live cohort has an open position" in str(tick.skip_message)


def test_past_weeks_get_their_marks_by_themselves(here: World) -> None:
    """After a backfill of weeks alone, automation requests marks for the days with open positions, and nothing afterwards."""

    def asked() -> list[dg.RunRequest] | dg.SkipReason:
        resources = {"arena": _resource(here), "lake": (here.defs.resources or {})["lake"]}
        with dg.build_sensor_context(instance=here.instance, resources=resources, definitions=here.defs) as context:
            return past_marks(context)  # type: ignore[return-value]

    assert isinstance(asked(), dg.SkipReason)
    trades, week = table("arena/trades"), (str(WEEK + SEVEN),)
    own = here.lake.slice(trades, [week]).read()
    before = here.lake.manifest(trades, week)
    here.lake.write(trades, week, [own[:1], own[1:]], run_id="others")
    assert before != here.lake.manifest(trades, week)
    found, again = asked(), asked()
    assert isinstance(found, list)
    assert isinstance(again, list)
    assert [one.run_key for one in found] == [one.run_key for one in again], "fired twice, they are the same runs"
    days = [(one.tags[RANGE_START], one.tags[RANGE_END]) for one in found]
    assert days[0][0] == str(WEEK + SEVEN), "the days before are not concerned"
    for one in found:
        here.runner().launch(MARKS, "marks", partitions=keys_between(DAY, one.tags[RANGE_START], one.tags[RANGE_END], here.instance))
    assert isinstance(asked(), dg.SkipReason)


def test_marks_alone_are_published_once_an_hour(here: World) -> None:
    warehouse = (here.defs.resources or {})["warehouse"]
    lake = (here.defs.resources or {})["lake"]
    warehouse.publish(here.lake)
    day = ("2026-06-29",)
    with dg.build_sensor_context(instance=here.instance, cursor=f"{datetime.now(UTC):%Y-%m-%d} {_PROCESS}") as context:
        here.lake.write(table("arena/prices"), day, table("arena/prices").empty(), run_id="tick")
        found = publisher(context, lake=lake, warehouse=warehouse)
        assert isinstance(found, dg.SkipReason)
        assert "once an hour" in str(found.skip_message)
        here.lake.write(table("arena/leaderboard"), (), rows(here, "arena/leaderboard"), run_id="more")
        assert isinstance(publisher(context, lake=lake, warehouse=warehouse), dg.RunRequest)


def run_command(*words: str) -> str:
    done = CliRunner().invoke(main, ["arena", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_commands_show_weeks_cohorts_agents_and_decisions(here: World) -> None:
    assert json.loads(run_command("status", "--json"))["weeks"][0]["week"] == str(WEEK + SEVEN)
    assert str(WEEK) in run_command("status")
    assert "2 reconstructed cohorts" in run_command("leaderboard")
    complete = [row["complete"] for row in json.loads(run_command("status", "--json"))["weeks"]]
    assert {row["completed"] for row in json.loads(run_command("leaderboard", "--json"))["arena"]} == {sum(complete)}, "one rule, one now"
    families = [row["family"] for row in json.loads(run_command("show", str(WEEK), "--json"))["agents"]]
    assert sorted(families) == ["favourite", "hold", "proportional", "random"]
    assert "cash movements" in run_command("show", str(WEEK), "random")
    text = run_command("explain", f"{WEEK}/favourite/{WEEK}")
    assert "You manage a paper portfolio" in text
    assert "Read as" in text and "BUY" in text
    found = json.loads(run_command("explain", f"{WEEK}/favourite/{WEEK}", "--json"))
    assert found["read"]["action"] == "BET"
    assert len(found["trades"]) == len(json.loads(found["read"]["json"])["bets"])


def test_a_dry_run_shows_prompts_and_changes_nothing(here: World) -> None:
    before = {name: list(here.lake.manifests(table(name))) for name in ("arena/universe", *DECIDED_TABLES, *BOOK_TABLES)}
    found = json.loads(run_command("run", "--week", "2026-04-12", "--dry-run", "--lineup", "sandbox", "--json"))
    assert (found["week"], found["reconstructed"]) == ("2026-04-12", True)
    assert 0.1 < found["most_dollars"] < 1, "eight models of the sandbox, at the prices that are made up for them"
    assert len(found["prompts"]) == 12
    assert {name: list(here.lake.manifests(table(name))) for name in before} == before
    assert "At most $0.00" in run_command("run", "--week", "2026-04-12", "--dry-run", "--lineup", "rules")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--week", "2027-01-01"), "is not in the world sandbox"),
        (("run", "--dry-run", "--weeks", "2"), "--dry-run shows one week"),
        (("show", "2026-01-04"), "no cohort started"),
        (("explain", "yesterday"), "COHORT/FAMILY/WEEK"),
        (("run", "--dry-run", "--week", "2026-04-12", "--lineup", "nobody's"), "does not exist"),
    ],
)
def test_what_cannot_be_is_refused_by_name(here: World, words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(main, ["arena", *words])
    assert done.exit_code != 0
    assert said in " ".join((done.output + str(done.exception)).split())


def test_operators_close_agents_and_cancel_markets(here: World) -> None:
    """Last in this file, because it changes the results of the shared world."""
    agent, bought = f"{WEEK}/hold", rows(here, "arena/trades").filter(pl.col("week") == WEEK)
    market, board = bought["market_id"][0], json.loads(run_command("leaderboard", "--json"))
    arena = _resource(here).world("operators")
    close_agent(arena, agent, "ann", "it never bets")
    work = here.runner()
    work.launch(AGENTS, "agents", partitions=[str(WEEK)])
    assert rows(here, "arena/agents").filter(pl.col("closed_at").is_not_null())["agent_id"].to_list() == [agent]
    runs.apply_intervention(work, cancel_market(arena, market, "ann", "withdrawn"))
    mine = rows(here, "arena/ledger").filter(pl.col("market_id") == market)
    assert mine["amount"].sum() == 0, "what was paid is taken back, and the cost refunded"
    assert json.loads(run_command("leaderboard", "--json")) != board
    later = json.loads(run_command("leaderboard", "--json", "--known-at", "2026-06-30"))
    assert later | {"as_of": board["as_of"]} == board
    then = json.loads(run_command("show", str(WEEK), "--json", "--known-at", "2026-05-17T12:00"))
    assert {row["scored"] for row in then["agents"]} == {0}
    early = json.loads(run_command("explain", f"{WEEK}/favourite/{WEEK}", "--json", "--known-at", "2026-05-17T00:05"))
    assert {row["kind"] for row in early["cash"]} == {"BUY"}
    assert "no record is stored at" in refused("explain", f"{WEEK}/favourite/{WEEK}", "--known-at", "2026-05-17")
    assert "no agent has bet" in refused("cancel", "no-market", "--by", "ann", "--reason", "r")
    assert "COHORT/FAMILY" in refused("close", "hold", "--by", "ann", "--reason", "r")


def refused(*words: str) -> str:
    done = CliRunner().invoke(main, ["arena", *words])
    assert done.exit_code != 0
    return " ".join((done.output + str(done.exception)).split())


def test_every_table_can_be_asked_for_as_it_was_known(here: World, tmp_path: Path) -> None:
    rules, known = methodologies(here.config.registry), load_cutoffs(here.config.registry)
    names = [name for name, declared in TABLES.items() if declared.group == "arena"]
    assert len(names) == 23
    then, later = datetime(2026, 5, 20, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    past, whole = (
        read_tables_as_known(here.lake, rules, known, at, load_registered_families(here.config.registry)) for at in (then, later)
    )
    for name in names:
        before, now = past(table(name)), whole(table(name))
        assert before.columns == now.columns == table(name).names, name
        assert now.equals(rows(here, name)) or name.removeprefix("arena/") in ("rankings", "calibration"), name
        for column in {"known_at", "closed_at", "received_at", "ended_at", "opened_at"} & set(before.columns):
            if name != "arena/evidence":
                assert before.filter(pl.col(column) > then).is_empty(), f"{name} {column}"
        if name not in ("arena/submissions", "arena/refusals", "arena/decision_versions", "arena/releases", "arena/review"):
            assert 0 < before.height < now.height or name in ("arena/leaderboard", "arena/pairs", "arena/calibration", "arena/rankings"), (
                name
            )
    assert past(table("arena/equity_by_day"))["day"].max() <= then.date()  # type: ignore[operator]
    restated = past(table("arena/calibration"))["n"].sum()
    assert restated < whole(table("arena/calibration"))["n"].sum()
    file = tmp_path / "positions.csv"
    ran = CliRunner().invoke(main, ["arena", "table", "positions", "--known-at", "2026-05-20", "--into", str(file), "--json"])
    assert json.loads(ran.output)["rows"] == past(table("arena/positions")).height == pl.read_csv(file).height
    assert "arena/universe" in CliRunner().invoke(main, ["arena", "table", "universe"]).output
    for wrong in (["nothing"], ["clean/markets"], ["rankings", "--into", str(tmp_path / "f.xlsx")]):
        assert CliRunner().invoke(main, ["arena", "table", *wrong]).exit_code != 0


def test_submitted_forecasts_are_ranked_with_the_next_books(here: World, tmp_path: Path) -> None:
    universe = rows(here, "arena/universe").filter(week=WEEK)
    binary = universe.filter(pl.col("outcomes").list.sort() == pl.lit(["No", "Yes"]))["market_id"]
    stated = f"{WEEK - timedelta(days=1)}T12:00:00Z"
    lines = pl.DataFrame({"market_id": binary, "probability": [0.3] * len(binary), "stated_at": stated})
    unlisted = pl.DataFrame({"market_id": ["nowhere"], "probability": [0.3], "stated_at": stated})
    pl.concat([lines, unlisted]).write_csv(tmp_path / "f.csv")
    asked = ["submit", str(tmp_path / "f.csv"), "--forecaster", "outsider", "--week", WEEK.isoformat(), "--json"]
    taken = CliRunner().invoke(main, [*asked[:3], "favourite", *asked[4:]])
    assert "a family of the arena" in json.loads(taken.output)["lines"][0]["reason"]
    told = json.loads(CliRunner().invoke(main, asked).output)
    assert (told["accepted"], told["in_the_arena"], told["refused"]) == (len(binary), len(binary), 1)
    work = here.runner()
    runs.update_results(work)
    assert work.stats.by_job.keys() == {"arena_books"}
    found = rows(here, "arena/submissions")
    assert found.select(pl.len(), pl.col("late").all(), pl.col("reconstructed").all()).row(0) == (len(binary), True, True)
    mine = rows(here, "arena/rankings").filter(family="outsider", metric="brier_stated").row(0, named=True)
    assert mine["n"] > 0
    assert mine["contaminated"], "it was received when the week was over"
    again = here.runner()
    runs.update_results(again)
    assert again.stats.runs == 0
    then = CliRunner().invoke(main, ["arena", "rankings", "--known-at", "2026-06-20", "--json"])
    assert "outsider" not in {row["family"] for row in json.loads(then.output)["rankings"]}, "it was not received by then"
