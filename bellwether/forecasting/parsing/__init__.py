"""From what a model wrote to a forecast, and by which path: `read` for every day, `compat.read` as KalshiBench published it."""

from __future__ import annotations

from bellwether.forecasting.parsing import compat, published
from bellwether.forecasting.parsing.parser import read, read_many
from bellwether.forecasting.parsing.result import PATHS, PROBLEMS, Reading

#: Version of the default parser: raise it when the same response would be read otherwise.
VERSION = "2"

__all__ = ["PATHS", "PROBLEMS", "VERSION", "Reading", "compat", "published", "read", "read_many"]
