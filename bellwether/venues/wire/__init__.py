"""Parsing shared by all venues: JSON decoded record by record, columns converted together, and invalid objects quarantined."""
