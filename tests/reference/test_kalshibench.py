"""A complete folder of KalshiBench: twelve models, two samples of questions, and numbers of a second implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.kalshibench import Examination, Labels, examine, read_labels, read_results
from tests.reference.kalshibench import TIERS, A, B, World, world

OF_A = [name for cutoff, models in TIERS.values() if cutoff == A for name in models]
OF_B = [name for cutoff, models in TIERS.values() if cutoff == B for name in models]
STATUSES = ["equal", "differs", "ties", "not recomputed"]

Given = Callable[..., Labels]


@pytest.fixture(scope="module")
def original() -> World:
    """Twelve models in three tiers, as KalshiBench publishes them."""
    return world()


@pytest.fixture(scope="module")
def twelve(original: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all twelve models."""
    return original.write(tmp_path_factory.mktemp("twelve"))


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """Return labels read from a file with these rows."""

    def given(rows: list[dict[str, Any]] | pl.DataFrame) -> Labels:
        path = tmp_path / "labels.parquet"
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(path)
        return read_labels(path)

    return given


def examined(folder: Path, labels: Labels | None = None, **options: Any) -> Examination:
    return examine(read_results(folder), labels, replicates=0, **options)


def with_sort(original: World, *cutoffs: str) -> list[dict[str, Any]]:
    """Return the labels of each model's entries with the bins of its published ACE."""
    rows = []
    for cutoff, models in TIERS.values():
        for model in models if cutoff in cutoffs else ():
            bins = original.ace_bins[model]
            rows += [row | {"model": model, "ace_bin": one} for row, one in zip(original.labels(cutoff), bins, strict=True)]
    return rows


def status(examination: Examination, *names: str) -> pl.DataFrame:
    return examination.numbers().filter(pl.col("model").is_in(names))


@pytest.mark.parametrize("names", [OF_A, OF_B])
def test_every_number_of_all_twelve_models_comes_out_to_the_last_bit(twelve: Path, original: World, given: Given, names: list[str]) -> None:
    numbers = examined(twelve, given(with_sort(original, A, B)), names=names).numbers()
    assert set(numbers["model"]) == set(names)
    assert numbers.filter(pl.col("status") != "equal").rows() == []


def test_without_the_published_sort_only_ace_depends_on_ties(twelve: Path, original: World, given: Given) -> None:
    """The published machine sorted ties in reverse of any stable sort."""
    numbers = examined(twelve, given(original.labels(A, B)), names=[*OF_A[:3], *OF_B[:3]]).numbers()
    others = numbers.filter(pl.col("status") != "equal")
    assert set(others["status"]) == {"ties"}
    assert set(others["metric"]) == {"ace"}


def test_an_ace_that_no_order_of_ties_gives_differs(original: World, given: Given, tmp_path: Path) -> None:
    model = "tier1_flagships/claude_opus_4.5_20251217_023819.json"
    wrong = World(files={model: original.files[model] | {"ace": 0.5}}, samples=original.samples)
    numbers = examined(wrong.write(tmp_path / "wrong"), given(original.labels(A))).numbers()
    assert numbers.filter(pl.col("status") != "equal").select("metric", "status").rows() == [("ace", "differs")]


def test_each_published_number_has_one_status_and_they_add_up(twelve: Path, original: World, given: Given) -> None:
    found = examined(twelve, given(original.labels(A)))
    published = sum(1 for _ in found.numbers().iter_rows())
    for by, groups in (((), 1), (("model",), 12), (("source",), 14)):
        counts = found.counts(*by)
        assert counts.height == groups
        assert counts["total"].sum() == published
        assert counts.select(pl.sum_horizontal(STATUSES) == pl.col("total")).to_series().all()
    without = found.numbers().filter(pl.col("status") == "not recomputed")
    assert without["reason"].null_count() == 0
    assert found.numbers().filter(pl.col("status") != "not recomputed")["reason"].null_count() == published - without.height


def test_one_missing_label_costs_only_the_numbers_that_need_it(twelve: Path, original: World, given: Given) -> None:
    """One label is null. Only its bin, its category and the means over all entries are undetermined."""
    rows = original.labels(A)
    once = next(row for row in rows if [one["question_id"] for one in rows].count(row["question_id"]) == 1)
    once["ground_truth_true"] = None
    numbers = status(examined(twelve, given(rows)), *OF_A)
    lacking = numbers.filter(pl.col("status") == "not recomputed")
    assert lacking["reason"].str.contains(f"one entry without label, '{once['question_id']}'", literal=True).all()
    groups = lacking.filter(pl.col("metric").str.contains(r"\["))
    assert set(groups.filter(pl.col("metric").str.starts_with("category["))["metric"]) == {
        f"category[{once['category']}].{name}" for name in ("accuracy", "brier_score")
    }
    bins = groups.filter(pl.col("metric").str.starts_with("reliability["))
    assert bins.group_by("model").len()["len"].max() == 1
    assert bins["metric"].str.ends_with(".avg_accuracy").all()
    assert set(numbers.filter(pl.col("status") == "differs")["metric"]) == set()


def test_a_missing_row_leaves_the_categories_that_are_whole_by_their_published_count(twelve: Path, original: World, given: Given) -> None:
    """Without its row, the entry's category is unknown. The published counts exclude the complete categories."""
    rows = original.labels(A)
    ids = [row["question_id"] for row in rows]
    gone = next(row for row in rows if ids.count(row["question_id"]) == 1)
    numbers = status(examined(twelve, given([row for row in rows if row is not gone])), "Claude-Opus-4.5")
    scores = numbers.filter(pl.col("metric").str.contains(r"^category.*(accuracy|brier_score)$"))
    assert set(scores.filter(pl.col("metric").str.contains(gone["category"], literal=True))["status"]) == {"not recomputed"}
    assert set(scores.filter(~pl.col("metric").str.contains(gone["category"], literal=True))["status"]) == {"equal"}
    counts = numbers.filter(pl.col("metric").str.contains(r"^category.*count$"))
    assert set(counts["needs"]) == {"categories"}


def test_one_row_per_id_uses_every_entry_whose_label_is_certain(twelve: Path, original: World, given: Given) -> None:
    """270 ids of 300 entries. Scored outcomes are known for all entries; own outcomes for all but 30 whose id a later entry overwrote."""
    rows = pl.DataFrame(original.labels(A)).unique("question_id", keep="last", maintain_order=True)
    for columns in ([], ["entry_index"], ["entry_index", "question_set"]):
        model = examined(twelve, given(rows.drop(columns)), names=["Claude-Opus-4.5"]).models[0]
        assert model.corrected is not None
        assert model.consistent is not None
        assert (model.consistent.n, model.corrected.n) == (300, 270)
        own = [one.outcome for one in original.samples[A]]
        assert all(label in {None, outcome} for label, outcome in zip(model.entries["true"], own, strict=True))
        assert set(model.numbers()["status"]) <= {"equal", "ties"}


def test_labels_of_another_sample_are_used_only_where_they_are_certain(twelve: Path, original: World, given: Given) -> None:
    """A label is certain if sample A has both questions of the id with one outcome. An id that occurs once in both samples may be two
    questions.
    """
    found = examined(twelve, given(original.labels(A)), names=OF_B)
    asked, other = original.samples[B], original.samples[A]
    own = [one.outcome for one in asked]
    in_a = {one.id: [row for row in other if row.id == one.id] for one in asked}
    certain = [len(in_a[one.id]) == 2 and len({row.outcome for row in in_a[one.id]}) == 1 for one in asked]
    assert sum(certain) > 10
    misleading = [one for one in asked if len(in_a[one.id]) == 1 and in_a[one.id][0].outcome != one.outcome]
    assert misleading
    for model in found.models:
        assert model.entries["true"].to_list() == [outcome if known else None for outcome, known in zip(own, certain, strict=True)]
        assert model.question_set is None
        assert model.borrowed
        assert model.corrected is not None
        assert model.corrected.n <= model.labelled == sum(certain)
        assert not model.numbers().filter(pl.col("status") == "differs").height
    assert found.comparisons() == {}


def test_two_questions_with_different_outcomes_settle_nothing(original: World, given: Given, tmp_path: Path) -> None:
    rows = original.labels(A)
    for row in rows:  # every series with two questions in A has one yes and one no
        both = [one for one in rows if one["question_id"] == row["question_id"]]
        if len(both) == 2:
            both[0]["ground_truth_true"], both[1]["ground_truth_true"] = "yes", "no"
    found = examined(original.write(tmp_path / "results", "tier2_reasoning"), given(rows))
    assert all(model.corrected is None for model in found.models)
    assert all("another sample" in str(model.unlabelled) for model in found.models)


def test_questions_without_a_series_are_never_taken_for_one_another(original: World, given: Given, tmp_path: Path) -> None:
    rows = original.labels(A)
    model = "tier2_reasoning/o1_20251217_023819.json"
    document = original.files[model]
    predictions = [row | {"question_id": "kalshi_unknown"} if index < 20 else row for index, row in enumerate(document["predictions"])]
    for row in rows[:2]:
        row |= {"question_id": "kalshi_unknown", "ground_truth_true": "yes"}
    folder = World(files={model: document | {"predictions": predictions}}).write(tmp_path / "results")
    assert examined(folder, given(rows)).models[0].entries["true"][:20].null_count() == 20


def test_the_whole_data_set_labels_both_samples_where_its_questions_agree(twelve: Path, original: World, given: Given) -> None:
    """For a series with two questions, the data set gives only what they have in common, not which one was in the sample."""
    both = {one.number: one for cutoff in (A, B) for one in original.samples[cutoff]}
    rows = [{"question_id": one.id, "category": one.category, "ground_truth": one.outcome} for _, one in sorted(both.items())]
    found = examined(twelve, given(rows), names=[*OF_A[:3], *OF_B[:3]])
    assert len(found.models) == 6
    for model in found.models:
        asked = original.samples[A if model.name in OF_A else B]
        own = [one.outcome for one in asked]
        assert all(label in {None, outcome} for label, outcome in zip(model.entries["true"], own, strict=True))
        assert model.labelled > 230
        assert not model.numbers().filter(pl.col("status") == "differs").height


def test_models_on_the_same_questions_are_compared_and_no_others(twelve: Path, original: World, given: Given) -> None:
    one_set = pl.DataFrame(with_sort(original, A, B)).drop("question_set")  # by model, and without the name of a set
    comparisons = examined(twelve, given(one_set)).comparisons()
    compared = [{*one.pairs["forecaster"], *one.pairs["other"]} for one in comparisons.values()]
    assert compared == [set(OF_A), set(OF_B)]


@pytest.mark.parametrize("clusters", ["family", "series"])
def test_clusters_of_a_model_are_families_or_series(twelve: Path, original: World, given: Given, clusters: str) -> None:
    (model,) = examined(twelve, given(original.labels(A)), names=OF_A[:1], clusters=clusters).models
    assert model.corrected is not None
    assert model.corrected.n_clusters == len({one.id[: 8 if clusters == "family" else None] for one in original.samples[A]})


@pytest.mark.nightly
def test_intervals_and_pairs_have_the_same_clusters(twelve: Path, original: World, given: Given) -> None:
    labels = given(original.labels(A))
    counts = {}
    for clusters in ("family", "series"):
        found = examined(twelve, labels, names=OF_A, clusters=clusters)
        scores = found.models[0].corrected
        assert scores is not None
        counts[clusters] = scores.n_clusters
        pairs = found.comparisons()[A].pairs
        # Series in which two models agree on every question do not count for the pair.
    assert 0.95 * scores.n_clusters < pairs["n_clusters"].max() <= scores.n_clusters
    families = len({one.id[:8] for one in original.samples[A]})
    assert counts == {"family": families, "series": len({one.id for one in original.samples[A]})}
    assert counts["family"] < counts["series"]
    assert examined(twelve, labels, names=OF_A[:1]).models[0].corrected.n_clusters == families  # type: ignore[union-attr]
