"""What Dagster runs, by domain: assets, and what launches them."""

# It silences what Dagster says of its beta features, also where assets are read without their definitions.
import orchestration  # noqa: F401
