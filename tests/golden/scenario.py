"""The golden run: a few commands on a new sandbox home, with recorded answers in place of the generated world."""

from __future__ import annotations

import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from starlette.types import ASGIApp

from tests.golden.wire import Player, Recorder, load, save

RECORDINGS = Path(__file__).parent / "recordings"
ANSWERS, CAPTURES = RECORDINGS / "answers.xz", RECORDINGS / "captures"
#: Current time of the sandbox.
NOW = "2026-07-01T00:00:00+00:00"
#: Days with scalar, void and rejected markets, then the demo.
COMMANDS = (
    ("pull", "2026-05-01", "--archive", "--json"),
    ("pull", "2026-06-05", "2026-06-08", "--json"),
    ("demo", "--days", "4", "--json"),
)
#: Weeks of the arena in the demo.
WEEKS = 2
#: Hours of each capture by event of the sandbox. The last one has a gap of this many seconds.
EVENTS = {"KXGAMEESP-26JUN29": 24.0, "KXTOTALCFB-26JUN28": 3.0}
GAP_SECONDS = 90.0


def replay(home: Path) -> None:
    """Run the commands with recorded answers. Raises `AssertionError` for a request that was not recorded."""
    player = Player(load(ANSWERS))
    _place_captures(home / "sandbox" / "recordings")
    with _world(home, lambda config, **how: player, lambda root, world, *, now: None):
        _run()
    # Requests of the next page of a listing ahead of time depend on timing and may be unused.
    unknown = sorted({request for request in player.unknown if "cursor=" not in request})
    assert not unknown, f"{len(unknown)} requests have no recorded answer: {unknown[:5]}"


def record(home: Path) -> None:
    """Run the commands on the generated world, and replace the recorded answers and captures."""
    from bellwether.recordings.sandbox_recordings import generate_recording

    from bellwether.sandbox.worlds import build_application

    answers: dict[str, dict[str, Any]] = {}

    def capture(root: Path, world: Any, *, now: datetime) -> None:
        for event, hours in EVENTS.items():
            lost = GAP_SECONDS if event == list(EVENTS)[-1] else 0.0
            generate_recording(root, world, event, hours=hours, lost_seconds=lost, now=now)

    with _world(home, lambda config, **how: Recorder(build_application(config, **how), answers), capture):
        _run()
    shutil.rmtree(RECORDINGS, ignore_errors=True)
    RECORDINGS.mkdir()
    save(answers, ANSWERS)
    _keep_captures(home / "sandbox" / "recordings")


@contextmanager
def _world(home: Path, application: Callable[..., ASGIApp], captures: Callable[..., Any]) -> Iterator[None]:
    """Set the environment of the commands, with another application in place of the sandbox's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BELLWETHER_", "DAGSTER_"))}
    environment |= {"BELLWETHER_HOME": str(home), "BELLWETHER_SANDBOX_NOW": NOW, "DAGSTER_DISABLE_TELEMETRY": "1"}
    with (
        patch.dict(os.environ, environment, clear=True),
        patch("bellwether.sandbox.worlds.build_application", application),
        patch("bellwether.recordings.sandbox_recordings.generate_recordings", captures),
        patch("assets.arena.runs.DEMO_WEEKS", WEEKS),
    ):
        yield


def _run() -> None:
    from cli.main import main

    for words in COMMANDS:
        main(list(words), standalone_mode=False)


def _place_captures(folder: Path) -> None:
    for path in sorted(CAPTURES.glob("*/*.*")):
        target = folder / path.relative_to(CAPTURES)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            target.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copyfile(path, target)


def _keep_captures(folder: Path) -> None:
    for path in sorted(folder.glob("[!.]*/*.*")):
        target = CAPTURES / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ndjson":
            target.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        else:
            shutil.copyfile(path, target)
