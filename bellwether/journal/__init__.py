"""Journal of model calls, by which each call is sent and paid for once in all runs, and each failure is stored with its reason.

The only mutable state of the platform, on SQLite or Postgres (docs/models.md).
"""
