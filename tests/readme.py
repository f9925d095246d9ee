"""Update tables and pictures of the README and the tour (`make readme`).

A comment `<!-- bellwether COMMAND -->` names the command whose output is the indented block below it. `| TITLE` selects the output from that line to the
next empty line.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bellwether.site.paths import run_path
from tests.browser.chromium import Missing, chromium, picture
from tests.golden.digests import DATE

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
BLOCK = re.compile(r"^<!-- bellwether (?P<command>.+?) -->\n\n(?P<text>(?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
#: Picture of each chart: its page of the site, the beginning of its title, and the lines to draw.
CHARTS = {
    ROOT / "docs" / "images" / "reliability.png": (
        "benchmark/sandbox-2026/index.html",
        "Reliability diagrams",
        ("sandbox-calibrated", "sandbox-overconfident"),
    ),
    ROOT / "docs" / "images" / "backtest.png": (run_path("KXMLBGAME-26SEP282300NYYBOS", "market-maker"), "Equity", ()),
}
#: Width of the terminal, in columns.
WIDTH = 80


def rewritten(text: str, run: Callable[[list[str]], str]) -> str:
    """Return the page with the current output of the command of each block."""

    def block(found: re.Match[str]) -> str:
        command, _, title = found["command"].partition(" | ")
        shown = [line.rstrip() for line in DATE.sub("", run(shlex.split(command))).rstrip().splitlines()]
        if title:
            begin = shown.index(title)
            end = next((number for number in range(begin, len(shown)) if not shown[number].strip()), len(shown))
            shown = shown[begin:end]
        lines = "".join(f"    {line}".rstrip() + "\n" for line in shown)
        return f"<!-- bellwether {found['command']} -->\n\n{lines}"

    return BLOCK.sub(block, text)


def bellwether(words: list[str]) -> str:
    """Return the output of a command in a terminal of `WIDTH` columns."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-m", "bellwether", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout


def site_pictures(site: Path, charts: Mapping[Path, tuple[str, str, tuple[str, ...]]]) -> int:
    """Write pictures of charts of a built site. Returns their number, or 0 after a message to standard error if there is no browser."""
    try:
        with chromium() as browser:
            for target, (page, title, lines) in charts.items():
                target.write_bytes(picture(browser, site / page, title, lines=lines))
    except Missing as missing:
        sys.stderr.write(f"the pictures of the site stay as they are: {missing}\n")
        return 0
    return len(charts)


if __name__ == "__main__":
    from bellwether.settings import settings
    from bellwether.site import build

    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8"), bellwether), encoding="utf-8")
    site_pictures(build(settings().warehouse_uri, settings().site_path).folder, CHARTS)
