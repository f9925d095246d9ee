"""Command line: one module per subject. Importable without Dagster."""
