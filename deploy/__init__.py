"""A fleet on loopback, for tests and `make fleet`."""
