"""Resumable pulls of single days, which can be parsed again from their stored pages."""

from bellwether.venues.http.puller import Progress
from bellwether.venues.polymarket.pull.day import DayPull, pull_day
from bellwether.venues.polymarket.pull.price_plan import PricePlan

__all__ = ["DayPull", "PricePlan", "Progress", "pull_day"]
