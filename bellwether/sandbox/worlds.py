"""Which application stands in for the venues, by the settings of a world."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette

from bellwether.errors import ConfigError
from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.exchange.generated import GeneratedExchange
from bellwether.sandbox.instants import moment
from bellwether.sandbox.limits import Limits
from bellwether.sandbox.playback import Recordings
from bellwether.sandbox.polymarket import GeneratedPolymarket, RecordedPolymarket
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import Settings, World

if TYPE_CHECKING:
    from bellwether.sandbox.faults import Faults


def generated(seed: int, now: datetime | None, *, rate: float = 0.0, **terms: Any) -> Starlette:
    """The generated world of `seed`, with a clock that starts at `now` and runs at `rate` (0 stands still), or the real one.

    terms: limits and faults, as `create_app` takes them.
    """
    world = GeneratedWorld(seed)
    return create_app(world, polymarket=GeneratedPolymarket(world), exchange=GeneratedExchange(world), clock=Clock(now, rate=rate), **terms)


def recorded(folder: Path | str | None, now: datetime | None, *, rate: float = 0.0, **terms: Any) -> Starlette:
    """The recordings under `folder`, with a clock that starts at `now`, or at the newest recording, and runs at `rate`."""
    if not folder:
        raise ConfigError("starting playback: BELLWETHER_PLAYBACK names no folder; set it to a folder of recorded bodies")
    kalshi, polymarket = Recordings(folder, required=False), RecordedPolymarket(folder)
    if not kalshi.latest and not polymarket.latest:
        raise ConfigError(f"starting playback: nothing under {folder} was recorded from a venue; set BELLWETHER_PLAYBACK to another folder")
    newest = now or moment(max(kalshi.latest, polymarket.latest))
    return create_app(kalshi, polymarket=polymarket, clock=Clock(newest, rate=rate), **terms)


def application(config: Settings, *, running: bool = False) -> Starlette:
    """The application of a world that is not live; raises `ConfigError` for the live one.

    running: its clock runs at `sandbox_speed`; else it stands still.
    """
    if config.world is World.LIVE:
        raise ConfigError("starting a sandbox: the world is live, which needs none; set BELLWETHER_WORLD to sandbox or playback")
    terms: dict[str, Any] = {
        "rate": config.sandbox_speed if running else 0.0,
        "limits": Limits() if config.sandbox_limits else None,
        "faults": _faults(config),
    }
    if config.world is World.SANDBOX:
        return generated(config.sandbox_seed, config.sandbox_now, **terms)
    return recorded(config.playback, config.playback_now, **terms)


def _faults(config: Settings) -> Faults | None:
    if not config.sandbox_faults:
        return None
    from bellwether.sandbox.faults import Faults

    return Faults.parse(config.sandbox_faults, seed=config.sandbox_seed)
