"""The report that people read: one release in Markdown, from the same numbers as the JSON files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bellwether.report.dataset import dataset_section
from bellwether.report.inputs import Inputs
from bellwether.report.markdown import NOTHING, interval, number, percent, table, text, when
from bellwether.report.model_section import definitions, model_section
from bellwether.report.predictions import Predictions, dollars
from bellwether.report.results import groups, leaderboards, scores_of

#: The metrics of each table: our name and the heading of its column.
CLASSIFICATION = {
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "precision_yes": "Precision (yes)",
    "recall_yes": "Recall (yes)",
    "f1_yes": "F1 (yes)",
    "precision_no": "Precision (no)",
    "recall_no": "Recall (no)",
    "f1_no": "F1 (no)",
}
CALIBRATION = {
    "brier": "Brier",
    "brier_skill": "Skill",
    "skill_vs_market": "Skill vs market",
    "log_loss": "Log loss",
    "ece": "ECE",
    "mce": "MCE",
    "ace": "ACE",
    "smece": "smECE",
    "brier_index": "Brier Index",
}
CONFIDENCE = {
    "average_confidence": "Mean",
    "confidence_when_correct": "When right",
    "confidence_when_wrong": "When wrong",
    "overconfidence_70": "Wrong above 70 %",
    "overconfidence_80": "Wrong above 80 %",
    "overconfidence_90": "Wrong above 90 %",
}
#: Decompositions: what is said above the table, and its columns.
_DECOMPOSITIONS = (
    (
        "Murphy, over ten bins: Brier = reliability - resolution + uncertainty + variance within bins - 2 covariance within bins.",
        {
            "murphy_reliability": "Reliability",
            "murphy_resolution": "Resolution",
            "uncertainty": "Uncertainty",
            "within_bin_variance": "Variance within bins",
            "within_bin_covariance": "Covariance within bins",
        },
    ),
    (
        "CORP, without bins: Brier = miscalibration - discrimination + uncertainty.",
        {"corp_miscalibration": "Miscalibration", "corp_discrimination": "Discrimination", "uncertainty": "Uncertainty"},
    ),
    (
        "Yates: Brier = uncertainty + least variance + excess variance + bias² - 2 covariance.",
        {
            "uncertainty": "Uncertainty",
            "yates_min_variance": "Least variance",
            "yates_excess_variance": "Excess variance",
            "yates_bias_squared": "Bias²",
            "yates_covariance": "Covariance",
        },
    ),
)

#: KalshiBench, as its authors ask to be cited.
BIBTEX = """@misc{kalshibench2024,
  title={KalshiBench: Evaluating LLM Forecasting Calibration via Prediction Markets},
  author={2084 Collective},
  year={2024},
  publisher={HuggingFace},
  howpublished={\\url{https://huggingface.co/datasets/2084Collective/kalshibench-v2}}
}"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure beside the report."""

    file: str
    caption: str

    def lines(self) -> list[str]:
        """The figure and its caption."""
        return [f"![{self.caption}]({self.file})", "", f"*{self.caption}*", ""]


@dataclass(frozen=True, slots=True)
class Material:
    """What the report is written from.

    pictures: of the release, by name; forecaster_pictures: of each forecaster. files: name and what it is, of every file of the report.
    """

    inputs: Inputs
    made: Mapping[str, Predictions]
    analysis: Mapping[str, Any]
    pictures: Mapping[str, Picture]
    forecaster_pictures: Mapping[str, Sequence[Picture]]
    files: Mapping[str, str]


def report(material: Material) -> str:
    """The whole report."""
    inputs = material.inputs
    parts = [
        _head(inputs),
        _executive(material),
        _leaderboards(material),
        _pairs(inputs),
        ["## Model comparison", ""],
        _comparison(inputs),
        _coverage(material),
        _contamination(material),
        _cost(material),
        dataset_section(material.analysis, inputs),
        ["## Results by model", ""],
        *(model_section(inputs, name, material.made[name], material.forecaster_pictures.get(name, ())) for name in inputs.forecasters),
        definitions(inputs),
        _files(material),
        _citation(),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _head(inputs: Inputs) -> list[str]:
    description = inputs.recipe.get("description")
    return [
        f"# Benchmark report: {text(inputs.release)}",
        "",
        *([text(description, 400), ""] if description else []),
        f"Data known until {inputs.known_at:%Y-%m-%d %H:%M:%S} UTC. Every number is in the JSON files beside this page.",
        "",
    ]


def _executive(material: Material) -> list[str]:
    inputs, outcomes = material.inputs, material.analysis
    span, truth = outcomes["date_range"], outcomes["ground_truth_distribution"]
    ranked = inputs.leaderboard.filter(pl.col("rank").is_not_null()).height
    tested = inputs.comparisons["p_holm"].drop_nulls()
    rows = [
        ("Questions", number(inputs.questions.height)),
        ("Questions resolved after", when(outcomes["knowledge_cutoff"])),
        ("Closing times", f"{when(span['earliest'])} to {when(span['latest'])}"),
        ("Yes rate", percent(truth["yes_rate"])),
        ("Forecasters", f"{len(inputs.forecasters)}, {ranked} of them ranked"),
        ("Best Brier score", _best(inputs)),
        ("Not distinguishable from the best", _confidence_set(inputs)),
        ("Pairs that differ (Holm, 5 %)", f"{int((tested < 0.05).sum())} of {inputs.comparisons.height}"),
        ("Seed of the sample", text(inputs.recipe.get("seed"))),
    ]
    return ["## Executive summary", "", *table(("", "Value"), rows, texts=2)]


def _best(inputs: Inputs) -> str:
    best = inputs.leaderboard.filter(pl.col("rank") == 1).sort("forecaster").to_dicts()
    return (
        ", ".join(f"{text(row['forecaster'])} {number(row['brier'])} {interval(row['brier_lower'], row['brier_upper'])}" for row in best)
        or NOTHING
    )


def _confidence_set(inputs: Inputs) -> str:
    members = inputs.leaderboard.filter(pl.col("in_mcs")).sort("rank", "forecaster")["forecaster"]
    return ", ".join(text(name) for name in members) or NOTHING


def _comparison(inputs: Inputs) -> list[str]:
    return [
        "### Classification performance",
        "",
        *_metrics(inputs, CLASSIFICATION),
        "### Calibration metrics",
        "",
        *_metrics(inputs, CALIBRATION),
        "### Confidence analysis",
        "",
        *_metrics(inputs, CONFIDENCE),
        "### Decompositions of the Brier score",
        "",
        *(line for title, metrics in _DECOMPOSITIONS for line in (title, "", *_metrics(inputs, metrics))),
    ]


def _metrics(inputs: Inputs, metrics: Mapping[str, str]) -> list[str]:
    known = {name: heading for name, heading in metrics.items() if name in set(inputs.scores["metric"])}
    rows = []
    for forecaster in inputs.forecasters:
        scores = scores_of(inputs, forecaster)["all"]
        rows.append((text(forecaster), *(number(scores.get(name, {}).get("value"), 2 if name == "brier_index" else 4) for name in known)))
    return table(("Forecaster", *known.values()), rows)


def _pairs(inputs: Inputs) -> list[str]:
    lines = ["### Paired tests", ""]
    if inputs.comparisons.is_empty():
        return [*lines, "No pair was compared.", ""]
    rows = [
        (
            f"{text(row['forecaster'], 60)} - {text(row['other'], 60)}",
            number(row["n"]),
            number(row["n_clusters"]),
            number(row["difference"]),
            interval(row["lower"], row["upper"]),
            number(row["standard_error"]),
            number(row["p_cluster"]),
            number(row["p_sign_flip"]),
            number(row["p_holm"]),
        )
        for row in inputs.comparisons.sort("p_holm", "forecaster", "other", nulls_last=True).iter_rows(named=True)
    ]
    named = [f"- **{letter}**: {', '.join(text(name) for name in members)}" for letter, members in groups(inputs).items()]
    return [
        *lines,
        "Difference of mean Brier scores on the questions that both answered and neither could have known; negative favours the first."
        " Errors are cluster-robust, the permutation flips whole clusters, Holm corrects the first p over all pairs.",
        "",
        *table(("Pair", "n", "Clusters", "Difference", "95 %", "Std. error", "p (cluster)", "p (sign flip)", "p (Holm)"), rows),
        *(["Significance groups; forecasters that share a letter do not differ significantly:", "", *named, ""] if named else []),
    ]


def _cost(material: Material) -> list[str]:
    rows, total = [], 0
    for forecaster in material.inputs.forecasters:
        made = material.made[forecaster]
        if not made.rows["attempts"].count():
            continue
        used = made.usage()
        total += used["cost_microdollars"] or 0
        rows.append(
            (
                text(forecaster),
                number(used["input_tokens"]),
                number(used["output_tokens"]),
                number(used["reasoning_tokens"]),
                number(used["attempts"]),
                number(dollars(used["cost_microdollars"])),
                number(used["without_cost"]),
                number(used["avg_latency_ms"], 0),
            )
        )
    if not rows:
        return ["### Token usage and cost", "", "No language model was asked.", ""]
    return [
        "### Token usage and cost",
        "",
        "Everything that was sent, failed attempts and repairs included.",
        "",
        *table(("Forecaster", "Input", "Output", "Reasoning", "Requests", "Dollars", "Rows of unknown cost", "Mean latency (ms)"), rows),
        f"Known cost of all: {number(dollars(total))} dollars.",
        "",
    ]


def _contamination(material: Material) -> list[str]:
    inputs = material.inputs
    rows = []
    for row in inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True):
        forecasts = material.made[row["forecaster"]].rows
        cutoff = forecasts["knowledge_cutoff"].max()
        if cutoff is None and not row["could_know"]:
            continue
        rows.append(
            (
                text(row["forecaster"]),
                when(cutoff),  # type: ignore[arg-type]
                number(forecasts["days_from_cutoff"].min(), 1),  # type: ignore[arg-type]
                number(forecasts["days_from_cutoff"].median(), 1),  # type: ignore[arg-type]
                number(row["could_know"]),
                percent(row["could_know_share"]),
                number(row["brier_could_know"]),
                number(row["brier"]),
            )
        )
    header = (
        "Forecaster",
        "Knowledge cutoff",
        "Least days after",
        "Median days after",
        "Could know",
        "Share",
        "Brier, known",
        "Brier, scored",
    )
    body = table(header, rows) if rows else ["No forecaster states a knowledge cutoff.", ""]
    return [
        "### Contamination",
        "",
        "Questions that closed or were settled at or before a forecaster's knowledge cutoff count for no score and no rank.",
        "",
        *body,
        *_scopes(inputs, "distance:", "By days from the knowledge cutoff to the resolution"),
        *material.pictures["score_by_distance"].lines(),
        *_scopes(inputs, "horizon:", "By days from the forecast to the close"),
        *material.pictures["brier_over_time"].lines(),
    ]


def _scopes(inputs: Inputs, prefix: str, title: str) -> list[str]:
    shown = inputs.scores.filter(pl.col("scope").str.starts_with(prefix) & pl.col("metric").is_in(["brier", "accuracy"]))
    if shown.is_empty():
        return []
    rows = []
    for forecaster in inputs.forecasters:
        scopes = scores_of(inputs, forecaster)
        for scope in (name for name in scopes if name.startswith(prefix)):
            brier, accuracy = scopes[scope].get("brier", {}), scopes[scope].get("accuracy", {})
            ends = interval(brier.get("lower"), brier.get("upper"))
            label = text(scope.removeprefix(prefix))
            rows.append((text(forecaster), label, number(brier.get("n")), number(brier.get("value")), ends, number(accuracy.get("value"))))
    return [f"{title}:", "", *table(("Forecaster", "Days", "n", "Brier", "95 %", "Accuracy"), rows, texts=2)]


def _coverage(material: Material) -> list[str]:
    kinds = sorted({kind for made in material.made.values() for kind in made.counts("failure")})
    rows = []
    for row in material.inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True):
        made = material.made[row["forecaster"]]
        counts = made.counts("failure")
        repaired = int(made.rows["repaired"].fill_null(False).sum())
        contradictions = made.rows["contradiction"].count()
        cells = (percent(row["coverage"]), number(row["brier_imputed"]), number(repaired), number(contradictions))
        rows.append((text(row["forecaster"]), *cells, *(number(counts.get(kind, 0)) for kind in kinds)))
    header = ("Forecaster", "Coverage", "Brier, 0.5 if missing", "Repaired", "Contradictions", *(text(kind) for kind in kinds))
    return ["### Coverage and failures", "", *table(header, rows), *material.pictures["coverage"].lines()]


def _leaderboards(material: Material) -> list[str]:
    inputs = material.inputs
    rows = [
        (
            str(row["rank"] or NOTHING),
            text(row["forecaster"]),
            text(row["group"]),
            number(row["brier"]),
            interval(row["brier_lower"], row["brier_upper"]),
            interval(row["brier_bca_lower"], row["brier_bca_upper"]),
            percent(row["share_first"]),
            number(row["mcs_p"], 3),
            number(row["brier_skill"], 3),
            number(row["skill_vs_market"], 3),
            number(row["n"]),
            percent(row["coverage"]),
        )
        for row in inputs.leaderboard.sort("rank", "forecaster", nulls_last=True).iter_rows(named=True)
    ]
    header = ("Rank", "Forecaster", "Group", "Brier", "95 %", "95 % BCa", "First", "MCS p", "Skill", "Skill vs market", "n", "Coverage")
    unranked = [
        f"- {text(row['forecaster'])} is not ranked: {text(row['unranked_because'], 300)}"
        for row in inputs.leaderboard.filter(pl.col("rank").is_null()).sort("forecaster").iter_rows(named=True)
    ]
    boards = leaderboards(inputs)
    return [
        "## Leaderboards",
        "",
        "### By Brier score (lower is better)",
        "",
        "Forecasters that share a letter do not differ significantly. First: share of bootstrap replicates in which it has the best score."
        " MCS p: p-value in the model confidence set.",
        "",
        *table(header, rows, texts=3),
        *([*unranked, ""] if unranked else []),
        *material.pictures["scores"].lines(),
        *_board("By accuracy (higher is better)", "Accuracy", "accuracy", boards["by_accuracy"]),
        *_board("By ECE (lower is better)", "ECE", "ece", boards["by_calibration"]),
    ]


def _board(title: str, heading: str, metric: str, board: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [(str(row["rank"]), text(row["model"]), number(row[metric]), interval(row["lower"], row["upper"])) for row in board]
    return [f"### {title}", "", *table(("Rank", "Forecaster", heading, "95 %"), rows, texts=2)]


def _files(material: Material) -> list[str]:
    rows = [(f"[`{name}`]({name})", text(what, 200)) for name, what in sorted(material.files.items())]
    return ["## Files", "", *table(("File", "What it holds"), rows, texts=2)]


def _citation() -> list[str]:
    return [
        "## How to cite",
        "",
        "The questions, the protocol and the metrics follow KalshiBench; please cite it beside this report's release and date.",
        "",
        "```bibtex",
        *BIBTEX.splitlines(),
        "```",
        "",
    ]
