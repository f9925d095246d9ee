"""Bridge to ForecastBench: its rounds become releases, forecasts are written as forecast sets, and forecast sets are scored by its rules.

A round is a question set and its resolution set, published under CC BY-SA 4.0. A market question is forecast once, a dataset question once per
resolution date. Combinations of questions, of early rounds, are left out, as on its leaderboards.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import polars as pl
from pydantic import BeforeValidator, Field

from bellwether.bridges.files import FilePart, Instant, Probability, read_file
from bellwether.bridges.releases import store_release
from bellwether.calibration.answers import COMBINED
from bellwether.errors import ConfigError
from bellwether.files import atomic_file
from bellwether.lake import Lake
from bellwether.questions.release import Release
from bellwether.registry import NAME, NAME_RULE
from bellwether.settings import World
from bellwether.submissions import Submissions
from bellwether.tables.benchmark import HORIZONS
from bellwether.tables.schema import PRICE

Market = Literal["infer", "manifold", "metaculus", "polymarket"]
Source = Literal[Market, "acled", "dbnomics", "fred", "wikipedia", "yfinance"]
MARKETS: tuple[str, ...] = get_args(Market)
#: Days from the due date to the resolution dates of dataset questions.
DAYS = (7, 30, 90, 180, 365, 1095, 1825, 3650)
#: Largest share of missing forecasts with which ForecastBench lists a forecaster.
IMPUTED_LIMIT = 0.05
LICENSE = "CC BY-SA 4.0"
#: Name of ForecastBench as the venue of questions.
VENUE = "forecastbench"
_SHOWN = 80


def _parse_day(value: object) -> date:
    if not isinstance(value, str) or not re.fullmatch(r"[12]\d{3}-\d\d-\d\d(T.*)?", value):
        raise ValueError("must be a date as text, such as 2025-10-26")
    return date.fromisoformat(value[:10])


def _parse_dollars(value: object) -> Decimal | None:
    try:
        return None if value is None else Decimal(str(value))
    except InvalidOperation:
        raise ValueError("must be a number of dollars") from None


def _skip_combination(value: object) -> object:
    return None if isinstance(value, dict) and isinstance(value.get("id"), list) else value


Day = Annotated[date, BeforeValidator(_parse_day)]
#: Source, id and, of a dataset question, resolution date.
Key = tuple[str, str, date | None]


class Question(FilePart):
    """Question of a round. freeze_datetime_value: of a market question, its price at freeze_datetime, as text."""

    id: str = Field(min_length=1)
    source: Source
    question: str = Field(min_length=1)
    resolution_criteria: str
    background: str
    market_info_resolution_criteria: str = "N/A"
    freeze_datetime: Instant
    freeze_datetime_value: str
    resolution_dates: list[Day] | Literal["N/A"]


class Resolution(FilePart):
    """Resolution of a question; of an unresolved market question, its latest price."""

    id: str = Field(min_length=1)
    source: Source
    resolution_date: Day
    resolved_to: Probability
    resolved: bool

    @property
    def key(self) -> Key:
        """Question and date."""
        return self.source, self.id, None if self.source in MARKETS else self.resolution_date


class Forecast(FilePart):
    """Forecast of a question; resolution_date is null for a market question."""

    id: str = Field(min_length=1)
    source: Source
    forecast: Probability
    resolution_date: Day | None
    reasoning: str | None = None

    @property
    def key(self) -> Key:
        """Question and date."""
        return self.source, self.id, None if self.source in MARKETS else self.resolution_date


class QuestionSet(FilePart):
    """File of the questions of a round; combinations are None."""

    forecast_due_date: Day
    question_set: str
    questions: list[Annotated[Question | None, BeforeValidator(_skip_combination)]]

    @cached_property
    def asked(self) -> dict[tuple[str, str], Question]:
        """Questions by source and id."""
        return {(question.source, question.id): question for question in self.questions if question is not None}


class ResolutionSet(FilePart):
    """File of the resolutions of a round; combinations are None."""

    forecast_due_date: Day
    question_set: str
    resolutions: list[Annotated[Resolution | None, BeforeValidator(_skip_combination)]]


class ForecastSet(FilePart):
    """File of the forecasts of a forecaster for a round; combinations are None. cost: dollars, which only Bellwether reads and writes."""

    organization: str
    model: str = Field(min_length=1)
    model_organization: str
    question_set: str
    forecast_due_date: Day
    forecasts: list[Annotated[Forecast | None, BeforeValidator(_skip_combination)]]
    cost: Annotated[Decimal | None, BeforeValidator(_parse_dollars), Field(ge=0, lt=10**12)] = None


def read_question_set(path: Path) -> QuestionSet:
    """Read a question set, .json or .json.gz. Raises `ConfigError` with file, row, field and value."""
    read = read_file(path, QuestionSet)
    _require_unique(path, "questions", [None if item is None else (item.source, item.id) for item in read.questions])
    return read


def read_resolution_set(path: Path) -> ResolutionSet:
    """Read a resolution set, .json or .json.gz. Raises `ConfigError` with file, row, field and value."""
    read = read_file(path, ResolutionSet)
    _require_unique(path, "resolutions", [None if item is None else item.key for item in read.resolutions])
    return read


def read_forecast_set(path: Path) -> ForecastSet:
    """Read a forecast set, .json or .json.gz. Raises `ConfigError` with file, row, field and value, also for rows that ForecastBench would drop."""
    read = read_file(path, ForecastSet)
    for row, item in enumerate(read.forecasts, 1):
        if item is not None and (problem := _find_date_problem(item, read.forecast_due_date)):
            raise ConfigError(f"{path}, forecasts, row {row}, {problem}")
    _require_unique(path, "forecasts", [None if item is None else item.key for item in read.forecasts])
    return read


def _require_unique(path: Path, field: str, keys: Sequence[tuple[object, ...] | None]) -> None:
    seen: dict[tuple[object, ...], int] = {}
    for row, key in enumerate(keys, 1):
        if key is not None and (first := seen.setdefault(key, row)) != row:
            raise ConfigError(
                f"{path}, {field}, row {row}, id = {' '.join(str(part) for part in key if part is not None)}: row {first} has it too; remove one"
            )


def _find_problem(item: Forecast, questions: QuestionSet) -> str | None:
    """Return why ForecastBench would drop a forecast of a round, after the name of the field; None if it would not."""
    if (item.source, item.id) not in questions.asked:
        return f"id = {item.id[:_SHOWN]!r}: the question set has no such question of {item.source}; remove it"
    return _find_date_problem(item, questions.forecast_due_date)


def _find_date_problem(item: Forecast, due: date) -> str | None:
    """Return why ForecastBench would drop a forecast for its date, after the name of the field; None if it would not."""
    if item.source in MARKETS:
        return None
    if item.resolution_date is None:
        return "resolution_date = null: a dataset question has a date; name one"
    if (days := (item.resolution_date - due).days) not in DAYS:
        return f"resolution_date = {item.resolution_date}: {days} days after {due}; it must be one of {', '.join(map(str, DAYS))}"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class ImportedRound:
    """Imported release: its name, its questions (rows of benchmark/questions), and the number of other resolutions by reason."""

    name: str
    questions: pl.DataFrame
    left_out: Mapping[str, int]


def import_round(lake: Lake, registry: Path | None, questions: Path, resolutions: Path, *, name: str | None, world: World) -> ImportedRound:
    """Store a round as a release: a question per market question, and one per resolution date of a dataset question.

    A question closes at the end of the due date, so that models are asked as of that day; prices are the freeze values of market questions.
    Unresolved questions and outcomes between no and yes are left out. name: of the release, by default forecastbench-DATE; NAME.v2 for later
    resolutions of a stored round. Raises `ConfigError` with file, row, field and value, and as `store_release`; then nothing is stored.
    """
    asked, resolved = read_question_set(questions), read_resolution_set(resolutions)
    due, known = asked.forecast_due_date, asked.asked
    if due != resolved.forecast_due_date:
        raise ConfigError(f"{resolutions}, forecast_due_date = {resolved.forecast_due_date}: {questions} has {due}")
    for row, question in enumerate(asked.questions, 1):
        if question is not None and question.source in MARKETS:
            _require_price(f"{questions}, questions, row {row}", question)
    left_out, rows = Counter[str](), []
    for item in resolved.resolutions:
        question = None if item is None else known.get((item.source, item.id))
        if item is None:
            left_out["combinations"] += 1
        elif question is None:
            left_out["not in the question set"] += 1
        elif not item.resolved:
            left_out["unresolved"] += 1
        elif item.resolved_to not in (0, 1):
            left_out["between no and yes"] += 1
        else:
            rows.append(_question_row(question, item, due))
    order = {f"{source}:{name}": place for place, (source, name) in enumerate(known)}
    rows.sort(key=lambda row: (order[row["event_id"]], row["settled_at"]))
    if not rows:
        raise ConfigError(f"{resolutions}, resolutions: none is a resolved question of {questions}; give the resolution set of its round")
    release = name or f"{VENUE}-{due}"
    stored = store_release(
        lake,
        registry,
        release,
        rows,
        venue=VENUE,
        description=f"Questions of ForecastBench due on {due}, under {LICENSE}.",
        cutoff=datetime.combine(due, time(), UTC),
        world=world,
    )
    return ImportedRound(release, stored, left_out)


def _question_row(question: Question, item: Resolution, due: date) -> dict[str, Any]:
    """Return the columns of benchmark/questions of a question and its resolution."""
    is_market = question.source in MARKETS
    event = f"{question.source}:{question.id}"
    market_id = event if is_market else f"{event}:{item.resolution_date}"
    criteria = [question.resolution_criteria, question.market_info_resolution_criteria, question.background]
    description = "\n\n".join(_fill(part, item, due) for part in criteria if part.strip() not in {"", "N/A"})
    price = Decimal(question.freeze_datetime_value).quantize(Decimal(10) ** -PRICE.scale) if is_market else None
    at = question.freeze_datetime if is_market else None
    return {
        "id": f"{VENUE}:{market_id}",
        "market_id": market_id,
        "question": _fill(question.question, item, due),
        "description": description[: Release.model_fields["description_limit"].default],
        "category": question.source,
        "ground_truth": "yes" if item.resolved_to == 1 else "no",
        "series_ticker": question.source,
        "event_id": event,
        "cluster": f"{VENUE}:{event}",
        "open_time": question.freeze_datetime,
        "close_time": datetime.combine(due + timedelta(days=1), time(), UTC),
        "settled_at": datetime.combine(item.resolution_date + timedelta(days=1), time(), UTC),
        **{f"price_{name}": price for name in HORIZONS},
        **{f"price_{name}_at": at for name in HORIZONS},
    }


def _fill(text: str, item: Resolution, due: date) -> str:
    """Insert the dates into a text of a question. NUL ends a text in databases, and is removed."""
    dated = text.replace("{resolution_date}", str(item.resolution_date)).replace("{forecast_due_date}", str(due))
    return dated.replace("\x00", "").strip()


def _require_price(place: str, question: Question) -> None:
    try:
        valid = 0 <= Decimal(question.freeze_datetime_value) <= 1
    except InvalidOperation:
        valid = False
    if not valid:
        raise ConfigError(f"{place}, freeze_datetime_value = {question.freeze_datetime_value!r}: a market question has a price from 0 to 1")


def import_forecasts(
    store: Submissions, forecasts: Path, questions: QuestionSet, *, forecaster: str, taken: Collection[str], now: datetime
) -> int:
    """Store a forecast set as a submitted forecaster, as of its due date; return the number of forecasts. `bellwether release` scores it.

    questions: of the round. taken: names of other forecasters. now: time of the import. Raises `ConfigError` for an invalid file, a forecast of another
    question, and a name that is taken; then nothing is stored.
    """
    read = read_forecast_set(forecasts)
    if read.forecast_due_date != questions.forecast_due_date:
        raise ConfigError(
            f"{forecasts}, forecast_due_date = {read.forecast_due_date}: the question set has {questions.forecast_due_date}; give that of the round"
        )
    for row, item in enumerate(read.forecasts, 1):
        if item is not None and (problem := _find_problem(item, questions)):
            raise ConfigError(f"{forecasts}, forecasts, row {row}, {problem}")
    if not NAME.fullmatch(forecaster):
        raise ConfigError(f"importing {forecasts}: {forecaster!r} is not a valid forecaster name; {NAME_RULE}")
    stated = datetime.combine(read.forecast_due_date, time(), UTC)
    rows = [
        {
            "forecaster": forecaster,
            "market": ":".join(str(part) for part in (VENUE, *item.key) if part is not None),
            "stated_at": stated,
            "probability": float(item.forecast),
            "received_at": now,
        }
        for item in read.forecasts
        if item is not None
    ]
    if not rows:
        raise ConfigError(f"{forecasts}, forecasts: there is none; give forecasts of questions")
    with store.lock():
        if forecaster in {*taken, *store.names()}:
            raise ConfigError(f"importing {forecasts}: {forecaster} is a forecaster already; choose another name")
        store.add(pl.DataFrame(rows))
    return len(rows)


def select_forecasts(forecasts: pl.DataFrame) -> list[Forecast]:
    """Convert rows of benchmark/forecasts of one forecaster on an imported round to forecasts; samples of a question are combined."""
    combined = (
        forecasts.filter(pl.col("p_yes").is_not_null())
        .group_by("question_id", maintain_order=True)
        .agg(COMBINED.alias("p"), pl.col("reasoning").first())
    )
    found = []
    for name, probability, reasoning in combined.iter_rows():
        venue, _, rest = name.partition(":")
        source, _, question = rest.partition(":")
        if venue != VENUE or source not in get_args(Source):
            raise ConfigError(f"exporting forecasts: {name} is no question of ForecastBench; export a release imported from it")
        question, _, day = (question, "", None) if source in MARKETS else question.rpartition(":")
        found.append(
            Forecast.model_validate(
                {"id": question, "source": source, "forecast": probability, "resolution_date": day, "reasoning": reasoning}
            )
        )
    return found


def write_forecast_set(
    target: Path,
    forecasts: Sequence[Forecast],
    questions: QuestionSet,
    *,
    organization: str,
    model: str,
    model_organization: str,
    resolved: ResolutionSet | None = None,
    cost: Decimal | None = None,
) -> None:
    """Write a forecast set, atomically, if ForecastBench would accept it.

    resolved: of an old round, whose resolved questions alone are then required. cost: dollars. Raises `ConfigError` for a forecast that would be
    dropped, and for more than 5 % missing forecasts of all, of market or of dataset questions.
    """
    due = questions.forecast_due_date
    for item in forecasts:
        if problem := _find_problem(item, questions):
            raise ConfigError(f"writing {target}: {item.source} {item.id}, {problem}")
    keys = [item.key for item in forecasts]
    if len(set(keys)) < len(keys):
        twice = next(key for key, times in Counter(keys).items() if times > 1)
        raise ConfigError(f"writing {target}: {' '.join(map(str, twice))} is forecast twice; keep one")
    required = _list_required(questions) if resolved is None else [key for key, is_open in list_resolved(resolved) if not is_open]
    for kind, missing in measure_missing(required, set(keys)).items():
        if missing > IMPUTED_LIMIT:
            raise ConfigError(
                f"writing {target}: {missing:.1%} of the {kind} forecasts are missing, and ForecastBench allows {IMPUTED_LIMIT:.0%}"
            )
    rows = [item.model_dump(mode="json") | ({"resolution_date": None} if item.source in MARKETS else {}) for item in forecasts]
    document: dict[str, Any] = {
        "organization": organization,
        "model": model,
        "model_organization": model_organization,
        "question_set": questions.question_set,
        "forecast_due_date": str(due),
        "forecasts": rows,
    }
    if cost is not None:
        document["cost"] = str(cost)
    with atomic_file(target) as draft:
        draft.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")


def _list_required(questions: QuestionSet) -> list[Key]:
    dates = {key: item.resolution_dates for key, item in questions.asked.items()}
    return [(*key, day) for key, days in dates.items() for day in ([None] if isinstance(days, str) else days)]


def list_resolved(resolved: ResolutionSet) -> list[tuple[Key, bool]]:
    """List the questions of a round, and whether each is open: an unresolved market question."""
    return [(item.key, not item.resolved) for item in resolved.resolutions if item is not None]


def measure_missing(required: Sequence[Key], given: Collection[Key]) -> dict[str, float]:
    """Return the share of required forecasts that are missing: of all, of market and of dataset questions; 0 of none."""
    parts = {
        "required": required,
        "market": [key for key in required if key[0] in MARKETS],
        "dataset": [key for key in required if key[0] not in MARKETS],
    }
    return {kind: sum(key not in given for key in keys) / max(len(keys), 1) for kind, keys in parts.items()}
