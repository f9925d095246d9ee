"""Episodes: recorded books, trades and outcomes of one event, self-contained in a folder; checked wholly when read, or refused."""

from bellwether.replay.episode.draft import EpisodeDraft
from bellwether.replay.episode.metadata import Gap, Market, Metadata, Phase, Series, Settlement

__all__ = ["EpisodeDraft", "Gap", "Market", "Metadata", "Phase", "Series", "Settlement"]
