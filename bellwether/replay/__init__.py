"""Replay: recorded books and trades become episodes; agents trade them in a deterministic simulator."""
