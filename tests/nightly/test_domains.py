"""The example domain of docs/design.md, executed step by step."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
#: Build one day of the example's table through its job, publish it, and print the location of the domain.
USE = """
import json
import dagster as dg
from bellwether.lake import Lake
from bellwether.lake.meta import build_dictionary
from bellwether.lake.warehouse import publish, query
from bellwether.settings import settings
from orchestration.definitions import defs
from orchestration.server import describe_groups

dg.Definitions.validate_loadable(defs)
with dg.DagsterInstance.ephemeral() as instance:
    run = defs.resolve_job_def("weather").execute_in_process(instance=instance, partition_key="2026-05-01")
publish(Lake(settings().lake_uri), settings().warehouse_uri)
print(json.dumps({
    "asset": dg.AssetKey(["weather", "highs"]) in defs.resolve_asset_graph().get_all_asset_keys(),
    "page": "/asset-groups/weather" in describe_groups(3000),
    "checks": {found.check_name: found.passed for found in run.get_asset_check_evaluations()},
    "dictionary": "### weather/highs" in build_dictionary(),
    "rows": query(settings().warehouse_uri, "FROM weather.highs ORDER BY city").select("city", "high").rows(),
}))
"""


def install(folder: Path) -> None:
    """Write the files of the page, and the metadata that pip would write for its pyproject.toml."""
    for language, name, text in re.findall(r"```(python|toml)\n# ([\w./]+)\n(.*?)```", PAGE, flags=re.DOTALL):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        assert language == ("toml" if name.endswith(".toml") else "python")
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = folder / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in one.items()) for group, one in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(points))


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package of `folder` installed and a separate home."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "BELLWETHER_HOME": str(folder / "home")}
    environment.pop("DAGSTER_HOME", None)
    return subprocess.run([sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_a_domain_of_another_package_is_found_everywhere(tmp_path: Path) -> None:
    install(tmp_path)
    used = python(tmp_path, "-c", USE)
    assert used.returncode == 0, used.stderr[-2000:]
    assert json.loads(used.stdout.splitlines()[-1]) == {
        "asset": True,
        "page": True,
        "checks": {"unique_key": True, "plausible": True},
        "dictionary": True,
        "rows": [["Oslo", 21.5], ["Rome", 33.0]],
    }
    assert "Show how warm it was in a city." in python(tmp_path, "-m", "bellwether", "--help").stdout
    assert python(tmp_path, "-m", "bellwether", "weather", "Oslo").stdout == "2026-05-01  21.5\n"


def test_a_domain_that_cannot_be_loaded_is_named_and_the_core_still_works(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "weather" / "__init__.py").write_text("raise RuntimeError('no sky')\n")
    listed = python(tmp_path, "-m", "bellwether", "--help")
    assert (listed.returncode, "  demo " in listed.stdout) == (0, True)
    assert "Warning: the entry point 'weather' (bellwether.domains) of weather cannot be loaded: RuntimeError: no sky" in listed.stderr
    asked = python(tmp_path, "-m", "bellwether", "doctor", "--files")
    assert (asked.returncode, "Traceback" in asked.stderr) == (1, False)
    assert "the entry point 'weather' (bellwether.domains) of weather cannot be loaded" in asked.stderr.splitlines()[-1]
