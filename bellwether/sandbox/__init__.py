"""Local server with the protocols of the venues, over a generated or a recorded world."""

from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.playback import Recordings
from bellwether.sandbox.server import Site, serve
from bellwether.sandbox.world import GeneratedWorld

__all__ = ["Clock", "GeneratedWorld", "Recordings", "Site", "create_app", "serve"]
