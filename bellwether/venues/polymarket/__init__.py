"""Polymarket: its two HTTP interfaces, wire formats, resolutions and fees."""
