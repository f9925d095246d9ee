"""Episodes: recorded books, trades and outcomes of one event, self-contained in a folder; checked wholly when read, or refused."""

from bellwether.replay.episode.draft import EpisodeDraft
from bellwether.replay.episode.metadata import Gap, Market, Metadata, Phase, Series, Settlement
from bellwether.replay.episode.reader import Episode, load, load_original, validate
from bellwether.replay.episode.report import Finding, Report
from bellwether.replay.episode.writer import draft_of, write

__all__ = [
    "Episode",
    "EpisodeDraft",
    "Finding",
    "Gap",
    "Market",
    "Metadata",
    "Phase",
    "Report",
    "Series",
    "Settlement",
    "draft_of",
    "load",
    "load_original",
    "validate",
    "write",
]
