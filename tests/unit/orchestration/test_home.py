"""Dagster's home: its first start, damaged databases, full and read-only disks, and the conversion of an earlier one."""

from __future__ import annotations

import errno
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import try_lock
from bellwether.settings import Settings, settings
from cli.main import main
from orchestration.home import convert, prepare, storage_errors
from orchestration.precompile import import_all


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


def test_a_home_of_version_0_2_is_converted_once_and_its_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, kept = tmp_path / "dagster", tmp_path / "dagster-0.2"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        instance.all_instigator_state()
    (home / "history" / "runs" / "4711.db.xz").write_bytes(b"a compressed run")
    (home / "dagster.yaml").write_text(FORMER)
    with pytest.raises(ConfigError, match=rf"^{home} .*Convert it once: bellwether home convert"):
        prepare(Settings(home=tmp_path))
    (home / "processes").mkdir()
    with (home / "processes" / "ui").open("w") as file:
        assert try_lock(file)
        with pytest.raises(ConfigError, match="is running; stop it"):
            convert(Settings(home=tmp_path))
    kept.mkdir()
    with pytest.raises(ConfigError, match=r"dagster-0\.2 exists; move it away"):
        convert(Settings(home=tmp_path))
    kept.rmdir()
    assert CliRunner().invoke(main, ["home", "convert"]).exit_code == 0
    assert (kept / "history" / "runs" / "4711.db.xz").read_bytes() == b"a compressed run"
    assert (kept / "dagster.yaml").read_text() == FORMER
    assert prepare(Settings(home=tmp_path)) == home
    with dg.DagsterInstance.get() as instance:
        assert instance.get_runs() == []


def test_modules_and_what_their_functions_import_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "sampled"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("raise AssertionError('it runs')")
    (package / "first.py").write_text("def used():\n    import sampled_elsewhere\n    from no_such_extra import thing\n")
    (package / "second.py").write_text("import no_such_extra\n")
    (package / "third.py").write_text("from bellwether.errors import ConfigError\nraise ConfigError('a wrong setting')\n")
    (tmp_path / "sampled_elsewhere.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_all(["sampled"]) == ["sampled", "sampled.first"]
    assert "sampled_elsewhere" in sys.modules
    for name in [name for name in sys.modules if name.startswith("sampled")]:
        del sys.modules[name]
