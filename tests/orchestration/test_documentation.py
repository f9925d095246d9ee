"""docs/design.md, docs/operating.md and docs/benchmark.md name every part of the graph."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import duckdb
import yaml

from assets.benchmark.assets import ForecastConfig, ScoreConfig
from bellwether.lake import meta
from bellwether.lake.dictionary import build_dictionary
from bellwether.tables import TABLES, table
from cli.benchmark import evaluate
from orchestration.definitions import defs

DOCS = Path(__file__).resolve().parents[2] / "docs"
DESIGN = (DOCS / "design.md").read_text(encoding="utf-8")
AUTOMATION = (DOCS / "operating.md").read_text(encoding="utf-8")
DICTIONARY = build_dictionary()
BENCHMARK = (DOCS / "benchmark.md").read_text(encoding="utf-8")
QUERYING = (DOCS / "querying.md").read_text(encoding="utf-8")


def test_every_asset_is_listed_with_what_it_is() -> None:
    """The data dictionary lists tables, and the design lists files."""
    tables = set(re.findall(r"^\| `(\w+/\w+)` \| [^|]+ \| [A-Z][^|]+\. \|$", DICTIONARY, re.MULTILINE))
    files = set(re.findall(r"`(\w+/\w+)`", re.findall(r"Six assets are files.*?\. One step", DESIGN, re.DOTALL)[0]))
    assert tables | files == {
        *("/".join(key.path) for key in defs.resolve_asset_graph().get_all_asset_keys()),
        *(one.name for one in meta.ALL),
    }
    assert tables == {*TABLES, *(one.name for one in meta.ALL)}


def test_the_table_of_what_runs_by_itself_has_every_schedule_and_sensor() -> None:
    named = set(re.findall(r"^\| (?:schedule|sensor) `(\w+)`", AUTOMATION, re.MULTILINE))
    assert named == {one.name for one in (*(defs.schedules or ()), *(defs.sensors or ()))}


def test_every_limit_of_an_evaluation_is_named() -> None:
    options = {option for one in evaluate.params for option in one.opts if option.startswith("--")}
    assert options - {"--models", "--json"} <= set(re.findall(r"--[a-z-]+", BENCHMARK))
    configuration = re.findall(r"```yaml\n(.*?)```", BENCHMARK, re.DOTALL)[0]
    stated = yaml.safe_load(configuration)
    assert set(stated["ops"]["benchmark__forecasts"]["config"]) == set(ForecastConfig.model_fields)
    assert dg.validate_run_config(defs.resolve_job_def("evaluate"), stated)
    assert set(ScoreConfig.model_fields) <= set(re.findall(r"`(\w+)`", BENCHMARK))


def test_every_column_of_the_leaderboard_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", BENCHMARK))
    plain = {re.sub(r"_(lower|upper|reason)$", "", column) for column in table("benchmark/leaderboard").names}
    assert plain - {"release", "forecaster", "kind", "known_at", "rules"} <= named


def test_columns_that_need_quotes_in_duckdb_are_named() -> None:
    """DuckDB reserves some words. A query with such a column name fails without quotes."""
    quoted = set()
    for name in {column for declared in TABLES.values() for column in declared.names}:
        try:
            duckdb.sql(f'SELECT {name} FROM (SELECT 1 AS "{name}")')
        except duckdb.Error:
            quoted.add(name)
    said = re.search(r"The columns (.+?) have names that DuckDB reserves", QUERYING)
    assert said is not None
    assert quoted == set(re.findall(r"`(\w+)`", said.group(1)))
