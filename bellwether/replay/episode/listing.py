"""List of episodes, for which only their metadata and settlements are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bellwether.errors import SchemaError
from bellwether.files import folders
from bellwether.replay.episode.model import (
    METADATA,
    SETTLEMENT,
    Metadata,
    Settlement,
    format_iso,
    parse_metadata,
    parse_settlements,
    read_json,
)

COLUMNS = ("episode", "event", "markets", "start", "hours", "settled", "exogenous", "digest", "problem")


def list_episodes(root: Path) -> list[dict[str, Any]]:
    """Return a row for each episode in the folder `root`, sorted by name. The row of an invalid episode contains the error."""
    return [_row(folder) for folder in folders(root, METADATA)]


def _row(folder: Path) -> dict[str, Any]:
    try:
        values = read_json(folder, METADATA)
        about = parse_metadata(values)
        settlements = parse_settlements(read_json(folder, SETTLEMENT), about.tickers)
        return build_row(folder.name, about, settlements, str(values.get("digest") or ""))
    except SchemaError as error:
        return {**dict.fromkeys(COLUMNS), "episode": folder.name, "problem": str(error)}


def build_row(name: str, about: Metadata, settlements: Sequence[Settlement], digest: str) -> dict[str, Any]:
    """Build the row of an episode from its metadata and settlements."""
    return {
        "episode": name,
        "event": about.event_slug,
        "markets": len(about.tickers),
        "start": format_iso(about.start)[:19],
        "hours": round((about.end - about.start) / 3.6e12, 2),
        "settled": sum(settlement.is_known for settlement in settlements),
        "exogenous": ", ".join(series.name for series in about.exogenous),
        "digest": digest[:12] or None,
        "problem": None,
    }
