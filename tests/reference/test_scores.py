"""All numbers of `score`, compared with plain Python, scikit-learn, scoringrules and SciPy, for every input format; invariances."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from bellwether.scoring import ScoreResult, score
from tests.reference.numpy_only import scoringrules
from tests.unit.scoring.forecast_rows import Row, Write, draw_rows, write_rows

Rows = Sequence[Row]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return draw_rows()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_rows, tmp_path)


def metric(result: ScoreResult, forecaster: str, name: str) -> dict[str, Any]:
    row: dict[str, Any] = result.scores.row(by_predicate=(pl.col("forecaster") == forecaster) & (pl.col("metric") == name), named=True)
    return row


def mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def ece(p: Sequence[float], y: Sequence[float], w: Sequence[float]) -> float:
    """Compute the expected calibration error over ten bins of equal width, one bin at a time."""
    edges, total = np.linspace(0, 1, 11), 0.0
    for low, high in pairwise(edges):
        inside = [index for index, one in enumerate(p) if low <= one < high or (high == 1 and one == 1)]
        total += abs(sum(w[index] * (p[index] - y[index]) for index in inside))
    return total / sum(w)


def second_interval(rows: Rows, terms: Callable[[Row, float], tuple[float, float]], clusters: Sequence[str]) -> tuple[float, float]:
    """Compute the 95 % interval of a ratio of weighted sums from the definition in docs/metrics.md, with other random numbers.

    terms: numerator and denominator of a row with an outcome.
    """
    generator, draws = np.random.default_rng(17), 20_000
    observed = [np.multiply(terms(row, row["outcome"]), row["weight"]) for row in rows]
    value = sum(over for over, _ in observed) / sum(under for _, under in observed)
    possible = [[np.multiply(terms(row, outcome), row["weight"]) for outcome in (0, 1)] for row in rows]
    typical = 0.0
    for name in clusters:
        sizes: dict[Any, float] = defaultdict(float)
        for row in rows:
            sizes[row[name]] += row["weight"]
        typical = max(typical, sum(size**2 for size in sizes.values()) / sum(sizes.values()) / sum(sizes.values()))
    ends = []
    for worst, level in ((min, 0.025), (max, 0.975)):
        chosen = [worst(pair, key=lambda one: one[0] - value * one[1]) for pair in possible]
        weights = {(name, label): generator.exponential(size=draws) for name in clusters for label in {row[name] for row in rows}}
        over, under = generator.gamma(0.5, size=draws)[None] * typical * np.sum(chosen, axis=0)[:, None]
        for row, sums in zip(rows, observed, strict=True):
            weight = math.prod(weights[name, row[name]] for name in clusters)
            over, under = over + weight * sums[0], under + weight * sums[1]
        ends.append(float(np.quantile(over / under, level)))
    return ends[0], ends[1]


def brier_terms(row: Row, outcome: float) -> tuple[float, float]:
    return (row["probability"] - outcome) ** 2, 1.0


def weighted(rows: Rows, *, use: bool) -> list[dict[str, Any]]:
    return [{**row, "weight": row["weight"] if use else 1.0} for row in rows]


def check(result: ScoreResult, rows: Rows, *, weights: bool) -> None:
    """Compare every number of `result` on these rows with its second computation."""
    from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

    rows = weighted(rows, use=weights)
    for name in ("sharp", "blunt"):
        own = [row for row in rows if row["model"] == name]
        p, y, w, m = ([row[column] for row in own] for column in ("probability", "outcome", "weight", "market_price"))
        brier = mean(scoringrules.brier_score(np.array(y), np.array(p)).tolist(), w)
        expected = {
            "brier": brier_score_loss(y, p, sample_weight=w),
            "log_loss": log_loss(y, p, sample_weight=w),
            "accuracy": accuracy_score(y, [one >= 0.5 for one in p], sample_weight=w),
            "roc_auc": roc_auc_score(y, p, sample_weight=w),
            "ece": ece(p, y, w),
            "skill_vs_market": 1 - brier / mean([(one - other) ** 2 for one, other in zip(m, y, strict=True)], w),
            "brier_skill": 1 - brier / (mean(y, w) * (1 - mean(y, w))),
            "coverage": len(own) / 60,
        }
        assert expected["brier"] == pytest.approx(brier, abs=1e-14)
        for key, value in expected.items():
            assert metric(result, name, key)["value"] == pytest.approx(value, abs=1e-12), (name, key)
    sharp, blunt = ({row["question_id"]: row for row in rows if row["model"] == name} for name in ("sharp", "blunt"))
    common = [(sharp[key], blunt[key]) for key in sharp if key in blunt]
    differences = [(a["probability"] - a["outcome"]) ** 2 - (b["probability"] - b["outcome"]) ** 2 for a, b in common]
    pair = result.pairs.filter(pl.col("forecaster").is_in(["sharp", "blunt"]) & pl.col("other").is_in(["sharp", "blunt"]))
    sign = 1 if pair["forecaster"][0] == "sharp" else -1
    assert (pair["n"][0], pair["difference"][0]) == (
        len(common),
        pytest.approx(sign * mean(differences, [a["weight"] for a, _ in common]), abs=1e-14),
    )


FORMATS = ["f.tsv", "f.parquet", "f.ndjson", "f.json", "f.csv.gz", "f.jsonl.gz"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_scores_of_the_second_computation(name: str, rows: Rows, write: Write) -> None:
    check(score(write(name, rows), replicates=0), rows, weights=True)


def frames(rows: Rows) -> Mapping[str, Any]:
    frame = pl.DataFrame(list(rows))
    return {"polars": frame, "lazy": frame.lazy(), "columns": frame.to_dict(as_series=False), "arrays": frame.to_dict(), "rows": list(rows)}


@pytest.mark.parametrize("kind", ["polars", "lazy", "columns", "arrays", "rows"])
def test_frames_give_the_scores_of_the_second_computation(kind: str, rows: Rows) -> None:
    check(score(frames(rows)[kind], replicates=0), rows, weights=True)


def test_a_pandas_frame_gives_the_scores_of_the_second_computation(rows: Rows) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(list(rows))
    check(score(frame, replicates=0), rows, weights=True)
    frame["model"] = frame["model"].astype("category")
    frame["probability"] = frame["probability"].astype("Float64")
    check(score(frame, replicates=0), rows, weights=True)


def wide(rows: Rows) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        shared = {name: value for name, value in row.items() if name not in ("model", "probability")}
        found.setdefault(row["question_id"], {**shared, "p_sharp": None, "p_blunt": None})[f"p_{row['model']}"] = row["probability"]
    return list(found.values())


@pytest.mark.parametrize("name", ["f.csv", "f.jsonl"])
def test_a_column_per_forecaster_gives_the_scores_of_a_row_per_forecaster(name: str, rows: Rows, write: Write) -> None:
    result = score(write(name, wide(rows)), replicates=0)
    check(result, rows, weights=True)
    assert result.columns.probability == ("p_sharp", "p_blunt")


def test_a_file_per_forecaster_gives_the_scores_of_one_file(rows: Rows, write: Write) -> None:
    unnamed = {
        name: [{key: value for key, value in row.items() if key != "model"} for row in rows if row["model"] == name]
        for name in ("sharp", "blunt")
    }
    check(score([write("sharp.csv", unnamed["sharp"]), write("blunt.jsonl.gz", unnamed["blunt"])], replicates=0), rows, weights=True)
    halves = [write("one.csv", rows[:50]), str(write("two.parquet", rows[50:]))]
    check(score(halves, replicates=0), rows, weights=True)


def test_files_of_one_name_in_two_folders_are_two_forecasters(rows: Rows, write: Write) -> None:
    parts = [
        [{key: value for key, value in row.items() if key not in ("model", "question_id")} for row in rows if row["model"] == name]
        for name in ("sharp", "blunt")
    ]
    paths = [write(f"{folder}/run.csv", part) for folder, part in zip("ab", parts, strict=True)]
    result = score(paths, replicates=0)
    assert sorted(result.forecasters) == sorted(["market", *map(str, paths)])


def test_outcomes_clusters_and_weights_may_stand_in_a_file_of_their_own(rows: Rows, write: Write) -> None:
    own = [{name: row[name] for name in ("question_id", "model", "probability", "market_price")} for row in rows]
    known = {row["question_id"]: {name: row[name] for name in ("question_id", "outcome", "series", "weight")} for row in rows}
    outcomes = write("outcomes.jsonl", list(reversed(known.values())))
    result = score(write("f.csv", own), outcomes=outcomes, replicates=0)
    check(result, rows, weights=True)
    assert result.columns.cluster == ("series",)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("clusters", [("question_id",), ("series", "day")])
def test_the_interval_of_the_brier_score_is_that_of_the_second_computation(clusters: tuple[str, ...], weights: bool, rows: Rows) -> None:
    own = [row for row in weighted(rows, use=weights) if row["model"] == "sharp"]
    result = score(own, cluster=clusters, replicates=0)
    found, (lower, upper) = metric(result, "sharp", "brier"), second_interval(own, brier_terms, clusters)
    assert (found["lower"], found["upper"]) == pytest.approx((lower, upper), abs=0.06 * (upper - lower))


def test_the_interval_of_the_skill_against_the_market_is_that_of_the_second_computation(rows: Rows) -> None:
    own = [row for row in rows if row["model"] == "blunt"]

    def terms(row: Row, outcome: float) -> tuple[float, float]:
        return (row["probability"] - outcome) ** 2, (row["market_price"] - outcome) ** 2

    found = metric(score(own, cluster="question_id", replicates=0), "blunt", "skill_vs_market")
    lower, upper = second_interval(own, terms, ("question_id",))
    assert (found["lower"], found["upper"]) == pytest.approx((1 - upper, 1 - lower), abs=0.06 * (upper - lower))


def test_the_seed_is_that_of_every_interval(rows: Rows) -> None:
    first, second = (score(list(rows), cluster="series", replicates=0, seed=seed) for seed in (1, 2))
    for name, column in (("scores", "lower"), ("pairs", "lower"), ("reliability", "yes_rate_lower")):
        assert not getattr(first, name)[column].equals(getattr(second, name)[column]), name


def test_groups_are_scored_as_their_rows_alone(rows: Rows) -> None:
    from sklearn.metrics import brier_score_loss

    result = score(list(rows), by="category", replicates=0)
    for category in "ABC":
        own = [row for row in rows if row["model"] == "blunt" and row["category"] == category]
        found = result.groups.row(
            by_predicate=(pl.col("group") == category) & (pl.col("forecaster") == "blunt") & (pl.col("metric") == "brier"), named=True
        )
        assert (found["by"], found["n"], found["value"]) == (
            "category",
            len(own),
            pytest.approx(
                brier_score_loss(
                    [row["outcome"] for row in own], [row["probability"] for row in own], sample_weight=[row["weight"] for row in own]
                ),
                abs=1e-14,
            ),
        )


def test_the_market_is_scored_as_a_forecaster(rows: Rows) -> None:
    from sklearn.metrics import brier_score_loss

    result = score(list(rows), replicates=0)
    once = {row["question_id"]: row for row in rows}.values()
    expected = brier_score_loss(
        [row["outcome"] for row in once], [row["market_price"] for row in once], sample_weight=[row["weight"] for row in once]
    )
    assert metric(result, "market", "brier")["value"] == pytest.approx(expected)
    assert metric(result, "market", "skill_vs_market")["value"] == pytest.approx(0)


def test_reliability_bins_are_those_of_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve

    generator = np.random.default_rng(4)
    p = generator.random(300)
    y = generator.random(300) < p
    found = score({"p": p, "y": y}, replicates=0).reliability.filter(pl.col("n") > 0)
    observed, forecast = calibration_curve(y, p, n_bins=10)
    assert found["yes_rate"].to_list() == pytest.approx(observed.tolist())
    assert found["mean_forecast"].to_list() == pytest.approx(forecast.tolist())


ROOT = Path(__file__).resolve().parents[2]
#: Metrics whose estimates are means, ratios of means, or functions of ranks alone.
ESTIMATES = ["brier", "log_loss", "accuracy", "roc_auc", "base_rate", "ece", "brier_skill", "skill_vs_half", "corp_miscalibration", "smece"]


def score_rows(rows: Sequence[Row]) -> ScoreResult:
    return score(list(rows), replicates=0)


def values(result: ScoreResult, columns: Sequence[str] = ("value",)) -> dict[str, list[float | None]]:
    return {row["metric"]: [row[name] for name in columns] for row in result.scores.iter_rows(named=True)}


def assert_alike(one: dict[str, list[float | None]], other: dict[str, list[float | None]], names: Sequence[str]) -> None:
    for name in names:
        assert other[name] == pytest.approx(one[name], abs=1e-9, nan_ok=True), name


def drawn(seed: int) -> list[dict[str, Any]]:
    """Draw up to 25 forecasts in up to six clusters."""
    draw = random.Random(seed)
    return [
        {"question_id": f"q{index}", "p": draw.randrange(21) / 20, "y": draw.randrange(2), "cluster": f"c{draw.randrange(6)}"}
        for index in range(draw.randrange(2, 26))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_of_two_is_the_forecast_twice_in_its_cluster(seed: int) -> None:
    sample = drawn(seed)
    twice = [*sample, *({**row, "question_id": f"{row['question_id']} again"} for row in sample)]
    one, other = values(score_rows(sample)), values(score_rows(twice))
    assert_alike(one, other, ESTIMATES)
    heavy = [{**row, "weight": 2.0 if row["y"] else 1.0} for row in sample]
    copied = [row for row in twice if row["y"] or "again" not in row["question_id"]]
    assert_alike(values(score_rows(heavy)), values(score_rows(copied)), ["brier", "log_loss", "base_rate", "ece"])


@pytest.mark.parametrize("seed", range(3))
def test_the_other_outcome_of_every_question_has_the_same_scores(seed: int) -> None:
    sample = drawn(seed)
    swapped = [{**row, "p": 1 - row["p"], "y": 1 - row["y"]} for row in sample]
    ends = ("value", "lower", "upper")
    one, other = values(score_rows(sample), ends), values(score_rows(swapped), ends)
    assert_alike(one, other, ["brier", "log_loss", "brier_skill", "roc_auc"])
    assert_alike({"x": one["brier_yes"], "y": one["brier_no"]}, {"x": other["brier_no"], "y": other["brier_yes"]}, ["x", "y"])


def test_the_order_of_the_rows_changes_nothing(rows: Sequence[Row], write: Write) -> None:
    orders = (rows, sorted(rows, key=lambda row: (row["day"], row["probability"])))
    first, second = (
        score(write(f"{index}/f.csv", some), by="category", cluster=["series", "day"], replicates=200).to_dict()
        for index, some in enumerate(orders)
    )
    assert first == second
