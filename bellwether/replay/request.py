"""Request of backtests: agents, episodes and settings, its runs, and their rows in files and in the lake."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bellwether.errors import ConfigError
from bellwether.files import folders
from bellwether.lake import Lake
from bellwether.places import place
from bellwether.replay.agents.llm import LLMReplay, Trajectory
from bellwether.replay.backtest import Backtest, BacktestSettings
from bellwether.replay.batches import Candidate, Source, prepare_source
from bellwether.replay.engine.latencies import LatencySeries
from bellwether.replay.engine.settings import LARGEST
from bellwether.replay.episode.metadata import METADATA
from bellwether.replay.isolation import Isolation
from bellwether.replay.parameter_grid import grid, label, parameters
from bellwether.replay.registry import find_agent
from bellwether.replay.results.folder import table_writer
from bellwether.replay.results.frames import frames
from bellwether.replay.units import MICROS, SECOND
from bellwether.settings import settings
from bellwether.tables import table
from bellwether.units import MicroDollars

_MILLISECOND = 1_000_000
#: Longest duration, ns.
_LONGEST = 10**18


@dataclass(frozen=True)
class Request:
    """Request of backtests. sources: episodes or a portfolio. cache: folder of tapes. combinations: number of parameter sets per agent.

    isolated: limits of agents in their own processes; None: in this process.
    """

    sources: list[Source]
    candidates: list[Candidate]
    settings: BacktestSettings
    cache: Path
    isolated: Isolation | None
    combinations: int = 1
    unsettled: bool = False

    @classmethod
    def of(cls, agents: Sequence[str], episodes: Sequence[str], options: Mapping[str, Any]) -> Request:
        """Parse the options of a command line, by name. Raises `ConfigError` for invalid ones."""
        combinations, fixed = grid(options["grid"]), parameters(options["params"])
        if both := sorted(fixed.keys() & combinations[0].keys()):
            raise ConfigError(f"reading --param {both[0]}: --grid {both[0]} sets it too; give one of them")
        candidates = [found for name in agents for found in _candidates(name, fixed, combinations, options)]
        candidates += [_repetition(place(name), options) for name in options["replays"]]
        return cls(
            sources=_sources(episodes, portfolio=options["portfolio"]),
            candidates=_different(candidates, [candidate.label for candidate in candidates], "--agent"),
            settings=_settings(options),
            cache=settings().tapes_path,
            combinations=len(combinations),
            unsettled=options["unsettled"],
            isolated=_isolation(options),
        )

    def runs(self) -> Iterator[Backtest]:
        """Run every agent in every episode. Raises `ConfigError` before the first run for parameters that an agent refuses."""
        for candidate in self.candidates:
            candidate.check(self.settings, self.isolated)
        for source in self.sources:
            prepared = prepare_source(source, self.settings, self.cache)
            for candidate in self.candidates:
                yield candidate.run(prepared, self.settings, self.isolated)

    def titles(self) -> dict[str, str]:
        """Return the agents' names in tables, by label: titles and varied parameters; the parameters alone for a single agent."""
        several = len({candidate.name for candidate in self.candidates}) > 1
        titles = {}
        for candidate in self.candidates:
            varied = ", ".join(f"{name}={value}" for name, value in candidate.varied.items())
            title = candidate.title or candidate.name
            titles[candidate.label] = (f"{title}, {varied}" if several else varied) if varied else title
        return titles


def _different(values: list[Any], names: Sequence[str], option: str) -> list[Any]:
    """Return the values. Raises `ConfigError` if two have the same name."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigError(f"reading {option}: {twice} appears twice; results are distinguished by name, so name it once")
    return values


def _isolation(options: Mapping[str, Any]) -> Isolation | None:
    """Return the limits of isolated agents; None if agents run in this process."""
    if not (options["isolated"] or options["isolation"]):
        return None
    return Isolation(options["memory"] << 20, options["run_seconds"], partial=options["isolation"] == "partial")


def _settings(options: Mapping[str, Any]) -> BacktestSettings:
    given: dict[str, Any] = {
        name: options[name] for name in ("rules", "fees", "queue", "queue_exponent", "band", "execution", "seed", "calls_per_step")
    }
    if options["cadence"] is not None:
        given["cadence"] = _duration("cadence", options["cadence"], SECOND, least=1)
    if options["bankroll"] is not None:
        given["bankroll"] = _money(options["bankroll"])
    given["order_latency"] = _duration("latency", options["latency"], _MILLISECOND)
    given["seconds_per_step"] = options["decision_seconds"]
    given["data_latency"] = _duration("data-latency", options["data_latency"], _MILLISECOND)
    given["response_latency"] = _duration("response-latency", options["response_latency"], _MILLISECOND)
    given["latencies"] = None if options["latencies"] is None else LatencySeries.read(options["latencies"])
    return BacktestSettings(**given)


def _duration(option: str, value: float, unit: int, *, least: int = 0) -> int:
    """Convert a duration to ns. Raises `ConfigError`, in the unit of the option, for one below `least` ns or above `_LONGEST`."""
    if not math.isfinite(value * unit) or not least <= round(value * unit) <= _LONGEST:
        name = "seconds" if unit == SECOND else "milliseconds"
        raise ConfigError(f"reading --{option}: {value:g} is out of range; give {least / unit:g} to {_LONGEST // unit:,} {name}")
    return round(value * unit)


def _money(text: str) -> MicroDollars:
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


def _candidates(name: str, params: dict[str, Any], combinations: list[dict[str, Any]], options: Mapping[str, Any]) -> list[Candidate]:
    found = find_agent(name, isolated=_isolation(options), seconds=options["decision_seconds"])
    cadence = found.cadence if options["cadence"] is None else None
    return [
        Candidate(
            found.agent,
            found.name,
            label(found.name, varied),
            {**found.params, **params, **varied},
            varied,
            cadence,
            found.title,
            found.limits,
        )
        for varied in combinations
    ]


def _repetition(folder: Path, options: Mapping[str, Any]) -> Candidate:
    """Build the candidate that repeats a model's trajectory at its own cadence; it refuses another one."""
    cadence = Trajectory.open(folder).head.identity["settings.cadence"] if options["cadence"] is None else None
    where, params = f"{LLMReplay.__module__}:LLMReplay", {"trajectory": str(folder.absolute())}
    return Candidate(where, LLMReplay.name, folder.name, params, cadence=cadence)


def _sources(names: Sequence[str], *, portfolio: bool) -> list[Source]:
    """Return the folder of each episode, or all of them as one portfolio."""
    folders = _different([_folder(name) for name in names], names, "--episode")
    return [tuple(folders)] if portfolio else list(folders)


def _folder(name: str) -> Path:
    """Return the folder of an episode: a path or URL, or below the episodes of the settings."""
    below = settings().episodes_path
    for folder in (place(name), below / name):
        if (folder / METADATA).is_file():
            return folder.absolute()
    near = get_close_matches(name, [found.name for found in folders(below, METADATA)], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ConfigError(
        f"opening the episode {name!r:.80}: metadata.json is missing in {Path(name).absolute()} and below {below}; {hint}"
        "list episodes with `bellwether episode list`"
    )


def keep(runs: Sequence[Backtest]) -> None:
    """Write the rows of each run as partitions of the lake, replacing those of the same portfolio and agent."""
    lake = Lake(settings().lake_uri)
    for one in runs:
        for name, frame in frames(one).items():
            lake.write(table(name), (one.episode, one.agent), frame, run_id=f"portfolio-{one.digest[:16]}")


def write_runs(runs: Sequence[Backtest], out: Path, request: Request) -> None:
    """Write the tables of a request's runs into a folder."""
    with table_writer(out, [{"agent": one.label, **one.varied} for one in request.candidates], unsettled=request.unsettled) as add:
        for number, one in enumerate(runs):
            add(number, frames(one))
