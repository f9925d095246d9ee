"""Construction of the sandbox's application from the settings."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from starlette.applications import Starlette

from bellwether.errors import ConfigError
from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.models import Truth
from bellwether.sandbox.polymarket import GeneratedPolymarket
from bellwether.sandbox.replayer import Replayer
from bellwether.sandbox.world import GeneratedWorld
from bellwether.settings import Settings, World


@lru_cache(maxsize=2)
def _world(seed: int) -> tuple[GeneratedWorld, GeneratedPolymarket, Truth]:
    """Build the world of a seed, its view as Polymarket, and what models know of it. Cached, because drawing its days is slow."""
    world = GeneratedWorld(seed)
    polymarket = GeneratedPolymarket(world)
    return world, polymarket, Truth(world, polymarket)


def build_generated(seed: int, now: datetime | None, *, rate: float = 0.0) -> Starlette:
    """Build the application of the world with this seed. now: start of the world's clock; None: the real time. rate: seconds of the clock
    per real second; 0 is fixed.
    """
    world, polymarket, truth = _world(seed)
    clock = Clock(now, rate=rate)
    return create_app(world, polymarket=polymarket, replayer=Replayer(clock), truth=truth, clock=clock)


def build_application(config: Settings, *, running: bool = False) -> Starlette:
    """Build the application of the world in the settings. running: the clock runs at `sandbox_speed`; otherwise it is fixed. Raises
    `ConfigError` for the live world.
    """
    if config.world is World.LIVE:
        raise ConfigError("starting a sandbox: the world is live, which needs none; set BELLWETHER_WORLD to sandbox")
    return build_generated(config.sandbox_seed, config.sandbox_now, rate=config.sandbox_speed if running else 0.0)
