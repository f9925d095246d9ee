"""Kalshi's markets in the arena: how its events, prices, fees and results become the arena's markets, quotes and rulings. No I/O."""
