"""The code location loads, is light, and holds exactly what it should."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.arena.partitions import WEEK
from assets.benchmark.assets import ScoreConfig
from assets.benchmark.partitions import RELEASE, RELEASE_FORECASTER
from assets.replay.partitions import EPISODE, EPISODE_AGENT
from assets.venues.partitions import RECORDING
from assets.venues.schedules import DEADLINES
from bellwether.calibration import Inference
from bellwether.settings import World, settings
from bellwether.tables import TABLES
from orchestration.definitions import build_defs
from orchestration.partitions import DAY
from orchestration.runner import TAGS
from orchestration.serve import orientation

ROOT = Path(__file__).resolve().parents[2]

#: Libraries that cost seconds to import and that only some steps need.
HEAVY = (
    *("aiohttp", "cryptography", "great_expectations", "litellm", "altair", "numpy", "pandas", "pyarrow", "sklearn", "scipy"),
    "websockets",
)


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs()


def test_every_table_is_an_asset_of_the_same_name(defs: dg.Definitions) -> None:
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert keys == {
        *TABLES,
        "summary/warehouse",
        "summary/site",
        "summary/data_docs",
        "benchmark/report",
        "benchmark/export",
        "replay/report",
    }


def test_definitions_are_loadable(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)


def test_every_asset_says_what_it_is(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.description and node.owners and node.group_name == key.path[0] and node.kinds and node.tags, key
        if key.to_user_string() in TABLES:
            schema = node.metadata["dagster/column_schema"]
            assert [column.name for column in schema.columns] == TABLES[key.to_user_string()].names
            assert all(column.description for column in schema.columns)
            assert ("sql" in node.kinds) == (ROOT / "sql" / f"{key.to_user_string()}.sql").is_file(), key


def test_what_clocks_renew_has_a_deadline_where_time_passes(defs: dg.Definitions) -> None:
    def deadlines(found: dg.Definitions) -> set[str]:
        graph = found.resolve_asset_graph()
        return {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).freshness_policy is not None}

    live = build_defs(config=settings().model_copy(update={"world": World.LIVE}))
    dg.Definitions.validate_loadable(live)
    assert deadlines(live) == {*DEADLINES}
    assert deadlines(defs) == set()


def test_partitions_follow_the_tables(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()
    expected = {
        (): None,
        ("day",): DAY,
        ("recording",): RECORDING,
        ("release",): RELEASE,
        ("release", "forecaster"): RELEASE_FORECASTER,
        ("week",): WEEK,
        ("episode",): EPISODE,
        ("episode", "agent"): EPISODE_AGENT,
    }
    for name, declared in TABLES.items():
        assert graph.get(dg.AssetKey(name.split("/"))).partitions_def == expected[declared.partitioned_by], name


def test_jobs_schedules_and_sensors_are_those_documented(defs: dg.Definitions) -> None:
    repository = defs.get_repository_def()
    jobs = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert jobs == {
        "series",
        "archive",
        "daily",
        "data_docs",
        "days",
        "operations",
        "prune",
        "recordings",
        "questions",
        "evaluate",
        "score",
        "rank",
        "analyse",
        "report",
        "export",
        "episodes",
        "episode_books",
        "replay",
        "compare_agents",
        "trading_report",
        "arena_week",
        "arena_evidence",
        "arena_agents",
        "arena_marks",
        "arena_books",
        "arena_review",
        "publish",
        "site",
    }
    assert {schedule.name: schedule.default_status.value for schedule in repository.schedule_defs} == {
        "daily_pull": "RUNNING",
        "weekly_series": "RUNNING",
        "daily_operations": "RUNNING",
        "daily_prune": "RUNNING",
        "weekly_decisions": "RUNNING",
        "daily_books": "RUNNING",
        "weekly_review": "RUNNING",
        "daily_data_docs": "RUNNING",
    }
    assert {sensor.name: sensor.default_status.value for sensor in repository.sensor_defs} == {
        "registry": "RUNNING",
        "finished_recordings": "RUNNING",
        "recorded_episodes": "RUNNING",
        "automation": "RUNNING",
        "publisher": "RUNNING",
        "site_builder": "RUNNING",
        "resolutions": "RUNNING",
        "marks": "RUNNING",
        "past_marks": "RUNNING",
        "failures": "RUNNING",
        "stuck": "RUNNING",
    }


def test_tables_that_reach_a_ranking_are_guarded_by_blocking_checks(defs: dg.Definitions) -> None:
    blocking = {
        check.asset_key.to_user_string()
        for check in defs.resolve_asset_graph().asset_check_keys
        if defs.resolve_asset_graph().get_check_spec(check).blocking
    }
    assert {"raw/kalshi_markets", "clean/markets", "clean/prices", "benchmark/questions", "benchmark/forecasts", "arena/ledger"} <= blocking


def test_loading_imports_nothing_heavy() -> None:
    code = f"import sys, orchestration.definitions; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_domain_library_never_imports_dagster() -> None:
    code = (
        "import sys, pkgutil, importlib, bellwether\n"
        "for module in pkgutil.walk_packages(bellwether.__path__, 'bellwether.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        "print([name for name in sys.modules if name.split('.')[0].startswith('dagster')])"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_newcomer_is_told_of_every_group_when_the_ui_starts(defs: dg.Definitions) -> None:
    text = orientation(3000)
    groups = {spec.group_name for spec in defs.resolve_all_asset_specs()}
    assert {name for name in groups if f"/locations/bellwether/asset-groups/{name}\n" not in text} == set()
    assert max(map(len, text.splitlines())) < 100


def test_checks_of_the_whole_lake_say_when_they_are_evaluated(defs: dg.Definitions) -> None:
    specs = [
        spec for check in defs.asset_checks or () for spec in check.check_specs if spec.name.endswith(("_is_fresh", "_rate_limit_time"))
    ]
    assert specs
    assert all("operations" in (spec.description or "") for spec in specs)


def test_runs_of_commands_are_shown_under_their_jobs() -> None:
    workspace = yaml.safe_load((Path(__file__).resolve().parents[2] / "workspace.yaml").read_text())
    location = workspace["load_from"][0]["python_module"]["location_name"]
    assert TAGS[".dagster/repository"] == f"__repository__@{location}"


def cpu(*words: str) -> float:
    """CPU seconds of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_scores_are_made_as_the_library_makes_them_unless_told_otherwise() -> None:
    assert (ScoreConfig().replicates, ScoreConfig().seed) == (Inference().replicates, Inference().seed)


def test_loading_the_definitions_costs_at_most_twice_the_import_of_dagster() -> None:
    # Of pairs, since what else runs on the machine makes both dearer.
    assert any(cpu("-c", "import orchestration.definitions") <= 2.0 * cpu("-c", "import dagster") for _ in range(5))


def test_help_costs_a_fraction_of_the_import_of_dagster() -> None:
    """At most 0.3 s where the import of Dagster takes 1.5."""
    assert any(cpu("-m", "bellwether", "--help") <= 0.2 * cpu("-c", "import dagster") for _ in range(3))
