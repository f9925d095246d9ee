"""The first start of a world, alone and of several processes at once, and what a disk that cannot be written says."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.warehouse.runs import publish
from bellwether.errors import BellwetherError, ConfigError
from bellwether.settings import Settings, settings
from cli.main import main
from orchestration.home import prepare, storage_errors
from orchestration.runner import RunFailed
from resources import WarehouseResource
from tests.orchestration.conftest import open_world

ROOT = Path(__file__).resolve().parents[2]
#: Four processes, forked when a home of another name has loaded all that they need, wait for the end of a pipe to start.
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


@pytest.mark.slow
def test_four_processes_start_on_an_empty_home_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path / "home")], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.strip() == "[0, 0, 0, 0] ['a', 'b', 'c', 'd']", done.stderr


def test_a_home_that_was_made_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    home = prepare(Settings(home=tmp_path))
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert prepare(Settings(home=tmp_path)) == home
    assert (home / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_settings_of_dagster_that_were_deleted_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    written = (prepare(Settings(home=tmp_path)) / "dagster.yaml").read_text()
    (tmp_path / "dagster" / "dagster.yaml").unlink()
    assert (prepare(Settings(home=tmp_path)) / "dagster.yaml").read_text() == written


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


@pytest.mark.slow
def test_a_step_on_a_full_disk_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: WarehouseResource, *what: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    world = open_world(tmp_path)
    monkeypatch.setattr(WarehouseResource, "publish", full)
    with pytest.raises(RunFailed, match=r"No space left on device\. What was stored before is whole\. Free space"):
        publish(world.runner())


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from cli.main import main
main(["pull", "2026-06-01"])
"""


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "harm", [lambda data: b"", lambda data: bytes(100) + data[100:], lambda data: data[:4096] + bytes(len(data) - 4096)]
)
@pytest.mark.parametrize("name", ["history/runs.db", "history/runs/index.db", "schedules/schedules.db"])
def test_a_damaged_database_of_dagster_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, harm: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    home = prepare(Settings(home=tmp_path))
    path = home / name
    for log in path.parent.glob(f"{path.name}-*"):
        log.unlink()
    path.write_bytes(harm(path.read_bytes()))
    with (
        pytest.raises(BellwetherError, match=rf"{path}: Dagster's database is damaged\. Move the folder {home} away"),
        storage_errors(home),
    ):
        prepare(Settings(home=tmp_path))
        with dg.DagsterInstance.get() as instance:
            instance.get_runs_count()
            instance.get_dynamic_partitions("forecaster")
            instance.all_instigator_state()


@pytest.mark.parametrize("command", [["verify"], ["journal"], ["arena", "run"], ["recordings"], ["pull", "2026-06-01"]])
def test_a_home_that_is_no_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / ("x" * 300)))
    settings.cache_clear()
    ran = CliRunner().invoke(main, command)
    settings.cache_clear()
    assert ran.exit_code == 1
    assert re.search(r"Error: .*File name too long.*BELLWETHER_HOME to another place", ran.output)
    assert "Traceback" not in ran.output
