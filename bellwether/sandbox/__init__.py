"""Local server with the protocols of the venues, over a generated world."""

from bellwether.sandbox.app import create_app
from bellwether.sandbox.clock import Clock
from bellwether.sandbox.server import Site, serve
from bellwether.sandbox.world import GeneratedWorld

__all__ = ["Clock", "GeneratedWorld", "Site", "create_app", "serve"]
