"""Processes that are killed while they write folders or restore a backup, and the display of a terminal."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from bellwether.backup import backup, restore
from bellwether.errors import BellwetherError
from bellwether.files import atomic_folder
from bellwether.journal.journal import Journal
from bellwether.journal.records import Records
from bellwether.lake import Lake
from bellwether.settings import Settings, settings
from cli.main import main
from tests.unit.lake.frames import PRICES, prices

WRITER = """
import sys
from pathlib import Path
from bellwether.files import atomic_folder
with atomic_folder(Path(sys.argv[1]), "file") as draft:
    (draft / "file").write_text("half")
    print(draft, flush=True)
    sys.stdin.read()
"""


def writer(target: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_draft_of_a_killed_process_is_removed_by_the_next_and_that_of_a_running_one_is_kept(tmp_path: Path) -> None:
    killed, abandoned = writer(tmp_path / "killed")
    running, kept = writer(tmp_path / "running")
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert abandoned.is_dir()
    with atomic_folder(tmp_path / "next", "file") as draft:
        (draft / "file").write_text("whole")
    assert not abandoned.exists()
    assert kept.is_dir()
    running.communicate("", timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["next", "running"]
    assert (tmp_path / "running" / "file").read_text() == "half"


TALK = """
import time
from bellwether.console import shown
with shown() as progress, progress.stage("days", 4) as advance:
    for number in range(4):
        progress.say(f"day {number}")
        time.sleep(float("%s"))
        advance(1)
"""


def test_a_terminal_has_a_live_display() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        talking = subprocess.Popen(
            [sys.executable, "-c", TALK % 0.3],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
            stderr=terminal,
            stdout=subprocess.DEVNULL,
        )
    seen = b""
    with os.fdopen(master, "rb", buffering=0) as screen, suppress(OSError):  # Linux reports an error when the terminal closes
        while chunk := screen.read(65536):
            seen += chunk
    assert talking.wait(60) == 0
    for text in (b"days", b"day 2", b"2 of 4", b"0:00"):
        assert text in seen


AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def settings_of_home(tmp_path: Path) -> Settings:
    """Settings of a home with partitions of a table and a journal."""
    registry = tmp_path / "living" / "registry"
    registry.mkdir(parents=True)
    (registry / "lineups.toml").write_text("")
    config = Settings(home=tmp_path / "living" / "home", registry=registry)
    for day in ("2025-09-01", "2025-09-02", "2025-09-03"):
        Lake(config.lake_uri).write(PRICES, (day,), prices(day), run_id="r")
    with Journal(config.journal_url) as journal:
        Records(journal, "r").once("universe", "2026-03-01", lambda: b"answered")
    return config


@pytest.fixture
def backup_folder(settings_of_home: Settings, tmp_path: Path) -> Path:
    return backup(settings_of_home, tmp_path / "backups", at=AT)


def empty(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", registry=tmp_path / "registry")


def journal_rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as journal:
        names = [name for (name,) in journal.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {name: sorted(journal.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def test_a_restoration_that_was_killed_is_repeated_in_an_empty_home_and_not_used(
    settings_of_home: Settings, backup_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orchestration.home import prepare

    config, left, copy = empty(tmp_path), iter(range(3)), shutil.copyfile

    def killed(source: Path, target: Path) -> None:
        copy(source, target)
        if next(left, None) is None:
            os._exit(9)

    child = os.fork()
    if not child:
        monkeypatch.setattr(shutil, "copyfile", killed)
        restore(config, backup_folder)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with pytest.raises(BellwetherError, match="was interrupted; remove this folder"):
        prepare(config)
    with pytest.raises(BellwetherError, match=f"the restoration of {backup_folder.name} into it was interrupted"):
        backup(config, tmp_path / "half", at=AT)
    monkeypatch.setenv("BELLWETHER_HOME", str(config.home))
    settings.cache_clear()
    for command in (["warehouse"], ["doctor", "--files"], ["journal"], ["leaderboard", "arena"]):
        assert "was interrupted; remove this folder" in CliRunner().invoke(main, command).output, command
    settings.cache_clear()
    with pytest.raises(BellwetherError, match="there is already"):
        restore(config, backup_folder)
    shutil.rmtree(config.world_home)
    restore(config, backup_folder)
    assert journal_rows(settings_of_home.world_home / "journal.db") == journal_rows(config.world_home / "journal.db")
    assert not config.restoring_path.exists()
    assert not [path for path in config.world_home.rglob(".*") if path.is_file()]
    with pytest.raises(BellwetherError, match="there is already"):
        restore(config, backup_folder)


ROOT = Path(__file__).resolve().parents[2]
