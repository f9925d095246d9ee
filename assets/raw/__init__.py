"""Dagster assets of the venues: listings, streams, and their clean form."""
