"""Dagster assets of the published warehouse."""
