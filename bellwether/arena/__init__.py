"""The arena: agents with paper money bet on prediction markets, week by week. Pure functions from facts to ledger, marks and scores.

Nothing here does I/O or knows a scheduler: quotes, evidence and the time come in as arguments. docs/arena.md states the rules.
"""
