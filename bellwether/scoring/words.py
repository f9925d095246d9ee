"""Readable names of metrics and losses."""

from __future__ import annotations

from collections.abc import Mapping

LOSSES: Mapping[str, str] = {"brier": "the Brier score", "log_loss": "log loss"}

_WORDS = {
    "brier": "Brier score",
    "brier_skill": "skill over base rate",
    "skill_vs_market": "skill over market",
    "skill_vs_half": "skill over 0.5",
    "roc_auc": "ROC-AUC",
    "ece": "ECE",
    "mce": "MCE",
    "ace": "ACE",
    "smece": "smECE",
}


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def words(metric: str) -> str:
    """Readable name of a metric."""
    return _WORDS.get(metric, metric.replace("_", " "))
