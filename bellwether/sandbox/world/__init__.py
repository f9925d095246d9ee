"""World generated from a seed, whose probabilities are known and whose outcomes are drawn from them."""

from bellwether.sandbox.world.world import GeneratedWorld

__all__ = ["GeneratedWorld"]
