"""A KalshiBench results folder made of the recordings: every published number comes out, and the corrected ones are the known ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from bellwether.forecasting.parsing import compat as parser
from bellwether.kalshibench import Examination, ModelExamination, examine, read_labels, read_results
from cli.score import compat
from tests.real.kalshibench_folder import write_folder

pytestmark = pytest.mark.real

#: Brier, skill and ECE as published; answer-consistent with the labels as scored; and with own labels, with accuracy and n.
KNOWN = {
    "Claude-Opus-4.5": ((0.2269, 0.057, 0.120), (0.2170, 0.098, 0.106), (0.1975, 0.172, 0.087), 0.728, 283),
    "Kimi-K2": ((0.3473, -0.446, 0.298), (0.2373, 0.012, 0.143), (0.2215, 0.065, 0.127), 0.687, 275),
    "Qwen3-235B-Thinking": ((0.3459, -0.437, 0.297), (0.2619, -0.088, 0.186), (0.2370, 0.006, 0.147), 0.686, 283),
    "GPT-5.2-XHigh": ((0.4329, -0.799, 0.395), (0.2467, -0.025, 0.156), (0.2253, 0.055, 0.129), 0.689, 283),
    "DeepSeek-V3.2": ((0.3386, -0.407, 0.284), (0.2235, 0.071, 0.101), (0.2045, 0.142, 0.076), 0.675, 283),
}

#: 95 % series-cluster bootstrap interval of the corrected skill.
BY_SERIES = {"Claude-Opus-4.5": (0.06, 0.27), "DeepSeek-V3.2": (0.04, 0.23)}

BEST = "Claude-Opus-4.5"


@pytest.fixture(scope="module")
def data(recordings: Path) -> Path:
    return recordings / "kalshibench"


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kalshibench")
    write_folder(data, folder)
    return folder


@pytest.fixture(scope="module")
def examined(data: Path, folder: Path) -> Examination:
    return examine(read_results(folder), read_labels(data / "questions.parquet"))


def test_every_published_number_comes_out_to_the_last_bit(examined: Examination, data: Path) -> None:
    numbers = examined.numbers()
    published = pl.read_parquet(data / "published_metrics.parquet").filter(pl.col("decimals").is_null())
    assert numbers.height == published.height
    assert numbers.filter((pl.col("status") != "equal") & (pl.col("metric") != "ace")).rows(named=True) == []


def test_the_stored_sort_gives_the_published_ace_on_every_machine(folder: Path, data: Path) -> None:
    examined = examine(read_results(folder), read_labels(data / "predictions.parquet"))
    assert set(examined.numbers()["status"]) == {"equal"}
    assert not any(model.recomputation.ace_varies for model in examined.models)


def test_an_ace_that_this_machine_does_not_give_is_one_of_another_order_of_ties(examined: Examination) -> None:
    others = examined.numbers().filter(pl.col("status") != "equal")
    assert set(others["metric"]) <= {"ace"}
    assert set(others["status"]) <= {"ties"}
    assert all(model.recomputation.ace_range.explains(model.result.published["ace"]) for model in examined.models)


def test_own_labels_alone_give_the_published_numbers(folder: Path, data: Path, tmp_path: Path) -> None:
    """The outcome used is that of the last entry of an id; where that is known, ground_truth_scored is not needed."""
    path = tmp_path / "own.csv"
    pl.read_parquet(data / "questions.parquet").drop("ground_truth_scored").write_csv(path)
    numbers = examine(read_results(folder), read_labels(path)).numbers()
    assert numbers.filter((pl.col("status") != "equal") & (pl.col("metric") != "ace")).is_empty()


def test_the_three_columns_are_the_known_ones(examined: Examination) -> None:
    summary = {row["model"]: row for row in examined.summary().iter_rows(named=True)}
    for model, (published, consistent, corrected, accuracy, n) in KNOWN.items():
        if model not in summary:
            continue
        row = summary[model]
        for stage, expected in (("published", published), ("consistent", consistent), ("corrected", corrected)):
            found = [round(row[f"{name}_{stage}"], digits) for name, digits in (("brier", 4), ("brier_skill", 3), ("ece", 3))]
            assert found == pytest.approx(list(expected), abs=1e-12), (model, stage)
        assert round(row["accuracy_corrected"], 3) == accuracy
        assert row["n_corrected"] == n
    assert {*KNOWN} & {*summary}


def test_only_two_models_are_surely_better_than_the_base_rate(examined: Examination) -> None:
    surely = {
        row["model"]
        for row in examined.summary().iter_rows(named=True)
        if row["brier_skill_lower"] > 0 and "sampleA" in row["question_set"]
    }
    assert surely == {*BY_SERIES}
    for row in examined.summary().iter_rows(named=True):
        if "sampleA" in row["question_set"]:
            assert row["brier_skill_corrected"] > 0


def test_intervals_by_series_are_the_known_ones(folder: Path, data: Path) -> None:
    by_series = examine(read_results(folder), read_labels(data / "questions.parquet"), names=list(BY_SERIES), clusters="series").summary()
    for row in by_series.iter_rows(named=True):
        assert (row["brier_skill_lower"], row["brier_skill_upper"]) == pytest.approx(BY_SERIES[row["model"]], abs=0.025)


def test_intervals_take_whole_event_families_as_independent(examined: Examination) -> None:
    """Near a bootstrap of lists: families drawn with replacement, the skill of all their entries."""
    rng = np.random.default_rng(3)
    for row in examined.summary().iter_rows(named=True):
        entries = _entries(examined, row["model"]).filter(pl.col("true").is_not_null() & pl.col("predicted_answer").is_not_null())
        families: dict[str, list[tuple[float, float]]] = {}
        for ticker, p, outcome in entries.select("question_id", "p_consistent", "true").iter_rows():
            families.setdefault(ticker[:8], []).append((p, float(outcome == "yes")))
        groups = [np.array(group) for group in families.values()]
        skills = []
        for _ in range(2_000):
            p, y = np.concatenate([groups[index] for index in rng.integers(0, len(groups), len(groups))]).T
            skills.append(1 - np.mean((p - y) ** 2) / (np.mean(y) * (1 - np.mean(y))))
        assert (row["brier_skill_lower"], row["brier_skill_upper"]) == pytest.approx(np.quantile(skills, [0.025, 0.975]), abs=0.03)


def test_one_row_per_id_gives_255_of_300_own_labels(folder: Path, data: Path, tmp_path: Path) -> None:
    """The outcome of the last entry of each id, as the published scoring looked it up."""
    path = tmp_path / "by-id.csv"
    rows = pl.read_parquet(data / "questions.parquet").unique("question_id", keep="last", maintain_order=True)
    rows.select("question_id", ground_truth="ground_truth_scored").write_csv(path)
    examined = examine(read_results(folder), read_labels(path), replicates=0)
    for model in examined.models:
        assert model.labelled == 255
        assert model.consistent is not None
        assert model.consistent.n == model.findings.answered
    others = examined.numbers().filter(pl.col("status") != "equal")
    assert set(others.filter(pl.col("metric") != "ace")["needs"]) == {"column category"}


def test_shared_ids_are_neighbours_in_the_pool_of_the_sample(data: Path) -> None:
    """The sample is the beginning of a permutation: only with 715 questions in the pool do the two questions of a series come one after the other."""
    questions = pl.read_parquet(data / "questions.parquet").sort("entry_index")
    pairs = [
        places for places in questions.group_by("question_id", maintain_order=True).agg("entry_index")["entry_index"] if len(places) == 2
    ]
    adjacent = {}
    for size in range(300, 1_532):
        pool = np.random.RandomState(42).permutation(size)[:300]
        adjacent[size] = sum(abs(int(pool[first]) - int(pool[second])) == 1 for first, second in pairs)
    assert adjacent.pop(715) == 44
    assert len(pairs) == 45
    assert max(adjacent.values()) < 30


def test_no_difference_from_the_best_survives_holm(examined: Examination) -> None:
    pairs = next(comparison for name, comparison in examined.comparisons().items() if "sampleA" in name).pairs
    against = {
        row["other"] if row["forecaster"] == BEST else row["forecaster"]: row
        for row in pairs.iter_rows(named=True)
        if BEST in (row["forecaster"], row["other"])
    }
    smallest = min(against, key=lambda name: against[name]["p"])
    assert smallest == "Qwen3-235B-Thinking"
    assert against[smallest]["p"] == pytest.approx(0.023, abs=0.01)
    assert against["DeepSeek-V3.2"]["p"] == pytest.approx(0.47, abs=0.03)
    assert min(row["p_holm"] for row in against.values()) > 0.05


def test_defects_are_counted_as_known(examined: Examination) -> None:
    found = {model.name: model.findings for model in examined.models}
    xhigh, kimi = found["GPT-5.2-XHigh"], found["Kimi-K2"]
    assert (xhigh.inverted, xhigh.no_answers) == (230, 231)
    assert (kimi.unparsed, kimi.fallback, kimi.unflipped) == (8, 5, 3)
    assert {name: model.certain for name, model in found.items() if model.certain and name in KNOWN} == {
        "DeepSeek-V3.2": 1,
        "Qwen3-235B-Thinking": 3,
    }
    for name, model in found.items():
        assert model.misread == 0, name
        assert model.overwritten == 300 - len(set(_entries(examined, name)["question_id"])), name


def test_readings_are_the_recorded_ones(examined: Examination, data: Path) -> None:
    recorded = pl.read_parquet(data / "predictions.parquet").sort("model", "entry_index")
    for model in examined.models:
        rows = recorded.filter(pl.col("model") == model.name)
        assert model.entries["p_consistent"].to_list() == rows["p_yes_answer_consistent"].to_list(), model.name
        assert (model.entries["path"] == "compat_tag").to_list() == (rows["answer_source"] == "tag").to_list(), model.name


def test_every_raw_response_reads_as_published(data: Path) -> None:
    rows = pl.read_parquet(data / "responses.parquet").select("raw_output", "expected_answer", "expected_p_yes", "expected_reasoning")
    assert rows.height
    for text, answer, p_yes, reasoning in rows.iter_rows():
        read = parser.read(text)
        assert read.answer == answer
        assert read.answer is None or read.p_yes == p_yes
        assert (read.reasoning or "") == (reasoning or "")


def test_the_command_prints_the_corrected_numbers(folder: Path, data: Path) -> None:
    done = CliRunner().invoke(compat, [str(folder), "--labels", str(data / "questions.parquet"), "--json", "--replicates", "200"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    for name, model in document["models"].items():
        if name in KNOWN:
            assert round(model["corrected"]["metrics"]["brier"]["value"], 4) == KNOWN[name][2][0]


def test_the_page_shows_what_is_computed(examined: Examination) -> None:
    """docs/kalshibench.md: scores with intervals, counts of defects, and the differences from the best."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "kalshibench.md").read_text(encoding="utf-8")
    lines = {line for line in page.splitlines() if line.startswith("|")}
    models = {model.name: model for model in examined.models if model.name in KNOWN}
    assert models
    for name, model in models.items():
        assert _line_of_scores(model) in lines
        found = model.findings
        inverted = f"{found.inverted} of {found.no_answers}"
        assert f"| {name} | {found.unparsed} | {inverted} | {found.unflipped} | {found.certain} | {found.overwritten} |" in lines
    if {model.name for model in examined.models} == {*KNOWN}:
        pairs = next(iter(examined.comparisons().values())).pairs.filter(pl.col("forecaster") == BEST)
        for row in pairs.iter_rows(named=True):
            assert f"| {row['other']} | {-row['difference']:.4f} | {row['p']:.2f} | {row['p_holm']:.2f} |" in lines


def _line_of_scores(model: ModelExamination) -> str:
    published = model.result.published
    before = f"{published['brier_score']:.4f} / {published['brier_skill_score']:+.3f} / {published['ece']:.3f}"
    assert model.consistent is not None
    assert model.corrected is not None
    same = model.consistent
    between = f"{same['brier'].value:.4f} / {same['brier_skill'].value:+.3f} / {same['ece'].value:.3f}"
    after = []
    for metric, digits, sign in (("brier", 4, ""), ("brier_skill", 3, "+")):
        one = model.corrected[metric]
        after.append(f"{one.value:{sign}.{digits}f} [{one.lower:{sign}.2f}, {one.upper:{sign}.2f}]")
    ece = model.corrected["ece"]
    after.append(f"{ece.value:.3f} ({ece.p_calibrated:.3f})")
    accuracy = f"{model.corrected['accuracy'].value:.3f}"
    return f"| {' | '.join([model.name, before, between, *after, accuracy, str(model.corrected.n)])} |"


def _entries(examined: Examination, name: str) -> pl.DataFrame:
    return next(model.entries for model in examined.models if model.name == name)
