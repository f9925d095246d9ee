"""Forecasts that somebody else made: files of them are read, refused by line where they do not fit, and kept as forecasters of the benchmark."""

from __future__ import annotations

from bellwether.submissions.checking import Checked, checked
from bellwether.submissions.store import Submissions

__all__ = ["Checked", "Submissions", "checked"]
