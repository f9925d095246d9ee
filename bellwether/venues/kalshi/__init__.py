"""Kalshi: its wire formats, a client of its REST interface, and pulls that can be interrupted."""
