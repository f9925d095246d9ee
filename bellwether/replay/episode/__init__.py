"""Episodes: recorded books, trades and settlements of one event in a folder, which is checked completely before use.

Names are imported lazily, because a list of episodes needs no simulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.extras import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.episode.metadata import Gap, GridChange, Market, Metadata, Phase, Series, Settlement
    from bellwether.replay.episode.reader import Episode, load, load_original, validate
    from bellwether.replay.episode.report import Finding, Report
    from bellwether.replay.episode.writer import EpisodeDraft, build_draft, write

_HOMES = {
    "metadata": ("Gap", "GridChange", "Market", "Metadata", "Phase", "Series", "Settlement"),
    "reader": ("Episode", "load", "load_original", "validate"),
    "report": ("Finding", "Report"),
    "writer": ("EpisodeDraft", "build_draft", "write"),
}

__all__ = [
    "Episode",
    "EpisodeDraft",
    "Finding",
    "Gap",
    "GridChange",
    "Market",
    "Metadata",
    "Phase",
    "Report",
    "Series",
    "Settlement",
    "build_draft",
    "load",
    "load_original",
    "validate",
    "write",
]

__getattr__ = lazy_names(__name__, _HOMES)
