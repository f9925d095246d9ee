"""What all domains share of Dagster."""
