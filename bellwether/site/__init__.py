"""The static site: everything that the published warehouse holds, as pages that open from a folder without a server or a network."""

from bellwether.site.build import Built, build, cached, shown, wanted

__all__ = ["Built", "build", "cached", "shown", "wanted"]
