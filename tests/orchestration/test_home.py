"""The first start of a world, alone and of several processes at once, and what a disk that cannot be written says."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import Settings
from orchestration.home import prepare, storage_errors

ROOT = Path(__file__).resolve().parents[2]
START = """
import sys, time
from pathlib import Path
from bellwether.settings import Settings
from orchestration.home import prepare
import dagster as dg

home = Path(sys.argv[1])
(home / f"ready-{sys.argv[2]}").touch()
while not (home / "go").exists():
    time.sleep(0.002)
prepare(Settings(home=home))
with dg.DagsterInstance.get() as instance:
    instance.add_dynamic_partitions("letters", [sys.argv[2]])
"""


@pytest.mark.slow
def test_four_processes_start_on_an_empty_home_at_once(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    processes = [
        subprocess.Popen([sys.executable, "-c", START, str(tmp_path), name], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        for name in "abcd"
    ]
    while len(list(tmp_path.glob("ready-*"))) < len(processes) and all(process.poll() is None for process in processes):
        pass
    (tmp_path / "go").touch()
    said = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
    code = "import dagster as dg; print(sorted(dg.DagsterInstance.get().get_dynamic_partitions('letters')))"
    environment["DAGSTER_HOME"] = str(tmp_path / "sandbox" / "dagster")
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['a', 'b', 'c', 'd']"


def test_a_home_that_was_made_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    home = prepare(Settings(home=tmp_path))
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert prepare(Settings(home=tmp_path)) == home
    assert (home / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_a_home_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / "dagster"))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(BellwetherError, match=r"Read-only file system .*set BELLWETHER_HOME to another place"):
        prepare(Settings(home=tmp_path))
    assert not (tmp_path / "dagster").exists()


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "small.db") as database:
        database.execute("PRAGMA max_page_count = 3")
        database.execute("CREATE TABLE big (content)")
        with pytest.raises(BellwetherError, match=r"disk is full.*goes on where it stopped"), storage_errors(tmp_path):
            try:
                database.executemany("INSERT INTO big VALUES (?)", [(bytes(4096),)] * 9)
            except sqlite3.OperationalError as error:
                raise RuntimeError("an event could not be stored") from error


@pytest.mark.parametrize("error", [ValueError("something else"), OSError(errno.ECONNREFUSED, "refused"), ConfigError("a setting is wrong")])
def test_other_failures_stay_as_they_are(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, storage_errors(tmp_path):
        raise error
    assert raised.value is error


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from bellwether.cli import main
main(["pull", "2026-06-01"])
"""


@pytest.mark.slow
def test_a_pull_on_a_full_disk_says_so_in_one_line_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"} | {"BELLWETHER_HOME": str(tmp_path)}
    command = [sys.executable, "-c", LIMITED]
    full = subprocess.run(
        [*command, "120000"], cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert full.returncode == 1
    assert "Traceback" not in full.stderr, full.stderr[-3000:]
    assert "set BELLWETHER_HOME to another place" in full.stderr
    room = subprocess.run(
        [*command, "100000000"], cwd=tmp_path, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert room.returncode == 0, room.stderr[-3000:]
