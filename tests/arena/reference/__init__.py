"""A second fold, written from the rules alone."""
