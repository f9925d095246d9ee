"""Fleet on loopback, for tests and `make fleet`."""
