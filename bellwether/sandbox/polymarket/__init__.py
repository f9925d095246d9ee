"""Polymarket's Gamma and CLOB, over a generated world."""

from bellwether.sandbox.polymarket.clob import Clob
from bellwether.sandbox.polymarket.gamma import Gamma
from bellwether.sandbox.polymarket.generated_polymarket import GeneratedPolymarket
from bellwether.sandbox.polymarket.source import PolymarketSource

__all__ = ["Clob", "Gamma", "GeneratedPolymarket", "PolymarketSource"]
