"""Kalshi's exchange, with order books, trades and the WebSocket, over a generated world or over captured frames."""
