"""Stream of Kalshi's market data: signed WebSocket, frames in order of arrival, and REST polling without a key."""
