"""Dagster assets by domain, and the functions that launch them."""

# It silences Dagster's warnings of beta features, also where assets are imported without their definitions.
import orchestration  # noqa: F401
