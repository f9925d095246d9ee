"""The code location loads, imports little, and contains exactly the expected definitions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from assets.arena.partitions import WEEK
from assets.benchmark.partitions import RELEASE, RELEASE_FORECASTER
from assets.replay.partitions import EPISODE, EPISODE_AGENT
from assets.venues.partitions import RECORDING
from bellwether.settings import World, settings
from bellwether.tables import TABLES
from orchestration.asset_declarations import table_asset
from orchestration.definitions import build_defs
from orchestration.partitions import DAY
from orchestration.runner import TAGS
from orchestration.server import describe_groups

ROOT = Path(__file__).resolve().parents[2]

#: Libraries that take seconds to import and that few steps need.
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
    assert deadlines(live) == {table.name for table in TABLES.values() if table.max_age is not None} != set()
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


def test_everything_that_runs_by_itself_is_switched_on(defs: dg.Definitions) -> None:
    """test_documentation compares their names with docs/operating.md."""
    repository = defs.get_repository_def()
    for clocks in (repository.schedule_defs, repository.sensor_defs):
        assert {clock.default_status.value for clock in clocks} == {"RUNNING"}


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
    text = describe_groups(3000)
    groups = {spec.group_name for spec in defs.resolve_all_asset_specs()}
    assert {name for name in groups if f"/locations/bellwether/asset-groups/{name}\n" not in text} == set()
    assert max(map(len, text.splitlines())) < 100


def test_runs_of_commands_are_shown_under_their_jobs() -> None:
    workspace = yaml.safe_load((Path(__file__).resolve().parents[2] / "workspace.yaml").read_text())
    location = workspace["load_from"][0]["python_module"]["location_name"]
    assert TAGS[".dagster/repository"] == f"__repository__@{location}"


def test_former_names_of_declarations_warn() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"orchestration\.declare\.of is deprecated until 0\.4; use orchestration\.asset_declarations\.table_asset"
    ):
        from orchestration.declare import of
    assert of is table_asset
