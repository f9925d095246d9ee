"""Bellwether measures how well models forecast and trade on prediction markets."""

__version__ = "0.3.0"
