"""The wheel in an environment that contains only its dependencies."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from contextlib import suppress
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.processes.core_output import PATHS, ROOT, check
from tests.unit.replay.episode.folders import Native

# Each test installs packages.
pytestmark = pytest.mark.timeout(1800)
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


def needed(requirements: list[str] | None, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """Return the installed distributions that these requirements need, including indirect ones."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(text), extras) for text in requirements or ()]
    while waiting:
        requirement, of = waiting.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in of | {""}):
            continue
        name = canonicalize_name(requirement.name)
        if name in found and not requirement.extras:
            continue
        found[name] = distribution(name)
        assert requirement.specifier.contains(found[name].version, prereleases=True), requirement
        waiting += [(Requirement(text), frozenset(requirement.extras)) for text in found[name].requires or ()]
    return found


def without_constraints(folder: Path, wheel: Path) -> Path:
    """Folder of programs of a new environment with the wheel, its extra `platform` and the releases that pip chooses by itself.

    Releases that are installed here already are linked.
    """
    venv.create(folder / "environment", symlinks=True)
    programs = folder / "environment" / "bin"
    (packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
    install = ("--python", programs / "python", "install", "-q", "--no-compile")
    chosen = pip(folder, *install, "--dry-run", "--report", folder / "report.json", f"{wheel}[platform]")
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


def installed(folder: Path) -> Path:
    """Folder of programs of a new environment with the wheel and links to its dependencies."""
    venv.create(folder / "environment", symlinks=True)
    programs = folder / "environment" / "bin"
    done = pip(folder, "--python", programs / "python", "install", "-q", "--no-compile", "--no-deps", "--no-index", built(folder))
    assert done.returncode == 0, done.stderr
    (packages,) = (folder / "environment" / "lib").glob("python*/site-packages")
    (own,) = Distribution.discover(name="bellwether", path=[str(packages)])
    for dist in needed(own.requires).values():
        linked(dist, packages)
    take_compiled(packages)
    return programs


def take_compiled(packages: Path) -> None:
    """Reuse compiled code of this repository, which numba finds by time, size and folder: copy it, and give the installed files the
    original times.
    """
    for file in (ROOT / "bellwether" / "replay").rglob("*.py"):
        os.utime(packages / file.relative_to(ROOT), ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    folders = [folder for folder in (ROOT / "bellwether").rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    names = {_cache_name(folder): _cache_name(packages / folder.relative_to(ROOT)) for folder in folders}
    for file in (ROOT / "bellwether" / "replay").rglob("*.nb[ic]"):
        target = packages / file.relative_to(ROOT)
        target = target.parent.with_name(names.get(target.parent.name, target.parent.name)) / target.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)


def _cache_name(folder: Path) -> str:
    """Return the name of numba's cache folder for the functions of a folder."""
    return f"{folder.name}_{hashlib.sha1(str(folder).encode(), usedforsecurity=False).hexdigest()}"


def test_the_wheel_with_its_dependencies_scores_and_replays(tmp_path: Path) -> None:
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
    assert re.search(r"^  demo \* .*^  backtest   .*^\* Needs an extra: pip install", listed.stdout, re.DOTALL | re.MULTILINE)
    refused = call(work, bellwether, "demo")
    assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
    assert "pip install 'bellwether[platform]'" in refused.stderr

    shutil.copy(PATHS, work)
    done = call(work, python, PATHS.name, episode)
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout))
    shown = call(work, bellwether, "backtest", "--agent", "ten.py:TenOfTheFirst", "--episode", "imported")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"^Total +\+5\.02 ", shown.stdout, re.MULTILINE)


def test_the_documented_installation_publishes_and_queries_a_warehouse(tmp_path: Path) -> None:
    """The README installs without constraints, so every release that `pyproject.toml` allows must work."""
    if pip(tmp_path, "download", "-q", "--no-deps", "-d", tmp_path / "probe", "packaging").returncode:
        pytest.skip("pip reaches no package index")
    programs = without_constraints(tmp_path, built(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    for command, shown in (
        (("warehouse",), "tables, 0 rows"),
        (("query", "SELECT count(*) > 50 AS many FROM meta.tables", "--json"), '"many": true'),
    ):
        done = call(work, "env", f"BELLWETHER_HOME={work}", programs / "bellwether", *command)
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout
