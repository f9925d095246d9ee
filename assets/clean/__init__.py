"""Dagster assets of the clean tables: the same columns for both venues."""
