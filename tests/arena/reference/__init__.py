"""A second implementation of settlement and the ledger, from the documented rules alone."""
