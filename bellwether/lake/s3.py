"""Options of S3, under the name that they had before `bellwether.places`."""

from bellwether.places import KEYS, SCHEMES, for_duckdb, for_fsspec, resolve

__all__ = ["KEYS", "SCHEMES", "for_duckdb", "for_fsspec", "resolve"]
