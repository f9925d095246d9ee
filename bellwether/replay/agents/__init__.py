"""Agents: the class to write, what it sees and can do, and the ones that come with the package."""
