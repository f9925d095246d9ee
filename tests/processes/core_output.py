"""Expected output of core_program.py, the program that tests the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = Path(__file__).with_name("core_program.py")


def brier_interval() -> list[float]:
    """Compute the Brier score of the README's four forecasts, (0.1² + 0.2² + 0.6² + 0.1²) / 4, and its interval over the series a, a, b, c.

    The interval is that of docs/metrics.md, with other random numbers: a typical cluster has (2² + 1² + 1²) / 4 questions. At best the four losses add up to 0.22,
    at worst to 2.42.
    """
    generator = np.random.default_rng(1)
    ends = []
    for possible, level in ((0.01 + 0.04 + 0.16 + 0.01, 0.025), (0.81 + 0.64 + 0.36 + 0.81, 0.975)):
        (a, b, c), pseudo = generator.exponential(size=(3, 100_000)), 1.5 * generator.gamma(0.5, size=100_000)
        ends.append(float(np.quantile((0.05 * a + 0.36 * b + 0.01 * c + pseudo * possible / 4) / (2 * a + b + c + pseudo), level)))
    return [0.42 / 4, *ends]


def check(output: dict[str, Any]) -> None:
    """Compare the output of core_program.py with the expected output for the episode that `Native` writes."""
    assert output["scores"]["brier"] == pytest.approx(brier_interval(), abs=0.02)
    assert {"brier", "log_loss", "ece", "smece", "corp_discrimination"} <= set(output["scores"]["metrics"])
    assert (output["scores"]["pairs"], output["scores"]["ranking"]) == (1, ["mine", "half"])
    assert output["diagram"] > 5_000
    # The same four forecasts from a file of percentages.
    assert output["file"]["brier"] == output["scores"]["brier"]
    assert (output["file"]["n"], output["file"]["clusters"]) == (4, 3)
    assert output["file"]["figures"] == ["reliability.png", "scores.png"]
    assert output["file"]["page"] > 500_000 and output["file"]["plots"] == 8
    assert output["file"]["refused"].startswith("Error: forecasts.csv, line 2, column 'probability': '90' is no probability")
    # Ten contracts at 48 cents that pay a dollar, less the taker fee: 7 % of 10 × 0.48 × 0.52, rounded up to a cent.
    assert (output["replay"]["pnl"], output["replay"]["fills"]) == ("5.020000", 1)
    assert output["replay"]["episodes"] == ["imported"]
    assert {"passive", "market-maker", "llm"} <= set(output["replay"]["agents"])
    assert {"pnl", "equity", "book"} <= set(output["replay"]["figures"])
