"""Parsing shared by all venues: decoding of JSON, typed columns, and rejects for invalid objects."""
