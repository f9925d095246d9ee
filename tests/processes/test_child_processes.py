"""Programs that start in a process of their own: imported libraries, and the same bytes under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.scoring.forecast_rows import draw_rows, write_rows

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, cwd: Path = ROOT, seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    return subprocess.run([sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, check=True).stdout


NO_LIBRARY = """
import importlib, pkgutil
for package in ("bellwether.calibration", "bellwether.replay", "bellwether.scoring"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
"""
CHECKS = """
from bellwether.checks import rules_for, validate
from bellwether.tables import table
from tests.unit.clean.rows import market, markets
validate(table("clean/markets"), markets(market("A", status="odd")), rules_for("clean/markets"))
"""
COMMANDS = "import pkgutil, cli\nfor found in pkgutil.iter_modules(cli.__path__): __import__(f'cli.{found.name}')"
#: A program by its name, and libraries that it does not import.
PROGRAMS = {
    "the library": (NO_LIBRARY, "dagster duckdb great_expectations litellm assets orchestration"),
    "reports": (
        "import bellwether.calibration.scores, bellwether.kalshibench, bellwether.report.writer",
        "sklearn scipy altair pandas great_expectations dagster",
    ),
    "checks": (CHECKS, "great_expectations pandas scipy"),
    "model calls": ("import bellwether.models.client, bellwether.models.prices as p; p.price_map_version()", "aiohttp litellm"),
    "a replay": ("import bellwether.replay", "numpy numba pyarrow"),
    "an isolated agent": (
        "import bellwether.replay.isolation.child",
        "numba polars pandas pydantic duckdb altair click rich dagster pyarrow",
    ),
    "the list of models": (
        "from cli.models import models; models([], standalone_mode=False)",
        "litellm scipy sklearn altair pandas aiohttp dagster sqlalchemy starlette huggingface_hub",
    ),
}
NIGHTLY_PROGRAMS = {
    "commands": (COMMANDS, "dagster"),
    "the code location": (
        "import orchestration.definitions",
        "aiohttp cryptography great_expectations litellm altair numpy pandas pyarrow sklearn scipy websockets",
    ),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY_PROGRAMS)])
def test_no_heavy_library_is_imported(name: str) -> None:
    code, heavy = (PROGRAMS | NIGHTLY_PROGRAMS)[name]
    loaded = run(f"{code}\nimport sys\nprint(*sys.modules)").splitlines()[-1].split()
    assert "sys" in loaded and set(heavy.split()).isdisjoint(loaded)


@pytest.mark.nightly
def test_litellm_is_loaded_quietly_and_without_a_network() -> None:
    code = """
import socket, sys
def refused(*args, **kwargs): raise AssertionError("LiteLLM wants the network")
socket.getaddrinfo = socket.create_connection = refused
from bellwether.models.transport import load_litellm
litellm = load_litellm()
from bellwether.models.prices import price_map
assert litellm.model_cost["gpt-4o"]["input_cost_per_token"] == price_map()["gpt-4o"]["input_cost_per_token"]
assert (litellm.telemetry, litellm.drop_params, litellm.success_callback) == (False, False, [])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SCORES = """
import hashlib, json
from pathlib import Path
from bellwether.scoring import score
result = score("f.csv", by="category", cluster=["series", "day"], replicates=200, seed=1)
result.write_html("page.html")
whole = [json.dumps(result.to_dict()).encode(), str(result).encode()]
print(json.dumps([hashlib.sha256(one).hexdigest() for one in (*whole, Path("page.html").read_bytes())]))
"""


@pytest.mark.nightly
def test_scores_pages_and_figures_are_the_same_under_any_hash_seed(tmp_path: Path) -> None:
    write_rows(tmp_path, "f.csv", draw_rows())
    first, second = (run(SCORES, cwd=tmp_path, seed=seed) for seed in ("1", "2"))
    assert first == second
