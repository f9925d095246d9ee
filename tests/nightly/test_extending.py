"""The steps of docs/design.md that add a table, executed in a copy of the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("bellwether", "assets", "orchestration", "resources", "sql")
STEP = re.compile(r"^   ```(?:python|sql)\n   (?:#|--) (?P<file>[\w./]+)\n(?P<text>.*?)^   ```", re.MULTILINE | re.DOTALL)

#: Build two days of the table from both days' markets in one run, publish, and print its definition in the graph.
USE = """
import json
from datetime import UTC, date, datetime

import dagster as dg
import polars as pl

from bellwether.lake import Lake
from bellwether.lake.meta import build_dictionary
from bellwether.lake.warehouse import publish, query
from bellwether.settings import settings
from bellwether.tables import table
from orchestration.partitions import RANGE_END, RANGE_START
from orchestration.definitions import defs

KEY, MARKETS = dg.AssetKey(["clean", "markets_by_category"]), table("clean/markets")
lake, filled = Lake(settings().lake_uri), {name: None for name in MARKETS.names}
for number, day in enumerate(("2026-05-01", "2026-05-02"), start=1):
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    common = {"day": date.fromisoformat(day), "venue": "kalshi", "category": "Sports", "is_combo": False, "close_time": at, "status": "settled"}
    rows = [{**filled, **common, "market_id": str(one), "source": "live", "known_at": at, "outcome": "yes" if one else None} for one in range(number)]
    lake.write(MARKETS, (day,), MARKETS.frame(rows), run_id="r")
asset = defs.get_assets_def(KEY)
with dg.DagsterInstance.ephemeral() as instance:
    graph = defs.resolve_implicit_global_asset_job_def()
    done = graph.get_subset(asset_selection={KEY}).execute_in_process(
        instance=instance, tags={RANGE_START: "2026-05-01", RANGE_END: "2026-05-02"}
    )
publish(lake, settings().warehouse_uri)
print(json.dumps({
    "days of a run": asset.backfill_policy.max_partitions_per_run,
    "follows": asset.metadata_by_key[KEY]["follows"].value["attempts"],
    "in the job": KEY in {key for key in defs.resolve_job_def("days").asset_layer.executable_asset_keys},
    "checks": {found.check_name: found.passed for found in done.get_asset_check_evaluations()},
    "dictionary": "### clean/markets_by_category" in build_dictionary(),
    "rows": query(settings().warehouse_uri, "SELECT markets, resolved FROM clean.markets_by_category ORDER BY day").rows(),
}))
"""


def test_a_table_that_is_added_as_the_page_says_is_made_checked_and_published(tmp_path: Path) -> None:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    steps = STEP.findall(page)
    assert len(steps) == 4
    for name, text in steps:
        plain = re.sub("^   ", "", text, flags=re.MULTILINE)
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(f"\n\n{plain}" if name.endswith(".py") else plain)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "BELLWETHER_HOME": str(tmp_path / "home")}
    environment.pop("DAGSTER_HOME", None)
    used = subprocess.run([sys.executable, "-c", USE], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert used.returncode == 0, used.stderr[-3000:]
    assert json.loads(used.stdout.splitlines()[-1]) == {
        "days of a run": 100,
        "follows": 3,
        "in the job": True,
        "checks": {"unique_key": True, "resolved_are_markets": True},
        "dictionary": True,
        "rows": [[1, 0], [2, 1]],
    }
