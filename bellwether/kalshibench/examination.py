"""Examination of published results: for each model the published, recomputed and corrected numbers, and comparisons between models."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from bellwether.calibration import Comparison, Scores
from bellwether.calibration.compat import Number
from bellwether.errors import ConfigError
from bellwether.kalshibench.interpretations import DefectCounts, count_defects, interpret_entries
from bellwether.kalshibench.labels import ClusterUnit, Labels, read_own_labels
from bellwether.kalshibench.matching import EntryLabels, build_empty_labels
from bellwether.kalshibench.recomputation import ABSENT, NO_LABELS, Recomputation, RecomputationStatus, recompute, recompute_strict
from bellwether.kalshibench.results import ModelResult, Results
from bellwether.kalshibench.scoring import IntervalPlan, compare_models, compute_strict, read_interval, score_entries

_NUMBERS = {
    "model": pl.String(),
    "source": pl.String(),
    "metric": pl.String(),
    "published": pl.Float64(),
    "recomputed": pl.Float64(),
    "difference": pl.Float64(),
    "status": pl.String(),
    "needs": pl.String(),
    "reason": pl.String(),
}


@dataclass(frozen=True, slots=True, eq=False)
class ModelExamination:
    """Published, recomputed and corrected numbers of one model.

    result: the result file. question_set: question set of its labels; None without labels, or if they belong to another set.
    unlabelled: reason why no entry has a label, None if some have one.
    entries: predictions in their order, with their interpretations and labels (category, series, family, true, scored, ace_bin; null if unknown).
    recomputation: the recomputed published numbers, and the reasons for missing ones.
    consistent: strict scores of the answer-consistent reading with the labels as scored. corrected: strict scores with each entry's own label. Both
    cover the entries with that label, and are None if no entry has one.
    """

    result: ModelResult
    question_set: str | None
    unlabelled: str | None
    entries: pl.DataFrame
    recomputation: Recomputation
    findings: DefectCounts
    consistent: Scores | None
    corrected: Scores | None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.result.name

    @property
    def labelled(self) -> int:
        """Number of entries (predictions of the model) with a known outcome of their own. The outcome of another entry with the same id does not count."""
        return self.entries["true"].count()

    @property
    def borrowed(self) -> bool:
        """True if the labels come from another question set, so that the corrected scores cover few entries and are not comparable."""
        return self.question_set is None and self.unlabelled is None

    @property
    def recomputed(self) -> Mapping[str, Number]:
        """Recomputed values of the published numbers, by name."""
        return self.recomputation.numbers

    def numbers(self) -> pl.DataFrame:
        """Return a row for every number of the result file: model, source, metric, published, recomputed, difference (recomputed -
        published), status, needs, reason.

        The status is a `RecomputationStatus`; needs and reason state why a number is not recomputed.
        """
        return _numbers(self.name, self.result.source, self.result.published, self.recomputation)


@dataclass(frozen=True, eq=False)
class Examination:
    """Examination of the models in a results folder.

    labels: source of the labels, None without any. names: the requested models, empty for all.
    """

    results: Results
    labels: str | None
    models: Sequence[ModelExamination]
    plan: IntervalPlan = field(default_factory=IntervalPlan)
    names: Sequence[str] = ()

    def numbers(self) -> pl.DataFrame:
        """Return a row for every number of result files and summaries, with the columns of `ModelExamination.numbers`. Summaries may
        include models that have no file.
        """
        return self._numbers

    @cached_property
    def _numbers(self) -> pl.DataFrame:
        frames = [model.numbers() for model in self.models]
        recomputations = {model.name: model.recomputation for model in self.models}
        for name, source, numbers in self.results.summaries:
            if not self.names or name in self.names:
                frames.append(_numbers(name, source, numbers, recomputations.get(name, ABSENT)))
        return pl.concat(frames)

    def counts(self, *by: str) -> pl.DataFrame:
        """Count published numbers by status: the total, and a column per status. by: columns (model, source); one row per combination of
        their values.
        """
        numbers = self.numbers()
        of = [(pl.col("status") == status).sum().cast(pl.Int64).alias(status.value) for status in RecomputationStatus]
        counted = [pl.len().cast(pl.Int64).alias("total"), *of]
        return numbers.group_by(*by, maintain_order=True).agg(*counted) if by else numbers.select(*counted)

    def counts_with_needs(self, *by: str) -> list[dict[str, Any]]:
        """Return the rows of `counts` as dicts with the key `needs`: missing input -> number of published numbers not recomputed because of
        it.
        """
        rows = self.counts(*by).to_dicts()
        without = self.numbers().filter(pl.col("status") == RecomputationStatus.NOT_RECOMPUTED)
        for row in rows:
            of_row = without.filter(*(pl.col(name) == row[name] for name in by))
            row["needs"] = dict(of_row.group_by("needs", maintain_order=True).len().iter_rows())
        return rows

    def summary(self) -> pl.DataFrame:
        """Return Brier score, skill, ECE and accuracy per model: as published, consistent with the model's answers (same labels), and
        corrected, with an interval.
        """
        return pl.DataFrame([_summary(model) for model in self.models], infer_schema_length=None)

    def findings(self) -> pl.DataFrame:
        """Return a row per model with the counts of defects in the published scoring (`DefectCounts`)."""
        return pl.DataFrame([{"model": model.name, **asdict(model.findings)} for model in self.models], infer_schema_length=None)

    def comparisons(self) -> Mapping[str, Comparison]:
        """Return for each question set the pairwise comparison of its models, on corrected Brier scores.

        They use the same clusters as the intervals. Question sets with one model are left out, and so are models without labels of their own set.
        """
        return self._comparisons

    @cached_property
    def _comparisons(self) -> Mapping[str, Comparison]:
        return {
            name: compare_models({model.name: model.entries for model in models}, self.plan)
            for name, models in _by_questions(self.models)
            if len(models) > 1
        }


def examine(
    results: Results,
    labels: Labels | None = None,
    *,
    names: Sequence[str] = (),
    replicates: int = IntervalPlan().replicates,
    seed: int = IntervalPlan().seed,
    clusters: ClusterUnit | str = ClusterUnit.FAMILY,
) -> Examination:
    """Recompute the published numbers of models, and correct the scores. labels: outcomes, by default those in the result files. names:
    models, by default all.

    Numbers that the labels do not determine are left out with a reason. Without labels, only numbers that need no outcome are recomputed, and
    none is corrected. Raises `ConfigError` for an unknown name and for labels without any id of the results, `ScoringError` for predictions
    that cannot be scored.
    """
    for name in names:
        _check_name(results, name)
    plan = IntervalPlan(replicates, seed, ClusterUnit(clusters))
    chosen = [model for model in results.models if not names or model.name in names]
    if labels is not None:
        _check_labels(labels, chosen)
    examined = [_examine(model, labels or read_own_labels(model), plan) for model in chosen]
    within = any(model.unlabelled is None for model in examined)
    source = labels.source if labels is not None else "the result files" if within else None
    return Examination(results, source, examined, plan, names)


def _check_name(results: Results, name: str) -> None:
    names = results.names()
    if name in names:
        return
    by_case = {known.casefold(): known for known in names}
    near = [by_case[match] for match in difflib.get_close_matches(name.casefold(), by_case, n=3)]
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else f"; there are {', '.join(names)}"
    unread = f" ({len(results.damaged)} files could not be read)" if results.damaged else ""
    raise ConfigError(f"examining {results.folder}: there is no model {name!r}{unread}{meant}")


def _check_labels(labels: Labels, models: Sequence[ModelResult]) -> None:
    labelled = set(labels.frame["question_id"])
    if not any(labelled & set(model.predictions["question_id"]) for model in models):
        first = models[0].predictions["question_id"][0]
        raise ConfigError(
            f"labelling {models[0].source}: {labels.source} has no label of any id asked, such as {first!r}; give the labels of these results"
        )


def _examine(model: ModelResult, labels: Labels | None, plan: IntervalPlan) -> ModelExamination:
    read = interpret_entries(model.predictions.drop("ground_truth", "category", "cluster"), ambiguous=not model.is_ours)
    matched, unlabelled = _entry_labels(model, labels)
    entries = pl.concat([read, matched.rows], how="horizontal")
    consistent = score_entries(entries, "scored", plan) if entries["scored"].count() else None
    recomputation = recompute(model, entries, unlabelled=unlabelled, categorised=labels is not None and labels.categorised)
    if model.is_ours and consistent is not None and not _lacking(entries):
        recomputation = recompute_strict(recomputation, compute_strict(entries, consistent))
    return ModelExamination(
        result=model,
        question_set=matched.question_set,
        unlabelled=unlabelled,
        entries=entries,
        recomputation=recomputation,
        findings=count_defects(entries, labelled=unlabelled is None),
        consistent=consistent,
        corrected=score_entries(entries, "true", plan) if entries["true"].count() else None,
    )


def _entry_labels(model: ModelResult, labels: Labels | None) -> tuple[EntryLabels, str | None]:
    """Return the labels of a model's entries (predictions), and, if no entry has one, the reason."""
    nothing = build_empty_labels(model.predictions["question_id"])
    if labels is None:
        return nothing, NO_LABELS
    try:
        matched = labels.of(model)
    except ConfigError as error:
        return nothing, str(error)
    if matched.question_set is None and not matched.rows["true"].count():
        first = model.predictions["question_id"][0]
        return matched, (
            f"needs labels of its own questions: by their ids those of {labels.source} are of another sample, and certain for no entry, first "
            f"{first!r}; if they are of these questions, add entry_index"
        )
    return matched, None


def _lacking(entries: pl.DataFrame) -> bool:
    """Return True if the outcome that scoring used is unknown for any answered entry."""
    return entries.filter(pl.col("predicted_answer").is_not_null())["scored"].null_count() > 0


def _numbers(model: str, source: str, published: Mapping[str, Number], recomputation: Recomputation) -> pl.DataFrame:
    rows = []
    for metric, value in published.items():
        ours = recomputation.numbers.get(metric)
        status, reason = recomputation.judge(metric, value)
        difference = None if ours is None or value is None else float(ours) - float(value)
        why = (None, None) if reason is None else (reason.needs, reason.text)
        rows.append((model, source, metric, value, ours, difference, status.value, *why))
    return pl.DataFrame(rows, schema=_NUMBERS, orient="row")


def _by_questions(models: Sequence[ModelExamination]) -> Iterator[tuple[str, list[ModelExamination]]]:
    """Yield (name of a question set, its models that have corrected scores)."""
    # Models of KalshiBench share a set if their ids are equal and in the same order.
    sets: dict[tuple[str, ...], list[ModelExamination]] = {}
    for model in models:
        if model.corrected is not None and model.question_set is not None:
            ids = () if model.result.is_ours else tuple(model.entries["question_id"])
            sets.setdefault((model.question_set, *ids), []).append(model)
    names = [name for name, *_ in sets]
    for index, ((name, *_), members) in enumerate(sets.items()):
        yield (f"{name} ({names[: index + 1].count(name)})" if names.count(name) > 1 else name), members


def _summary(model: ModelExamination) -> dict[str, object]:
    row: dict[str, object] = {"model": model.name, "question_set": model.question_set, "partial": model.borrowed}
    short = {"brier": "brier_score", "brier_skill": "brier_skill_score", "ece": "ece", "accuracy": "accuracy"}
    for name, published in short.items():
        value = model.result.published.get(published)
        row[f"{name}_published"] = None if value is None else float(value)
    for stage, scores in (("consistent", model.consistent), ("corrected", model.corrected)):
        for name in short:
            row[f"{name}_{stage}"] = read_interval(scores, name).value
        row[f"n_{stage}"] = None if scores is None else scores.n
    for name in short:
        ends = read_interval(model.corrected, name)
        row |= {f"{name}_lower": ends.lower, f"{name}_upper": ends.upper}
    row["coverage"] = read_interval(model.corrected, "coverage").value
    row["n_entries"] = model.entries.height
    return row
