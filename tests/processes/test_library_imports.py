"""The library scores, replays and calibrates without the packages of the graph, of model calls and of the warehouse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib, pkgutil, sys
for package in ("bellwether.calibration", "bellwether.replay", "bellwether.scoring"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
print(sorted({"dagster", "duckdb", "great_expectations", "litellm", "assets", "orchestration"} & set(sys.modules)))
"""


def test_scores_and_replay_import_neither_dagster_nor_litellm_nor_duckdb() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
