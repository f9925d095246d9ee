"""Claims of an ended process are free at once, before the lease expires."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bellwether.journal import Busy, Journal, Outcome
from bellwether.journal.holders import is_gone, is_running, this_process
from tests.journal.calls import attempt_outcomes, begin_attempt, begin_call, claim_attempt, make_reply, make_request

pytest_plugins = ("tests.journal.fixtures",)

ROOT = Path(__file__).resolve().parents[3]
NAME = "from bellwether.journal.holders import this_process; print(this_process(), flush=True); input()"


class Other:
    """Another process, which prints its name and waits."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", NAME], cwd=ROOT, text=True, **pipes)
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()

    def kill(self, *, reap: bool = True) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        if reap:
            self.process.wait(60)
        else:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def other() -> Iterator[Other]:
    running = Other()
    yield running
    running.process.kill()
    running.process.communicate(timeout=60)


def test_a_process_is_gone_when_it_was_killed_and_not_before(other: Other) -> None:
    assert not is_gone(this_process())
    assert not is_gone(other.name)
    other.kill()
    assert is_gone(other.name)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_the_remains_of_a_process_hold_nothing(other: Other) -> None:
    assert is_running(other.process.pid)
    other.kill(reap=False)
    os.kill(other.process.pid, 0)
    assert is_gone(other.name)
    assert not is_running(other.process.pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_another_process_of_the_same_number_does_not_stand_in_for_the_one_that_ended() -> None:
    host, pid, mark = this_process().rsplit(":", 2)
    space, _, started = mark.partition("-")
    assert is_gone(f"{host}:{pid}:{space}-{int(started) - 1}")


def test_what_cannot_be_told_is_not_gone(other: Other) -> None:
    other.kill()
    host, pid, mark = other.name.rsplit(":", 2)
    for name in ("one", "", None, "a:b:c", f"{host}:{pid}", f"elsewhere:{pid}:{mark}", f"{host}:{pid}:00000000-1"):
        assert not is_gone(name), name


def test_without_proc_the_number_decides_on_this_machine_and_the_lease_on_another_of_its_name(
    other: Other, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import bellwether.journal.holders as holders

    monkeypatch.setattr(holders, "_PROC", tmp_path)
    try:
        host, pid, _ = other.name.rsplit(":", 2)
        names = {}
        for machine in (0x0242AC110002, 0x0242AC110003):
            monkeypatch.setattr("uuid.getnode", lambda machine=machine: machine)
            holders._process_space.cache_clear()
            names[machine] = f"{host}:{pid}:{holders._process_space()}-"
        here, elsewhere = names[0x0242AC110003], names[0x0242AC110002]
        assert not is_gone(here)
        other.kill()
        assert is_gone(here)
        assert not is_gone(elsewhere)
        assert not is_gone(f"{host}:{pid}:-")
    finally:
        holders._process_space.cache_clear()


def test_a_process_that_the_system_hides_is_not_gone(other: Other, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """/proc hides processes of other users if it is mounted with hidepid=2."""
    import bellwether.journal.holders as holders

    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[1]")
    monkeypatch.setattr(holders, "_PROC", tmp_path)
    holders._process_space.cache_clear()
    try:
        host, pid, _ = other.name.rsplit(":", 2)
        name = f"{host}:{pid}:{holders._process_space()}-12345"
        assert not is_gone(name)
        other.kill()
        assert is_gone(name)
    finally:
        holders._process_space.cache_clear()


def test_the_call_of_a_process_that_ended_is_taken_over_at_once_and_its_attempt_abandoned(journal: Journal, other: Other) -> None:
    attempt = begin_attempt(journal, holder=other.name)
    assert isinstance(begin_call(journal), Busy)
    assert isinstance(journal.look(make_request().key), Busy)
    other.kill()
    assert journal.look(make_request().key) is None
    claim, second = claim_attempt(journal)
    assert (claim.taken_from, claim.attempts) == (other.name, 1)
    second.answer(make_reply())
    assert attempt_outcomes(journal) == [(1, "abandoned", None), (2, "ok", 120)]
    assert attempt.number == 1


def test_a_release_says_why(journal: Journal) -> None:
    attempt = begin_attempt(journal)
    attempt.fail(Outcome.TIMEOUT, "slow")
    attempt._claim.release("slow", Outcome.TIMEOUT)
    found = journal.status(make_request().key)
    assert found is not None
    assert (found.state, found.outcome, found.reason) == ("open", "timeout", "slow")
