"""The stated skill of each personality, measured from the text of its answers on settled markets."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from bellwether.sandbox import GeneratedWorld
from bellwether.sandbox.models import skill
from bellwether.sandbox.models.replies import ModelReply
from bellwether.sandbox.timestamps import to_datetime
from bellwether.sandbox.world.model import Market

FORECASTERS = ("calibrated", "overconfident", "timid", "contrarian", "noisy", "slow")


def forecast(text: str | None) -> float:
    """Return P(yes) in the benchmark's reading: the confidence is that of the given answer."""
    answer = re.search(r"<answer>\s*(yes|no)\s*</answer>", text or "")
    confidence = re.search(r"<confidence>\s*(\d+(?:\.\d+)?)\s*</confidence>", text or "")
    assert answer, text
    assert confidence, text
    p = float(confidence[1]) / 100
    return p if answer[1] == "yes" else 1 - p


@pytest.fixture(scope="module")
def known(world: GeneratedWorld, settled: list[Market]) -> np.ndarray:
    """The latent probability a day before each close, or at the opening of a shorter market."""
    moments = [max(to_datetime(market.life.opens), to_datetime(market.life.closes) - timedelta(days=1)) for market in settled]
    return np.array([world.truth(market.ticker, at) for market, at in zip(settled, moments, strict=True)])


@pytest.fixture(scope="module")
def outcomes(settled: list[Market]) -> np.ndarray:
    return np.array([float(market.determination.result == "yes") for market in settled])


@pytest.fixture(scope="module")
def stated(
    settled: list[Market], query_model: Callable[..., ModelReply], market_messages: Callable[[Market], Any]
) -> dict[str, np.ndarray]:
    """Forecast of each forecaster for each market."""
    return {model: np.array([forecast(query_model(model, market_messages(market)).content) for market in settled]) for model in FORECASTERS}


def spiegelhalter(p: np.ndarray, y: np.ndarray) -> float:
    """Compute Spiegelhalter's z, standard normal for a calibrated forecaster (Statistics in Medicine 5 (1986), 421-433)."""
    return float(((y - p) * (1 - 2 * p)).sum() / math.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).sum()))


def chi_square(p: np.ndarray, y: np.ndarray) -> float:
    """Compute the p-value of a calibration test that compares sums of outcomes and of probabilities within bins of equal counts."""
    bins = np.array_split(np.argsort(p, kind="stable"), 10)
    surprise = sum((y[one] - p[one]).sum() ** 2 / (p * (1 - p))[one].sum() for one in bins)
    return float(stats.chi2.sf(surprise, len(bins)))


def brier(p: np.ndarray, y: np.ndarray) -> float:
    return float(((p - y) ** 2).mean())


@pytest.mark.parametrize("model", ["calibrated", "slow"])
def test_the_calibrated_are_calibrated(model: str, stated: dict[str, np.ndarray], outcomes: np.ndarray) -> None:
    assert abs(spiegelhalter(stated[model], outcomes)) < 2.6
    assert chi_square(stated[model], outcomes) > 0.01


@pytest.mark.parametrize("model", ["overconfident", "timid", "contrarian", "noisy"])
def test_the_others_are_not(model: str, stated: dict[str, np.ndarray], outcomes: np.ndarray) -> None:
    assert chi_square(stated[model], outcomes) < 1e-4


def test_the_ranking_by_brier_is_the_true_one(stated: dict[str, np.ndarray], known: np.ndarray, outcomes: np.ndarray) -> None:
    models = ["calibrated", "overconfident", "timid", "contrarian", "noisy"]
    true = sorted(models, key=lambda model: skill(model).excess_brier(known))
    assert true[0] == "calibrated"
    assert true[-1] == "contrarian"
    assert sorted(models, key=lambda model: brier(stated[model], outcomes)) == true


@pytest.mark.parametrize("model", ["overconfident", "timid", "contrarian", "noisy"])
def test_the_excess_in_brier_is_the_documented_one(
    model: str, stated: dict[str, np.ndarray], known: np.ndarray, outcomes: np.ndarray
) -> None:
    excess = (stated[model] - outcomes) ** 2 - (known - outcomes) ** 2
    assert abs(excess.mean() - skill(model).excess_brier(known)) < 4 * excess.std(ddof=1) / math.sqrt(len(excess))


def test_what_is_said_is_the_documented_transformation(stated: dict[str, np.ndarray], known: np.ndarray) -> None:
    for model in ("calibrated", "overconfident", "timid", "contrarian", "slow"):
        expected = [skill(model).states(p) for p in known]
        assert np.abs(stated[model] - expected).max() < 1e-9, model
    middle = (known > 0.05) & (known < 0.95)
    z = (special.logit(stated["noisy"][middle]) - special.logit(known[middle])) / 1.5
    assert stats.kstest(z, "norm").pvalue > 0.01


def test_the_noise_differs_between_samples_and_questions(
    query_model: Callable[..., ModelReply], settled: list[Market], market_messages: Any
) -> None:
    one = [forecast(query_model("noisy", market_messages(settled[0]), sample=sample).content) for sample in range(8)]
    assert len(set(one)) == 8
    assert one == [forecast(query_model("noisy", market_messages(settled[0]), sample=sample).content) for sample in range(8)]
