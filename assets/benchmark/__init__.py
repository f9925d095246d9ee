"""Dagster assets of the benchmark."""
