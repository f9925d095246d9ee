"""Static site of the published warehouse. Its pages open from a folder without a server or network."""

from bellwether.site.build import SiteBuild, build, local_folder, read_site_state, read_warehouse_state

__all__ = ["SiteBuild", "build", "local_folder", "read_site_state", "read_warehouse_state"]
