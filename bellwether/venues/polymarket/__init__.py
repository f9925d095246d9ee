"""Polymarket: HTTP interfaces, wire formats, resolutions and fees."""
