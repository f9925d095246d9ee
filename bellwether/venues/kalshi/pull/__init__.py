"""Resumable pulls of series, of the archive and of single days, which can be parsed again from their stored pages."""

from bellwether.venues.http.puller import Progress
from bellwether.venues.kalshi.pull.archive import ArchivePull, pull_archive
from bellwether.venues.kalshi.pull.candle_plan import CandlePlan
from bellwether.venues.kalshi.pull.day import DayPull, pull_day
from bellwether.venues.kalshi.pull.series import SeriesPull, pull_series

__all__ = ["ArchivePull", "CandlePlan", "DayPull", "Progress", "SeriesPull", "pull_archive", "pull_day", "pull_series"]
