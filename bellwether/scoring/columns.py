"""Roles of the columns of a table of forecasts, given by name or by a recognised name."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence
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


#: Names by which a column is recognised, in small letters with underscores. The first that is present counts.
NAMES: Mapping[Role, tuple[str, ...]] = {
    Role.PROBABILITY: ("probability", "p_yes", "p", "forecast", "prediction"),
    Role.OUTCOME: ("outcome", "resolution", "resolved_to", "ground_truth", "y"),
    Role.FORECASTER: ("forecaster", "model", "agent"),
    Role.QUESTION: ("question_id", "market_id", "question", "id"),
    Role.CLUSTER: ("cluster", "series", "series_ticker", "event"),
    Role.WEIGHT: ("weight",),
    Role.MARKET: ("market_price",),
}

#: Beginning of the names of probability columns in a table with a column per forecaster.
WIDE = "p_"

#: Name of the column that states if the question is resolved.
RESOLVED = "resolved"

_SEVERAL = (Role.PROBABILITY, Role.QUESTION, Role.CLUSTER)


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

    def used(self) -> dict[Role, tuple[str, ...]]:
        """Return the columns of each role that has any."""
        columns_by_role = {role: getattr(self, role) for role in Role}
        return {role: (columns,) if isinstance(columns, str) else columns for role, columns in columns_by_role.items() if columns}


def recognise_columns(source: str, present: Sequence[str], given: ColumnRoles) -> ColumnRoles:
    """Complete `given`, the roles that the user named, with columns of recognised names. present: all columns.

    Raises `ScoringError`, which lists the columns, if a given column is missing or has two roles, if two columns have one recognised
    name, and if no column is the probability.
    """
    roles: dict[str, Role] = {}
    for role, columns in given.used().items():
        for column in columns:
            check_present(source, present, column, f"--{role}")
            if column in roles and {role, roles[column]} != {Role.QUESTION, Role.CLUSTER}:  # each question may be a cluster
                raise ScoringError(f"{source}: the column {column!r} is given for two roles; give each role a column of its own")
            roles[column] = role
    complete = given
    for role, names in NAMES.items():
        found = next((column for column in find_named(present, names) if column not in roles), None)
        if found is not None and not getattr(complete, role):
            if (twin := next((name for name in present if name != found and _normalise(name) == _normalise(found)), None)) is not None:
                raise ScoringError(
                    f"{source}: the columns {found!r} and {twin!r} have the same name but for case and spaces; give --{role} COLUMN"
                )
            roles[found] = role
            values: dict[str, Any] = {role: (found,) if role in _SEVERAL else found}
            complete = replace(complete, **values)
    if not complete.probability:
        complete = replace(complete, probability=tuple(column for column in present if column.startswith(WIDE) and column not in roles))
    if not complete.probability:
        raise ScoringError(f"{source}: no column is named as a probability among {format_names(present)}; give --probability COLUMN")
    return complete


def find_named(present: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns whose names, in small letters with underscores, are in `names`, in the order of `names`. present: all columns."""
    normal = {_normalise(column): column for column in reversed(present)}
    return [normal[name] for name in names if name in normal]


def _normalise(column: str) -> str:
    return column.strip().lower().replace(" ", "_").replace("-", "_")


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


def format_names(columns: Iterable[str]) -> str:
    """Format column names as a list for a message; many are shortened to the first ones and a count."""
    names = list(columns)
    listed = ", ".join(format_brief(name) for name in names[:_LISTED])
    return listed if len(names) <= _LISTED else f"{listed} and {len(names) - _LISTED} more"


def format_brief(value: object) -> str:
    """Format a value as its `repr`, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 3]}..."


#: Columns in a list of a message, and characters of a value.
_LISTED, _BRIEF = 40, 60
