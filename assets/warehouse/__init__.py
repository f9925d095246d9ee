"""The published warehouse as Dagster runs it."""
