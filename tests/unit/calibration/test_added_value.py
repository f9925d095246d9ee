"""What forecasts add to the market's price: the regression of statsmodels, literal sums, and bets by hand."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest
from statsmodels.api import Logit

from bellwether.calibration import evaluate
from bellwether.calibration.added_value import COPIES, LOGIT_CLIP, AddedValue
from bellwether.calibration.answers import TAKER_RATES, Answers
from bellwether.calibration.bootstrap import Inference
from bellwether.calibration.clusters import Clusters
from bellwether.calibration.evaluation import evaluate_forecasts
from bellwether.calibration.forecasts import Forecasts
from bellwether.calibration.scores import score_ensembles
from bellwether.replay.rules.ruleset import rule_sets
from tests.unit.calibration.benchmark_frames import ASKED, forecasts, questions


def logit(p: np.ndarray) -> np.ndarray:
    clipped = np.clip(p, LOGIT_CLIP, 1 - LOGIT_CLIP)
    return np.log(clipped / (1 - clipped))


def draw(seed: int, n: int = 400, copy: float | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw forecasts, outcomes and prices. copy: standard deviation of the noise, on the logit, of a copier of the price."""
    generator = np.random.default_rng(seed)
    common, own = generator.normal(0, 1.2, n), generator.normal(0, 0.8, n)
    truth = 1 / (1 + np.exp(-(common if copy is not None else common + own)))
    price = 1 / (1 + np.exp(-common))
    p = 1 / (1 + np.exp(-(common + generator.normal(0, copy, n)))) if copy is not None else truth
    return p, (generator.random(n) < truth).astype(float), price


@pytest.mark.parametrize("seed", range(3))
def test_the_coefficient_is_that_of_statsmodels(seed: int) -> None:
    p, y, price = draw(seed)
    theirs = Logit(y, np.stack([np.ones(len(y)), logit(price), logit(p)], axis=1)).fit(disp=0)
    ours = evaluate(p, y, range(len(y)), market=price, replicates=0)["encompassing"]
    assert ours.value == pytest.approx(theirs.params[2], abs=1e-7)
    assert ours.lower is not None
    assert ours.upper is not None
    lower, upper = theirs.conf_int()[2]
    assert (ours.lower, ours.upper) == (pytest.approx(lower, abs=0.15), pytest.approx(upper, abs=0.15))


def test_the_weight_and_the_gain_are_those_of_the_best_pool_on_a_grid() -> None:
    p, y, price = draw(4)
    found = evaluate(p, y, range(len(y)), market=price, replicates=0)
    grid = np.linspace(-1, 2, 30_001)
    brier = np.array([np.mean((w * p + (1 - w) * price - y) ** 2) for w in grid])
    assert found["pool_weight"].value == pytest.approx(grid[brier.argmin()], abs=2e-4)
    inside = (grid >= 0) & (grid <= 1)
    assert found["pool_gain"].value == pytest.approx(np.mean((price - y) ** 2) - brier[inside].min(), abs=1e-7)


@pytest.mark.parametrize(("weight", "gain"), [(-0.5, 0.0), (0.0, 0.0), (0.5, 0.25), (1.0, 1.0), (1.5, 2.0)])
def test_the_gain_follows_from_the_weight(weight: float, gain: float) -> None:
    """At a mean squared difference of 0.04: 0.04 w^2 inside the bounds, 0.04 (2 w - 1) above."""
    terms = AddedValue.of(Forecasts.of([0.3, 0.7], [0, 1], market=[0.5, 0.5]))
    assert terms.gain(weight) == pytest.approx(0.04 * gain)


def test_copies_of_the_price_are_named() -> None:
    _, y, price = draw(5, 40)
    found = evaluate(price, y, range(40), market=price, replicates=0)
    assert [(found[name].value, found[name].reason) for name in ("encompassing", "pool_weight", "pool_gain")] == [(None, COPIES)] * 3


def test_separated_outcomes_have_no_coefficient() -> None:
    p = np.linspace(0.05, 0.95, 40)
    found = evaluate(p, p > 0.5, range(40), market=np.full(40, 0.4), replicates=0)
    assert found["encompassing"].value is None
    assert found["pool_weight"].value is not None


def test_bets_are_paid_by_hand() -> None:
    """Yes at .62 and won, no at 1 - .58 and lost, no bet inside the spread, no quote."""
    forecasts_ = Forecasts.of(
        [0.9, 0.1, 0.6, 0.9], [1, 1, 0, 1], market=[0.6] * 4, sell=[0.58, 0.58, 0.58, np.nan], buy=[0.62, 0.62, 0.62, np.nan]
    )
    found = evaluate_forecasts(forecasts_, Clusters.of([0, 1, 2, 3], 4), 4, Inference(replicates=0))["paper_return"]
    assert (found.value, found.reason) == (None, "fewer than three clusters")
    profit, cost = AddedValue.of(forecasts_).terms(forecasts_.y)["paper_return"]
    assert profit.tolist() == pytest.approx([0.38, -0.42, 0, 0])
    assert cost.tolist() == pytest.approx([0.62, 0.42, 0, 0])


def test_costs_are_the_quotes_with_the_fee_of_the_venue() -> None:
    """Kalshi's takers pay .07 P (1 - P): .0168 at .60, and .0175 at .50."""
    as_of = ASKED - timedelta(hours=24)
    book = {"price_24h": [0.55], "price_24h_at": [as_of], "bid_24h": [Decimal("0.5")], "ask_24h": [Decimal("0.6")]}
    sheet = Answers.of(forecasts([0.5], as_of=[as_of]), questions(["yes"], **book)).sheet("f")
    assert sheet.select("sell", "buy").row(0) == pytest.approx((0.4825, 0.6168))


def test_the_rate_of_the_fee_is_that_of_all_rules_of_the_venue() -> None:
    rates = {(rules.venue, float(rules.fees["quadratic"].taker)) for rules in rule_sets().values() if rules.venue in TAKER_RATES}
    assert rates == set(TAKER_RATES.items())


def test_the_mean_and_its_extremised_form_by_hand() -> None:
    """Mean of .6 and .8 is .7; odds of 7/3 to the power of the square root of 3 give .813."""
    rows = forecasts([0.6, 0.4], forecaster="a").vstack(forecasts([0.8, 0.2], forecaster="b"))
    found = score_ensembles(Answers.of(rows, questions(["yes", "no"])), ["a", "b"])
    brier = dict(found.filter(metric="brier").select("ensemble", "value").iter_rows())
    odds = (7 / 3) ** 3**0.5
    assert brier == {"mean": pytest.approx(0.09), "extremised mean": pytest.approx((1 - odds / (1 + odds)) ** 2)}
    assert score_ensembles(Answers.of(rows, questions(["yes", "no"])), ["a"]).is_empty()
