"""Markdown pages from Jinja2 templates. Values in a template are escaped, so that they cannot add markup."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bellwether import formatting
from bellwether.formatting import LEFT, NOTHING, RIGHT, markdown_table, one_line

#: Maximum length of the text of a cell.
MOST = 160

_MARKUP = re.compile(r"[\\`*_{}\[\]<>|&~$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)

#: Characters that begin a heading, a list or a rule at the start of a line.
_BLOCK = re.compile(r"^((?:\d+(?=[.)](?:\s|$)))?)([#+=.)-])")


class Markdown(str):
    """Text that is Markdown already, and that templates therefore do not escape."""

    __slots__ = ()


def text(value: object, most: int = MOST) -> Markdown:
    """Escape a value as one line of plain text in Markdown: without markup, HTML, links or table cells.

    Line breaks and unprintable characters become spaces; the text is cut to `most` characters.
    """
    if value is None:
        return Markdown(NOTHING)
    line = _MARKUP.sub(lambda found: "\\" + found[0], one_line(str(value), most))
    return Markdown(_BLOCK.sub(lambda found: found[1] + "\\" + found[2], line))


def timestamp(value: datetime | str | None) -> Markdown:
    """Format an instant or ISO text in UTC, to the minute."""
    if value is None:
        return Markdown(NOTHING)
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    return Markdown(f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


def head(rows: Collection[Any], texts: int, *names: str) -> Markdown:
    """Return the head of a Markdown table; "Nothing." if there are no rows.

    texts: number of text columns at the left; the others are numbers. names: titles, which are Markdown already.
    """
    if not rows:
        return Markdown("Nothing.")
    rule = [LEFT] * texts + [RIGHT] * (len(names) - texts)
    return Markdown("\n".join(markdown_table(names, (), rule)))


def render(template: str, context: Mapping[str, Any]) -> str:
    """Render a template of this package with the values of `context`."""
    return _environment().get_template(template).render(context).rstrip() + "\n"


def _escaped(value: object) -> str:
    return value if isinstance(value, Markdown) else text(value)


@cache
def _environment() -> Environment:
    # `finalize` escapes expressions as Markdown unless a filter returned Markdown.
    loader = PackageLoader("bellwether.pages")
    environment = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_escaped)  # noqa: S701
    environment.globals |= {"head": head, "nothing": NOTHING, "interval": lambda *ends: Markdown(formatting.interval(*ends))}
    environment.filters |= {
        "text": text,
        "when": timestamp,
        "verbatim": Markdown,
        "number": lambda value, digits=4: Markdown(formatting.number(value, digits)),
        "money": lambda value: Markdown(formatting.money(value)),
        "percent": lambda value, digits=1: Markdown(formatting.percent(value, digits)),
        "p_value": lambda value: text(formatting.p_value(value)),
    }
    return environment
