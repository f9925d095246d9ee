"""Tables that compare the arena's families: their forecasts, metrics with intervals, pairwise differences, equity and
calibration, and the model releases that represented them.
"""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import LARGE_MONEY, PROBABILITY, TEXT, TIME, UTC, Column, Table

_FLOAT = pl.Float64()

#: Ranking group: methodology, live or reconstructed, and whether models may know outcomes.
_GROUP = (
    Column("methodology", TEXT, "methodology of the cohorts"),
    Column("reconstructed", pl.Boolean(), "whether the cohorts are reconstructed; ranked separately"),
    Column(
        "contaminated",
        pl.Boolean(),
        "whether the model may know outcomes (knowledge cutoff after the start of the cohort) or the forecasts were received late; ranked separately",
    ),
)
_FAMILY = Column("family", TEXT, "family, a competitor over the years")
GROUP = tuple(column.name for column in _GROUP)
#: Input tables of rankings.
INPUTS = ("agents", "decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores", "submissions")

#: Metrics of arena/rankings that have ranks.
RANKED = ("brier_vs_price", "return", "brier_stated", "brier_size", "log_loss", "skill_price", "ece", "brier_price", "win_rate")

SUBMISSIONS = Table(
    name="arena/submissions",
    row="One submitted forecast of a market in a week's universe.",
    columns=(
        Column("week", pl.Date(), "Sunday of the first week whose decisions the forecast precedes", UTC),
        Column("family", TEXT, "forecaster, ranked like a family"),
        Column("market_id", TEXT, "market id at the venue"),
        Column("stated_at", TIME, "time of the forecast, according to the file", UTC),
        Column("probability", PROBABILITY, "stated probability of YES", "probability"),
        Column(
            "late", pl.Boolean(), "whether it was received after the decision deadline, so that its time is unproven; ranked separately"
        ),
        Column("reconstructed", pl.Boolean(), "whether the week is reconstructed"),
        Column("known_at", TIME, "when both the forecast was received and the universe was frozen", UTC),
    ),
    key=("week", "family", "market_id", "stated_at"),
)

RANKINGS = Table(
    name="arena/rankings",
    row="One metric of one family over its cohorts, with an interval over events or the reason for its absence.",
    columns=(
        *_GROUP,
        _FAMILY,
        Column("metric", TEXT, "name of the metric, as in docs/arena.md"),
        Column("value", _FLOAT, "estimate; null if undefined", nullable=True),
        Column("lower", _FLOAT, "lower end of the 95 % interval; null without one", nullable=True),
        Column("upper", _FLOAT, "upper end of the 95 % interval; null without one", nullable=True),
        Column("reason", TEXT, "why there is no interval; null with one", nullable=True),
        Column("cohort_low", _FLOAT, "for a return: lowest return of a cohort; null with fewer than two cohorts", nullable=True),
        Column("cohort_high", _FLOAT, "for a return: highest return of a cohort; null with fewer than two cohorts", nullable=True),
        Column("expected", _FLOAT, "for a calibration error: its mean under perfect calibration", nullable=True),
        Column("p_calibrated", _FLOAT, "for a calibration error: p-value of the calibration test", nullable=True),
        Column("n", pl.Int64(), "number of forecasts, bets, decisions or cohorts in the metric"),
        Column("n_events", pl.Int64(), "number of independent events among them; 0 if irrelevant"),
        Column("better", TEXT, "which direction is better: lower, higher or neither"),
        Column("baseline", pl.Boolean(), "whether every stated probability is the market's price: a baseline outside the ranks"),
        Column(
            "rank",
            pl.Int32(),
            "rank by this metric within the group, from 1, equal for ties; null for the reason in unranked_because",
            nullable=True,
        ),
        Column(
            "unranked_because",
            TEXT,
            "why there is no rank: a baseline, no value, no position, too few usable answers or forecasts (below 90 %), fewer than 10 events (3 for "
            "returns), or a count; null if ranked",
            nullable=True,
        ),
        Column("mcs_p", _FLOAT, "p-value of the model confidence set; null if pairs are not tested", nullable=True),
        Column("in_mcs", pl.Boolean(), "whether it is in the 90 % model confidence set", nullable=True),
        Column("letters", TEXT, "families that share a letter do not differ significantly; null if pairs are not tested", nullable=True),
    ),
    key=(*GROUP, "family", "metric"),
    mart=True,
    version="7",
)

PAIRS = Table(
    name="arena/pairs",
    row="One pair of families compared by one metric, paired by cohort and week.",
    columns=(
        *_GROUP,
        Column("metric", TEXT, "brier_stated, brier_vs_price, brier_size or return"),
        _FAMILY,
        Column("other", TEXT, "family that it is compared with"),
        Column("n", pl.Int64(), "number of common cohort-weeks with the metric"),
        Column("n_clusters", pl.Int64(), "number of events whose outcomes change the difference, of the family with fewer"),
        Column(
            "difference",
            _FLOAT,
            "metric of the family minus that of the other one, over the common cohort-weeks; null without one",
            nullable=True,
        ),
        Column("lower", _FLOAT, "lower end of the 95 % interval of the difference", nullable=True),
        Column("upper", _FLOAT, "upper end of the 95 % interval of the difference", nullable=True),
        Column("p", _FLOAT, "two-sided p-value; below 0.05 if and only if the interval excludes 0", nullable=True),
        Column("p_holm", _FLOAT, "p-value with Holm's correction over the pairs of the group and metric", nullable=True),
        Column("reason", TEXT, "why there is no interval and test; null with them", nullable=True),
    ),
    key=(*GROUP, "metric", "family", "other"),
    mart=True,
    version="3",
)

_MEAN = Column("total", LARGE_MONEY, "mean of cash plus positions over the agents", "dollars")
_AGENTS = Column("n", pl.Int64(), "number of agents in the mean")

EQUITY_BY_DAY = Table(
    name="arena/equity_by_day",
    row="The mean portfolio of a family's agents at the end of a UTC day.",
    columns=(*_GROUP, _FAMILY, Column("day", pl.Date(), "UTC day", UTC), _AGENTS, _MEAN),
    key=(*GROUP, "family", "day"),
    mart=True,
)

EQUITY_BY_AGE = Table(
    name="arena/equity_by_age",
    row="The mean portfolio of a family's agents at the same age of their cohorts.",
    columns=(*_GROUP, _FAMILY, Column("age", pl.Int32(), "days since the cohort's Sunday", "days"), _AGENTS, _MEAN),
    key=(*GROUP, "family", "age"),
    mart=True,
)

CALIBRATION = Table(
    name="arena/calibration",
    row="One bin of the reliability diagram of a family's stated probabilities.",
    columns=(
        *_GROUP,
        _FAMILY,
        Column("bin", pl.Int32(), "index of the bin, from 0"),
        Column("lower_edge", PROBABILITY, "lower edge, inclusive", "probability"),
        Column("upper_edge", PROBABILITY, "upper edge, exclusive except in the last bin", "probability"),
        Column("n", pl.Int64(), "number of forecasts in the bin"),
        Column("n_clusters", pl.Int64(), "number of events among them"),
        Column("mean_forecast", PROBABILITY, "mean stated probability; null in an empty bin", "probability", nullable=True),
        Column("yes_rate", PROBABILITY, "observed frequency; null in an empty bin", "probability", nullable=True),
        Column("gap", _FLOAT, "mean_forecast - yes_rate; null in an empty bin", "probability", nullable=True),
        Column("yes_rate_lower", PROBABILITY, "lower end of the 95 % interval of yes_rate; null without one", "probability", nullable=True),
        Column("yes_rate_upper", PROBABILITY, "upper end of the 95 % interval of yes_rate; null without one", "probability", nullable=True),
        Column("reason", TEXT, "why there is no interval; null with one", nullable=True),
    ),
    key=(*GROUP, "family", "bin"),
    mart=True,
    version="2",
)

RELEASES = Table(
    name="arena/releases",
    row="One release of a family, as used by cohorts; rules have none.",
    columns=(
        Column("reconstructed", pl.Boolean(), "whether its cohorts are reconstructed"),
        Column("family", TEXT, "family, a competitor over the years"),
        Column("title", TEXT, "display name of the family"),
        Column("control", pl.Boolean(), "whether the family is a control, whose release never changes"),
        Column("model", TEXT, "model of the release"),
        Column("model_id", TEXT, "model id (provider/id) in its latest cohort", nullable=True),
        Column("released", pl.Date(), "release date of the provider; null if unknown", UTC, nullable=True),
        Column("input_price", LARGE_MONEY, "price per million input tokens in its latest cohort", "dollars", nullable=True),
        Column("output_price", LARGE_MONEY, "price per million output tokens in its latest cohort", "dollars", nullable=True),
        Column("first_cohort", pl.Date(), "first cohort in which it represents the family", UTC),
        Column("last_cohort", pl.Date(), "latest cohort in which it represents the family", UTC),
        Column("cohorts", pl.Int32(), "number of cohorts in which it represents the family"),
        Column("previous", TEXT, "previous release; null for the first", nullable=True),
    ),
    key=("reconstructed", "family", "model"),
    mart=True,
)

TABLES = (SUBMISSIONS, RANKINGS, PAIRS, EQUITY_BY_DAY, EQUITY_BY_AGE, CALIBRATION, RELEASES)
