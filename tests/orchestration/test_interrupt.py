"""Ctrl-C and SIGTERM leave a command's run canceled, not failed; the command says what is kept, and goes on when it is given again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from bellwether.lake import Lake
from bellwether.settings import Venue
from bellwether.tables import table
from tests.shared import wait_until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "bellwether", "pull", "2026-05-01", "2026-05-03"]


def start(home: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "BELLWETHER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment.pop("DAGSTER_HOME", None)
    return subprocess.Popen(COMMAND, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def pages(lake: Path) -> set[str]:
    """Files of pages. Folders may go while they are looked at: the end of a pull puts its pages into one file."""
    return {f"{folder}/{name}" for venue in Venue for folder, _, names in os.walk(lake / f"raw/{venue}_pages/day") for name in names}


@pytest.mark.slow
def test_a_stopped_command_keeps_what_it_has_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "sandbox" / "lake"
    for number in (signal.SIGINT, signal.SIGTERM):
        before = pages(lake)
        process = start(tmp_path)
        wait_until(lambda process=process, before=before: process.poll() is not None or pages(lake) - before, "a page is stored")
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 1, said
        assert "Traceback" not in said
        assert "Stopped at: days 2026-05-01 to 2026-05-03. Kept: " in said
        assert "goes on from there" in said
    process = start(tmp_path)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said + out
    assert len(Lake(str(lake)).manifests(table("clean/markets"))) == 3
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "sandbox" / "dagster"))
    with dg.DagsterInstance.from_config(str(tmp_path / "sandbox" / "dagster")) as instance:
        found = [run.status for run in instance.get_runs(dg.RunsFilter(job_name="days"))]
    assert sorted(status.value for status in found) == ["CANCELED", "CANCELED", "SUCCESS"]
