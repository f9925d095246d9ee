"""The decompositions: they add up to the Brier score, agree with the literature's formulas, and mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from model_diagnostics.scoring import SquaredError, decompose

from bellwether.calibration import corp, murphy, yates
from bellwether.calibration.binning import bin_of
from bellwether.errors import ScoringError

STATED = st.one_of(st.integers(0, 100).map(lambda c: c / 100), st.integers(0, 100).map(lambda c: 1 - c / 100), st.floats(0, 1))
ROWS = st.lists(st.tuples(STATED, st.booleans()), min_size=1, max_size=60)


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


@settings(deadline=None)
@given(ROWS)
def test_every_decomposition_adds_up_to_the_brier_score(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    brier = float(np.mean(np.square(p - y)))
    m, c, v = murphy(p, y), corp(p, y), yates(p, y)
    assert m.reliability - m.resolution + m.uncertainty + m.within_bin_variance - m.within_bin_covariance == pytest.approx(brier, abs=1e-12)  # type: ignore[operator]
    assert c.miscalibration - c.discrimination + c.uncertainty == pytest.approx(brier, abs=1e-12)  # type: ignore[operator]
    assert v.uncertainty + v.bias_squared + v.min_variance + v.excess_variance - 2 * v.covariance == pytest.approx(brier, abs=1e-12)  # type: ignore[operator]
    assert m.brier == c.brier == v.brier == pytest.approx(brier, abs=1e-12)
    assert m.uncertainty == c.uncertainty == v.uncertainty


@settings(deadline=None)
@given(ROWS)
def test_murphy_equals_its_definition_bin_by_bin(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    terms = dict.fromkeys(("reliability", "resolution", "within_bin_variance", "within_bin_covariance"), 0.0)
    for index in range(10):
        inside = bin_of(p) == index
        if inside.any():
            p_in, y_in = p[inside], y[inside].astype(float)
            terms["reliability"] += len(p_in) * (p_in.mean() - y_in.mean()) ** 2
            terms["resolution"] += len(p_in) * (y_in.mean() - y.mean()) ** 2
            terms["within_bin_variance"] += np.sum((p_in - p_in.mean()) ** 2)
            terms["within_bin_covariance"] += 2 * np.sum((p_in - p_in.mean()) * (y_in - y_in.mean()))
    ours = murphy(p, y)
    assert {name: getattr(ours, name) for name in terms} == pytest.approx({name: one / len(p) for name, one in terms.items()}, abs=1e-12)


@settings(deadline=None)
@given(ROWS)
def test_yates_equals_the_moments(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    ours = yates(p, y)
    assert ours.bias_squared == pytest.approx((p.mean() - y.mean()) ** 2, abs=1e-12)
    assert ours.covariance == pytest.approx(float(np.cov(p, y, bias=True)[0, 1]) if len(p) > 1 else 0.0, abs=1e-12)
    within = sum(np.var(p[y == which]) * np.mean(y == which) for which in (False, True) if (y == which).any())
    assert ours.excess_variance == pytest.approx(within, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(STATED, st.booleans()), min_size=2, max_size=60))
def test_corp_agrees_with_model_diagnostics(rows: list[tuple[float, bool]]) -> None:
    p, y = columns(rows)
    assume(0 < y.sum() < len(y))  # of one class the library makes NaN
    theirs = decompose(y.astype(float), p, scoring_function=SquaredError())
    ours = corp(p, y)
    for name in ("miscalibration", "discrimination", "uncertainty"):
        assert getattr(ours, name) == pytest.approx(theirs[name].item(), abs=1e-12)


def test_a_hand_computed_corp() -> None:
    """The first two violate the order and are pooled at one half."""
    assert corp([0.2, 0.4, 0.9], [1, 0, 1]).miscalibration == pytest.approx((0.64 + 0.16 + 0.01) / 3 - (0.25 + 0.25) / 3)


def test_recalibrated_forecasts_have_no_miscalibration() -> None:
    assert corp([0.25] * 4 + [0.75] * 4, [0, 0, 0, 1, 0, 1, 1, 1]).miscalibration == 0.0


def test_a_forecaster_who_says_no_as_yes_has_lost_reliability_and_no_resolution() -> None:
    generator = np.random.default_rng(3)
    p = (generator.integers(0, 10, 500) + 0.5) / 10
    y = generator.random(500) < p
    right, inverted = murphy(p, y), murphy(1 - p, y)
    assert inverted.resolution == pytest.approx(right.resolution)
    assert inverted.reliability > 10 * right.reliability  # type: ignore[operator]


def test_debiased_reliability_is_zero_on_average_for_a_calibrated_forecaster() -> None:
    generator = np.random.default_rng(5)
    p = np.repeat((np.arange(10) + 0.5) / 10, 6)
    drawn = [murphy(p, generator.random(60) < p) for _ in range(400)]
    debiased = np.array([one.reliability_debiased for one in drawn])
    plain = np.array([one.reliability for one in drawn])
    assert abs(debiased.mean()) < 3 * debiased.std() / 20
    assert plain.mean() > 10 * abs(debiased.mean())


def test_debiased_resolution_is_zero_on_average_for_a_forecaster_who_knows_nothing() -> None:
    generator = np.random.default_rng(6)
    p = np.repeat((np.arange(10) + 0.5) / 10, 6)
    drawn = [murphy(p, generator.random(60) < 0.5) for _ in range(400)]
    debiased = np.array([one.resolution_debiased for one in drawn])
    assert abs(debiased.mean()) < 3 * debiased.std() / 20
    assert np.mean([one.resolution for one in drawn]) > 10 * abs(debiased.mean())


def test_a_bin_of_one_forecast_has_no_debiased_term() -> None:
    assert murphy([0.05, 0.95], [0, 0]).reliability_debiased is None
    assert murphy([0.05, 0.95, 0.95], [0, 0, 1]).reliability_debiased == pytest.approx((0.45**2 - 0.25) * 2 / 3)


def test_without_a_forecast_no_term_is_defined() -> None:
    for one in (murphy([], []), yates([], []), corp([], [])):
        assert {getattr(one, name) for name in type(one).__slots__} == {None}


@pytest.mark.parametrize("decomposition", [murphy, yates, corp])
@pytest.mark.parametrize(("p", "y"), [([float("nan")], [1]), ([1.2], [1]), ([0.5], [2]), ([0.5, 0.5], [1])])
def test_what_cannot_be_scored_is_refused(decomposition: type, p: list[float], y: list[int]) -> None:
    with pytest.raises(ScoringError, match="column"):
        decomposition(p, y)
