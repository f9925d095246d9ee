"""Episodes: recorded books, trades and settlements of one event in a folder, which is checked completely before use.

Names are imported lazily, because a list of episodes needs no simulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bellwether.lazy import lazy_names

if TYPE_CHECKING:
    from bellwether.replay.episode.checks import Finding, Report
    from bellwether.replay.episode.content import BookBuilder, BookColumns, Content, Trades, level_of
    from bellwether.replay.episode.folder import Episode, load, validate, write
    from bellwether.replay.episode.import_pmb import read_pmb
    from bellwether.replay.episode.model import Gap, GridChange, Market, Metadata, Phase, Series, Settlement

_HOMES = {
    "checks": ("Finding", "Report"),
    "content": ("BookBuilder", "BookColumns", "Content", "Trades", "level_of"),
    "folder": ("Episode", "load", "validate", "write"),
    "import_pmb": ("read_pmb",),
    "model": ("Gap", "GridChange", "Market", "Metadata", "Phase", "Series", "Settlement"),
}

__all__ = [
    "BookBuilder",
    "BookColumns",
    "Content",
    "Episode",
    "Finding",
    "Gap",
    "GridChange",
    "Market",
    "Metadata",
    "Phase",
    "Report",
    "Series",
    "Settlement",
    "Trades",
    "level_of",
    "load",
    "read_pmb",
    "validate",
    "write",
]

__getattr__ = lazy_names(__name__, _HOMES)
