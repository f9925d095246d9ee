"""The wheel alone, in an environment of its own with nothing but the core's packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.core.outcome import PATHS, ROOT, check
from tests.replay.episode.folders import Native

CONSTRAINTS = ROOT / "constraints.txt"
ABSENT = (
    "dagster",
    "dagster_webserver",
    "great_expectations",
    "litellm",
    "uvicorn",
    "starlette",
    "sqlalchemy",
    "duckdb",
    "httpx",
    "aiohttp",
)


def call(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program in `folder`, as a user without settings would, on a system that has no time zones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BELLWETHER_", "PYTHON"))}
    # Simpler code of the simulator compiles in two thirds of the time.
    environment = {**clean, "PYTHONTZPATH": "", "NUMBA_OPT": "1"}
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, env=environment)


def pip(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return call(folder, sys.executable, "-m", "pip", "--disable-pip-version-check", *words)


def require_index(folder: Path) -> None:
    """Skip the test where pip reaches no index: it cannot get even one small package anew."""
    asked = pip(folder, "download", "-q", "--no-deps", "--no-cache-dir", "--retries", "2", "-d", folder / "probe", "click")
    if asked.returncode:
        pytest.skip(f"pip reaches no package index: {asked.stderr.strip().splitlines()[-1]}")


def built(folder: Path) -> Path:
    """The wheel of this repository, built from a copy: a build leaves files behind."""
    copy = folder / "source"
    for name in ("assets", "bellwether", "orchestration", "resources", "sql"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    done = pip(folder, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, copy)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("bellwether-*.whl")
    return wheel


def installed(folder: Path) -> Path:
    """The folder of the programs of an empty environment into which the wheel was installed with its dependencies, pinned."""
    venv.create(folder / "environment", symlinks=True)
    programs = folder / "environment" / "bin"
    done = pip(folder, "--python", programs / "python", "install", "-q", "--no-compile", "-c", CONSTRAINTS, built(folder))
    assert done.returncode == 0, done.stderr
    return programs


@pytest.mark.slow
def test_the_wheel_with_its_dependencies_scores_and_replays(tmp_path: Path) -> None:
    require_index(tmp_path)
    programs = installed(tmp_path)
    python, bellwether = programs / "python", programs / "bellwether"
    episode = Native().write(tmp_path / "KXTEST-26JAN20")
    work = tmp_path / "work"
    work.mkdir()

    specs = f"import importlib.util as u; print([name for name in {ABSENT!r} if u.find_spec(name)])"
    assert call(work, python, "-c", specs).stdout.strip() == "[]"
    assert pip(work, "--python", python, "check").returncode == 0

    listed = call(work, bellwether, "--help")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert re.search(r"^  backtest .*^Commands of the platform.*pip install.*^  demo ", listed.stdout, re.DOTALL | re.MULTILINE)
    refused = call(work, bellwether, "demo")
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
    assert "pip install 'bellwether[platform]'" in refused.stderr

    shutil.copy(PATHS, work)
    done = call(work, python, "paths.py", episode)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))
    shown = call(work, bellwether, "backtest", "--agent", "ten.py:TenOfTheFirst", "--episode", "imported")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"^Total +\+5\.02 ", shown.stdout, re.MULTILINE)
