"""What commands show of a release when they have made it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bellwether.console import console, leaderboard_table
from bellwether.settings import settings


def show_leaderboards(releases: Sequence[str], as_json: bool) -> dict[str, Any]:
    """Print the published leaderboards of releases, unless `as_json`; returns them for `--json`."""
    from bellwether.lake.warehouse import query

    rows = {
        name: query(
            settings().warehouse_path,
            "SELECT * FROM benchmark.leaderboard WHERE release = $r ORDER BY rank NULLS LAST, forecaster",
            {"r": name},
        )
        for name in releases
    }
    if not as_json:
        for name, frame in rows.items():
            console().print(leaderboard_table(name, frame))
    return {"leaderboards": {name: frame.to_dicts() for name, frame in rows.items()}}


def demo(as_json: bool) -> dict[str, Any]:
    """The leaderboard of the demo's release."""
    from assets.benchmark.runs import DEMO

    return show_leaderboards((DEMO,), as_json)
