"""Kalshi's order books, trades and WebSocket, over a generated world or over captured frames."""
