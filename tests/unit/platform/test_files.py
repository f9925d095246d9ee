"""Atomic folders: complete or absent, and no leftovers after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bellwether.files import atomic_folder

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


def test_a_target_that_a_killed_process_had_moved_away_is_moved_back(tmp_path: Path) -> None:
    for kind, text in (("old", "before"), ("tmp", "after")):
        folder = tmp_path / f".site.{kind}-0123abcd"
        folder.mkdir()
        (folder / "file").write_text(text)
    with atomic_folder(tmp_path / "other", "file") as draft:
        (draft / "file").touch()
    assert (tmp_path / "site" / "file").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "site"]


def test_a_failed_block_leaves_the_old_folder(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "file").write_text("before")
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "site", "file") as draft:
        (draft / "file").write_text("after")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site" / "file").read_text() == "before"


def test_folders_of_other_names_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".mine.tmp-notes").mkdir()
    with atomic_folder(tmp_path / "site", "file") as draft:
        os.mkdir(draft / "x")
    assert (tmp_path / ".mine.tmp-notes").is_dir()
