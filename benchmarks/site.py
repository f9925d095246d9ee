"""Static site of a large warehouse: CPU time and memory of a build, size of the largest page, and slowest paint in a browser.

The generated warehouse has ten releases of 40 models and 300 questions, 100 episodes of 20 agents, and 52 cohorts of 8 agents. The build is a separate
process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.chromium import Missing, chromium, paint

SECONDS, MEGABYTES, PAGE_KILOBYTES, PAINT_SECONDS = 60.0, 500.0, 300.0, 1.0

_BUILD = """
import json, resource, sys, time
from bellwether.site import build
started = time.process_time()
built = build(sys.argv[1], sys.argv[2])
usage, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
spent = time.process_time() - started + children.ru_utime + children.ru_stime
print(json.dumps({"seconds": spent, "memory": usage.ru_maxrss / 1024, "files": built.files, "bytes": built.bytes}))
"""
_WORLD = """
import sys
from pathlib import Path
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from tests.unit.site.world import NOW, Size, write
folder = Path(sys.argv[1])
size = Size(releases=10, models=40, questions=300, prices=20, episodes=100, agents=20, samples=200, orders=60, cohorts=52, families=8, markets=500, trades=10)
lake = Lake(str(folder / "lake"), clock=lambda: NOW)
write(lake, size)
publish(lake, folder / "warehouse.duckdb")
"""


def _python(code: str, *arguments: object) -> str:
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True)
    return done.stdout


def _build(folder: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(_python(_BUILD, folder / "warehouse.duckdb", folder / "site"))
    return found


def _painted(site: Path, largest: Path) -> list[dict[str, Any]]:
    """Measure the time to the largest contentful paint on the largest page and on one page of each part. Returns the slowest; empty without a
    browser.
    """
    pages = [largest, *(site / part for part in ("index.html", "arena/index.html", "trading/index.html", "benchmark/release-0/index.html"))]
    try:
        with chromium() as browser:
            paint(browser, pages[1])
            found = {page.relative_to(site).as_posix(): paint(browser, page) for page in pages}
    except Missing as missing:
        print(f"no paint is measured: {missing}")
        return []
    slowest = max(found, key=found.__getitem__)
    return [
        {
            "name": "seconds to the largest contentful paint",
            "ratio": found[slowest],
            "target": PAINT_SECONDS,
            "detail": f"{slowest}, of {len(found)}",
        }
    ]


def run() -> list[dict[str, Any]]:
    """Measure CPU time and memory of a build, the largest page and the slowest paint. Returns [{name, ratio, target, detail}]."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _python(_WORLD, folder)
        first = _build(folder)
        pages = {page: page.stat().st_size / 1000 for page in (folder / "site").rglob("*.html")}
        largest = max(pages, key=pages.__getitem__)
        painted = _painted(folder / "site", largest)
        where = largest.relative_to(folder / "site")
    made = f"{first['files']:.0f} files, {first['bytes'] / 1e6:.0f} MB"
    return [
        {"name": "CPU seconds of the site", "ratio": first["seconds"], "target": SECONDS, "detail": made},
        {"name": "megabytes of memory for the site", "ratio": first["memory"], "target": MEGABYTES, "detail": made},
        {
            "name": "kilobytes of the largest page",
            "ratio": pages[largest],
            "target": PAGE_KILOBYTES,
            "detail": f"{where}, of {len(pages)} pages",
        },
        *painted,
    ]
