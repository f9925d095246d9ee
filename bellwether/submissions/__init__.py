"""Forecasts from other sources: read from files, refused by line if they do not fit, and stored as forecasters of the benchmark."""

from __future__ import annotations

from bellwether.submissions.validation import Submissions, ValidationResult, validate_rows

__all__ = ["Submissions", "ValidationResult", "validate_rows"]
