"""Local server with the protocols of the venues, over a generated world."""

from bellwether.sandbox.app import create_app
from bellwether.sandbox.server import Site, serve
from bellwether.sandbox.timestamps import start_clock
from bellwether.sandbox.world import GeneratedWorld

__all__ = ["GeneratedWorld", "Site", "create_app", "serve", "start_clock"]
