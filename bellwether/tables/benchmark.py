"""Benchmark tables: questions, forecasts, scores, reliability and the leaderboard, per release."""

from __future__ import annotations

import polars as pl

from bellwether.tables.clean import KNOWN_AT
from bellwether.tables.schema import DOLLARS, MONEY, PRICE, PROBABILITY, TEXT, TIME, UTC, Column, Table

RELEASE = Column("release", TEXT, "name of the benchmark release, with its version from the second on; partition")
FORECASTER = Column("forecaster", TEXT, "name of the forecaster in the registry; second part of the partition")
RULES = Column("rules", TEXT, "version of the rules that made the row")

#: Horizons before close at which the market price is recorded: name -> hours.
HORIZONS: dict[str, int] = {"1h": 1, "6h": 6, "24h": 24, "7d": 168}


def _horizon_columns(name: str, hours: int) -> tuple[Column, ...]:
    return (
        Column(
            f"price_{name}",
            PRICE,
            f"market price {hours} h before close (midpoint, else last trade); null if missing",
            DOLLARS,
            nullable=True,
        ),
        Column(f"price_{name}_at", TIME, f"time of that price, at or before {hours} h before close", UTC, nullable=True),
        *(
            Column(f"{side}_{name}", PRICE, f"{side} at the time of that price; null without a book", DOLLARS, nullable=True)
            for side in ("bid", "ask")
        ),
    )


#: Groups of markets for base rates as of the opening of a question: column prefix -> common columns of clean/markets.
BASE_RATES: dict[str, tuple[str, ...]] = {"base": ("venue",), "base_category": ("venue", "category")}


def _base_rate_columns(prefix: str, group: tuple[str, ...]) -> tuple[Column, ...]:
    markets = f"the same {' and '.join(group)}"
    return (
        Column(f"{prefix}_n", pl.Int64(), f"number of binary markets of {markets} paid before the question opened", nullable=True),
        Column(f"{prefix}_yes", pl.Int64(), "number of these with outcome yes", nullable=True),
        Column(f"{prefix}_known_at", TIME, "when the latest of these became known; null without any", UTC, nullable=True),
    )


QUESTIONS = Table(
    name="benchmark/questions",
    row="One question of a benchmark release, with its resolved outcome.",
    columns=(
        RELEASE,
        Column("id", TEXT, "id in the form venue:market_id"),
        Column("question", TEXT, "question of the market; untrusted text"),
        Column("description", TEXT, "resolution criteria, cut to the limit of the release; untrusted text"),
        Column("category", TEXT, "topic category"),
        Column("close_time", TIME, "close of the market", UTC),
        Column("ground_truth", TEXT, "yes or no"),
        Column(
            "market_probability",
            PROBABILITY,
            "final market price, for the record; known after the fact and never a forecast",
            "probability",
            nullable=True,
        ),
        Column("series_ticker", TEXT, "series of the market, a cluster key; the market id without a series"),
        Column("source", TEXT, "venue"),
        Column("market_id", TEXT, "market id at the venue"),
        Column("event_id", TEXT, "event id at the venue, a cluster key; the market id without an event"),
        Column("cluster", TEXT, "unit of resampling for intervals: venue:series, or venue:event if the release states so"),
        Column("open_time", TIME, "start of trading", UTC, nullable=True),
        Column("settled_at", TIME, "when the market was paid", UTC, nullable=True),
        *(column for name, hours in HORIZONS.items() for column in _horizon_columns(name, hours)),
        *(column for prefix, group in BASE_RATES.items() for column in _base_rate_columns(prefix, group)),
        Column("ordinal", pl.Int32(), "position in the release, from 0"),
        Column("version", pl.Int32(), "version of the release, from 1"),
        Column("cutoff", TIME, "time after which all questions of the release were resolved", UTC),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "id"),
    partitioned_by=("release",),
    sort=("release", "ordinal"),
    mart=True,
    version="3",
)

RESOLUTIONS = Table(
    name="benchmark/resolutions",
    row="One question of a benchmark release with its outcome as published and as known now.",
    columns=(
        RELEASE,
        Column("question_id", TEXT, "id in benchmark/questions"),
        Column("published", TEXT, "outcome of the release, yes or no"),
        Column("outcome", TEXT, "outcome as known now, yes or no; null without one", nullable=True),
        Column("outcome_reason", TEXT, "why there is no outcome now, as in clean/markets; null with one", nullable=True),
        Column(
            "resolution_status",
            TEXT,
            "voided (settled without yes or no), disputed, corrected (another outcome than published), late (settled over 7 days after the close), "
            "unknown (the market is not in the lake) or final",
        ),
        Column("history", TEXT, "states of the oracle, the first one first; null without any", nullable=True),
        Column("close_time", TIME, "close of the market", UTC),
        Column("settled_at", TIME, "when the market was paid, as known now", UTC, nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "question_id"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

#: Columns of a model's forecast; null for other forecasters.
_CALL_COLUMNS = (
    Column("model", TEXT, "model as named by the provider", nullable=True),
    Column("elicitation", TEXT, "elicitation protocol and its version", nullable=True),
    Column("prompt_hash", TEXT, "hash of the prompt", nullable=True),
    Column("raw_response", TEXT, "verbatim response; untrusted text", nullable=True),
    Column("reasoning", TEXT, "reasoning of the model if the provider returns it; untrusted text", nullable=True),
    Column("finish_reason", TEXT, "finish reason of the provider", nullable=True),
    Column("parsed_by", TEXT, "parser path of the response; docs/models.md lists them", nullable=True),
    Column("contradiction", TEXT, "contradiction within the response; null without one", nullable=True),
    Column(
        "repaired",
        pl.Boolean(),
        "whether the forecast comes from a second request, sent because the first response was unreadable",
        nullable=True,
    ),
    Column(
        "p_yes_compat",
        PROBABILITY,
        "probability of YES according to the published KalshiBench parser, from the first response",
        "probability",
        nullable=True,
    ),
    Column("input_tokens", pl.Int64(), "tokens of all prompts, including repairs and failed attempts", "tokens", nullable=True),
    Column("output_tokens", pl.Int64(), "tokens of all responses, including reasoning", "tokens", nullable=True),
    Column("reasoning_tokens", pl.Int64(), "reasoning tokens among them", "tokens", nullable=True),
    Column("cost", MONEY, "cost of all requests for this forecast; null if partly unknown", "dollars", nullable=True),
    Column("cost_source", TEXT, "source of the cost: provider, price_list or unbilled", nullable=True),
    Column("price_map", TEXT, "price list and its version at the time of the call; null if the provider stated the cost", nullable=True),
    Column("latency", pl.Float64(), "duration of the successful call", "seconds", nullable=True),
    Column("attempts", pl.Int32(), "number of requests, including repairs and failed attempts", "requests", nullable=True),
    Column("call_key", TEXT, "journal key of the call", nullable=True),
    Column("served_model", TEXT, "model that answered, from the body or gateway headers; docs/models.md", nullable=True),
    Column("system_fingerprint", TEXT, "system fingerprint of the answer, from the provider", nullable=True),
    Column("served_by", TEXT, "provider or deployment that served the call behind a gateway", nullable=True),
)

FORECASTS = Table(
    name="benchmark/forecasts",
    row="One forecast of one forecaster for one question, or the reason for its absence.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("question_id", TEXT, "id in benchmark/questions"),
        Column("sample", pl.Int32(), "index of the sample, from 0"),
        Column("as_of", TIME, "time up to which information was used", UTC, nullable=True),
        Column("answer", TEXT, "yes or no; null without a forecast", nullable=True),
        Column("confidence", PROBABILITY, "stated confidence that the answer is correct", "probability", nullable=True),
        Column("p_yes", PROBABILITY, "forecast probability of YES; null without a forecast", "probability", nullable=True),
        Column("combine", TEXT, "how the samples of a question are combined: mean or median", nullable=True),
        Column("error", TEXT, "why there is no forecast; null with one", nullable=True),
        Column(
            "failure",
            TEXT,
            "kind of failure: an outcome of the journal, unreadable, contradictory, not_asked or no_basis; null with a forecast",
            nullable=True,
        ),
        Column(
            "knowledge_cutoff", TIME, "time until which the forecaster may know outcomes; null if it cannot know any", UTC, nullable=True
        ),
        Column("days_from_cutoff", pl.Float64(), "days from the knowledge cutoff to the resolution of the question", "days", nullable=True),
        Column(
            "could_know",
            pl.Boolean(),
            "whether the question closed or was settled at or before the knowledge cutoff, so that its outcome may have been known",
        ),
        *_CALL_COLUMNS,
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "question_id", "sample"),
    partitioned_by=("release", "forecaster"),
    version="4",
)

SCORES = Table(
    name="benchmark/scores",
    row="One metric of one forecaster on one release, over all or some questions, with its interval.",
    columns=(
        RELEASE,
        FORECASTER,
        Column(
            "scope",
            TEXT,
            "questions in the metric: all, category:<name>, horizon:<days>, distance:<days> from the knowledge cutoff, could_know, known_now (with "
            "outcomes as known now) or undisputed (without questions that were voided, disputed, corrected or late)",
        ),
        Column("metric", TEXT, "name of the metric"),
        Column("value", pl.Float64(), "point estimate; null if undefined", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % interval; null without one", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % interval; null without one", nullable=True),
        Column("reason", TEXT, "why there is no interval; null with one", nullable=True),
        Column("expected", pl.Float64(), "mean of a calibration error under perfect calibration; null for other metrics", nullable=True),
        Column("p_calibrated", pl.Float64(), "p-value of the calibration test by a calibration error", nullable=True),
        Column("n", pl.Int64(), "number of scored forecasts"),
        Column("n_questions", pl.Int64(), "number of questions in scope, scored or not"),
        Column("n_clusters", pl.Int64(), "number of independent clusters among the forecasts"),
        Column("seed", pl.Int64(), "seed of the intervals and of the calibration tests"),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "scope", "metric"),
    partitioned_by=("release", "forecaster"),
    mart=True,
    version="5",
)

ENSEMBLES = Table(
    name="benchmark/ensembles",
    row="One metric of a mean of the language models' forecasts on one release, with its interval.",
    columns=(
        RELEASE,
        Column("ensemble", TEXT, "mean, or extremised mean: the logit of the mean times the square root of 3"),
        Column("members", pl.Int64(), "number of forecasters in the mean"),
        *(column for column in SCORES.columns if column.name in ("metric", "value", "lower", "upper", "reason")),
        *(column for column in SCORES.columns if column.name in ("n", "n_questions", "n_clusters", "seed")),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "ensemble", "metric"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

RELIABILITY = Table(
    name="benchmark/reliability",
    row="One bin of a forecaster's reliability diagram on one release.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("bin", pl.Int32(), "index of the bin, from 0"),
        Column("lower_edge", PROBABILITY, "lower edge, inclusive", "probability"),
        Column("upper_edge", PROBABILITY, "upper edge, exclusive except in the last bin", "probability"),
        Column("n", pl.Int64(), "number of forecasts in the bin"),
        Column("n_clusters", pl.Int64(), "number of independent clusters among the forecasts of the bin"),
        Column("mean_forecast", PROBABILITY, "mean forecast probability of YES; null in an empty bin", "probability", nullable=True),
        Column("yes_rate", PROBABILITY, "observed frequency of YES; null in an empty bin", "probability", nullable=True),
        Column("gap", pl.Float64(), "mean_forecast - yes_rate; null in an empty bin", "probability", nullable=True),
        Column(
            "yes_rate_lower",
            PROBABILITY,
            "lower end of the 95 % interval of yes_rate over clusters; null without one",
            "probability",
            nullable=True,
        ),
        Column(
            "yes_rate_upper",
            PROBABILITY,
            "upper end of the 95 % interval of yes_rate over clusters; null without one",
            "probability",
            nullable=True,
        ),
        Column("reason", TEXT, "why there is no interval; null with one", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "bin"),
    partitioned_by=("release", "forecaster"),
    mart=True,
    version="4",
)

#: Kinds of forecasters that ask a language model.
MODEL_KINDS = ("language_model", "tool_model")

_RANKED_METRICS = ("brier", "brier_skill", "skill_vs_market", "pool_weight", "log_loss", "roc_auc", "accuracy")


def _metric_columns(metric: str) -> tuple[Column, ...]:
    return (
        Column(metric, pl.Float64(), f"{metric}, as in benchmark/scores", nullable=True),
        Column(f"{metric}_lower", pl.Float64(), f"lower end of the 95 % interval of {metric}; null without one", nullable=True),
        Column(f"{metric}_upper", pl.Float64(), f"upper end of the 95 % interval of {metric}; null without one", nullable=True),
        Column(f"{metric}_reason", TEXT, f"why {metric} has no interval; null with one", nullable=True),
    )


LEADERBOARD = Table(
    name="benchmark/leaderboard",
    row="One forecaster on a release's leaderboard, ranked by Brier score, with intervals and coverage.",
    columns=(
        RELEASE,
        Column("rank", pl.Int32(), "rank by Brier score, from 1; null below the coverage floor", nullable=True),
        Column("forecaster", TEXT, "name of the forecaster in the registry"),
        *(column for metric in _RANKED_METRICS for column in _metric_columns(metric)),
        Column("ece", pl.Float64(), "ece, as in benchmark/scores; biased upwards", nullable=True),
        Column("ece_expected", pl.Float64(), "mean of ece under perfect calibration", nullable=True),
        Column("ece_p_calibrated", pl.Float64(), "p-value of the calibration test by ece", nullable=True),
        Column("group", TEXT, "significance group: forecasters that share a letter do not differ significantly", nullable=True),
        Column(
            "in_mcs",
            pl.Boolean(),
            "whether it is in the 90 % model confidence set, i.e. not significantly worse than another forecaster",
            nullable=True,
        ),
        Column("mcs_p", pl.Float64(), "p-value of the model confidence set", nullable=True),
        Column("could_know", pl.Int64(), "number of questions excluded because the forecaster may have known the outcome"),
        Column("could_know_share", pl.Float64(), "share of these questions in the release", "ratio"),
        Column("brier_could_know", pl.Float64(), "brier over these questions, for information", nullable=True),
        Column("failed", pl.Int64(), "number of questions that count without a forecast: failed or never sent"),
        Column("n", pl.Int64(), "number of scored forecasts"),
        Column("n_questions", pl.Int64(), "number of questions in the release"),
        Column("coverage", pl.Float64(), "share of questions with a forecast that counts", "ratio"),
        Column("n_clusters", pl.Int64(), "number of independent clusters among the forecasts"),
        Column("unranked_because", TEXT, "why there is no rank; null if ranked", nullable=True),
        Column(
            "kind",
            TEXT,
            "market_price, base_rate, constant, random, language_model or tool_model; unregistered if it is no longer in the registry",
        ),
        Column("questions_digest", TEXT, "SHA-256 of the release's questions", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster"),
    partitioned_by=("release",),
    sort=("release", "rank", "forecaster"),
    mart=True,
    version="7",
)

COMPARISONS = Table(
    name="benchmark/comparisons",
    row="Two forecasters of a release on common questions: the difference of their Brier scores, and tests.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("other", TEXT, "forecaster that it is compared with"),
        Column("n", pl.Int64(), "number of common questions that neither could have known"),
        Column("n_clusters", pl.Int64(), "number of clusters whose outcomes matter to the difference"),
        Column("difference", pl.Float64(), "mean Brier score minus that of the other forecaster; negative is better", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % interval; null without one", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % interval; null without one", nullable=True),
        Column("p", pl.Float64(), "two-sided p-value; below 0.05 if and only if the interval excludes 0", nullable=True),
        Column("p_holm", pl.Float64(), "p-value with Holm's correction over all pairs of the release", nullable=True),
        Column(
            "p_mcnemar",
            pl.Float64(),
            "p-value of the exact McNemar test of the yes/no answers; assumes independent questions",
            nullable=True,
        ),
        Column("reason", TEXT, "why there is no interval and test; null with them", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "other"),
    partitioned_by=("release",),
    mart=True,
    version="4",
)

DATASET_ANALYSIS = Table(
    name="benchmark/dataset_analysis",
    row="One statistic of a release's question set.",
    columns=(
        RELEASE,
        Column("section", TEXT, "temporal, ground_truth, category, complexity, market, cluster, …"),
        Column("item", TEXT, "subject of the statistic: all, a month, a category or a horizon"),
        Column("statistic", TEXT, "name of the statistic"),
        Column("value", pl.Float64(), "value; null if undefined or not a number", nullable=True),
        Column("text", TEXT, "value if it is text", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "section", "item", "statistic"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

LEAKS = Table(
    name="benchmark/leaks",
    row="One way in which the outcome of a question of a release may leak: another question or a document.",
    columns=(
        RELEASE,
        Column("question_id", TEXT, "id in benchmark/questions"),
        Column(
            "kind",
            TEXT,
            "event (others of its event are in the release), paraphrase, negation, threshold (another number or deadline) or bundle of another question, "
            "or document (states the outcome, and was visible at the time of a forecast)",
        ),
        Column("source", TEXT, "venue of the other question, or name of the corpus"),
        Column("other", TEXT, "id of the event, the other question or the document"),
        Column(
            "similarity",
            pl.Float64(),
            "similarity of the questions, or share of the question's words in the document's statement; 1 for events",
        ),
        Column(
            "evidence", TEXT, "text of the other question, or statement in the document; untrusted text; null for events", nullable=True
        ),
        Column("published_at", TIME, "when the document was published; null for questions", UTC, nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "question_id", "kind", "source", "other"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

LEAK_SCORES = Table(
    name="benchmark/leak_scores",
    row="The Brier score of one forecaster over the questions of a release with or without leaks, or closed some days from its knowledge cutoff.",
    columns=(
        RELEASE,
        FORECASTER,
        Column(
            "part",
            TEXT,
            "questions: all, sibling or document (with a leak in benchmark/leaks), no sibling, no document, no leak, days:<range> (days from the knowledge "
            "cutoff to the close, also of questions that are not scored), or jump (of the mean score at the cutoff, after less before)",
        ),
        Column(
            "share",
            pl.Float64(),
            "share of these among the forecasts that are scored, of days among all; null for the jump",
            "ratio",
            nullable=True,
        ),
        Column("brier", pl.Float64(), "brier over these questions, or its jump; null if undefined", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % interval; null without one", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % interval; null without one", nullable=True),
        Column("reason", TEXT, "why there is no interval; null with one", nullable=True),
        Column("n", pl.Int64(), "number of forecasts"),
        Column("n_clusters", pl.Int64(), "number of independent clusters among them"),
        Column("seed", pl.Int64(), "seed of the intervals"),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "part"),
    partitioned_by=("release",),
    mart=True,
    version="2",
)

TABLES = (QUESTIONS, RESOLUTIONS, FORECASTS, SCORES, ENSEMBLES, RELIABILITY, LEADERBOARD, COMPARISONS, DATASET_ANALYSIS, LEAKS, LEAK_SCORES)
