"""External forecasts: read from files, validated row by row, and stored as forecasters of the benchmark."""

from __future__ import annotations

from bellwether.submissions.validation import Submissions, ValidationResult, validate_rows

__all__ = ["Submissions", "ValidationResult", "validate_rows"]
