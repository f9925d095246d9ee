"""Kalshi's market data as a stream: signed WebSocket, frames in order of arrival, and REST polling where there is no key."""
