"""The command line: a module per subject, thin over the library and the graph. Importable without Dagster."""
