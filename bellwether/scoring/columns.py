"""Which column of a table of forecasts is what: given by name, or recognised."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bellwether.errors import ScoringError


class Role(StrEnum):
    """What a column holds, by the name of the option that gives it."""

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
        "probability_of_yes", "forecast_probability", "prob", "p", "pred", "y_pred", "y_prob", "y_score", "predicted_prob",
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
        "market_probability", "market_price", "market_p", "market_prob", "market_implied_probability", "implied_probability", "yes_price",
        "community_prediction", "crowd_forecast", "crowd", "market",
    ),
    Role.CATEGORY: ("category", "topic", "domain", "subject", "tag"),
}  # fmt: skip

#: A table with a column of forecasts per forecaster names them so: `p_mine`, `prob_mine`, `forecast_mine`.
_WIDE = re.compile(r"(?:p|prob|probability|forecast|prediction|pred)[_ .:-]+(?P<name>.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by role; None or empty where there is none.

    probability: one column, or one per forecaster. question: columns that together name what was forecast. cluster: one, or two for two-way clusters.
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
        """Columns of each role that has any."""
        of = {role: getattr(self, role) for role in Role}
        return {role: (columns,) if isinstance(columns, str) else columns for role, columns in of.items() if columns}

    def forecaster_names(self) -> dict[str, str]:
        """Name of the forecaster of each probability column, where there are several."""
        names = {column: _name(column) for column in self.probability}
        return names if len(set(names.values())) == len(names) else {column: column for column in self.probability}


def recognise(source: str, present: Sequence[str], numeric: Container[str], given: Columns) -> Columns:
    """`given`, completed from the names of the columns that are `present`. A column has one role; what must be a number is one of `numeric`.

    Raises `ScoringError` that lists the columns where a given one is not there.
    """
    for role, columns in given.used().items():
        for column in columns:
            require(source, present, column, f"--{role}")
    found, taken = given, {column for columns in given.used().values() for column in columns}
    normal = {_normal(column): column for column in reversed(present)}
    for role, names in NAMES.items():
        if getattr(found, role):
            continue
        free = (normal[name] for name in names if name in normal and normal[name] not in taken)
        known = next((column for column in free if role not in _NUMBERS or column in numeric), None)
        if known is not None:
            taken.add(known)
            values: dict[str, Any] = {role: (known,) if role in _SEVERAL else known}
            found = replace(found, **values)
    if not found.probability:
        wide = (column for column in present if column in numeric and column not in taken and _WIDE.fullmatch(column.strip()))
        found = replace(found, probability=tuple(wide))
    return found


_SEVERAL = (Role.PROBABILITY, Role.QUESTION, Role.CLUSTER)
_NUMBERS = (Role.PROBABILITY, Role.WEIGHT, Role.MARKET)


def require(source: str, present: Iterable[str], column: str, option: str) -> None:
    """Raise `ScoringError` unless a column that an option names is present."""
    names = list(present)
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise ScoringError(f"{source}: {option} names the column {column!r}, which is not there; {guess}the columns are {listed(names)}")


def listed(columns: Iterable[str]) -> str:
    """Names of columns for a message."""
    return ", ".join(map(repr, columns))


def _normal(column: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _name(column: str) -> str:
    match = _WIDE.fullmatch(column.strip())
    return match["name"] if match else column.strip()
