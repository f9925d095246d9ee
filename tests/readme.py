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

from tests.browser.chromium import Missing, chromium, picture
from tests.golden.digests import DATE

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tour.md")
BLOCK = re.compile(r"^<!-- bellwether (?P<command>.+?) -->\n\n(?P<text>(?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
#: The backtest that the tour shows.
PICTURE, AGENT, EPISODE = ROOT / "docs" / "images" / "backtest.png", "market-maker", "KXMLBGAME-26SEP282300NYYBOS"
#: Picture of each chart: its page of the site, the beginning of its title, and the lines to draw.
CHARTS = {
    ROOT / "docs" / "images" / "reliability.png": (
        "benchmark/sandbox-2026/index.html",
        "Reliability diagrams",
        ("sandbox-calibrated", "sandbox-overconfident"),
    ),
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


def backtest_picture(agent: str, episode: Path) -> bytes:
    """Draw an agent's equity, and its fills in the market where it has the most. Returns a PNG."""
    import altair as alt

    from bellwether.figures.canvas import FILE_BYTES, add_title, png
    from bellwether.figures.equity import equity_curve
    from bellwether.replay import BacktestSettings, run
    from bellwether.replay.episode import load
    from bellwether.replay.registry import find_agent
    from bellwether.replay.results.frames import frames
    from bellwether.replay.results.tear_sheet import draw_books

    entry = find_agent(agent)
    assert entry.cadence is not None
    backtest = run(load(episode), entry.source().make(), BacktestSettings(cadence=entry.cadence))
    tables = frames(backtest)
    fills = tables["replay/fills"]
    busiest = fills["ticker"].value_counts(sort=True)["ticker"][0]
    charts = [
        equity_curve(tables["replay/equity"], "Its equity"),
        draw_books(backtest.tape, fills, "Its fills in one market", tickers=[busiest]),
    ]
    for chart in charts:
        chart.config = alt.Undefined
    return png(add_title(alt.hconcat(*charts), f"{entry.title} in {backtest.episode}"), FILE_BYTES)


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
    PICTURE.write_bytes(backtest_picture(AGENT, settings().episodes_path / EPISODE))
    site_pictures(build(settings().warehouse_uri, settings().site_path).folder, CHARTS)
