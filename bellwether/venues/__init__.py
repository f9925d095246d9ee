"""Clients of the venues, their pulls, and parsing of their responses into typed tables."""
