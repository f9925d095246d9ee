"""Forecasts from other sources: read from files, refused by line if they do not fit, and stored as forecasters of the benchmark."""

from __future__ import annotations

from bellwether.submissions.validation import Checked, Submissions, checked

__all__ = ["Checked", "Submissions", "checked"]
