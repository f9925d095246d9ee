"""Units of the whole site (groups of files that are built together), in the order in which they are built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bellwether.pages.charts import Colours
from bellwether.pages.render import chart_library, publication_file, static_files
from bellwether.settings import settings
from bellwether.site import arena, benchmark, data_pages, home, method, trading
from bellwether.site.source import SiteSource
from bellwether.site.unit import Unit, code, key

#: Front matter by which Hugging Face serves the folder as a static Space.
_SPACE = b"---\ntitle: Bellwether\nsdk: static\napp_file: index.html\npinned: false\n---\n\nLeaderboards of Bellwether.\n"


def units(source: SiteSource) -> Iterator[Unit]:
    """Yield the units of the whole site. A unit's files are built only when its function is called."""
    yield Unit("static", code(), lambda: [*static_files(), ("static/vega.js", chart_library()), ("README.md", _SPACE)])
    yield Unit("publication", key(source.published_at.isoformat()), lambda: [publication_file(source.published_at)])
    colours = Colours(source.numbers)
    for names in (benchmark.names(source), trading.agent_names(source), arena.names(source)):
        colours.add(names)
    addresses = (settings().docs_url, settings().code_url)
    yield Unit("method", key(addresses), partial(method.pages, *addresses))
    yield Unit("home", key(source.digest(*source.tables)), lambda: home.pages(source), source.published_at)
    yield from benchmark.units(source, colours)
    yield from trading.units(source, colours)
    yield from arena.units(source, colours)
    yield from data_pages.units(source)
