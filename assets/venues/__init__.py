"""What the venues list and stream, and its clean form, as Dagster runs it."""
