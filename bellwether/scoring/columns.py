"""Roles of the columns of a table of forecasts, given by name or recognised."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bellwether.errors import ScoringError


class Role(StrEnum):
    """Role of a column, such as outcome or weight; the value is the name of the command-line option."""

    PROBABILITY = "probability"
    OUTCOME = "outcome"
    FORECASTER = "forecaster"
    QUESTION = "question"
    CLUSTER = "cluster"
    WEIGHT = "weight"
    MARKET = "market"
    CATEGORY = "category"


#: Names by which a column is recognised, the most telling first, in small letters with single underscores.
NAMES: Mapping[Role, tuple[str, ...]] = {
    Role.PROBABILITY: (
        "probability", "p_yes", "probability_yes", "yes_probability", "prob_yes", "forecast", "prediction", "predicted_probability",
        "probability_of_yes", "forecast_probability", "prob", "p", "pred", "y_prob", "y_score", "predicted_prob", "y_pred",
    ),
    Role.OUTCOME: (
        "outcome", "resolution", "resolved_to", "resolved_yes", "result", "ground_truth", "y_true", "y", "label", "actual", "target", "truth",
        "observed",
    ),
    Role.FORECASTER: ("forecaster", "forecaster_name", "model", "model_name", "model_id", "agent", "forecaster_id", "user", "username", "system"),
    Role.QUESTION: (
        "question_id", "question", "market_ticker", "market_id", "ticker", "condition_id", "qid", "id", "market_slug", "question_title", "title",
    ),
    Role.CLUSTER: ("cluster", "cluster_id", "series_ticker", "series", "series_id", "event_ticker", "event", "event_id"),
    Role.WEIGHT: ("weight", "weights", "sample_weight", "question_weight"),
    Role.MARKET: (
        "market_price", "market_p", "market_prob", "p_market", "prob_market", "market_implied_probability", "implied_probability", "yes_price",
        "community_prediction", "crowd_forecast", "crowd", "market",
    ),
    Role.CATEGORY: ("category", "topic", "domain", "subject", "tag"),
}  # fmt: skip

#: Names of final prices, which are known after the fact; the first is that of KalshiBench and of Bellwether's own exports.
FINAL_PRICES = (
    "market_probability", "final_price", "final_probability", "final_market_price", "settlement_price", "settlement_value", "resolution_price",
    "closing_price", "close_price", "closing_probability", "last_price", "last_price_dollars", "last_trade_price",
)  # fmt: skip

#: Words that name a price, words for a price that is known after the fact, and words that change neither.
PRICE_WORDS = frozenset({"market", "price", "prices", "crowd", "community", "kalshi", "polymarket", "trade", "quote", "mid"})
_FINAL_WORDS = frozenset({"final", "settlement", "settled", "resolution", "resolved", "closing", "close", "expiration", "expiry"})
_NEUTRAL_WORDS = frozenset(
    {"p", "prob", "probability", "forecast", "prediction", "pred", "yes", "implied", "value", "at", "of", "last", "dollars", "cents"}
)

#: Names of the column that states if the question is resolved.
RESOLVED = ("resolved", "is_resolved")

#: Names of the column with the time of a forecast.
STATED = (
    "stated_at", "forecast_at", "forecast_time", "forecast_timestamp", "forecast_date", "forecasted_at", "submitted_at", "created_at", "updated_at",
    "timestamp", "time", "at", "as_of", "date",
)  # fmt: skip

#: Columns of forecasts of a wide table, one per forecaster: `p_mine`, `prob_mine`, `forecast_mine`.
_WIDE = re.compile(r"(?P<prefix>p|prob|probability|forecast|prediction|pred)[_ .:-]+(?P<name>.+)", re.IGNORECASE)

_SPREADS = frozenset({"std", "sd", "stdev", "stddev", "stderr", "sem", "var", "variance", "ci", "lower", "upper", "quantile", "percentile"})
_STATISTICS = _SPREADS | {
    "se", "n", "count", "num", "iqr", "lb", "ub", "lcl", "ucl", "lo", "hi", "rank", "brier", "score", "loss", "logloss", "error", "err",
    "residual", "correct", "accuracy", "entropy", "logit", "odds", "id", "time", "timestamp", "ts", "date", "at", "index", "version",
    "no", "false", "complement", "inverse",
}  # fmt: skip
_QUANTILE = re.compile(r"q\d+|pct\d+|\d+(?:st|nd|rd|th|pct)")
_QUANTILES = frozenset({1, 2, 5, 10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 95, 97, 98, 99, 975})


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """Columns of a table by role; None or empty for a role without a column.

    probability: one column, or one per forecaster. question: columns that together name the question. cluster: one column, or two for two-way clusters.
    """

    probability: tuple[str, ...] = ()
    outcome: str | None = None
    forecaster: str | None = None
    question: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    weight: str | None = None
    market: str | None = None
    category: str | None = None

    def used(self) -> dict[Role, tuple[str, ...]]:
        """Return the columns of each role that has any."""
        columns_by_role = {role: getattr(self, role) for role in Role}
        return {role: (columns,) if isinstance(columns, str) else columns for role, columns in columns_by_role.items() if columns}

    def forecaster_names(self) -> dict[str, str]:
        """Return the forecaster's name for each probability column, derived from the column's name."""
        matches = {column: _WIDE.fullmatch(column.strip()) for column in self.probability}
        names = {column: match["name"] if match else column.strip() for column, match in matches.items()}
        return names if len(set(names.values())) == len(names) else {column: column for column in self.probability}


def recognise_columns(source: str, present: Sequence[str], numeric: Container[str], roles: ColumnRoles) -> ColumnRoles:
    """Complete `roles` with columns whose names show their role. A column gets one role; probabilities and prices must be in `numeric`.
    present: all columns.

    Raises `ScoringError`, which lists the columns, if a given column is missing.
    """
    for role, columns in roles.used().items():
        for column in columns:
            check_present(source, present, column, f"--{role}")
    _check_unique(source, roles)
    complete, used = roles, {column for columns in roles.used().values() for column in columns}
    for role, names in NAMES.items():
        if getattr(complete, role):
            continue
        likely = find_named(present, names)
        free = [column for column in likely if column not in used and (role not in _NUMBERS or column in numeric)]
        if role is Role.QUESTION:  # each question may be a cluster
            free += [column for column in likely if column in roles.cluster]
        chosen = next(iter(free), None)
        if chosen is not None:
            used.add(chosen)
            values: dict[str, Any] = {role: (chosen,) if role in _SEVERAL else chosen}
            complete = replace(complete, **values)
    if not complete.probability:
        no_forecasts = find_statistics(present)
        wide = (column for column in present if column in numeric and column not in used and _WIDE.fullmatch(column.strip()))
        complete = replace(complete, probability=tuple(column for column in wide if column not in no_forecasts))
    return complete


def find_named(present: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns whose names, ignoring case and separators, are in `names`, in the order of `names`. present: all columns."""
    normal = {_normalise(column): column for column in reversed(present)}
    return [normal[name] for name in names if name in normal]


def find_words(name: str) -> frozenset[str]:
    """Return the words in a name, in lower case."""
    return frozenset(_normalise(name).split("_"))


def is_final_price(name: str) -> bool:
    """Return True if a name is that of a price that is known after the fact, such as `p_market_final` and `closing_price`."""
    words = find_words(name)
    is_final_alone = _normalise(name) in FINAL_PRICES and not words.isdisjoint(_FINAL_WORDS)
    return is_final_alone or bool(words & PRICE_WORDS and words & _FINAL_WORDS and words <= PRICE_WORDS | _FINAL_WORDS | _NEUTRAL_WORDS)


def find_statistics(present: Sequence[str]) -> list[str]:
    """Return the columns that are named like forecasts but contain statistics or complements, such as `p_value`, `forecast_std`, `p_no` and
    `p_10`.
    """
    wide = {column: match for column in present if (match := _WIDE.fullmatch(column.strip()))}
    words = {column: _normalise(match["name"]).split("_") for column, match in wide.items()}
    numbers = {int(name[0]) for name in words.values() if len(name) == 1 and name[0].isdecimal()}
    quantiles = numbers <= _QUANTILES and max(numbers, default=0) >= min(_QUANTILES - {1, 2, 5})
    return [
        column
        for column, name in words.items()
        if name[-1] in _STATISTICS
        or name[0] in _SPREADS
        or (wide[column]["prefix"].lower() == "p" and name[0] in {"value", "val"})
        or any(_QUANTILE.fullmatch(word) for word in name)
        or (quantiles and len(name) == 1 and name[0].isdecimal())
    ]


def _check_unique(source: str, named: ColumnRoles) -> None:
    """Raise `ScoringError` if the user named a column for two roles, other than question and cluster."""
    roles: dict[str, Role] = {}
    for role, columns in named.used().items():
        for column in columns:
            if column in roles and {role, roles[column]} != {Role.QUESTION, Role.CLUSTER}:
                twice = (
                    f"{format_option(role, column)} twice"
                    if role is roles[column]
                    else f"{format_option(roles[column], column)} and --{role}"
                )
                raise ScoringError(f"{source}: the column {column!r} is given as {twice}; give each role a column of its own")
            roles[column] = role


_SEVERAL = (Role.PROBABILITY, Role.QUESTION, Role.CLUSTER)
_NUMBERS = (Role.PROBABILITY, Role.MARKET)


def check_present(source: str, present: Iterable[str], column: str, option: str) -> None:
    """Raise `ScoringError` if a column that an option names is missing. present: existing columns. option: name of the option in the
    message.
    """
    names = list(present)
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ScoringError(
            f"{source}: {option} names the column {column!r}, which is not there; {guess}the columns are {format_names(names)}"
        )


def format_option(name: str, column: str) -> str:
    """Format a command-line option that names a column, with quotes if a shell needs them."""
    return f"--{name} {shlex.quote(column) if column.isprintable() else repr(column)}"


def format_brief(value: object) -> str:
    """Format a value as its `repr`, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."


def format_names(columns: Iterable[str]) -> str:
    """Format column names as a list for a message; many are shortened to the first ones and a count."""
    names = list(columns)
    listed = ", ".join(format_brief(name) for name in names[:_LISTED])
    return listed if len(names) <= _LISTED else f"{listed} and {len(names) - _LISTED} more"


_LISTED = 40
#: Characters of a value in a message.
_BRIEF = 60


def is_number(text: str) -> bool:
    """Return whether Python's `float` accepts a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _normalise(column: str) -> str:
    """Convert a column name to lower case with words joined by underscores."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")
