"""docs/design.md and docs/benchmark.md name what the graph has."""

from __future__ import annotations

import re
from pathlib import Path

import dagster as dg
import yaml

from assets.benchmark import ForecastConfig, ScoreConfig
from bellwether.tables import TABLES, table
from orchestration.definitions import defs
from orchestration.evaluation import evaluate
from orchestration.schedules import SCHEDULES
from orchestration.sensors import SENSORS

DOCS = Path(__file__).resolve().parents[2] / "docs"
DESIGN = (DOCS / "design.md").read_text(encoding="utf-8")
BENCHMARK = (DOCS / "benchmark.md").read_text(encoding="utf-8")


def asset_names(cell: str) -> set[str]:
    """`group/name`, `_suffix`, `other`: what a first cell of the table of assets abbreviates."""
    names: set[str] = set()
    first = ""
    for short in re.findall(r"`([^`]+)`", cell):
        if "/" in short:
            first = short
        full = (
            short if "/" in short else f"{first.rpartition('_')[0]}{short}" if short.startswith("_") else f"{first.split('/')[0]}/{short}"
        )
        names |= {full.replace("<venue>", venue) for venue in ("kalshi", "polymarket")}
    return names


def test_the_table_of_assets_has_every_asset() -> None:
    cells = re.findall(r"^\| (`(?:raw|clean|benchmark|replay|summary)/[^|]*) \|", DESIGN, re.MULTILINE)
    named = set().union(*(asset_names(cell) for cell in cells))
    assert named == {"/".join(key.path) for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert named >= set(TABLES)


def test_the_table_of_what_runs_by_itself_has_every_schedule_and_sensor() -> None:
    named = set(re.findall(r"^\| (?:schedule|sensor) `(\w+)`", DESIGN, re.MULTILINE))
    assert named == {one.name for one in (*SCHEDULES, *SENSORS)}


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
