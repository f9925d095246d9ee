"""A world generated from a seed: markets whose prices are martingales and whose truth is known."""

from bellwether.sandbox.world.world import GeneratedWorld

__all__ = ["GeneratedWorld"]
