"""Checks of the installation, of its places and servers, and of connections to venues and model providers, for `bellwether doctor`."""
