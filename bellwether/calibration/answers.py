"""Validated forecasts of a release, as one sheet per forecaster: every question with its forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import polars as pl

from bellwether.errors import ScoringError
from bellwether.tables.benchmark import FORECASTS, HORIZONS, QUESTIONS, RESOLUTIONS
from bellwether.tables.knowledge import could_know, days_from_cutoff
from bellwether.tables.schema import TIME

#: ClusterUnit of intervals: the release's own choice, series, or event.
ClusterUnit = Literal["cluster", "series", "event"]
CLUSTERS: dict[ClusterUnit, pl.Expr] = {
    "cluster": pl.col("cluster"),
    "series": pl.format("{}:{}", "source", "series_ticker"),
    "event": pl.format("{}:{}", "source", "event_id"),
}

ALL = "all"
COULD_KNOW = "could_know"
KNOWN_NOW = "known_now"
UNDISPUTED = "undisputed"

_DAY = 86_400_000_000

#: Rate of the general taker fee by venue, in dollars per contract and P (1 - P), as in the rule sets of the replay; without it there are no paper bets.
TAKER_RATES = {"kalshi": 0.07}
#: Maximum age of a market price at the time of the forecast; an older one is stale and not compared with.
MAX_PRICE_AGE = timedelta(days=1)

#: Scopes by days from the forecast to the close: name, and maximum of days.
_HORIZON_SCOPES = (("horizon:<=1d", 1.0), ("horizon:1d-7d", 7.0), ("horizon:7d-30d", 30.0), ("horizon:>30d", float("inf")))

#: Scopes by days from the knowledge cutoff to the resolution: name, and exclusive upper bound of days.
_DISTANCE_SCOPES = (("distance:<90d", 90.0), ("distance:90d-180d", 180.0), ("distance:180d-365d", 365.0), ("distance:>=365d", float("inf")))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Forecasts of one release. Create it with `Answers.of`, which validates.

    questions: one row per question: id, ordinal, category, cluster (index), y, y_now (the outcome as known now, null without one), is_undisputed, times
        and the market's prices, in the release's order.
    combined: one row per forecaster and question with a row of benchmark/forecasts, its samples combined: forecaster, id, p, answer, as_of,
        said_could_know, cutoff.
    release: name of the release; None without questions.
    known_at: latest time of the given rows; None without rows.
    """

    questions: pl.DataFrame
    combined: pl.DataFrame
    release: str | None
    known_at: datetime | None

    @classmethod
    def of(
        cls,
        forecasts: pl.DataFrame,
        questions: pl.DataFrame,
        clusters: ClusterUnit = "cluster",
        resolutions: pl.DataFrame | None = None,
    ) -> Answers:
        """Validate rows of benchmark/forecasts against all rows of one release in benchmark/questions.

        resolutions: rows of benchmark/resolutions of the release; without them, and for unknown questions, the published outcomes are final.

        Raises `SchemaError` for frames of another shape and `ScoringError` for rows that cannot be scored, naming the first.
        """
        _check(forecasts, questions)
        if clusters not in CLUSTERS:
            raise ScoringError(f"scoring: clusters is {clusters!r}; give one of {', '.join(CLUSTERS)}")
        known = (RESOLUTIONS.empty() if resolutions is None else resolutions).select(
            "resolution_status", "outcome", id="question_id", is_known=pl.lit(value=True)
        )
        is_known, truth = pl.col("is_known").fill_null(False), pl.col("ground_truth")
        columns = (
            questions.join(known, on="id", how="left")
            .sort("ordinal", "id")
            .select(
                "id",
                "ordinal",
                "category",
                "open_time",
                "close_time",
                "settled_at",
                cluster=CLUSTERS[clusters].rank("dense").cast(pl.Int64) - 1,
                y=truth == "yes",
                y_now=pl.when(is_known).then(pl.col("outcome")).otherwise(truth) == "yes",
                is_undisputed=~is_known | pl.col("resolution_status").is_in(["final", "unknown"]),
                fee_rate=pl.col("source").replace_strict(TAKER_RATES, default=None, return_dtype=pl.Float64),
                **{
                    f"{column}_{name}": pl.col(f"{column}_{name}").cast(pl.Float64)
                    for column in ("price", "bid", "ask")
                    for name in HORIZONS
                },
                **{f"price_{name}_at": pl.col(f"price_{name}_at") for name in HORIZONS},
            )
        )
        release = questions.select(pl.col("release").first()).item()
        known_at = pl.concat([forecasts.select("known_at"), questions.select("known_at")]).max().item()
        return cls(columns, combine_samples(forecasts), release, known_at)

    @property
    def names(self) -> list[str]:
        """Names of the forecasters, sorted."""
        return sorted(self.combined["forecaster"].unique())

    def sheet(self, forecaster: str) -> pl.DataFrame:
        """Return one row per question of the release, in its order, with the forecaster's forecast.

        In addition to the columns of `questions`: p and answer (null without a forecast), as_of, market (the latest price at most `MAX_PRICE_AGE`
        before as_of), sell and buy (proceeds and cost of a contract of yes at its quotes, after the taker fee, in dollars), knowledge_cutoff,
        could_know (by the row or the cutoff) and days_from_cutoff.
        """
        rows = self.combined.filter(pl.col("forecaster") == forecaster)
        cutoff: datetime | None = rows.select(pl.col("cutoff").max()).item() if rows.height else None
        joined = self.questions.join(rows.drop("forecaster", "cutoff"), on="id", how="left", maintain_order="left")
        return (
            _add_market(joined)
            .with_columns(
                knowledge_cutoff=pl.lit(cutoff, TIME),
                could_know=could_know(cutoff) | pl.col("said_could_know").fill_null(False),
                days_from_cutoff=days_from_cutoff(cutoff),
            )
            .drop("said_could_know")
        )

    def average(self, members: Sequence[str]) -> pl.DataFrame:
        """Return one row per question of the release, in its order, with the mean forecast of the members that count on it.

        In addition to the columns of `questions`: p (null without a forecast), as_of (the latest), market, sell and buy as in `sheet`.
        """
        counting = [
            self.sheet(name).filter(pl.col("p").is_not_null() & ~pl.col("could_know")).select("id", "p", "as_of") for name in members
        ]
        means = pl.concat(counting).group_by("id").agg(pl.col("p").mean(), pl.col("as_of").max())
        return _add_market(self.questions.join(means, on="id", how="left", maintain_order="left"))


#: Probability of the samples of a question, grouped rows of benchmark/forecasts: their mean or median, by the column `combine`.
COMBINED = pl.when(pl.col("combine").first() == "median").then(pl.col("p_yes").median()).otherwise(pl.col("p_yes").mean())


def combine_samples(forecasts: pl.DataFrame) -> pl.DataFrame:
    """Combine a forecaster's samples (repeated answers to one question) into one forecast: one row per forecaster and question. forecasts:
    rows of benchmark/forecasts.

    Columns forecaster, id, p (mean or median of p_yes, by the column `combine`; null without a forecast), answer (of the majority; null in a
    tie), as_of (the earliest), said_could_know and cutoff (the latest knowledge cutoff).
    """
    yes, no = ((pl.col("answer").filter(pl.col("p_yes").is_not_null()) == answer).sum().cast(pl.Int64) for answer in ("yes", "no"))
    return (
        forecasts.sort(FORECASTS.key)
        .group_by("forecaster", pl.col("question_id").alias("id"), maintain_order=True)
        .agg(
            p=COMBINED,
            lead=yes - no,
            as_of=pl.col("as_of").min(),
            said_could_know=pl.col("could_know").any(),
            cutoff=pl.col("knowledge_cutoff").max(),
        )
        .with_columns(answer=pl.when(pl.col("lead") > 0).then(pl.lit("yes")).when(pl.col("lead") < 0).then(pl.lit("no")))
        .drop("lead")
    )


def common_scopes(sheet: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield (scope, rows of the sheet) for the parts whose questions are the same for every forecaster: all questions, also with the outcomes as
    known now, those without doubt about the outcome, and each category.
    """
    yield ALL, sheet
    yield KNOWN_NOW, sheet.filter(pl.col("y_now").is_not_null()).with_columns(y="y_now")
    yield UNDISPUTED, sheet.filter("is_undisputed")
    for category in sorted(sheet["category"].unique()):
        yield f"category:{category}", sheet.filter(pl.col("category") == category)


def own_scopes(sheet: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield (scope, rows of the sheet) for the parts that depend on the forecaster: by days to the close, by days from the knowledge
    cutoff, and questions that the forecaster could have known.
    """
    horizon = (pl.col("close_time") - pl.col("as_of")).dt.total_microseconds() / _DAY
    above = float("-inf")
    for name, up_to in _HORIZON_SCOPES:
        yield name, sheet.filter((horizon > above) & (horizon <= up_to))
        above = up_to
    days, above = pl.col("days_from_cutoff"), 0.0
    for name, below in _DISTANCE_SCOPES:
        yield name, sheet.filter((days >= above) & (days < below))
        above = below
    yield COULD_KNOW, sheet.filter("could_know")


def _check(forecasts: pl.DataFrame, questions: pl.DataFrame) -> None:
    """Raise `SchemaError` for frames of another shape, and `ScoringError` for rows that cannot be scored."""
    FORECASTS.validate(forecasts, unique=False)
    QUESTIONS.validate(questions)
    key = FORECASTS.key
    _refuse_rows(questions, pl.col("release") != pl.col("release").first(), ("release", "id"), "one release is scored at a time")
    _refuse_rows(questions, ~pl.col("ground_truth").is_in(["yes", "no"]), ("id", "ground_truth"), "a question's ground truth is yes or no")
    _refuse_rows(forecasts, pl.struct(key).is_duplicated(), key, "a forecaster forecasts a question once per sample; remove the copies")
    _refuse_rows(forecasts, ~pl.col("p_yes").is_between(0, 1), (*key, "p_yes"), "p_yes lies in [0, 1], or is null with the reason in error")
    _refuse_rows(forecasts, ~pl.col("answer").is_in(["yes", "no"]), (*key, "answer"), "give yes, no or null")
    _refuse_rows(forecasts, ~pl.col("combine").is_in(["mean", "median"]), (*key, "combine"), "combine is mean or median")
    mixed = pl.col("combine").fill_null("mean").n_unique().over("forecaster") > 1
    _refuse_rows(forecasts, mixed, (*key, "combine"), "use one value of combine per forecaster")
    strangers = forecasts.join(questions, left_on=["release", "question_id"], right_on=["release", "id"], how="anti")
    _refuse_rows(strangers, pl.lit(True), key, "the release has no such question; give the questions of the forecasts' own release")


def _refuse_rows(frame: pl.DataFrame, bad: pl.Expr, shown_columns: tuple[str, ...], advice: str) -> None:
    """Raise `ScoringError` if `bad` holds for any row. shown_columns: columns of the first such row in the message."""
    invalid = frame.filter(bad)
    if invalid.height:
        raise ScoringError(
            f"scoring: {invalid.height} row{'s' if invalid.height > 1 else ''} cannot be scored, first {invalid.select(shown_columns).row(0, named=True)}; {advice}"
        )


def _add_market(sheet: pl.DataFrame) -> pl.DataFrame:
    """Add the columns market, sell and buy to forecasts with the columns of `Answers.questions` and as_of."""
    bid, ask, rate = _at_forecast("bid"), _at_forecast("ask"), pl.col("fee_rate")
    return sheet.with_columns(market=_at_forecast("price"), sell=bid - rate * bid * (1 - bid), buy=ask + rate * ask * (1 - ask))


def _at_forecast(column: str) -> pl.Expr:
    """Return an expression for the price, or a side of its book, of the latest price at or before as_of; null if missing or stale."""
    age = {name: pl.col("as_of") - pl.col(f"price_{name}_at") for name in HORIZONS}
    at = {
        name: pl.when(pl.col(f"price_{name}").is_not_null() & (age[name] >= timedelta(0)) & (age[name] <= MAX_PRICE_AGE)).then(
            f"price_{name}_at"
        )
        for name in HORIZONS
    }
    latest = pl.max_horizontal(*at.values())
    return pl.coalesce(*(pl.when(instant == latest).then(f"{column}_{name}") for name, instant in at.items()))
