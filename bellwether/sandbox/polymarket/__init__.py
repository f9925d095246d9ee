"""Polymarket's Gamma and CLOB over the generated world."""

from bellwether.sandbox.polymarket.listing import GeneratedPolymarket
from bellwether.sandbox.polymarket.routes import Clob, Gamma

__all__ = ["Clob", "Gamma", "GeneratedPolymarket"]
