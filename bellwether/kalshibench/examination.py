"""Published, recomputed and corrected numbers of every model of a results folder, and the comparison of the models with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import polars as pl

from bellwether.calibration import Bootstrap, Scores, compat, evaluate, reliability_bins
from bellwether.calibration.comparison import PERMUTATIONS, Comparison, compare
from bellwether.calibration.compat import Number
from bellwether.errors import ConfigError
from bellwether.forecasting.parsing import compat as compat_parser
from bellwether.kalshibench.labels import Given, Labels, labels_within
from bellwether.kalshibench.readings import read_entries
from bellwether.kalshibench.results import ModelResult, Results

#: Published name -> name of the strict metric that corrects it.
CORRECTED_BY: dict[str, str] = {
    **{name: name for name in ("accuracy", "precision_yes", "recall_yes", "f1_yes", "precision_no", "recall_no", "f1_no", "macro_f1")},
    "brier_score": "brier",
    "brier_skill_score": "brier_skill",
    **{name: name for name in ("log_loss", "ece", "mce", "ace")},
    "avg_confidence": "average_confidence",
    "avg_confidence_when_correct": "confidence_when_correct",
    "avg_confidence_when_wrong": "confidence_when_wrong",
    **{f"overconfidence_rate_{percent}": f"overconfidence_{percent}" for percent in ("70", "80", "90")},
}

NO_LABELS = "needs labels: the result files hold no ground truth; give --labels"
NO_OWN_LABELS = "needs the entries' own outcomes (ground_truth or ground_truth_true in the labels)"
OVER_ALL = "Bellwether's own totals count every answer, also those to questions that it does not score"
TIES = "depends on how the machine that published it sorted tied forecasts; give labels with ace_bin to have it exactly"

#: How the published rules name the path of an answer that has its tag.
_BY_TAG = compat_parser.PATHS[0]

_ENTRY = ("question_id", "occurrence")
_OVER_ALL = ("avg_latency_ms", "total_")
_NEEDS_NO_LABEL = ("num_samples", "parse_rate", "avg_confidence", "avg_latency_ms", "total_")
#: Bellwether's own numbers may be summed in another order.
_ROUNDING = 1e-12

#: What `compat.recompute` uses where it is whole.
_OPTIONAL = ("latency_ms", "input_tokens", "output_tokens", "cost_usd", "ace_bin")
_NEEDED_FOR = {
    "avg_latency_ms": "latency_ms",
    "total_input_tokens": "input_tokens",
    "total_output_tokens": "output_tokens",
    "total_tokens": "input_tokens and output_tokens",
    "total_cost_usd": "input_tokens, output_tokens and prices",
}


@dataclass(frozen=True, slots=True)
class Findings:
    """Counts of what the published scoring did to one model's entries; None where labels would be needed.

    unparsed: without an answer, left out of every metric. fallback: answers found without a tag.
    inverted: "no" with a number below 50, turned round. unflipped: "no" without a tag, its number not turned. yes_below_half: "yes" with a
    number below 50. certain: exactly 1, in no bin. misread: the published rules read the raw response otherwise than the file says.
    shared_ids: ids of several entries. overwritten: entries scored with another entry's outcome. wrong_labels: of those, the ones whose own
    outcome is known to differ. unknown_labels: entries without a known outcome of their own.
    """

    entries: int
    answered: int
    unparsed: int
    no_answers: int
    fallback: int
    inverted: int
    unflipped: int
    yes_below_half: int
    certain: int
    misread: int
    shared_ids: int
    overwritten: int
    wrong_labels: int | None
    unknown_labels: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ModelExamination:
    """One model: what was published, what comes out of its predictions by the same rules, and what it should have been.

    recomputed: by published name; a name that is missing could not be recomputed, `reasons` says why. consistent: strict scores of the
    answer-consistent reading with the labels as scored. corrected: the same with each entry's own label.
    question_set: the set of questions that its entries are from, null without labels.
    unlabelled: why its entries have no labels, null when they do.
    entries: predictions with their readings and labels, in the order asked.
    """

    result: ModelResult
    question_set: str | None
    unlabelled: str | None
    entries: pl.DataFrame
    recomputed: Mapping[str, Number]
    reasons: Mapping[str, str]
    findings: Findings
    consistent: Scores | None
    corrected: Scores | None

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.result.name

    def numbers(self) -> pl.DataFrame:
        """Every number of the result file: model, source, metric, published, recomputed, difference (recomputed - published), status.

        The status is equal (to the last bit; of numbers that Bellwether wrote, to 1e-12), differs, or not recomputed.
        """
        return _numbers(self, self.result.source, self.result.published)


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """The models of a results folder, examined. `labels` is the source of the labels, None without any."""

    results: Results
    labels: str | None
    models: Sequence[ModelExamination]
    bootstrap: Bootstrap

    def numbers(self) -> pl.DataFrame:
        """Every published number, of result files and summaries, as in `ModelExamination.numbers`."""
        frames = [model.numbers() for model in self.models]
        by_name = {model.name: model for model in self.models}
        frames += [_numbers(by_name[name], source, numbers) for name, source, numbers in self.results.summaries if name in by_name]
        return pl.concat(frames)

    def summary(self) -> pl.DataFrame:
        """One row per model: Brier score, skill and ECE as published, consistent (same labels) and corrected, with intervals of the last."""
        return pl.DataFrame([_summary(model) for model in self.models], infer_schema_length=None)

    def findings(self) -> pl.DataFrame:
        """One row per model: what the published scoring did to its entries."""
        return pl.DataFrame([{"model": model.name, **asdict(model.findings)} for model in self.models], infer_schema_length=None)

    def comparisons(self, *, permutations: int = PERMUTATIONS) -> Mapping[str, Comparison]:
        """The models on the same questions compared pair by pair, on corrected Brier scores: question set -> comparison.

        Clusters are event families (`labels.event_family`), or what the files say. A set with one model and a model without corrected scores
        have none.
        """
        sets: dict[str, list[ModelExamination]] = {}
        for model in self.models:
            if model.corrected is not None and model.question_set is not None:
                sets.setdefault(model.question_set, []).append(model)
        return {name: _compare(models, self.bootstrap, permutations) for name, models in sets.items() if len(models) > 1}


def examine(
    results: Results, labels: Labels | None = None, *, names: Sequence[str] = (), bootstrap: Bootstrap | None = None
) -> Examination:
    """Recompute and correct the models of `results` (all, or those called `names`), with `labels` or the labels in the files themselves.

    Without any, only what needs no outcome is recomputed, and nothing corrected. Raises `ConfigError` for an unknown name, and for labels
    that do not fit, `ScoringError` for predictions that cannot be scored.
    """
    unknown = [name for name in names if name not in results.names()]
    if unknown:
        raise ConfigError(f"examining {results.folder}: there is no model {unknown[0]!r}; there are {', '.join(results.names())}")
    plan = bootstrap or Bootstrap()
    chosen = [model for model in results.models if not names or model.name in names]
    examined = [_examine(model, labels or labels_within(model), plan) for model in chosen]
    own = any(model.question_set is not None for model in examined)
    if labels is not None and not own:
        raise ConfigError(str(examined[0].unlabelled))
    source = labels.source if labels is not None else "the result files" if own else None
    return Examination(results, source, examined, plan)


def _examine(model: ModelResult, labels: Labels | None, plan: Bootstrap) -> ModelExamination:
    entries = read_entries(model.predictions.drop("ground_truth", "category", "cluster"), ambiguous=not model.is_ours)
    given, unlabelled = _given(model, labels)
    if given is not None:
        entries = pl.concat([entries, given.rows], how="horizontal")
    consistent = _score(entries, "scored", plan) if given else None
    recomputed, reasons = _recompute(model, entries, unlabelled)
    if model.is_ours and consistent is not None:
        numbers = {**recomputed, **_strict(entries, consistent)}
        recomputed, reasons = {name: value for name, value in numbers.items() if not name.startswith(_OVER_ALL)}, {}
    return ModelExamination(
        result=model,
        question_set=given.question_set if given else None,
        entries=entries,
        recomputed=recomputed,
        reasons=reasons,
        unlabelled=unlabelled,
        findings=_findings(entries),
        consistent=consistent,
        corrected=_score(entries, "true", plan) if given and entries["true"].count() else None,
    )


def _given(model: ModelResult, labels: Labels | None) -> tuple[Given | None, str | None]:
    """The labels of a model's entries, or why there are none."""
    if labels is None:
        return None, NO_LABELS
    try:
        return labels.of(model), None
    except ConfigError as error:
        return None, str(error)


def _strict(entries: pl.DataFrame, scores: Scores) -> dict[str, Number]:
    """What Bellwether writes under the published names: its own metrics, and bins the last of which is closed."""
    rows = entries.filter(pl.col("predicted_answer").is_not_null())
    numbers: dict[str, Number] = {published: scores[name].value for published, name in CORRECTED_BY.items()}
    for row in reliability_bins(rows["p_yes"], rows["scored"] == "yes").filter(pl.col("n") > 0).iter_rows(named=True):
        fields = {"avg_confidence": row["mean_forecast"], "avg_accuracy": row["yes_rate"], "count": row["n"]}
        numbers |= {f"reliability[{row['lower_edge']:.1f}-{row['upper_edge']:.1f}].{field}": value for field, value in fields.items()}
    return numbers


def _recompute(model: ModelResult, entries: pl.DataFrame, unlabelled: str | None) -> tuple[dict[str, Number], dict[str, str]]:
    frame = entries.with_columns(_cost(model))
    frame = frame.drop(name for name in _OPTIONAL if name in frame.columns and not _whole(frame, name))
    reasons = {name: f"needs {needed} of every prediction" for name, needed in _NEEDED_FOR.items()}
    if not entries["predicted_answer"].count():
        return {}, dict.fromkeys(model.published, "no prediction has an answer of yes or no")
    unlabelled = unlabelled or _unscored(entries)
    if unlabelled is not None:
        # numbers that need no outcome come out the same with any
        anyhow = compat.recompute(frame.with_columns(ground_truth=pl.lit("no"), category=pl.lit(""))).flat()
        recomputed = {name: value for name, value in anyhow.items() if _needs_no_label(name)}
        return recomputed, {name: reasons.get(name, unlabelled) for name in model.published if name not in recomputed}
    recomputed = dict(compat.recompute(frame.with_columns(ground_truth="scored")).flat())
    reasons |= {"ace": TIES} if "ace_bin" not in frame.columns else {}
    kept = {name: reasons[name] for name in model.published if name in reasons and (name not in recomputed or name == "ace")}
    return recomputed, kept


def _unscored(entries: pl.DataFrame) -> str | None:
    """Why the entries cannot be scored as published: one of them has no outcome that it was scored with."""
    lacking = entries.filter(pl.col("scored").is_null() & pl.col("predicted_answer").is_not_null())
    return (
        f"needs the outcome that every entry was scored with; the labels have none for {lacking['question_id'][0]!r}"
        if lacking.height
        else None
    )


def _needs_no_label(name: str) -> bool:
    if name.startswith("reliability["):
        return not name.endswith(".avg_accuracy")
    return name.startswith(_NEEDS_NO_LABEL) and "_when_" not in name


def _cost(model: ModelResult) -> pl.Expr:
    if model.prices is None:
        return pl.lit(None, pl.Float64).alias("cost_usd")
    given, made = model.prices
    return (pl.col("input_tokens") / 1e6 * given + pl.col("output_tokens") / 1e6 * made).alias("cost_usd")


def _whole(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column can be recomputed from: it has all its values, or, for the published sort, those of all answers."""
    if name not in frame.columns:
        return False
    rows = frame.filter(pl.col("predicted_answer").is_not_null()) if name == "ace_bin" else frame
    return not rows[name].null_count()


def _score(entries: pl.DataFrame, label: str, plan: Bootstrap) -> Scores:
    labelled = entries.filter(pl.col(label).is_not_null())
    rows = labelled.filter(pl.col("predicted_answer").is_not_null())
    return evaluate(
        rows["p_consistent"].to_numpy(),
        (rows[label] == "yes").to_numpy(),
        rows["cluster"].to_list(),
        answer=rows["predicted_answer"].to_list(),
        asked=labelled.height,
        bootstrap=plan,
    )


def _findings(entries: pl.DataFrame) -> Findings:
    answered = entries["predicted_answer"].count()
    fallback = entries.filter(pl.col("predicted_answer").is_not_null() & (pl.col("path") != _BY_TAG).fill_null(False)).height
    last = entries["question_id"].is_last_distinct()
    labelled = "true" in entries.columns
    own = entries.filter(~last & pl.col("true").is_not_null()) if labelled else entries
    flags = {name: int(entries[name].sum()) for name in ("inverted", "unflipped", "yes_below_half", "certain", "misread")}
    return Findings(
        entries=entries.height,
        answered=answered,
        unparsed=entries.height - answered,
        no_answers=int((entries["predicted_answer"] == "no").sum()),
        fallback=fallback,
        shared_ids=entries.filter(pl.col("question_id").is_duplicated())["question_id"].n_unique(),
        overwritten=entries.height - int(last.sum()),
        wrong_labels=int((own["true"] != own["scored"]).sum()) if labelled else None,
        unknown_labels=entries["true"].null_count() if labelled else None,
        **flags,
    )


def _numbers(model: ModelExamination, source: str, published: Mapping[str, Number]) -> pl.DataFrame:
    rows = []
    for metric, value in published.items():
        known = metric in model.recomputed
        ours = model.recomputed.get(metric)
        equal = known and _equal(ours, value, 0.0 if not model.result.is_ours else _ROUNDING)
        rows.append(
            {
                "model": model.name,
                "source": source,
                "metric": metric,
                "published": value,
                "recomputed": ours,
                "difference": None if ours is None or value is None else float(ours) - float(value),
                "status": "equal" if equal else "differs" if known else "not recomputed",
                "reason": None if equal else _reason(model, metric),
            }
        )
    text, number = pl.String(), pl.Float64()
    schema = {"model": text, "source": text, "metric": text, "published": number, "recomputed": number, "difference": number}
    return pl.DataFrame(rows, schema={**schema, "status": text, "reason": text})


def _reason(model: ModelExamination, metric: str) -> str | None:
    if model.result.is_ours and metric.startswith(_OVER_ALL):
        return OVER_ALL
    return model.reasons.get(metric)


def _equal(ours: Number, published: Number, tolerance: float) -> bool:
    if ours is None or published is None:
        return ours is published
    return abs(ours - published) <= tolerance


def _summary(model: ModelExamination) -> dict[str, object]:
    row: dict[str, object] = {"model": model.name, "question_set": model.question_set}
    short = {"brier": "brier_score", "brier_skill": "brier_skill_score", "ece": "ece", "accuracy": "accuracy"}
    for name, published in short.items():
        value = model.result.published.get(published)
        row[f"{name}_published"] = None if value is None else float(value)
    for stage, scores in (("consistent", model.consistent), ("corrected", model.corrected)):
        for name in short:
            row[f"{name}_{stage}"] = None if scores is None else scores[name].value
        row[f"n_{stage}"] = None if scores is None else scores.n
    for name in short:
        row[f"{name}_lower"] = None if model.corrected is None else model.corrected[name].lower
        row[f"{name}_upper"] = None if model.corrected is None else model.corrected[name].upper
    row["coverage"] = None if model.corrected is None else model.corrected["coverage"].value
    return row


def _compare(models: Sequence[ModelExamination], plan: Bootstrap, permutations: int) -> Comparison:
    """Models of one set of questions, each of which may lack some: an entry is known by its id and its occurrence."""
    occurrence = pl.int_range(pl.len()).over("question_id").alias("occurrence")
    said = pl.when(pl.col("predicted_answer").is_not_null()).then("p_consistent")
    columns = ("question_id", "occurrence", "true", "family", "predicted_answer")
    parts = {
        model.name: model.entries.with_columns(occurrence).filter(pl.col("true").is_not_null()).select(*columns, p=said) for model in models
    }
    asked = pl.concat(parts.values()).unique(_ENTRY, keep="first", maintain_order=True).select(*_ENTRY, "true", "family")
    rows = {name: asked.join(part.drop("true", "family"), on=_ENTRY, how="left", maintain_order="left") for name, part in parts.items()}
    return compare(
        {name: part["p"].fill_null(float("nan")).to_numpy() for name, part in rows.items()},
        (asked["true"] == "yes").to_numpy(),
        asked["family"].to_list(),
        answers={name: part["predicted_answer"].to_list() for name, part in rows.items()},
        seed=plan.seed,
        replicates=plan.replicates,
        permutations=permutations,
    )
