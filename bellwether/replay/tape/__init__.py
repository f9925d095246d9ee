"""Tapes: episodes as flat columns of integers for the compiled engine."""
