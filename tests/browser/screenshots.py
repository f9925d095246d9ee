"""Pictures of one page of every kind, and a contact sheet of them (`make screenshots`)."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.chromium import Missing, chromium

#: One page of every kind: its name, and the pattern of its paths.
KINDS = {
    "home": "index.html",
    "benchmark": "benchmark/index.html",
    "leaderboard": "benchmark/*/index.html",
    "forecaster": "benchmark/*/forecaster/*.html",
    "question": "benchmark/*/question/*.html",
    "trading": "trading/index.html",
    "trading-agent": "trading/agent/*.html",
    "episode": "trading/episode/*/index.html",
    "tear-sheet": "trading/episode/*/agent/*.html",
    "arena": "arena/index.html",
    "family": "arena/family/*.html",
    "cohort": "arena/cohort/*/index.html",
    "arena-agent": "arena/cohort/*/*.html",
    "decision": "arena/cohort/*/decision/*.html",
    "market": "arena/market/*.html",
    "data": "data/index.html",
    "method": "method.html",
    "table": "data/table/benchmark.leaderboard.html",
    "not-found": "404.html",
}
WIDTHS, SCHEMES = (390, 1024, 1440), ("light", "dark")
#: Maximum height of a picture and size of its thumbnail in pixels, and thumbnails per row of the sheet.
_TALL, _THUMB, _ACROSS = 1800, (480, 600), 6


def page_of(site: Path, kind: str) -> Path:
    """Return the largest page of a kind."""
    pattern = KINDS[kind]
    pages = [one for one in site.glob(pattern) if one.name != "index.html" or pattern.endswith("index.html")]
    return max(pages, key=lambda one: (one.stat().st_size, one.as_posix()))


def pictures(
    site: Path, kinds: list[str], widths: tuple[int, ...] = WIDTHS, schemes: tuple[str, ...] = SCHEMES
) -> Iterator[tuple[str, bytes]]:
    """Yield name and PNG of each page at every width in both colour schemes. Raises `Missing` without a browser."""
    with chromium() as browser:
        for scheme, width in product(schemes, widths):
            context = browser.new_context(viewport={"width": width, "height": _TALL}, color_scheme=scheme, bypass_csp=True)
            page = context.new_page()
            for kind in kinds:
                page.goto(page_of(site, kind).as_uri())
                _draw(page)
                yield f"{kind}-{width}-{scheme}", page.screenshot()
            context.close()


def _draw(page: Any) -> None:
    """Wait for the charts in view."""
    page.wait_for_timeout(200)
    page.wait_for_function(
        "[...document.querySelectorAll('.chart')].every(one => one.getBoundingClientRect().top > innerHeight || one.querySelector('.canvas').firstChild)"
    )
    page.wait_for_timeout(150)


def sheet(shown: list[bytes]) -> Image.Image:
    """Combine the upper parts of pictures in a grid."""
    width, height = _THUMB
    rows = -(-len(shown) // _ACROSS)
    whole = Image.new("RGB", (_ACROSS * (width + 12) + 12, rows * (height + 12) + 12), "#8b97a3")
    for place, data in enumerate(shown):
        with Image.open(io.BytesIO(data)) as picture:
            scaled = picture.convert("RGB").resize((width, picture.height * width // picture.width), Image.Resampling.LANCZOS)
        whole.paste(scaled.crop((0, 0, width, height)), (12 + place % _ACROSS * (width + 12), 12 + place // _ACROSS * (height + 12)))
    return whole


def main(site: Path, folder: Path, kinds: list[str]) -> None:
    """Write a picture of every kind, width and colour scheme, and the sheet of the widest light ones."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for name, data in pictures(site, kinds or list(KINDS)):
        (folder / f"{name}.png").write_bytes(data)
        if name.endswith(f"-{WIDTHS[-1]}-light"):
            shown.append(data)
    sheet(shown).save(folder / "contact-sheet.png", optimize=True)
    sys.stdout.write(f"{folder / 'contact-sheet.png'}: {len(shown)} kinds of pages\n")


if __name__ == "__main__":
    from bellwether.settings import settings
    from bellwether.site import build

    try:
        target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build/screenshots")
        built = Path(sys.argv[2]) if len(sys.argv) > 2 else build(settings().warehouse_uri, settings().site_path).folder
        main(built, target, sys.argv[3:])
    except Missing as missing:
        sys.exit(str(missing))
