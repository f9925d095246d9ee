"""The tables of the README and of the tour, written by the commands that its comments name: `<!-- bellwether COMMAND -->` before a block that is indented.

`| TITLE` takes the part of the output from that line to the next empty one. `query, as above` stands for the query that is shown before it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tour.md")
BLOCK = re.compile(r"^<!-- bellwether (?P<command>.+?) -->\n\n(?P<text>(?: {4}.*\n|\n(?= {4}))+)", re.MULTILINE)
QUERY = re.compile(r'^    \.venv/bin/bellwether (query "[^"]*")', re.MULTILINE)
#: Columns of a terminal that are left for a block.
WIDTH = 80


def rewritten(text: str, run: Callable[[list[str]], str]) -> str:
    """The page with every block as the command prints it now."""

    def block(found: re.Match[str]) -> str:
        command, _, title = found["command"].partition(" | ")
        if command == "query, as above":
            command = QUERY.findall(text[: found.start()])[-1]
        shown = [line.rstrip() for line in run(shlex.split(command)).rstrip().splitlines()]
        if title:
            begin = shown.index(title)
            end = next((number for number in range(begin, len(shown)) if not shown[number].strip()), len(shown))
            shown = shown[begin:end]
        lines = "".join(f"    {line}".rstrip() + "\n" for line in shown)
        return f"<!-- bellwether {found['command']} -->\n\n{lines}"

    return BLOCK.sub(block, text)


def bellwether(words: list[str]) -> str:
    """What a command prints in a terminal of `WIDTH` columns."""
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "bellwether", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8"), bellwether), encoding="utf-8")
