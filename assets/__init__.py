"""Dagster assets of each domain, and the functions by which commands launch them."""

# It silences Dagster's warnings of beta features, also where assets are imported without their definitions.
import orchestration  # noqa: F401
