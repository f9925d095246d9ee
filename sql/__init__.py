"""The SQL that builds tables and views, and queries to start from."""
