"""World generated from a seed, with known truth and prices that are martingales."""

from bellwether.sandbox.world.world import GeneratedWorld

__all__ = ["GeneratedWorld"]
