"""Options and types of values that several commands share."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import click


class _Instant(click.DateTime):
    """A day or an instant on the command line, shown as people write it."""

    def __init__(self, formats: dict[str, str]) -> None:
        super().__init__(list(formats))
        self._shown = tuple(formats.values())

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The longest form, in the help."""
        return self._shown[-1]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Raises `click.BadParameter` for what is no such day or instant."""
        try:
            return super().convert(value.removesuffix("Z") if isinstance(value, str) and "T" in value else value, param, ctx)
        except click.BadParameter:
            what = "day" if len(self._shown) == 1 else "day or time"
            self.fail(f"{value!r} is no {what} of the calendar; write {' or '.join(self._shown)}", param, ctx)


class _Dollars(click.ParamType):
    """An exact amount of money."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """`value` as a Decimal from 0."""
        try:
            amount = value if isinstance(value, Decimal) else Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is no amount of dollars", param, ctx)
        if not amount.is_finite() or amount < 0:
            self.fail(f"{value!r} is no amount of dollars", param, ctx)
        return amount


#: A UTC day.
DAY = _Instant({"%Y-%m-%d": "YYYY-MM-DD"})
#: A UTC day, which is its 00:00, or an instant of it, with or without a Z.
INSTANT = _Instant({"%Y-%m-%d": "YYYY-MM-DD", "%Y-%m-%dT%H:%M": "YYYY-MM-DDTHH:MM", "%Y-%m-%dT%H:%M:%S": "YYYY-MM-DDTHH:MM:SS"})
#: Dollars from 0, exact.
DOLLARS = _Dollars()

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
ARCHIVE = click.option(
    "--archive/--no-archive",
    default=False,
    show_default=True,
    help="Scan the venue's archive first: needed for days before its cutoff (about 3 months back).",
)
BY = click.option("--by", required=True, metavar="NAME", help="Who intervenes.")
REASON = click.option("--reason", required=True, metavar="TEXT", help="Why, in one line.")
KNOWN_AT = click.option(
    "--known-at",
    type=INSTANT,
    callback=lambda _, __, at: at and at.replace(tzinfo=UTC),
    help="Show what was known at this time (UTC; a day is its 00:00): later trades, evidence and marks are left out.",
)
