"""Submission of external forecasts: read from files, validated by line, and stored as forecasters of the benchmark."""

from __future__ import annotations

from bellwether.submissions.validation import Submissions, ValidationResult, validate_rows

__all__ = ["Submissions", "ValidationResult", "validate_rows"]
