"""Dagster's home: its first start, damaged databases, and full and read-only disks."""

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
from bellwether.settings import Settings, settings
from cli.main import main
from orchestration.home import prepare, storage_errors
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
        pytest.raises(BellwetherError, match=rf"{home}: a database of Dagster is damaged\. Move the folder away"),
        storage_errors(home),
    ):
        prepare(Settings(home=tmp_path))
        with dg.DagsterInstance.get() as instance:
            instance.get_runs_count()
            instance.get_dynamic_partitions("forecaster")
            instance.all_instigator_state()


@pytest.mark.parametrize("name", ["a%20b", "a?b"])
def test_a_path_that_dagster_takes_for_a_url_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / name))
    with pytest.raises(ConfigError, match="set BELLWETHER_HOME to a path without them"):
        prepare(Settings(home=tmp_path))


@pytest.mark.parametrize("command", [["journal"], ["pull", "2026-06-01"]])
def test_a_home_that_is_no_folder_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("BELLWETHER_HOME", str(tmp_path / ("x" * 300)))
    settings.cache_clear()
    ran = CliRunner().invoke(main, command)
    settings.cache_clear()
    assert ran.exit_code == 1
    assert re.search(r"Error: .*File name too long.*BELLWETHER_HOME to another place", ran.output)
    assert "Traceback" not in ran.output


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
