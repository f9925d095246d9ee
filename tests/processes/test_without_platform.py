"""The core works with only its required packages, and never imports the graph."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bellwether.extras import MODULES
from benchmarks.core import needed
from tests.processes.core_output import ROOT
from tests.unit.replay.episode.folders import Native

#: Packages of the wheel that belong to the platform.
GRAPH = ("assets", "orchestration", "resources", "sql")

#: Run a program as if the modules of the first argument were not installed.
HIDE = """
import runpy, sys
hidden = set(sys.argv.pop(1).split(","))
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
IMPORT_ALL = """
import importlib, pkgutil, sys
for package in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
"""


def declared(extra: str | None = None) -> set[str]:
    """Return the packages that pyproject.toml lists for the core or for an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return {canonicalize_name(Requirement(text).name) for text in listed}


def others(*packages: str) -> str:
    """Return `packages` and every installed module that the core does not need."""
    core = {*needed(), "bellwether"}
    owners = {module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()}
    return ",".join([*packages, *(module for module, names in owners.items() if not names & core)])


def run(folder: Path, program: Path, *words: str, hidden: tuple[str, ...] = GRAPH) -> subprocess.CompletedProcess[str]:
    home = {"BELLWETHER_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HIDE, others(*hidden), str(program), *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **home})


def test_the_modules_of_the_platform_are_those_of_its_packages() -> None:
    packages = declared("platform")
    owners = {module: {canonicalize_name(name) for name in names} for module, names in packages_distributions().items()}
    assert all(owners[module] & packages for module in MODULES)
    assert {name for module in MODULES for name in owners[module]} == packages


def test_the_core_needs_no_package_of_the_platform() -> None:
    assert not set(needed()) & declared("platform")
    assert "sqlalchemy" in needed(["platform"])
    assert {"dagster", "great_expectations", "litellm", "sqlalchemy", "uvicorn", "pandas", "sklearn"} <= set(others().split(","))


@pytest.mark.nightly
def test_every_module_of_the_scores_and_the_replay_can_be_imported(tmp_path: Path) -> None:
    program = tmp_path / "import_all.py"
    program.write_text(IMPORT_ALL)
    packages = ("calibration", "kalshibench", "questions", "registry", "replay", "report", "scoring", "tables")
    done = run(tmp_path, program, *(f"bellwether.{name}" for name in packages))
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("words", [("demo",), ("backtest", "--agent", "llm", "--episode", "KXTEST-26JAN20")])
def test_what_needs_the_platform_says_so_in_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    Native().write(tmp_path / "KXTEST-26JAN20")
    done = run(tmp_path, ROOT / "bellwether" / "__main__.py", *words, hidden=())  # the wheel contains the graph
    assert (done.returncode, done.stdout) == (1, "")
    # The first run announces the compilation of the simulator.
    (error,) = [line for line in done.stderr.splitlines() if not line.startswith("Compiling the simulator")]
    assert error.startswith("Error: ") and "pip install 'bellwether[platform]'" in error
