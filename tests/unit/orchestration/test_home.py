"""The first start of a home, by one or several processes, and error messages for a read-only disk."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from assets.warehouse.runs import publish
from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import try_lock
from bellwether.settings import Settings, settings
from cli.main import main
from orchestration.home import convert, prepare, storage_errors
from orchestration.runner import RunFailed
from resources import WarehouseResource
from tests.orchestration.conftest import open_world

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
        with pytest.raises(BellwetherError, match=r"disk is full.*continues from there"), storage_errors(tmp_path):
            try:
                database.executemany("INSERT INTO big VALUES (?)", [(bytes(4096),)] * 9)
            except sqlite3.OperationalError as error:
                raise RuntimeError("an event could not be stored") from error


@pytest.mark.slow
def test_a_step_on_a_full_disk_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: WarehouseResource, *what: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    world = open_world(tmp_path)
    monkeypatch.setattr(WarehouseResource, "publish", full)
    with pytest.raises(RunFailed, match=r"No space left on device\. Stored results are complete\. Free space"):
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
    ("name", "harm"),
    [
        ("history/runs.db", lambda data: b""),
        ("event_log.db", lambda data: bytes(100) + data[100:]),
        ("schedules/schedules.db", lambda data: data[:4096] + bytes(len(data) - 4096)),
    ],
)
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


@pytest.mark.parametrize("command", [["journal"], ["pull", "2026-06-01"]])
def test_a_home_that_is_no_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / ("x" * 300)))
    settings.cache_clear()
    ran = CliRunner().invoke(main, command)
    settings.cache_clear()
    assert ran.exit_code == 1
    assert re.search(r"Error: .*File name too long.*BELLWETHER_HOME to another place", ran.output)
    assert "Traceback" not in ran.output


#: Class names in dagster.yaml of version 0.2.
FORMER = """
run_storage: {module: orchestration.run_storage, class: RunStorage, config: {home: {env: DAGSTER_HOME}}}
event_log_storage: {module: orchestration.event_log, class: EventLog, config: {home: {env: DAGSTER_HOME}}}
"""


#: The automation sensor of such a home, disabled by a user, as Dagster stores it. Its cursor is the number of an event.
SENSOR = {
    "__class__": "InstigatorState",
    "job_specific_data": {"__class__": "SensorInstigatorData", "cursor": "4711", "min_interval": 30},
    "job_type": {"__enum__": "InstigatorType.SENSOR"},
    "origin": {
        "__class__": "ExternalJobOrigin",
        "external_repository_origin": {
            "__class__": "ExternalRepositoryOrigin",
            "repository_location_origin": {
                "__class__": "ManagedGrpcPythonEnvRepositoryLocationOrigin",
                "loadable_target_origin": {"__class__": "LoadableTargetOrigin", "module_name": "orchestration.definitions"},
                "location_name": "bellwether",
            },
            "repository_name": "__repository__",
        },
        "job_name": "automation",
    },
    "status": {"__enum__": "InstigatorStatus.STOPPED"},
}


@pytest.fixture
def former(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of version 0.2, with a stored evaluation of a condition in that version's format."""
    home = tmp_path / "dagster"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        instance.all_instigator_state()
    with closing(sqlite3.connect(home / "schedules" / "schedules.db")) as database:
        database.execute(
            "INSERT INTO instigators (selector_id, repository_selector_id, status, instigator_type, instigator_body) VALUES (?, ?, ?, ?, ?)",
            (
                "22e4fa40e8f134e2d979ca6db6d3beb275a16d20",
                "036725988247bd8973b3d0f67a9d14ff3542f50b",
                "STOPPED",
                "SENSOR",
                json.dumps(SENSOR),
            ),
        )
        database.execute(
            "INSERT INTO asset_daemon_asset_evaluations (evaluation_id, asset_key, asset_evaluation_body, num_requested, create_timestamp) "
            """VALUES (1, '["clean", "markets"]', X'789C', 0, '2026-06-01 00:00:00')"""
        )
        database.commit()
    (home / "history" / "runs" / "4711.db.xz").write_bytes(b"a compressed run")
    (home / "dagster.yaml").write_text(FORMER)
    return home


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_home_of_an_earlier_version_names_the_command_that_converts_it(former: Path, tmp_path: Path, is_deleted: bool) -> None:
    if is_deleted:
        (former / "dagster.yaml").unlink()
        (former / "history" / "runs" / "index.db").touch()
    with pytest.raises(ConfigError, match=rf"^{former} .*Convert it once: bellwether home convert"):
        prepare(Settings(home=tmp_path))


def test_doctor_names_the_command_that_converts_a_home_of_an_earlier_version(former: Path) -> None:
    ran = CliRunner().invoke(main, ["doctor", "--json"])
    (found,) = [one for one in json.loads(ran.stdout) if one["check"] == "DAGSTER_HOME"]
    assert (ran.exit_code, found["status"]) == (1, "bad")
    assert "bellwether home convert" in found["advice"]


def test_a_converted_home_keeps_its_switches_and_the_former_files(former: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["home", "convert"])
    assert ran.exit_code == 0, ran.output
    kept = former.with_name("dagster-0.2")
    assert f"is in {kept}" in ran.output
    assert (kept / "history" / "runs" / "4711.db.xz").read_bytes() == b"a compressed run"
    assert (kept / "dagster.yaml").read_text() == FORMER
    assert prepare(Settings(home=tmp_path)) == former
    with dg.DagsterInstance.get() as instance:
        (state,) = instance.all_instigator_state()
        assert (state.instigator_name, state.is_running) == ("automation", False)
        assert getattr(state.instigator_data, "cursor", "4711") is None
        assert instance.schedule_storage is not None
        assert instance.schedule_storage.get_auto_materialize_evaluations_for_evaluation_id(1) == []
        assert instance.get_runs() == []
    assert "Nothing to convert" in CliRunner().invoke(main, ["home", "convert"]).output


def test_a_home_in_use_or_with_a_former_one_next_to_it_is_not_converted(former: Path, tmp_path: Path) -> None:
    (former / "processes").mkdir()
    with (former / "processes" / "ui").open("w") as file:
        assert try_lock(file)
        with pytest.raises(ConfigError, match="is running; stop it"):
            convert(Settings(home=tmp_path))
    former.with_name("dagster-0.2").mkdir()
    with pytest.raises(ConfigError, match=r"dagster-0\.2 exists; move it away"):
        convert(Settings(home=tmp_path))
    assert (former / "dagster.yaml").read_text() == FORMER
