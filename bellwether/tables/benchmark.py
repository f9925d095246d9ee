"""Benchmark tables: questions, forecasts, scores, reliability and the leaderboard, per release."""

from __future__ import annotations

import polars as pl

from bellwether.tables.clean import KNOWN_AT
from bellwether.tables.schema import DOLLARS, MONEY, PRICE, PROBABILITY, TEXT, TIME, UTC, Column, Table

RELEASE = Column("release", TEXT, "name of the benchmark release, with its version from the second on; the partition")
FORECASTER = Column("forecaster", TEXT, "name of the forecaster in the registry; the partition's second part")
RULES = Column("rules", TEXT, "version of the rules that made this row")

#: Fixed horizons before close at which the market's own price is recorded: name -> hours.
HORIZONS: dict[str, int] = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}


def _horizon(name: str, hours: int) -> tuple[Column, Column]:
    return (
        Column(
            f"price_{name}",
            PRICE,
            f"market price {hours} h before close: the middle of bid and ask, else the last trade; null when there was none",
            DOLLARS,
            nullable=True,
        ),
        Column(f"price_{name}_at", TIME, f"the instant of that price: at or before close - {hours} h", UTC, nullable=True),
    )


#: Groups of markets whose outcomes are counted as of the opening of a question: prefix of the columns -> columns of clean/markets that are the same.
BASE_RATES: dict[str, tuple[str, ...]] = {"base": ("venue",), "base_category": ("venue", "category")}


def _base_rate(prefix: str, group: tuple[str, ...]) -> tuple[Column, ...]:
    markets = f"the {' and '.join(group)}"
    return (
        Column(f"{prefix}_n", pl.Int64(), f"binary markets of {markets} that had been paid out before the question opened", nullable=True),
        Column(f"{prefix}_yes", pl.Int64(), "how many of them were yes", nullable=True),
        Column(f"{prefix}_known_at", TIME, "when the latest known of them was learned; null when there was none", UTC, nullable=True),
    )


QUESTIONS = Table(
    name="benchmark/questions",
    row="One question of a benchmark release, with its resolved outcome.",
    columns=(
        RELEASE,
        Column("id", TEXT, "unique: venue:market_id"),
        Column("question", TEXT, "the prediction-market question; untrusted text"),
        Column("description", TEXT, "resolution criteria, cut to the release's limit; untrusted text"),
        Column("category", TEXT, "topic category"),
        Column("close_time", TIME, "when the market closed", UTC),
        Column("ground_truth", TEXT, "yes or no"),
        Column(
            "market_probability",
            PROBABILITY,
            "final market price, for the record; known after the fact and never a forecast",
            "probability",
            nullable=True,
        ),
        Column("series_ticker", TEXT, "series of the market, a cluster key; the market's own id where it has none"),
        Column("source", TEXT, "venue"),
        Column("market_id", TEXT, "the venue's own id of the market"),
        Column("event_id", TEXT, "the venue's own id of the event, a cluster key; the market's own id where it has none"),
        Column("cluster", TEXT, "what intervals treat as one: venue:series, or venue:event where the release says so"),
        Column("open_time", TIME, "when trading opened", UTC, nullable=True),
        Column("settled_at", TIME, "when the market was paid out", UTC, nullable=True),
        *(column for name, hours in HORIZONS.items() for column in _horizon(name, hours)),
        *(column for prefix, group in BASE_RATES.items() for column in _base_rate(prefix, group)),
        Column("ordinal", pl.Int32(), "position in the release's order, from 0"),
        Column("version", pl.Int32(), "version of the release, from 1"),
        Column("cutoff", TIME, "everything in the release resolved after this instant", UTC),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "id"),
    partitioned_by=("release",),
    sort=("release", "ordinal"),
    mart=True,
    version="2",
)

#: Columns of a model's forecast; null for other forecasters.
_ASKED = (
    Column("model", TEXT, "the model as its provider names it", nullable=True),
    Column("elicitation", TEXT, "protocol by which it was asked, and its version", nullable=True),
    Column("prompt_hash", TEXT, "hash of the prompt", nullable=True),
    Column("raw_response", TEXT, "the response as it came; untrusted text", nullable=True),
    Column("reasoning", TEXT, "the model's reasoning, where the provider shows it; untrusted text", nullable=True),
    Column("finish_reason", TEXT, "why the model stopped, in the provider's word", nullable=True),
    Column("parsed_by", TEXT, "path by which the response was read; docs/models.md lists them", nullable=True),
    Column("contradiction", TEXT, "what in the response contradicts itself; null when nothing does", nullable=True),
    Column(
        "repaired",
        pl.Boolean(),
        "the forecast was read from a second response, asked for because the first could not be read",
        nullable=True,
    ),
    Column("p_yes_compat", PROBABILITY, "the first response as the published KalshiBench parser reads it", "probability", nullable=True),
    Column("input_tokens", pl.Int64(), "tokens of the prompts, repairs and failed attempts included", "tokens", nullable=True),
    Column("output_tokens", pl.Int64(), "tokens of the responses, reasoning included", "tokens", nullable=True),
    Column("reasoning_tokens", pl.Int64(), "tokens of reasoning among them", "tokens", nullable=True),
    Column("cost", MONEY, "price of all that was sent for this forecast; null when any part of it is unknown", "dollars", nullable=True),
    Column("cost_source", TEXT, "where the price comes from: provider, price_list or unbilled", nullable=True),
    Column("price_map", TEXT, "price list and its version, as of the call; null where the provider said the cost", nullable=True),
    Column("latency", pl.Float64(), "time of the call that answered", "seconds", nullable=True),
    Column("attempts", pl.Int32(), "requests that were sent, repairs and failed attempts included", "requests", nullable=True),
    Column("call_key", TEXT, "key of the call in the journal", nullable=True),
    Column("served_model", TEXT, "the model that answered, as body or gateway headers name it; docs/models.md", nullable=True),
    Column("system_fingerprint", TEXT, "fingerprint of its configuration, as the provider states it", nullable=True),
    Column("served_by", TEXT, "provider or deployment behind a gateway, as it states", nullable=True),
)

FORECASTS = Table(
    name="benchmark/forecasts",
    row="One forecast of one forecaster on one question, or the reason why there is none.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("question_id", TEXT, "id in benchmark/questions"),
        Column("sample", pl.Int32(), "index of the sample, from 0"),
        Column("as_of", TIME, "the forecast uses nothing that became known after this instant", UTC, nullable=True),
        Column("answer", TEXT, "yes or no; null when there is no forecast", nullable=True),
        Column("confidence", PROBABILITY, "confidence that the answer is correct, as stated", "probability", nullable=True),
        Column("p_yes", PROBABILITY, "forecast probability of yes; null when there is no forecast", "probability", nullable=True),
        Column("combine", TEXT, "how the samples of one question become one forecast: mean or median", nullable=True),
        Column("error", TEXT, "why there is no forecast; null when there is one", nullable=True),
        Column(
            "failure",
            TEXT,
            "kind of that failure: an outcome of the journal, unreadable, contradictory, not_asked or no_basis; null when there is a forecast",
            nullable=True,
        ),
        Column("knowledge_cutoff", TIME, "until when the forecaster may know outcomes; null when it cannot know any", UTC, nullable=True),
        Column("days_from_cutoff", pl.Float64(), "from the knowledge cutoff to the question's resolution", "days", nullable=True),
        Column(
            "could_know",
            pl.Boolean(),
            "the question closed or was settled at or before the knowledge cutoff: no forecast, but perhaps a memory",
        ),
        *_ASKED,
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "question_id", "sample"),
    partitioned_by=("release", "forecaster"),
    version="4",
    added={"3": dict.fromkeys(("served_model", "system_fingerprint", "served_by"))},
)

SCORES = Table(
    name="benchmark/scores",
    row="One metric of one forecaster on one release, over all questions or a part of them, with its interval.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("scope", TEXT, "all, category:<name>, horizon:<days>, distance:<days> from the knowledge cutoff, or could_know"),
        Column("metric", TEXT, "name of the metric"),
        Column("value", pl.Float64(), "point estimate; null when undefined on this data", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % interval; null when none", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % interval; null when none", nullable=True),
        Column("method", TEXT, "how the interval was made; null when none", nullable=True),
        Column("df", pl.Float64(), "degrees of freedom of the interval", nullable=True),
        Column("reason", TEXT, "why there is no interval; null when there is one", nullable=True),
        Column(
            "expected", pl.Float64(), "mean of a calibration error if the forecasts were calibrated; null for other metrics", nullable=True
        ),
        Column("p_calibrated", pl.Float64(), "p-value of a test of calibration by a calibration error", nullable=True),
        Column("n", pl.Int64(), "forecasts scored"),
        Column("n_questions", pl.Int64(), "questions in scope, scored or not"),
        Column("n_clusters", pl.Int64(), "clusters among the forecasts scored, which intervals treat as independent"),
        Column("seed", pl.Int64(), "seed of the tests of calibration"),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "scope", "metric"),
    partitioned_by=("release", "forecaster"),
    mart=True,
    version="2",
)

RELIABILITY = Table(
    name="benchmark/reliability",
    row="One bin of a forecaster's reliability diagram on one release.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("bin", pl.Int32(), "ordinal of the bin, from 0"),
        Column("lower_edge", PROBABILITY, "lower edge, inside the bin", "probability"),
        Column("upper_edge", PROBABILITY, "upper edge, outside the bin except in the last", "probability"),
        Column("n", pl.Int64(), "forecasts in the bin"),
        Column("n_clusters", pl.Int64(), "clusters among them"),
        Column("mean_forecast", PROBABILITY, "mean forecast probability of yes; null in an empty bin", "probability", nullable=True),
        Column("yes_rate", PROBABILITY, "observed frequency of yes; null in an empty bin", "probability", nullable=True),
        Column("gap", pl.Float64(), "mean_forecast - yes_rate; null in an empty bin", "probability", nullable=True),
        Column(
            "yes_rate_lower",
            PROBABILITY,
            "lower end of the 95 % interval of yes_rate over clusters; null when none",
            "probability",
            nullable=True,
        ),
        Column(
            "yes_rate_upper",
            PROBABILITY,
            "upper end of the 95 % interval of yes_rate over clusters; null when none",
            "probability",
            nullable=True,
        ),
        Column("reason", TEXT, "why there is no interval; null when there is one", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "bin"),
    partitioned_by=("release", "forecaster"),
    mart=True,
    version="2",
)

_RANKED = ("brier", "brier_skill", "skill_vs_market", "log_loss", "roc_auc", "accuracy")


def _ranked(metric: str) -> tuple[Column, ...]:
    return (
        Column(metric, pl.Float64(), f"{metric}, as in benchmark/scores", nullable=True),
        Column(f"{metric}_lower", pl.Float64(), f"lower end of the 95 % interval of {metric}; null when none", nullable=True),
        Column(f"{metric}_upper", pl.Float64(), f"upper end of the 95 % interval of {metric}; null when none", nullable=True),
        Column(f"{metric}_reason", TEXT, f"why {metric} has no interval; null when it has one", nullable=True),
    )


LEADERBOARD = Table(
    name="benchmark/leaderboard",
    row="One forecaster's line on a release's leaderboard, ranked by Brier score, with intervals and coverage.",
    columns=(
        RELEASE,
        Column("rank", pl.Int32(), "1 is best; forecasters below the coverage floor are unranked", nullable=True),
        Column("unranked_because", TEXT, "why there is no rank; null when there is one", nullable=True),
        Column("forecaster", TEXT, "name of the forecaster in the registry"),
        Column("kind", TEXT, "market_price, base_rate, constant, random, language_model; unregistered when the registry has it no more"),
        *(column for metric in _RANKED for column in _ranked(metric)),
        Column("brier_method", TEXT, "how the interval of brier was made", nullable=True),
        Column("brier_df", pl.Float64(), "degrees of freedom of the interval of brier", nullable=True),
        Column("ece", pl.Float64(), "ece, as in benchmark/scores; biased upwards", nullable=True),
        Column("ece_expected", pl.Float64(), "mean of ece if the forecasts were calibrated", nullable=True),
        Column("ece_p_calibrated", pl.Float64(), "p-value of a test of calibration by ece", nullable=True),
        Column("brier_imputed", pl.Float64(), "brier with 0.5 for every question that counts and has no forecast", nullable=True),
        Column("group", TEXT, "significance group: forecasters that share a letter do not differ significantly", nullable=True),
        Column(
            "in_mcs",
            pl.Boolean(),
            "in the confidence set of the best: not significantly worse than another forecaster at 10 %",
            nullable=True,
        ),
        Column("mcs_p", pl.Float64(), "p-value in the confidence set: the smallest corrected p of the pairs that it loses", nullable=True),
        Column("share_first", pl.Float64(), "share of bootstrap replicates in which it is ranked first", "ratio", nullable=True),
        Column("could_know", pl.Int64(), "questions excluded because the forecaster could have known the outcome"),
        Column("could_know_share", pl.Float64(), "their share of the release", "ratio"),
        Column("brier_could_know", pl.Float64(), "brier over those questions, for interest", nullable=True),
        Column("failed", pl.Int64(), "questions that count and have no forecast: failed or never asked"),
        Column("n", pl.Int64(), "forecasts scored"),
        Column("n_questions", pl.Int64(), "questions in the release"),
        Column("coverage", pl.Float64(), "share of questions with a forecast that counts", "ratio"),
        Column("n_clusters", pl.Int64(), "clusters among the forecasts scored, which intervals treat as independent"),
        Column("questions_digest", TEXT, "SHA-256 of the release's questions", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster"),
    partitioned_by=("release",),
    sort=("release", "rank", "forecaster"),
    mart=True,
    version="3",
)

COMPARISONS = Table(
    name="benchmark/comparisons",
    row="Two forecasters of a release on the questions that both answered: the difference of their Brier scores and its tests.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("other", TEXT, "name of the forecaster that it is compared with"),
        Column("n", pl.Int64(), "questions that both answered and neither could have known"),
        Column("n_clusters", pl.Int64(), "clusters among them"),
        Column("difference", pl.Float64(), "mean Brier score minus that of the other; negative: better than the other", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % interval of the difference", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % interval of the difference", nullable=True),
        Column("standard_error", pl.Float64(), "cluster-robust standard error of the difference", nullable=True),
        Column("df", pl.Float64(), "degrees of freedom of interval and test", nullable=True),
        Column("t", pl.Float64(), "difference over its standard error", nullable=True),
        Column("p", pl.Float64(), "two-sided p-value; below 0.05 exactly where the interval excludes 0", nullable=True),
        Column("p_holm", pl.Float64(), "p after Holm's correction over all pairs of the release", nullable=True),
        Column("p_mcnemar", pl.Float64(), "exact McNemar p of the decisions; takes questions as independent", nullable=True),
        Column("method", TEXT, "how interval and test were made; null when none", nullable=True),
        Column("reason", TEXT, "why there is neither interval nor test; null when there are", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "other"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

DATASET_ANALYSIS = Table(
    name="benchmark/dataset_analysis",
    row="One statistic of a release's question set.",
    columns=(
        RELEASE,
        Column("section", TEXT, "temporal, ground_truth, category, complexity, market, cluster, …"),
        Column("item", TEXT, "what it is about: all, a month, a category, a horizon"),
        Column("statistic", TEXT, "name of the statistic"),
        Column("value", pl.Float64(), "its value; null when undefined or not a number", nullable=True),
        Column("text", TEXT, "its value where that is a text", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "section", "item", "statistic"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

TABLES = (QUESTIONS, FORECASTS, SCORES, RELIABILITY, LEADERBOARD, COMPARISONS, DATASET_ANALYSIS)
