"""Request of backtests from a command line: agents, episodes and settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

from bellwether.errors import ConfigError
from bellwether.files import folders
from bellwether.places import place
from bellwether.replay.agents.llm import LLMReplay, Trajectory
from bellwether.replay.agents.loader import AgentSource
from bellwether.replay.episode.model import METADATA
from bellwether.replay.preparation import SEPARATOR
from bellwether.replay.registry import find_agent
from bellwether.replay.settings import LARGEST, BacktestSettings, Limits
from bellwether.replay.sweep import Candidate, Source, Sweep
from bellwether.replay.units import MICROS, SECOND
from bellwether.settings import settings
from bellwether.units import MicroDollars

_MILLISECOND = 1_000_000
#: Longest duration, ns.
_LONGEST = 10**18
_WORDS = {"true": True, "false": False, "none": None}
#: Maximum number of combinations of a grid.
_LARGEST = 100_000


def parse_request(agents: Sequence[str], episodes: Sequence[str], options: Mapping[str, Any]) -> Sweep:
    """Build the sweep that a command line requests, from names of agents and episodes and its options. Raises `ConfigError` for invalid values."""
    combinations, fixed = parse_grid(options["grid"]), parse_parameters(options["params"])
    if both := sorted(fixed.keys() & combinations[0].keys()):
        raise ConfigError(f"reading --param {both[0]}: --grid {both[0]} sets it too; give one of them")
    chosen = _build_settings(options)
    limits = chosen.limits if options["isolated"] else None
    candidates = [candidate for name in agents for candidate in _build_candidates(name, fixed, combinations, limits, options["cadence"])]
    candidates += [_build_replay(place(name), options) for name in options["replays"]]
    return Sweep(
        sources=_require_distinct([_find_source(name) for name in episodes], episodes, "--episode"),
        candidates=_require_distinct(candidates, [candidate.label for candidate in candidates], "--agent"),
        settings=chosen,
        isolated=options["isolated"],
        html=options["html"],
    )


def _require_distinct(values: list[Any], names: Sequence[str], option: str) -> list[Any]:
    """Raise `ConfigError` naming the command-line option if two values have the same name; otherwise return the values. names: name of each
    value.
    """
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigError(f"reading {option}: {twice} appears twice; results are distinguished by name, so name it once")
    return values


def _build_settings(options: Mapping[str, Any]) -> BacktestSettings:
    values: dict[str, Any] = {name: options[name] for name in ("rules", "queue", "queues", "seed")}
    if options["cadence"] is not None:
        values["cadence"] = _parse_duration("cadence", options["cadence"], SECOND, minimum=1)
    if options["bankroll"] is not None:
        values["bankroll"] = _parse_dollars(options["bankroll"])
    values["order_latency"] = _parse_duration("latency", options["latency"], _MILLISECOND)
    values["limits"] = Limits.parse(options["limits"])
    values["data_latency"] = _parse_duration("data-latency", options["data_latency"], _MILLISECOND)
    return BacktestSettings(**values)


def _parse_duration(option: str, value: float, unit: int, *, minimum: int = 0) -> int:
    """Convert a duration to ns. unit: unit of `value`, in ns. Raises `ConfigError` naming the option if the result is below `minimum` or
    above `_LONGEST`, both in ns.
    """
    if not math.isfinite(value * unit) or not minimum <= round(value * unit) <= _LONGEST:
        name = "seconds" if unit == SECOND else "milliseconds"
        raise ConfigError(f"reading --{option}: {value:g} is out of range; give {minimum / unit:g} to {_LONGEST // unit:,} {name}")
    return round(value * unit)


def _parse_dollars(text: str) -> MicroDollars:
    try:
        amount = Decimal(text) * MICROS
        whole = int(amount)
    except (ArithmeticError, ValueError):
        raise ConfigError(f"reading --bankroll: {text!r:.60} is not a number; give dollars") from None
    if whole != amount:
        raise ConfigError(f"reading --bankroll: {text} is finer than a millionth of a dollar")
    if not 0 <= whole <= LARGEST["bankroll"]:
        raise ConfigError(f"reading --bankroll: {text} is out of range; give 0 to {LARGEST['bankroll'] // MICROS:,} dollars")
    return MicroDollars(whole)


def _build_candidates(
    name: str, params: dict[str, Any], combinations: list[dict[str, Any]], isolated: Limits | None, cadence: float | None
) -> list[Candidate]:
    """Build a candidate per combination of an agent's parameters. isolated: limits of the process that loads it. cadence: of all candidates."""
    entry = find_agent(name, isolated=isolated, params={**params, **combinations[0]})
    own = entry.cadence if cadence is None else None
    return [
        Candidate(entry.source({**params, **varied}), build_label(entry.name, varied), varied, own, entry.title, entry.isolated)
        for varied in combinations
    ]


def _build_replay(file: Path, options: Mapping[str, Any]) -> Candidate:
    """Build the candidate that answers from the trajectory of a language model. Default cadence: the trajectory's; another cadence makes the
    run fail.
    """
    cadence = Trajectory.read(file).head.cadence if options["cadence"] is None else None
    source = AgentSource(f"{LLMReplay.__module__}:LLMReplay", {"trajectory": str(file.absolute())}, LLMReplay.name)
    return Candidate(source, file.stem, cadence=cadence)


def _find_source(name: str) -> Source:
    """Return the folders of an episode, or of several whose names are joined with `+`."""
    found = _find_folder(name)
    if found is not None:
        return (found,)
    return tuple(_find_folder(part) or _raise_unknown(part) for part in name.split(SEPARATOR))


def _find_folder(name: str) -> Path | None:
    """Return the folder of an episode; None if it is missing. name: path or URL of the folder, or name of an episode in `episodes_path` of
    the settings.
    """
    folders = (place(name), settings().episodes_path / name)
    return next((folder.absolute() for folder in folders if (folder / METADATA).is_file()), None)


def _raise_unknown(name: str) -> NoReturn:
    below = settings().episodes_path
    near = get_close_matches(name, [folder.name for folder in folders(below, METADATA)], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError(
        f"opening the episode {name!r:.80}: metadata.json is missing in {Path(name).absolute()} and below {below}; {hint}"
        "list episodes with `bellwether episode`"
    )


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
    count = math.prod(len(values) for values in axes.values())
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
