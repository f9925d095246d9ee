"""The benchmark as Dagster runs it."""
