"""Progress messages of commands: current step, share done, and remaining time."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from bellwether.progress import Lines, shown

ROOT = Path(__file__).resolve().parents[3]
TALK = """
import time
from bellwether.progress import shown
with shown() as progress, progress.plan({"pull": 100, "score": 500}) as begin, progress.stage("days", 4) as advance:
    begin("pull")
    for number in range(4):
        progress.say(f"day {number}")
        time.sleep(float("%s"))
        advance(1)
"""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_quick_says_nothing() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, now=clock)
    with lines.stage("days", 3) as advance:
        for number in range(3):
            lines.say(f"day {number}")
            clock.now += 0.5
            advance(1)
    assert not stream.getvalue()


def test_a_line_says_what_is_done_how_far_it_is_and_how_long_it_will_take() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, interval=10.0, now=clock)
    with lines.stage("days", 4) as advance:
        lines.say("days 2026-01-01 to 2026-01-31")
        clock.now = 3.0
        lines.tick()
        clock.now = 30.0
        advance(1)
        clock.now = 35.0
        lines.tick()
        clock.now = 60.0
        advance(3)
    assert stream.getvalue().splitlines() == [
        "days: 0 of 4; days 2026-01-01 to 2026-01-31",
        "days: 1 of 4, about 2 min left; days 2026-01-01 to 2026-01-31, for 30 s",
        "days: 4 of 4; days 2026-01-01 to 2026-01-31, for 60 s",
        "days: 4 of 4 in 60 s",
    ]


def test_stages_have_a_number_a_total_and_the_time_left_at_the_speed_of_this_machine() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, interval=10.0, now=clock)
    with lines.plan({"pull": 10.0, "score": 30.0, "publish": 20.0}) as begin:
        begin("pull")
        clock.now = 20.0  # twice the estimate
        begin("score")
        lines.say("forecasts")
        clock.now = 50.0
        lines.tick()
        clock.now = 100.0  # more than the estimate of 60 seconds
        begin("publish")
    assert stream.getvalue().splitlines() == [
        "stage 1 of 3 (pull), about 60 s left",
        "stage 2 of 3 (score), about 2 min left",
        "stage 2 of 3 (score), about 70 s left; forecasts, for 30 s",
        "stage 3 of 3 (publish), about 50 s left",
    ]


def test_text_of_others_steers_no_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, now=clock)
    clock.now = 5.0
    lines.say("\x1b[31mred\nline")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_step_that_says_nothing_for_seconds_is_shown_in_a_file() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TALK % 1.2],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert not done.stdout
    assert "days: 1 of 4" in done.stderr
    assert "stage 1 of 2 (pull), about 10 min left" in done.stderr.splitlines()[0]
    assert "\x1b" not in done.stderr


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
    for text in (b"stage 1 of 2 (pull), about 10 min left", b"days", b"day 2", b"2 of 4", b"0:00"):
        assert text in seen


def test_nothing_is_left_of_the_clock() -> None:
    import threading

    with shown(io.StringIO()) as progress:
        progress.say("something")
    assert not [thread for thread in threading.enumerate() if thread.name == "progress"]
