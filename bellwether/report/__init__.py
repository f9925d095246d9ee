"""Reports: the figures that go with the numbers."""
