"""Runs the arena's weeks: asks venues and models, keeps what happens once in the journal, and makes rows of the arena's tables of it."""
