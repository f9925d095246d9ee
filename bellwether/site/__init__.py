"""Static site of the published warehouse. Its pages open from a folder without a server or network. Names are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.site.writer import SiteBuild, build, local_folder, read_site_state, read_warehouse_state

__all__ = ["SiteBuild", "build", "local_folder", "read_site_state", "read_warehouse_state"]

__getattr__ = lazy_names(__name__, {"writer": __all__})
