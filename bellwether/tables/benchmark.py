"""Benchmark tables: questions, forecasts, scores, reliability and the leaderboard, per release."""

from __future__ import annotations

import polars as pl

from bellwether.tables.clean import KNOWN_AT
from bellwether.tables.schema import DOLLARS, MONEY, PRICE, PROBABILITY, TEXT, TIME, UTC, Column, Table

RELEASE = Column("release", TEXT, "name of the benchmark release; the partition")
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
        Column("cluster", TEXT, "unit of the cluster bootstrap: venue:series, or venue:event where the release says so"),
        Column("open_time", TIME, "when trading opened", UTC, nullable=True),
        Column("settled_at", TIME, "when the market was paid out", UTC, nullable=True),
        *(column for name, hours in HORIZONS.items() for column in _horizon(name, hours)),
        Column("ordinal", pl.Int32(), "position in the release's order, from 0"),
        Column("cutoff", TIME, "everything in the release resolved after this instant", UTC),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "id"),
    partitioned_by=("release",),
    sort=("release", "ordinal"),
    mart=True,
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
        Column("error", TEXT, "why there is no forecast; null when there is one", nullable=True),
        Column("prompt_hash", TEXT, "hash of the prompt; null for forecasters that are not asked", nullable=True),
        Column("raw_response", TEXT, "the response as it came; untrusted text", nullable=True),
        Column("input_tokens", pl.Int64(), "tokens of the prompt", "tokens", nullable=True),
        Column("output_tokens", pl.Int64(), "tokens of the response", "tokens", nullable=True),
        Column("cost", MONEY, "price of the call", "dollars", nullable=True),
        Column("latency", pl.Float64(), "time of the call", "seconds", nullable=True),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "question_id", "sample"),
    partitioned_by=("release", "forecaster"),
    version="2",
)

SCORES = Table(
    name="benchmark/scores",
    row="One metric of one forecaster on one release, over all questions or one category, with its interval.",
    columns=(
        RELEASE,
        FORECASTER,
        Column("scope", TEXT, "all, or category:<name>"),
        Column("metric", TEXT, "name of the metric"),
        Column("value", pl.Float64(), "point estimate; null when undefined on this data", nullable=True),
        Column("lower", pl.Float64(), "lower end of the 95 % cluster-bootstrap interval; null when none", nullable=True),
        Column("upper", pl.Float64(), "upper end of the 95 % cluster-bootstrap interval; null when none", nullable=True),
        Column("n", pl.Int64(), "forecasts scored"),
        Column("n_questions", pl.Int64(), "questions in scope, scored or not"),
        Column("n_clusters", pl.Int64(), "clusters of the bootstrap among the forecasts scored"),
        Column("replicates", pl.Int64(), "bootstrap replicates; 0 when there is no interval"),
        Column("seed", pl.Int64(), "seed of the bootstrap"),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "scope", "metric"),
    partitioned_by=("release", "forecaster"),
    mart=True,
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
        Column("mean_forecast", PROBABILITY, "mean forecast probability of yes; null in an empty bin", "probability", nullable=True),
        Column("yes_rate", PROBABILITY, "observed frequency of yes; null in an empty bin", "probability", nullable=True),
        Column("gap", pl.Float64(), "mean_forecast - yes_rate; null in an empty bin", "probability", nullable=True),
        Column(
            "yes_rate_lower",
            PROBABILITY,
            "lower end of the 95 % Wilson interval of yes_rate; null in an empty bin",
            "probability",
            nullable=True,
        ),
        Column(
            "yes_rate_upper",
            PROBABILITY,
            "upper end of the 95 % Wilson interval of yes_rate; null in an empty bin",
            "probability",
            nullable=True,
        ),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster", "bin"),
    partitioned_by=("release", "forecaster"),
    mart=True,
)

_RANKED = ("brier", "brier_skill", "skill_vs_market", "log_loss", "ece", "accuracy")

LEADERBOARD = Table(
    name="benchmark/leaderboard",
    row="One forecaster's line on a release's leaderboard, ranked by Brier score, with intervals and coverage.",
    columns=(
        RELEASE,
        Column("rank", pl.Int32(), "1 is best; forecasters below the coverage floor are unranked", nullable=True),
        Column("forecaster", TEXT, "name of the forecaster in the registry"),
        Column("kind", TEXT, "market_price, base_rate, constant, random, …"),
        *(
            column
            for metric in _RANKED
            for column in (
                Column(metric, pl.Float64(), f"{metric}, as in benchmark/scores", nullable=True),
                Column(f"{metric}_lower", pl.Float64(), f"lower end of the 95 % interval of {metric}", nullable=True),
                Column(f"{metric}_upper", pl.Float64(), f"upper end of the 95 % interval of {metric}", nullable=True),
            )
        ),
        Column("n", pl.Int64(), "forecasts scored"),
        Column("n_questions", pl.Int64(), "questions in the release"),
        Column("coverage", pl.Float64(), "share of questions with a forecast", "ratio"),
        Column("n_clusters", pl.Int64(), "clusters of the bootstrap among the forecasts scored"),
        KNOWN_AT,
        RULES,
    ),
    key=("release", "forecaster"),
    partitioned_by=("release",),
    sort=("release", "rank", "forecaster"),
    mart=True,
)

TABLES = (QUESTIONS, FORECASTS, SCORES, RELIABILITY, LEADERBOARD)
