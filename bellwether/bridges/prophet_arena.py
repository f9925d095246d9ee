"""Bridge to Prophet Arena: its events are read, forecasts are written, and scored by its rules, with the digest of its reports.

An event has outcomes, each a yes-or-no question, and windows in which it is forecast beside the crowd's probabilities. The scored unit is the cell:
one agent's probabilities for one event in one window. Void outcomes do not count.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, TypeVar

import polars as pl
from pydantic import Field, ValidationError

from bellwether.bridges.files import FilePart, Instant, Probability, reading
from bellwether.bridges.releases import store_release
from bellwether.calibration.answers import COMBINED
from bellwether.errors import ConfigError
from bellwether.files import atomic_file, open_bytes
from bellwether.lake import Lake
from bellwether.scoring.files import parse_json
from bellwether.settings import World
from bellwether.tables.benchmark import HORIZONS
from bellwether.tables.schema import PRICE

#: Versions of the scoring rules that the digest states (arena-evaluation 2.2.0).
ENGINE_VERSION, RULES_VERSION = "2.2.0", "arena-rules-v2.0"
BINS = 10
#: Name of Prophet Arena as the venue of questions.
VENUE = "prophet-arena"
#: Lowest price of a contract, and one minus the highest, in the average return (pm-rank 0.3.1).
PRICE_MARGIN = 0.005
_SHOWN = 80

Probabilities = Annotated[dict[str, Probability], Field(min_length=1)]


Part = TypeVar("Part", bound=FilePart)


class Outcome(FilePart):
    """Outcome of an event, and whether it happened."""

    name: str = Field(min_length=1)
    resolution: Literal["pending", "yes", "no", "void"] = "pending"


class Window(FilePart):
    """Time in which an event is forecast. crowd: probabilities of the crowd at `taken_at`, without outcomes that had no price."""

    round: int
    taken_at: Instant | None = None
    closes_at: Instant | None = None
    crowd: dict[str, Probability] = Field(default_factory=dict)


class Event(FilePart):
    """Event of a dataset (events.jsonl), or task of a release of open tasks (tasks.jsonl), which has no windows and no resolutions."""

    slug: str = Field(min_length=1)
    title: str = ""
    category: str = ""
    criteria: str | None = None
    close_at: Instant
    outcomes: list[Outcome] = Field(min_length=1)
    windows: list[Window] = Field(default_factory=list)

    @property
    def resolutions(self) -> dict[str, str]:
        """Resolutions by outcome; a pending outcome counts as void."""
        return {outcome.name: "void" if outcome.resolution == "pending" else outcome.resolution for outcome in self.outcomes}


class _Metadata(FilePart):
    category: str = ""


class _Task(FilePart):
    task_id: str = Field(min_length=1)
    title: str
    outcomes: list[str] = Field(min_length=1)
    predict_by: Instant
    context: str | None = None
    metadata: _Metadata = _Metadata()

    def to_event(self) -> Event:
        outcomes = [Outcome(name=name) for name in self.outcomes]
        return Event(
            slug=self.task_id,
            title=self.title,
            category=self.metadata.category,
            criteria=self.context,
            close_at=self.predict_by,
            outcomes=outcomes,
        )


class Forecast(FilePart):
    """Probabilities of one agent for the outcomes of an event in a window. They need not sum to 1."""

    agent: str = Field(min_length=1)
    event: str = Field(min_length=1)
    window: int = 0
    probabilities: Probabilities
    rationale: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """Forecast with what is needed to score it. resolutions: yes, no or void by outcome. crowd: probabilities by outcome."""

    agent: str
    event: str
    window: int
    probabilities: Mapping[str, float]
    resolutions: Mapping[str, str]
    crowd: Mapping[str, float]
    category: str | None = None

    @property
    def graded(self) -> list[str]:
        """Outcomes that are forecast and resolved, sorted."""
        return sorted(name for name in self.probabilities if self.resolutions[name] != "void")

    @property
    def paired(self) -> list[str]:
        """Graded outcomes for which the crowd has a probability."""
        return [name for name in self.graded if name in self.crowd]

    def happened(self, outcome: str) -> float:
        """Return 1 if a graded outcome happened, else 0."""
        return 1.0 if self.resolutions[outcome] == "yes" else 0.0


@dataclass(frozen=True, slots=True)
class Bin:
    """Bin of the reliability diagram; confidence and accuracy are None without forecasts."""

    center: float
    width: float
    confidence: float | None
    accuracy: float | None
    count: int


@dataclass(frozen=True, slots=True)
class AgentScore:
    """Scores of an agent on a slice of its cells: `all`, `cat:CATEGORY`, `type:binary` (one or two outcomes) or `type:multi`.

    brier: mean over events, lower is better. skill: Brier score of the crowd minus that of the agent, on the same outcomes, with its standard error
    over events. ece: expected calibration error over all outcomes. n_pairs: outcomes in the skill.
    """

    agent: str
    slice: str
    brier: float | None
    skill: float | None
    skill_se: float | None
    ece: float | None
    n_events: int
    n_cells: int
    n_pairs: int
    n_skill_events: int
    reliability: list[Bin]


@dataclass(frozen=True, slots=True)
class Report:
    """Scores of all agents and slices. unscored_cells: cells whose outcomes are all void."""

    scores: list[AgentScore]
    n_cells: int
    n_events: int
    unscored_cells: int

    def to_dict(self) -> dict[str, Any]:
        """Return the document of Prophet Arena's engine."""
        versions = {"engine_version": ENGINE_VERSION, "rules_version": RULES_VERSION}
        return {**versions, "expected_cells": None, "coverage": None, **asdict(self)}

    def digest(self) -> str:
        """Return the SHA-256 that Prophet Arena's engine gives for the same cells; floats are rounded to 12 decimals."""
        return hashlib.sha256(json.dumps(_round(self.to_dict()), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 12)
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    return [_round(item) for item in value] if isinstance(value, list) else value


def read_events(path: Path) -> list[Event]:
    """Read events.jsonl of a dataset or tasks.jsonl of a release, also with .gz. Raises `ConfigError` with file, line, field and value."""
    lines = _read_lines(path)
    events = [_parse_event(path, line, row) for line, row in lines]
    _require_unique(path, "slug", [event.slug for event in events])
    for (line, _), event in zip(lines, events, strict=True):
        place = f"{path}, line {line}"
        _require_unique(place, "outcomes", [outcome.name.casefold() for outcome in event.outcomes])
        _require_unique(place, "windows", [window.round for window in event.windows])
        names = {outcome.name for outcome in event.outcomes}
        if unknown := [name for window in event.windows for name in window.crowd if name not in names]:
            raise ConfigError(f"{place}, crowd: {event.slug} has no outcome {unknown[0]!r:.{_SHOWN}}; correct the name")
    return events


def import_events(lake: Lake, registry: Path | None, path: Path, *, name: str, world: World) -> pl.DataFrame:
    """Store the resolved events of a dataset as a release, and return its questions: one per outcome, forecast in the event's last window.

    The price of a question is the crowd's probability when the window was opened. Void and pending outcomes are left out.
    Raises `ConfigError` for an invalid file, an event without windows or their times, and as `store_release`; then nothing is stored.
    """
    rows = []
    for event in read_events(path):
        place = f"{path}, slug = {event.slug!r:.{_SHOWN}}"
        if not event.windows:
            raise ConfigError(f"{place}, windows: there is none; give resolved events of a dataset")
        window = max(event.windows, key=lambda window: window.round)
        if window.taken_at is None or window.closes_at is None or window.taken_at > window.closes_at:
            raise ConfigError(
                f"{place}, windows: window {window.round} lacks taken_at or closes_at, or they are reversed; correct the file"
            )
        rows += [_question_row(event, window, outcome, window.taken_at, window.closes_at) for outcome in event.outcomes]
    rows = [row for row in rows if row["ground_truth"] in {"yes", "no"}]
    if not rows:
        raise ConfigError(f"{path}: no outcome is resolved; give resolved events of a dataset")
    first = min(row["close_time"] for row in rows) - timedelta(seconds=1)
    text = "Events of Prophet Arena, a question per outcome."
    return store_release(lake, registry, name, rows, venue=VENUE, description=text, cutoff=first.replace(microsecond=0), world=world)


def _question_row(event: Event, window: Window, outcome: Outcome, taken_at: datetime, closes_at: datetime) -> dict[str, Any]:
    """Return the columns of benchmark/questions of an outcome."""
    market_id, price = _question_id(event, window, outcome), window.crowd.get(outcome.name)
    known = [horizon for horizon, hours in HORIZONS.items() if price is not None and taken_at <= closes_at - timedelta(hours=hours)]
    return {
        "id": f"{VENUE}:{market_id}",
        "market_id": market_id,
        "question": f"{event.title}\nOutcome: {outcome.name}".replace("\x00", ""),
        "description": (event.criteria or "").replace("\x00", ""),
        "category": event.category or "unknown",
        "ground_truth": outcome.resolution,
        "series_ticker": event.slug,
        "event_id": event.slug,
        "cluster": f"{VENUE}:{event.slug}",
        "open_time": taken_at,
        "close_time": closes_at,
        "settled_at": max(event.close_at, closes_at),
        **{f"price_{horizon}": Decimal(str(price)).quantize(Decimal(10) ** -PRICE.scale) for horizon in known},
        **{f"price_{horizon}_at": taken_at for horizon in known},
    }


def _question_id(event: Event, window: Window, outcome: Outcome) -> str:
    return f"{event.slug}:{window.round}:{outcome.name}"


def select_forecasts(forecasts: pl.DataFrame, events: Sequence[Event]) -> list[Forecast]:
    """Convert rows of benchmark/forecasts on an imported release to forecasts, with samples of a question combined.

    An event is left out if an outcome has no forecast, as Prophet Arena requires all. Raises `ConfigError` for a question of no event.
    """
    places = {
        f"{VENUE}:{_question_id(event, window, outcome)}": (event, window, outcome)
        for event in events
        for window in event.windows
        for outcome in event.outcomes
    }
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    combined = forecasts.group_by("forecaster", "question_id", maintain_order=True).agg(COMBINED)
    for agent, question, p in combined.drop_nulls().iter_rows():
        if question not in places:
            raise ConfigError(f"exporting forecasts: the events have no question {question!r:.{_SHOWN}}; give the events of the release")
        event, window, outcome = places[question]
        found.setdefault((agent, event.slug, window.round), {})[outcome.name] = p
    counts = {event.slug: len(event.outcomes) for event in events}
    return [
        Forecast(agent=agent, event=slug, window=window, probabilities=p)
        for (agent, slug, window), p in found.items()
        if len(p) == counts[slug]
    ]


def read_forecasts(paths: Sequence[Path], events: Sequence[Event]) -> list[Cell]:
    """Read forecasts, a JSON object per line with agent, event, window, probabilities and rationale, and join them with their events.

    Every outcome of the event needs a probability; names of outcomes are compared without regard to case. Raises `ConfigError` with file, line,
    field and value.
    """
    known = {event.slug: event for event in events}
    cells, seen = [], dict[tuple[str, str, int], str]()
    for path, line, row in ((file, *numbered) for file in paths for numbered in _read_lines(file)):
        item, place = _validate(path, line, Forecast, row), f"{path}, line {line}"
        if item.event not in known:
            raise ConfigError(f"{place}, event = {item.event!r:.{_SHOWN}}: there is no such event; correct the name")
        event = known[item.event]
        windows = {window.round: window for window in event.windows}
        if windows and item.window not in windows:
            raise ConfigError(f"{place}, window = {item.window}: {event.slug} has {', '.join(map(str, windows))}")
        if (earlier := seen.setdefault(key := (item.agent, item.event, item.window), place)) != place:
            raise ConfigError(
                f"{place}, window = {item.window}: {earlier} has a forecast of {item.agent} for this window of {item.event}; keep one"
            )
        crowd = windows[item.window].crowd if windows else {}
        probabilities = _match_outcomes(place, item, event)
        cells.append(Cell(*key, probabilities, event.resolutions, crowd, event.category or None))
    return cells


def write_forecasts(target: Path, forecasts: Iterable[Forecast], events: Sequence[Event]) -> None:
    """Write forecasts as a JSON object per line, atomically, as `prophet-arena` submits them: agent, event, window, probabilities, rationale.

    Raises `ConfigError` for what Prophet Arena refuses: an unknown event, missing or unknown outcomes, and a repeated forecast.
    """
    known = {event.slug: event for event in events}
    lines, seen = [], set[tuple[str, str, int]]()
    for item in forecasts:
        place = f"writing {target}: {item.agent} on {item.event}"
        if item.event not in known:
            raise ConfigError(f"{place}: there is no such event; correct the name")
        if (key := (item.agent, item.event, item.window)) in seen:
            raise ConfigError(f"{place}, window {item.window}: it is forecast twice; keep one")
        seen.add(key)
        row = item.model_dump() | {"probabilities": _match_outcomes(place, item, known[item.event])}
        lines.append(json.dumps(row, ensure_ascii=False))
    with atomic_file(target) as draft:
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _match_outcomes(place: str, item: Forecast, event: Event) -> dict[str, float]:
    """Return the probabilities under the event's names of outcomes, in its order. Raises `ConfigError` for a missing or unknown outcome."""
    given = {name.casefold(): float(p) for name, p in item.probabilities.items()}
    names = [outcome.name for outcome in event.outcomes]
    if len(given) < len(item.probabilities):
        raise ConfigError(f"{place}, probabilities: two names differ in case only; keep one")
    if missing := [name for name in names if name.casefold() not in given]:
        raise ConfigError(f"{place}, probabilities: the outcome {missing[0]!r:.{_SHOWN}} of {event.slug} is missing; add it")
    if unknown := sorted(given.keys() - {name.casefold() for name in names}):
        raise ConfigError(f"{place}, probabilities: {event.slug} has no outcome {unknown[0]!r:.{_SHOWN}}; remove it")
    return {name: given[name.casefold()] for name in names}


def _read_lines(path: Path) -> list[tuple[int, Any]]:
    with reading(path), open_bytes(path) as file:
        text = file.read().decode()
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append((number, parse_json(line)))
            except ValueError as error:
                raise ConfigError(f"{path}, line {number}: it is not JSON ({error}); correct the line") from None
    return rows


def _parse_event(path: Path, line: int, row: Any) -> Event:
    if isinstance(row, dict) and "task_id" in row:
        return _validate(path, line, _Task, row).to_event()
    return _validate(path, line, Event, row)


def _validate(path: Path, line: int, kind: type[Part], row: Any) -> Part:
    try:
        return kind.model_validate(row)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).removeprefix(".")
        shown = "" if first["type"] == "missing" else f" = {first['input']!r:.{_SHOWN}}"
        raise ConfigError(
            f"{path}, line {line}, {field or 'object'}{shown}: {first['msg'].removeprefix('Value error, ')}; correct it"
        ) from None


def _require_unique(place: Path | str, field: str, names: Sequence[object]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ConfigError(f"{place}, {field} = {twice!r:.{_SHOWN}}: it occurs twice; keep one")


def list_forecasts(cells: Iterable[Cell]) -> pl.DataFrame:
    """Return a row per graded outcome for `bellwether.scoring.score`, with the event as cluster and the crowd as market."""
    rows = [
        {
            "forecaster": cell.agent,
            "question": f"{cell.event} {cell.window} {name}",
            "probability": cell.probabilities[name],
            "outcome": int(cell.happened(name)),
            "cluster": cell.event,
            "market_price": cell.crowd.get(name),
        }
        for cell in cells
        for name in cell.graded
    ]
    columns = {"forecaster": pl.String, "question": pl.String, "probability": pl.Float64, "outcome": pl.Int64, "cluster": pl.String}
    return pl.DataFrame(rows, schema=columns | {"market_price": pl.Float64})


def score_cells(cells: Sequence[Cell]) -> Report:
    """Score the cells of all agents by the rules of Prophet Arena."""
    scored = [cell for cell in cells if cell.graded]
    by_agent = _group(scored, lambda cell: cell.agent)
    scores = []
    for agent in sorted(by_agent):
        own = by_agent[agent]
        scores.append(_score_slice(agent, "all", own))
        categories = _group([cell for cell in own if cell.category], lambda cell: str(cell.category))
        scores += [_score_slice(agent, f"cat:{name}", categories[name]) for name in sorted(categories)]
        kinds = _group(own, lambda cell: "type:binary" if len(cell.probabilities) <= 2 else "type:multi")
        scores += [_score_slice(agent, name, kinds[name]) for name in sorted(kinds)]
    return Report(scores, len(scored), len({cell.event for cell in scored}), len(cells) - len(scored))


def _group(cells: Iterable[Cell], key: Callable[[Cell], str]) -> dict[str, list[Cell]]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(key(cell), []).append(cell)
    return groups


def _score_slice(agent: str, name: str, cells: Sequence[Cell]) -> AgentScore:
    briers: dict[str, list[float]] = {}
    skills: dict[str, list[float]] = {}
    for cell in cells:
        briers.setdefault(cell.event, []).append(_brier(cell, cell.probabilities, cell.graded))
        if cell.paired:
            skill = _brier(cell, cell.crowd, cell.paired) - _brier(cell, cell.probabilities, cell.paired)
            skills.setdefault(cell.event, []).append(skill)
    event_skills = [fmean(values) for values in skills.values()]
    bins, ece = _bin_forecasts(cells)
    return AgentScore(
        agent,
        name,
        brier=fmean(fmean(values) for values in briers.values()),
        skill=fmean(event_skills) if event_skills else None,
        skill_se=stdev(event_skills) / math.sqrt(len(event_skills)) if len(event_skills) > 1 else None,
        ece=ece,
        n_events=len(briers),
        n_cells=len(cells),
        n_pairs=sum(len(cell.paired) for cell in cells),
        n_skill_events=len(skills),
        reliability=bins,
    )


def _brier(cell: Cell, probabilities: Mapping[str, float], outcomes: Sequence[str]) -> float:
    """Return the mean squared error of probabilities over some outcomes of a cell."""
    total = 0.0
    for name in outcomes:  # added up in the order and precision of the engine, since the digest depends on the last digits
        total += (probabilities[name] - cell.happened(name)) ** 2
    return total / len(outcomes)


def _bin_forecasts(cells: Iterable[Cell]) -> tuple[list[Bin], float]:
    """Return the bins of all graded outcomes and the expected calibration error. A probability on an edge is in the upper bin."""
    members: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for cell in cells:
        for name in cell.graded:
            p = cell.probabilities[name]
            members[min(int(round(p * BINS, 9)), BINS - 1)].append((p, cell.happened(name)))
    bins, n, ece = [], sum(map(len, members)), 0.0
    for index, pairs in enumerate(members):
        confidence, accuracy = (fmean(values) for values in zip(*pairs, strict=True)) if pairs else (None, None)
        if confidence is not None and accuracy is not None:
            ece += len(pairs) / n * abs(confidence - accuracy)
        bins.append(Bin((index + 0.5) * (1.0 / BINS), 1.0 / BINS, confidence, accuracy, len(pairs)))
    return bins, ece


def average_return(cells: Sequence[Cell]) -> dict[str, float]:
    """Return by agent what a dollar pays on average, if it buys the contract with the best ratio of probability to price in each event and window.

    Contracts are yes and no on each outcome; yes costs the crowd's probability, no the rest to 1 dollar, both at least half a cent. Events with a
    void outcome, or without the crowd's probability of one, are left out; several windows of an event are averaged.
    """
    paid: dict[str, dict[str, list[float]]] = {}
    for cell in cells:
        outcomes = list(cell.probabilities)
        if len(cell.paired) == len(outcomes):
            paid.setdefault(cell.agent, {}).setdefault(cell.event, []).append(_pay_best(cell, outcomes))
    return {agent: fmean(fmean(values) for values in events.values()) for agent, events in paid.items()}


def _pay_best(cell: Cell, outcomes: Sequence[str]) -> float:
    """Return what a dollar pays on the best contract; of equals the first outcome, and yes."""
    best, payout = -1.0, 0.0
    for name in outcomes:
        p, happened = cell.probabilities[name], cell.happened(name)
        yes, no = (min(max(price, PRICE_MARGIN), 1 - PRICE_MARGIN) for price in (cell.crowd[name], 1 - cell.crowd[name]))
        for ratio, price, wins in ((p / yes, yes, happened), ((1 - p) / no, no, 1 - happened)):
            if ratio > best:
                best, payout = ratio, wins / price
    return payout
