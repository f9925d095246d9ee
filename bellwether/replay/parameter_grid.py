"""Parsing of agents' parameters: `name=value`, and grids such as `spread_cents=1..10` or `size=1,5,10`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import product
from math import prod
from typing import Any

from bellwether.errors import ConfigError

_WORDS = {"true": True, "false": False, "none": None}
_LARGEST = 100_000


def parse_parameters(texts: Iterable[str]) -> dict[str, Any]:
    """Parse texts `name=value`. A value is an integer, a float, true, false, none, or else text. Raises `ConfigError` for other texts."""
    return {name: _parse_value(text) for name, text in map(_split, texts)}


def parse_grid(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return all combinations of the values in texts `name=values`, such as `size=1,5`. The last name changes fastest; no texts give one
    empty combination.

    values: `a,b,c`, or `first..last` with both ends in steps of 1, or `first..last:step`. Raises `ConfigError` for other texts.
    """
    axes: dict[str, list[Any]] = {}
    for name, text in map(_split, texts):
        if name in axes:
            raise ConfigError(f"reading the grid: {name} appears twice; give all its values once")
        axes[name] = _parse_values(name, text)
    count = prod(len(values) for values in axes.values())
    if count > _LARGEST:
        raise ConfigError(f"reading the grid: it has {count:,} combinations; give at most {_LARGEST:,}")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def build_label(agent: str, params: Mapping[str, Any]) -> str:
    """Return the name of an agent followed by the parameters in `params`, such as `maker[size=5]`."""
    return f"{agent}[{','.join(f'{name}={value}' for name, value in params.items())}]" if params else agent


def _split(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip().isidentifier() or not value.strip():
        raise ConfigError(f"reading a parameter: {text!r:.80} is invalid; give name=value")
    return name.strip(), value.strip()


def _parse_value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parse_values(name: str, text: str) -> list[Any]:
    if ".." not in text:
        return [_parse_value(part.strip()) for part in text.split(",")]
    span, _, step = text.partition(":")
    first, _, last = span.partition("..")
    try:
        start, end, by = Decimal(first), Decimal(last), Decimal(step or "1")
        count = int((end - start) / by) + 1
    except (InvalidOperation, ArithmeticError, ValueError):
        raise ConfigError(f"reading the grid: {name}={text} is invalid; give first..last or first..last:step in numbers") from None
    if not (by > 0 and end >= start) or count > _LARGEST:
        raise ConfigError(
            f"reading the grid: {name}={text} has no values, or too many; give a first value up to the last and a step above 0"
        )
    return [_parse_value(str(start + by * place)) for place in range(count)]
