"""Options and value types shared by several commands."""

from __future__ import annotations

import getpass
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import click
from click.core import ParameterSource

from bellwether.console import console
from bellwether.errors import ConfigError
from bellwether.formatting import visible


class _Instant(click.DateTime):
    """Option value that is a day or an instant. formats: strptime format, and the form that the help shows for it."""

    def __init__(self, formats: dict[str, str]) -> None:
        super().__init__(list(formats))
        self._forms = tuple(formats.values())

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the longest form that a value may have, for the help."""
        return self._forms[-1]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse a value. Raises `click.BadParameter` for an invalid day or instant."""
        try:
            return super().convert(value.removesuffix("Z") if isinstance(value, str) and "T" in value else value, param, ctx)
        except click.BadParameter:
            kind = "day" if len(self._forms) == 1 else "day or time"
            self.fail(f"{value!r} is not a valid {kind}; write {' or '.join(self._forms)}", param, ctx)


class _Dollars(click.ParamType):
    """Option value that is an exact amount of dollars, at least 0."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Parse a value as a Decimal."""
        try:
            amount = value if isinstance(value, Decimal) else Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is not an amount of dollars", param, ctx)
        if not amount.is_finite() or amount < 0:
            self.fail(f"{value!r} is not an amount of dollars", param, ctx)
        return amount


#: A UTC day.
DAY = _Instant({"%Y-%m-%d": "YYYY-MM-DD"})
#: A UTC instant, with or without a Z; a day is its 00:00.
INSTANT = _Instant({"%Y-%m-%d": "YYYY-MM-DD", "%Y-%m-%dT%H:%M": "YYYY-MM-DDTHH:MM", "%Y-%m-%dT%H:%M:%S": "YYYY-MM-DDTHH:MM:SS"})
DOLLARS = _Dollars()

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
REASON = click.option("--reason", required=True, metavar="TEXT", help="Reason, in one line.")


def operator_name() -> str:
    """Return the login name of the user, which interventions state. Raises `ConfigError` if the system has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError("reading your login name: the system has none; set the variable LOGNAME") from None


def find_flag(context: click.Context, name: str) -> str:
    """Return the option of a command's parameter, such as --forecaster of `forecasters`."""
    return next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)


def list_given(context: click.Context) -> list[str]:
    """List the parameters that the command line gives."""
    return [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_others(context: click.Context, allowed: Collection[str], of: str) -> None:
    """Raise a usage error for a given parameter that is not allowed. of: what the allowed ones belong to, for the message."""
    for name in list_given(context):
        if name not in allowed:
            raise click.UsageError(f"{find_flag(context, name)} is not an option {of}.")


#: Maximum number of entries left out that are printed.
_SHOWN = 20


def print_left_out(lines: Sequence[str]) -> None:
    """Print the entries of a file that are left out, each with its reason."""
    for text in lines[:_SHOWN]:
        console().print(f"left out: {visible(text)}", markup=False, highlight=False, soft_wrap=True)
    if (more := len(lines) - _SHOWN) > 0:
        console().print(f"and {more:,} more left out")
