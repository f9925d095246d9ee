"""Parsers of model answers: the default one (`read`), and KalshiBench's published one (`compat.read`)."""

from __future__ import annotations

from bellwether.forecasting.parsing import compat
from bellwether.forecasting.parsing.parser import read, read_many
from bellwether.forecasting.parsing.result import PATHS, PROBLEMS, Reading

#: Version of the default parser: raise it when the reading of any response changes.
VERSION = "3"

__all__ = ["PATHS", "PROBLEMS", "VERSION", "Reading", "compat", "read", "read_many"]
