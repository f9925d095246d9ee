"""What Dagster runs, by domain: assets, and what launches them."""
