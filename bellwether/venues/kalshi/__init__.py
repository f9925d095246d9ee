"""Kalshi: wire formats, a client of its REST interface, and resumable pulls."""
