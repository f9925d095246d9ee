"""All parts of the site, in the order in which they are made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bellwether.errors import BellwetherError
from bellwether.site import arena, benchmark, data, home, trading
from bellwether.site.charts import Colours
from bellwether.site.render import static
from bellwether.site.source import Source
from bellwether.site.unit import Unit, code, key


def units(source: Source) -> Iterator[Unit]:
    """The parts, lazily: what one needs from the warehouse is read when it is its turn."""
    yield Unit("static", code(), lambda: [*static(), ("static/vega.js", library())])
    colours = Colours()
    for names in (benchmark.names(source), trading.names(source), arena.names(source)):
        colours.add(names)
    yield Unit("home", key(source.published_at.isoformat(), source.digest(*source.tables)), lambda: home.pages(source, colours))
    yield from benchmark.units(source, colours)
    yield from trading.units(source, colours)
    yield from arena.units(source, colours)
    yield from data.units(source)


def library() -> bytes:
    """Vega, Vega-Lite and Vega-Embed as one script, from the package that carries them; its engine takes 140 MB, and ends with its process."""
    command = [sys.executable, "-c", "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        raise BellwetherError(
            f"bundling the chart library: {done.stderr.decode(errors='replace').strip()[-500:]}; install vl-convert-python again"
        )
    return done.stdout
