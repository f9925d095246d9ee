"""The wheel in a new environment with the releases that pip chooses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from contextlib import suppress
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

# Each test installs packages.
pytestmark = pytest.mark.timeout(1800)
ROOT = Path(__file__).resolve().parents[2]
FORECASTS = "question,series,model,p,outcome\na,s1,mine,0.9,1\nb,s2,mine,0.2,0\n"


def call(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program in `folder`, without settings and on a system without time zones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("BELLWETHER_", "PYTHON"))}
    return subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, check=False, env={**clean, "PYTHONTZPATH": ""})


def pip(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return call(folder, sys.executable, "-m", "pip", "--disable-pip-version-check", *words)


def built(folder: Path) -> Path:
    """The wheel, built from a copy of the repository because a build leaves files behind."""
    copy = folder / "source"
    for name in ("assets", "bellwether", "cli", "orchestration", "resources", "sql"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    done = pip(folder, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, copy)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("bellwether-*.whl")
    return wheel


def without_constraints(folder: Path, wheel: Path) -> Path:
    """Folder of programs of a new environment with the wheel and the releases that pip chooses by itself.

    Releases that are installed here already are linked.
    """
    venv.create(folder / "environment", symlinks=True)
    programs = folder / "environment" / "bin"
    (packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
    install = ("--python", programs / "python", "install", "-q", "--no-compile")
    chosen = pip(folder, *install, "--dry-run", "--report", folder / "report.json", wheel)
    assert chosen.returncode == 0, chosen.stderr
    others: list[str | Path] = [wheel]
    for item in json.loads((folder / "report.json").read_text())["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        here = next(iter(Distribution.discover(name=name)), None)
        if canonicalize_name(name) == "bellwether":
            continue
        if here is not None and here.version == version:
            linked(here, packages)
        else:
            others.append(f"{name}=={version}")
    done = pip(folder, *install, "--no-deps", *others)
    assert done.returncode == 0, done.stderr
    return programs


def linked(dist: Distribution, packages: Path) -> None:
    """Link the installed files of a distribution into another environment."""
    tops = {file.parts[0] for file in dist.files or () if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        with suppress(FileExistsError):  # a namespace shared by several distributions
            (packages / top).symlink_to(Path(str(dist.locate_file(top))))


def test_the_documented_installation_scores_a_file_and_queries_a_warehouse(tmp_path: Path) -> None:
    """The README installs without constraints, so every release that `pyproject.toml` allows must work."""
    if pip(tmp_path, "download", "-q", "--no-deps", "-d", tmp_path / "probe", "packaging").returncode:
        pytest.skip("pip reaches no package index")
    programs = without_constraints(tmp_path, built(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    (work / "forecasts.csv").write_text(FORECASTS)
    for command, shown in (
        (("score", "forecasts.csv"), "mine"),
        (("warehouse",), "tables, 0 rows"),
        (("query", "SELECT count(*) > 50 AS many FROM meta.tables", "--json"), '"many": true'),
    ):
        done = call(work, "env", f"BELLWETHER_HOME={work}", programs / "bellwether", *command)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
