"""Which application stands in for the venues, by the name of the world."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from starlette.applications import Starlette

from bellwether.errors import ConfigError
from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.playback import Recordings
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import World


def generated(seed: int, now: datetime | None) -> Starlette:
    """The generated world of `seed`, with a clock that stands at `now`, or the real one."""
    return create_app(GeneratedWorld(seed), clock=Clock(now))


def recorded(folder: Path | str | None, now: datetime | None) -> Starlette:
    """The recordings under `folder`, with a clock that stands at `now`, or at the newest recording."""
    if not folder:
        raise ConfigError("starting playback: BELLWETHER_PLAYBACK names no folder; set it to a folder of recorded bodies")
    return create_app(Recordings(folder), clock=Clock(now) if now else None)


def application(world: World, *, seed: int, now: datetime | None, folder: Path | str | None, folder_now: datetime | None) -> Starlette:
    """The application of a world that is not live; raises `ConfigError` for the live one."""
    if world is World.LIVE:
        raise ConfigError("starting a sandbox: the world is live, which needs none; set BELLWETHER_WORLD to sandbox or playback")
    return generated(seed, now) if world is World.SANDBOX else recorded(folder, folder_now)
