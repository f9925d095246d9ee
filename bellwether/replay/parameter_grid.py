"""Parameters of agents as text: `name=value`, and grids such as `spread_cents=1..10` or `size=1,5,10`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

from bellwether.errors import ConfigError

_WORDS = {"true": True, "false": False, "none": None}
_LARGEST = 100_000


def parameters(given: Iterable[str]) -> dict[str, Any]:
    """Parse `name=value` to a mapping; a value is an integer, a float, true, false, none, or else text. Raises `ConfigError`."""
    return {name: _value(text) for name, text in map(_split, given)}


def grid(given: Iterable[str]) -> list[dict[str, Any]]:
    """Return every combination of `name=values`, the last name changing fastest; one empty combination for no names.

    values: `a,b,c`, or `first..last` with both ends in steps of 1, or `first..last:step`. Raises `ConfigError`.
    """
    axes: dict[str, list[Any]] = {}
    for name, text in map(_split, given):
        if name in axes:
            raise ConfigError(f"reading the grid: {name} appears twice; give all its values once")
        axes[name] = _values(name, text)
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > _LARGEST:
        raise ConfigError(f"reading the grid: it has {count:,} combinations; give at most {_LARGEST:,}")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def label(agent: str, params: Mapping[str, Any]) -> str:
    """Name a combination by its agent and its varied parameters."""
    return f"{agent}[{','.join(f'{name}={value}' for name, value in params.items())}]" if params else agent


def _split(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip().isidentifier() or not value.strip():
        raise ConfigError(f"reading a parameter: {text!r:.80} is invalid; give name=value")
    return name.strip(), value.strip()


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _values(name: str, text: str) -> list[Any]:
    if ".." not in text:
        return [_value(part.strip()) for part in text.split(",")]
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
    return [_value(str(start + by * place)) for place in range(count)]
