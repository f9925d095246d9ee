"""All numbers of `score`, compared with plain Python, scikit-learn, scoringrules and SciPy, for every input format."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.special import expit, logit
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from bellwether.scoring import ScoreResult, score
from tests.numpy_only import scoringrules
from tests.scoring.conftest import Row, Write

Rows = Sequence[Row]


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


def satterthwaite(sizes: Sequence[float]) -> float:
    """Compute Satterthwaite's degrees of freedom of a mean over clusters of these sizes, with the matrices of Bell and McCaffrey (2002).

    The working model has independent errors. The variance estimate is the sum of squares of the clusters' residuals over sqrt(1 - share).
    """
    size = np.asarray(sizes, dtype=float)
    share = size / size.sum()
    count = len(size)
    errors = np.diag(size)  # covariance of the sums of independent errors
    residual = np.eye(count) - np.outer(share, np.ones(count))  # of each cluster's sum: own sum less its share of the total
    adjusted = np.diag(1 / np.sqrt(1 - share)) @ residual
    covariance = adjusted @ errors @ adjusted.T
    return float(min(np.trace(covariance) ** 2 / np.square(covariance).sum(), count - 1))


def jackknife_interval(
    rows: Rows, value: Callable[[Rows], float], to: Callable[[float], float], back: Callable[[float], float], clusters: Sequence[str]
) -> tuple[float, float]:
    """Compute Student's t interval of a metric on a scale from the jackknife over clusters; two-way by Cameron, Gelbach and Miller."""
    at = to(value(rows))

    def variance(key: Callable[[Row], Any]) -> tuple[float, float]:
        groups = defaultdict(list)
        for row in rows:
            groups[key(row)].append(row)
        changes = [to(value([row for row in rows if key(row) != group])) - at for group in groups]
        return sum(change**2 for change in changes), satterthwaite([sum(row["weight"] for row in group) for group in groups.values()])

    ways = [variance(lambda row, name=name: row[name]) for name in clusters]  # type: ignore[misc]
    total = ways[0][0]
    if len(ways) == 2:
        both, _ = variance(lambda row: tuple(row[name] for name in clusters))
        total = max(ways[0][0] + ways[1][0] - both, ways[0][0], ways[1][0])
    reach = stats.t.ppf(0.975, min(df for _, df in ways)) * math.sqrt(total)
    ends = sorted(back(at + sign * reach) for sign in (-1, 1))
    return ends[0], ends[1]


def weighted(rows: Rows, *, use: bool) -> list[dict[str, Any]]:
    return [{**row, "weight": row["weight"] if use else 1.0} for row in rows]


def check(result: ScoreResult, rows: Rows, *, weights: bool) -> None:
    """Compare every number of `result` on these rows with its second computation."""
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


def brier_of(rows: Rows) -> float:
    return mean([(row["probability"] - row["outcome"]) ** 2 for row in rows], [row["weight"] for row in rows])


def without_weight(rows: Rows) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "weight"} for row in rows]


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
def test_the_interval_of_the_brier_score_is_the_jackknife_t_written_out(clusters: tuple[str, ...], weights: bool, rows: Rows) -> None:
    own = [row for row in weighted(rows, use=weights) if row["model"] == "sharp"]
    result = score(own, cluster=clusters, replicates=0)
    found = metric(result, "sharp", "brier")
    if len(clusters) == 1:
        expected = jackknife_interval(own, brier_of, logit, expit, clusters)
        assert (found["lower"], found["upper"]) == pytest.approx(expected, rel=1e-9)
        return
    # With two-way clusters the smaller number counts. Twelve days are fewer than 20 clusters, so the interval is at least the jackknife's.
    lower, upper = jackknife_interval(own, brier_of, logit, expit, clusters)
    assert found["lower"] <= lower * (1 + 1e-9) and found["upper"] >= upper * (1 - 1e-9)
    assert result.n_clusters == 12


def test_two_way_intervals_with_many_clusters_are_the_jackknife_t_written_out() -> None:
    generator = np.random.default_rng(3)
    rows = [
        {
            "p": round(float(generator.random()), 3),
            "outcome": int(generator.random() < 0.4),
            "a": f"a{generator.integers(25)}",
            "b": f"b{index % 22}",
        }
        for index in range(150)
    ]
    found = metric(score(rows, cluster=["a", "b"], replicates=0), "p", "brier")
    second = [{**row, "probability": row["p"], "weight": 1.0} for row in rows]
    assert (found["lower"], found["upper"]) == pytest.approx(jackknife_interval(second, brier_of, logit, expit, ("a", "b")), rel=1e-9)


def test_the_interval_of_the_skill_against_the_market_is_the_jackknife_t_of_the_logarithm_of_the_ratio(rows: Rows) -> None:
    own = [row for row in rows if row["model"] == "blunt"]

    def ratio(some: Rows) -> float:
        w = [row["weight"] for row in some]
        ours, theirs = (mean([(row[name] - row["outcome"]) ** 2 for row in some], w) for name in ("probability", "market_price"))
        return ours / theirs

    found = metric(score(own, cluster="question_id", replicates=0), "blunt", "skill_vs_market")
    low, high = jackknife_interval(own, ratio, math.log, math.exp, ("question_id",))
    assert (found["lower"], found["upper"]) == pytest.approx((1 - high, 1 - low), rel=1e-9)


def test_the_interval_of_a_paired_difference_holds_students_t_with_cr3() -> None:
    """The interval is the union with Hall's interval, which moves the ends a little."""
    generator = np.random.default_rng(5)
    rows = [
        {"q": i, "p_a": float(generator.random()), "p_b": float(generator.random()), "y": int(generator.random() < 0.5)} for i in range(80)
    ]
    result = score(rows, question="q", replicates=0)
    pair = result.pairs.row(0, named=True)
    difference = np.array([(row["p_a"] - row["y"]) ** 2 - (row["p_b"] - row["y"]) ** 2 for row in rows])
    # CR3 of a mean of independent values: the sum of squared residuals over (1 - 1/n)^2, divided by n^2.
    error = math.sqrt((np.square((difference - difference.mean()) / (1 - 1 / 80)).sum()) / 80**2)
    assert pair["standard_error"] == pytest.approx(error, rel=1e-12)
    reach = stats.t.ppf(0.975, 79) * error
    assert pair["lower"] <= difference.mean() - reach * (1 - 1e-12) and pair["upper"] >= difference.mean() + reach * (1 - 1e-12)
    assert (pair["upper"] - pair["lower"]) < 2.2 * reach


def test_groups_are_scored_as_their_rows_alone(rows: Rows) -> None:
    result = score(list(rows), by="category", replicates=0)
    for category in "ABC":
        own = [row for row in rows if row["model"] == "blunt" and row["category"] == category]
        found = result.groups.row(
            by_predicate=(pl.col("group") == category) & (pl.col("forecaster") == "blunt") & (pl.col("metric") == "brier"), named=True
        )
        assert (found["by"], found["n"], found["value"]) == ("category", len(own), pytest.approx(brier_of(own), abs=1e-14))


def test_the_market_is_scored_as_a_forecaster(rows: Rows) -> None:
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
