"""Expected output of paths.py, the program that tests the core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logit

ROOT = Path(__file__).resolve().parents[2]
PATHS = Path(__file__).with_name("paths.py")


def brier_interval() -> list[float]:
    """Compute the Brier score of the README's four forecasts, (0.1² + 0.2² + 0.6² + 0.1²) / 4, and its interval over the series a, a, b, c.

    The interval is Student's t of the logit, as in docs/metrics.md. Because there are only three clusters, its variance is at least that of random outcomes.
    """
    p, y, size = np.array([0.9, 0.2, 0.6, 0.1]), np.array([1, 0, 0, 0]), np.array([2, 1, 1])
    brier = 0.42 / 4
    # Leaving out series a, b and c: 0.37 / 2, 0.06 / 3 and 0.41 / 3.
    jackknife = sum((logit(rest) - logit(brier)) ** 2 for rest in (0.37 / 2, 0.06 / 3, 0.41 / 3))
    # Outcomes drawn from the forecasts, pooled with the base rate (1 + 1) / (4 + 2). Outcomes of series a have a correlation of one half.
    apart = p - 1 / 3
    share = min(1.0, float(((y - 1 / 3) @ apart + 1 / 2) / (apart @ apart + 1)))
    pooled = share * p + (1 - share) / 3
    change = (1 - 2 * p) / 4 / (brier * (1 - brier)) * np.sqrt(pooled * (1 - pooled))
    random = np.square(change).sum() / 2 + ((change[0] + change[1]) ** 2 + change[2] ** 2 + change[3] ** 2) / 2
    # Satterthwaite's degrees of freedom for clusters of 2, 1 and 1.
    residual = (np.eye(3) - np.outer(size / 4, np.ones(3))) / np.sqrt(1 - size / 4)[:, None]
    covariance = residual @ np.diag(size) @ residual.T
    df = np.trace(covariance) ** 2 / np.square(covariance).sum()
    reach = stats.t.ppf(0.975, df) * np.sqrt(max(jackknife, random))
    return [brier, float(expit(logit(brier) - reach)), float(expit(logit(brier) + reach))]


def check(output: dict[str, Any]) -> None:
    """Compare the output of paths.py with the expected output for the episode that `Native` writes."""
    assert output["scores"]["brier"] == pytest.approx(brier_interval())
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
