"""Dagster assets by domain, and the functions that launch them."""

# It silences what Dagster says of its beta features, also where assets are read without their definitions.
import orchestration  # noqa: F401
