"""The program that runs the core's paths, and what it must print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = Path(__file__).with_name("paths.py")


def check(found: dict[str, Any]) -> None:
    """What paths.py prints, for the episode that `Native` writes."""
    assert found["scores"]["brier"] == pytest.approx([0.105, 0.01, 0.36])
    assert {"brier", "log_loss", "ece", "smece", "corp_discrimination"} <= set(found["scores"]["metrics"])
    assert (found["scores"]["pairs"], found["scores"]["ranking"]) == (1, ["mine", "half"])
    assert found["diagram"] > 5_000
    # Ten contracts at 48 cents that pay a dollar, less the taker's fee: 7 % of 10 * 0.48 * 0.52, up to the next cent.
    assert (found["replay"]["pnl"], found["replay"]["fills"]) == ("5.020000", 1)
    assert found["replay"]["episodes"] == ["imported"]
    assert {"passive", "market-maker", "llm"} <= set(found["replay"]["agents"])
    assert {"pnl", "equity", "book"} <= set(found["replay"]["figures"])
