"""Dagster assets of replay."""
