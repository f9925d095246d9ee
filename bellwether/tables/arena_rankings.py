"""Tables that compare the families of the arena: submitted forecasts, estimates with intervals, pairs, equity and calibration."""

from __future__ import annotations

import polars as pl

from bellwether.tables.schema import MONEY, PROBABILITY, TEXT, TIME, UTC, Column, Table

_FLOAT = pl.Float64()

#: What is ranked together: cohorts of one methodology, live or reconstructed, of models that could or could not know.
_GROUP = (
    Column("methodology", TEXT, "methodology of the cohorts"),
    Column("reconstructed", pl.Boolean(), "the cohorts were reconstructed; live ones are ranked apart"),
    Column(
        "contaminated",
        pl.Boolean(),
        "the model's knowledge cutoff is not before the start of the cohort, or the forecasts were received too late to be proven; ranked apart",
    ),
)
_FAMILY = Column("family", TEXT, "family: the competitor over the years")
GROUP = tuple(column.name for column in _GROUP)
#: Tables of the arena that rankings are computed from.
INPUTS = ("agents", "decisions", "universe", "trades", "prices", "ledger", "positions", "portfolios", "scores", "submissions")

SUBMISSIONS = Table(
    name="arena/submissions",
    row="One submitted forecast of a market in a week's universe.",
    columns=(
        Column("week", pl.Date(), "Sunday of the week that it is for: the first whose decisions it precedes", UTC),
        Column("family", TEXT, "the forecaster, a competitor as the families are"),
        Column("market_id", TEXT, "the venue's own id of the market"),
        Column("stated_at", TIME, "when it was stated, as the file claims", UTC),
        Column("probability", PROBABILITY, "stated probability of yes", "probability"),
        Column(
            "late", pl.Boolean(), "received after the decisions of the week were due, so that it may know more than it claims; ranked apart"
        ),
        Column("reconstructed", pl.Boolean(), "the week was reconstructed"),
        Column("known_at", TIME, "when it was received, and the universe of its week frozen", UTC),
    ),
    key=("week", "family", "market_id", "stated_at"),
)

RANKINGS = Table(
    name="arena/rankings",
    row="One metric of one family over its cohorts, with its interval over events or the reason why there is none.",
    columns=(
        *_GROUP,
        Column("imputation", TEXT, "what stands for a missing forecast: none (only forecasts that were stated count), price or half"),
        _FAMILY,
        Column("metric", TEXT, "name of the metric, as in docs/arena.md"),
        Column("value", _FLOAT, "the estimate; null where undefined", nullable=True),
        Column("lower", _FLOAT, "lower end of the 95 % interval; null when none", nullable=True),
        Column("upper", _FLOAT, "upper end of the 95 % interval; null when none", nullable=True),
        Column("method", TEXT, "how the interval was made; null when none", nullable=True),
        Column("df", _FLOAT, "degrees of freedom of the interval", nullable=True),
        Column("reason", TEXT, "why there is no interval; null when there is one", nullable=True),
        Column("expected", _FLOAT, "of a calibration error: its mean if the forecasts were calibrated", nullable=True),
        Column("p_calibrated", _FLOAT, "of a calibration error: p-value of a test of calibration", nullable=True),
        Column("n", pl.Int64(), "what it is computed from: forecasts, bets, decisions or cohorts"),
        Column("n_events", pl.Int64(), "events among them, which intervals treat as independent; 0 where events do not matter"),
        Column("imputed", pl.Int64(), "of n, forecasts that were imputed"),
        Column("better", TEXT, "lower, higher or neither"),
        Column(
            "rank",
            pl.Int32(),
            "by this metric within its group, from 1; null where unranked_because says why",
            nullable=True,
        ),
        Column(
            "unranked_because",
            TEXT,
            "why there is no rank: no value, usable answers or forecasts of fewer than 90 % of what was asked, or fewer than 10 events; null when there is one",
            nullable=True,
        ),
        Column(
            "share_first",
            _FLOAT,
            "share of the bootstrap replicates over events in which it is first; null where not simulated",
            nullable=True,
        ),
        Column("mcs_p", _FLOAT, "p-value in the confidence set of the best; null where pairs are not tested", nullable=True),
        Column("in_mcs", pl.Boolean(), "it is in the 90 % confidence set of the best", nullable=True),
        Column("letters", TEXT, "families that share a letter do not differ significantly; null where pairs are not tested", nullable=True),
    ),
    key=(*GROUP, "imputation", "family", "metric"),
    mart=True,
    version="4",
)

PAIRS = Table(
    name="arena/pairs",
    row="One pair of families compared by one metric, paired by cohort and week.",
    columns=(
        *_GROUP,
        Column("metric", TEXT, "brier_stated, brier_vs_price, brier_size or return"),
        _FAMILY,
        Column("other", TEXT, "the family that it is compared with"),
        Column("n", pl.Int64(), "cohort-weeks in which both have the metric"),
        Column("n_clusters", pl.Int64(), "cohorts or weeks among them, whichever are fewer"),
        Column("difference", _FLOAT, "mean of the metric minus that of the other, each cohort-week counting once", nullable=True),
        Column("lower", _FLOAT, "lower end of the 95 % interval of the difference", nullable=True),
        Column("upper", _FLOAT, "upper end of the 95 % interval of the difference", nullable=True),
        Column("standard_error", _FLOAT, "standard error over cohorts and weeks", nullable=True),
        Column("df", _FLOAT, "degrees of freedom of interval and test", nullable=True),
        Column("p", _FLOAT, "two-sided p-value; below 0.05 exactly where the interval excludes 0", nullable=True),
        Column("p_holm", _FLOAT, "p after Holm's correction over the pairs of the group and metric", nullable=True),
        Column("method", TEXT, "how interval and test were made; null when none", nullable=True),
        Column("reason", TEXT, "why there is neither; null when there are", nullable=True),
    ),
    key=(*GROUP, "metric", "family", "other"),
    mart=True,
)

_MEAN = Column("total", MONEY, "mean over the agents of cash and positions", "dollars")
_AGENTS = Column("n", pl.Int64(), "agents that it is the mean of")

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
    row="One bin of the reliability diagram of a family's stated probabilities: of YES, of the first of two outcomes, or of the outcome of a race.",
    columns=(
        *_GROUP,
        _FAMILY,
        Column("bin", pl.Int32(), "ordinal of the bin, from 0"),
        Column("lower_edge", PROBABILITY, "lower edge, inside the bin", "probability"),
        Column("upper_edge", PROBABILITY, "upper edge, outside the bin except in the last", "probability"),
        Column("n", pl.Int64(), "forecasts in the bin"),
        Column("n_clusters", pl.Int64(), "events among them"),
        Column("mean_forecast", PROBABILITY, "mean stated probability; null in an empty bin", "probability", nullable=True),
        Column("yes_rate", PROBABILITY, "how often it happened; null in an empty bin", "probability", nullable=True),
        Column("gap", _FLOAT, "mean_forecast - yes_rate; null in an empty bin", "probability", nullable=True),
        Column("yes_rate_lower", PROBABILITY, "lower end of the 95 % interval of yes_rate; null when none", "probability", nullable=True),
        Column("yes_rate_upper", PROBABILITY, "upper end of the 95 % interval of yes_rate; null when none", "probability", nullable=True),
        Column("reason", TEXT, "why there is no interval; null when there is one", nullable=True),
    ),
    key=(*GROUP, "family", "bin"),
    mart=True,
    version="2",
)

TABLES = (SUBMISSIONS, RANKINGS, PAIRS, EQUITY_BY_DAY, EQUITY_BY_AGE, CALIBRATION)
