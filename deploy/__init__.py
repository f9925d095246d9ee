"""A whole fleet on one machine, for tests and `make fleet`."""
