"""Several processes that start on an empty home at once, a disk without room, and backfills of a fleet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Fork four processes after the imports, and start them together when a pipe closes.
START = """
import os, sys
from pathlib import Path
import dagster as dg
from bellwether.settings import Settings
from orchestration.home import prepare

def letters(home, *added):
    os.environ.pop("DAGSTER_HOME", None)
    prepare(Settings(home=Path(home)))
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("letters", list(added))
        return sorted(instance.get_dynamic_partitions("letters"))

letters(sys.argv[1] + "-other")
waiting, go = os.pipe()
processes = []
for letter in "abcd":
    process = os.fork()
    if not process:
        os.close(go)
        os.read(waiting, 1)
        letters(sys.argv[1], letter)
        os._exit(0)
    processes.append(process)
os.close(go)
print([os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes], letters(sys.argv[1]))
"""


@pytest.mark.nightly
def test_four_processes_start_on_an_empty_home_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "home")], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.strip() == "[0, 0, 0, 0] ['a', 'b', 'c', 'd']", done.stderr


def test_a_home_of_another_version_is_refused_in_one_line(tmp_path: Path) -> None:
    home = tmp_path / "sandbox" / "dagster"
    home.mkdir(parents=True)
    (home / "made").write_text("0\n")
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"} | {"BELLWETHER_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "bellwether", "pull", "2026-09-01"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False)
    text = f"Error: opening {home}: another version of Bellwether made it; set BELLWETHER_HOME to a new folder\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", text)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [home / "made"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from cli.main import main
main(["pull", "2026-09-01"])
"""


@pytest.mark.nightly
def test_a_pull_on_a_full_disk_says_so_in_one_line_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    environment |= {"BELLWETHER_HOME": str(tmp_path), "BELLWETHER_VENUES": "kalshi", "PYTHONPATH": str(ROOT)}

    def pull(most: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", LIMITED, str(most)]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    full = pull(120_000)
    assert full.returncode == 1
    assert "Traceback" not in full.stderr, full.stderr[-3000:]
    assert "set BELLWETHER_HOME to another place" in full.stderr
    room = pull(100_000_000)
    assert room.returncode == 0, room.stderr[-3000:]


POLICIES = """
from orchestration.definitions import defs
graph = defs.resolve_asset_graph()
for name in ("raw/kalshi_markets", "benchmark/scores", "replay/backtests", "arena/decisions"):
    print(graph.get(dg.AssetKey(name.split("/"))).backfill_policy.max_partitions_per_run)
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("chosen", "expected"), [({}, ["100", "None", "None", "None"]), ({"BELLWETHER_FLEET": "celery"}, ["5", "1", "1", "None"])]
)
def test_backfills_of_a_fleet_are_divided_except_for_weeks(tmp_path: Path, chosen: dict[str, str], expected: list[str]) -> None:
    environment = {**os.environ, "BELLWETHER_HOME": str(tmp_path), **chosen}
    code = [sys.executable, "-c", f"import dagster as dg{POLICIES}"]
    out = subprocess.run(code, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert out.split() == expected
