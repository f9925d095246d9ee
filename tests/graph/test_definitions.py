"""The code location contains exactly the expected definitions, described for users, and the documentation names all of them."""

from __future__ import annotations

import ast
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import dagster as dg
import duckdb
import pytest
import yaml

from assets.arena.assets import DECIDED_TABLES, WEEK
from assets.benchmark.assets import ForecastConfig, ScoreConfig
from assets.benchmark.partitions import RELEASE, RELEASE_FORECASTER, forecaster_list, forecasters
from assets.raw.assets import RECORDING
from assets.replay.assets import EPISODE, EPISODE_AGENT
from bellwether.forecasting import without_key
from bellwether.settings import Settings, World, settings
from bellwether.tables import TABLES
from cli.benchmark import evaluate
from orchestration.asset_declarations import key, site_link
from orchestration.definitions import build_defs
from orchestration.home import settings_file
from orchestration.partitions import DAY
from orchestration.run_priority import AUTOMATIC
from orchestration.runner import TAGS
from orchestration.server import _serve_site

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "TOGETHERAI_API_KEY", "FIREWORKS_API_KEY")


@pytest.fixture(scope="module")
def defs() -> dg.Definitions:
    return build_defs()


def test_every_table_is_an_asset_of_the_same_name(defs: dg.Definitions) -> None:
    keys = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert keys == {*TABLES, "summary/warehouse", "summary/site", "summary/data_docs", "benchmark/report", "benchmark/export"}


def test_definitions_are_loadable(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)


def test_assets_depend_on_the_tables_that_their_sql_reads(defs: dg.Definitions) -> None:
    graph, names = defs.resolve_asset_graph(), {declared.short_name for declared in TABLES.values()}
    for name, text in ((name, ROOT / "sql" / f"{name}.sql") for name in TABLES):
        if text.is_file():
            read = duckdb.get_table_names(re.sub(r"\$\w+", "NULL", text.read_text(encoding="utf-8")))
            assert read & names <= {parent.path[-1] for parent in graph.get(key(name)).parent_keys}, name


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
    repository = defs.get_repository_def()
    for clocks in (repository.schedule_defs, repository.sensor_defs):
        assert {clock.default_status.value for clock in clocks} == {"RUNNING"}
    named = set(re.findall(r"^\| (?:schedule|sensor) `(\w+)`", (DOCS / "operating.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert named == {one.name for one in repository.schedule_defs} | {one.name for one in repository.sensor_defs}


def test_tables_that_reach_a_ranking_are_guarded_by_blocking_checks(defs: dg.Definitions) -> None:
    blocking = {
        check.asset_key.to_user_string()
        for check in defs.resolve_asset_graph().asset_check_keys
        if defs.resolve_asset_graph().get_check_spec(check).blocking
    }
    assert {"raw/kalshi_markets", "clean/markets", "clean/prices", "benchmark/questions", "benchmark/forecasts", "arena/ledger"} <= blocking


def test_runs_of_commands_are_shown_under_their_jobs() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    location = workspace["load_from"][0]["python_module"]["location_name"]
    assert TAGS[".dagster/repository"] == f"__repository__@{location}"


def test_pages_are_linked_at_the_address_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_SITE_URL", "https://bellwether.example.com/")
    settings.cache_clear()
    assert site_link("data/index.html").url == "https://bellwether.example.com/data/index.html"
    monkeypatch.delenv("BELLWETHER_SITE_URL")
    settings.cache_clear()
    assert str(site_link("data/index.html").url).startswith("file://")


def test_the_ui_serves_the_site_and_explains_a_missing_page(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("home")
    with _serve_site(Settings(home=tmp_path, site=str(tmp_path))) as address:
        with urllib.request.urlopen(f"{address}/index.html") as answer:
            assert answer.read() == b"home"
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(f"{address}/data/index.html")
        assert b"bellwether site" in failure.value.read()
        (tmp_path / "404.html").write_text("no such page")
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(f"{address}/data/index.html")
        assert (failure.value.code, failure.value.read()) == (404, b"no such page")


def test_tables_of_rankings_are_materialized_one_by_one(defs: dg.Definitions) -> None:
    """The UI asks for confirmation if a step builds more than the selection. Only pulls should do that."""
    graph = defs.resolve_asset_graph()
    together = {key.to_user_string() for key in graph.get_all_asset_keys() if len(graph.get(key).execution_set_asset_keys) > 1}
    assert {name.split("/")[0] for name in together} == {"raw"}


def test_forecasters_that_need_a_key_are_listed_last_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)
    missing = without_key()
    order = [missing.get(name, "") for name in forecasters()]
    assert order == sorted(order) and order[0] == "" and "key missing: OPENAI_API_KEY" in order
    lines = forecaster_list().splitlines()
    assert lines[0].startswith("- ready: ") and "`always-half`" in lines[0]
    assert any(line.startswith("- key missing: OPENAI_API_KEY: ") and "`gpt-4o`" in line for line in lines)


def test_each_table_of_a_week_is_made_after_its_week_before(defs: dg.Definitions) -> None:
    """This dependency makes a backfill build weeks in order."""
    graph = defs.resolve_asset_graph()
    for name in DECIDED_TABLES:
        node = graph.get(key(name))
        facts = {key("arena/agents"), key("arena/trades")} if name == "arena/evidence" else set()
        assert node.parent_keys == {key("arena/universe"), key(name)} | facts
        mapping = node.partition_mappings[key(name)]
        assert isinstance(mapping, dg.TimeWindowPartitionMapping)
        assert (mapping.start_offset, mapping.end_offset) == (-1, -1)
    assert defs.resolve_assets_def(key("arena/decisions")).op.pool == "arena"


def test_no_job_gives_the_run_of_a_user_the_tags_of_automation(defs: dg.Definitions) -> None:
    assert not [job.name for job in defs.resolve_all_job_defs() if job.tags.keys() & AUTOMATIC.keys()]


def test_every_limit_of_an_evaluation_is_documented(defs: dg.Definitions) -> None:
    page = (DOCS / "benchmark.md").read_text(encoding="utf-8")
    options = {option for one in evaluate.params for option in one.opts if option.startswith("--")}
    assert options - {"--models"} <= set(re.findall(r"--[a-z-]+", page))
    configuration = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0]
    stated = yaml.safe_load(configuration)
    assert set(stated["ops"]["benchmark__forecasts"]["config"]) == set(ForecastConfig.model_fields)
    assert dg.validate_run_config(defs.resolve_job_def("evaluate"), stated)
    assert set(ScoreConfig.model_fields) <= set(re.findall(r"`(\w+)`", page))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_private_module_of_dagster_is_imported() -> None:
    files = [path for folder in ("cli", "assets", "orchestration", "resources", "bellwether") for path in (ROOT / folder).rglob("*.py")]
    private = {
        (str(path.relative_to(ROOT)), name)
        for path in files
        if "dagster" in path.read_text(encoding="utf-8")
        for name in imported(path)
        if name.startswith("dagster") and any(part.startswith("_") for part in name.split("."))
    }
    assert private == set()


def test_the_classes_that_a_home_names_exist() -> None:
    named = [value for value in yaml.safe_load(settings_file()).values() if isinstance(value, dict) and "class" in value]
    assert len(named) == 2
    for one in named:
        assert hasattr(import_module(one["module"]), one["class"])
