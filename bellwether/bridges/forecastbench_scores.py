"""Scores of forecast sets by the rules of ForecastBench, compared with its published leaderboard and with Bellwether's own scores.

The rules: a missing forecast is 0.5. A question's difficulty is taken from each Brier score, scores of dataset and market questions are shifted so
that always forecasting 0.5 has 0.25, and their mean is the overall score. The index is 100 (1 - √score). Difficulties are those that ForecastBench
publishes (datasets/question_fixed_effects), or are estimated from the given forecast sets.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field, RootModel

from bellwether.bridges.files import FilePart, read_file, reading
from bellwether.bridges.forecastbench import (
    IMPUTED_LIMIT,
    MARKETS,
    Day,
    ForecastSet,
    Key,
    QuestionSet,
    ResolutionSet,
    Source,
    list_resolved,
    measure_missing,
)
from bellwether.calibration.forecasts import Floats
from bellwether.errors import ConfigError
from bellwether.files import open_bytes
from bellwether.scoring import score
from bellwether.scoring.score import ScoreResult

#: Replicates of the bootstrap, as many as ForecastBench draws.
REPLICATES = 1999
SEED = 1950
_KINDS = ("dataset", "market")
#: Forecasters of ForecastBench that every round determines.
CONSTANTS = {"Always 0": 0.0, "Always 0.5": 0.5, "Always 1": 1.0}

#: Due date, source, id and, of a dataset question, resolution date.
Asked = tuple[date, str, str, date | None]


class Effect(FilePart):
    """Published difficulty of a question: its effect on Brier scores. horizon: days to the resolution; null for market questions."""

    forecast_due_date: Day
    source: Source
    id: str
    horizon: Annotated[float, Field(ge=0, le=36_500, multiple_of=1)] | None
    question_fixed_effect: float


class _Effects(RootModel[list[Effect]]):
    pass


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """Row of a published leaderboard: organization, model and the index of all questions with one decimal."""

    organization: str
    model: str
    overall: Decimal


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Scores of forecasters by the rules of ForecastBench, and Bellwether's.

    theirs: a row per forecaster, best index first: forecaster; for `dataset`, `market` and `overall` the index with `_lower` and `_upper`, brier_
    (adjusted Brier score) and n_ (questions); imputed (share), excluded (whether too many forecasts are missing), cost in dollars, and, beside a
    published leaderboard, rank, best_rank and worst_rank. Null where a forecaster has no questions of the kind.
    ours: Bellwether's scores, whose clusters are questions; missing forecasts lower the coverage.
    difficulty: published, estimated (from the sets) or none. without_effect: number of resolved questions without a published difficulty.
    """

    theirs: pl.DataFrame
    ours: ScoreResult
    difficulty: Literal["published", "estimated", "none"]
    without_effect: int


def read_effects(path: Path) -> dict[Asked, float]:
    """Read published difficulties of questions. Raises `ConfigError` with file, row, field and value."""
    found: dict[Asked, float] = {}
    for row, item in enumerate(read_file(path, _Effects).root, 1):
        if (item.horizon is None) != (item.source in MARKETS):
            raise ConfigError(f"{path}, row {row}, horizon = {item.horizon}: dataset questions alone have one")
        day = None if item.horizon is None else item.forecast_due_date + timedelta(days=int(item.horizon))
        if (
            found.setdefault(key := (item.forecast_due_date, item.source, item.id, day), item.question_fixed_effect)
            != item.question_fixed_effect
        ):
            raise ConfigError(f"{path}, row {row}, id = {' '.join(map(str, key))}: the question has two effects")
    return found


def read_leaderboard(path: Path) -> list[PublishedRow]:
    """Read a published leaderboard (leaderboards/csv). Raises `ConfigError` with file, row, field and value."""
    with reading(path), open_bytes(path) as data, io.TextIOWrapper(data, encoding="utf-8-sig") as text:
        rows = list(csv.DictReader(text))
    found = []
    for number, row in enumerate(rows, 1):
        for field in ("Team", "Model", "Overall"):
            if not row.get(field):
                raise ConfigError(f"{path}, row {number}, {field}: is missing; give a leaderboard of ForecastBench")
        try:
            overall = Decimal(row["Overall"])
        except ArithmeticError:
            overall = Decimal("NaN")
        if not overall.is_finite():
            raise ConfigError(f"{path}, row {number}, Overall = {row['Overall']!r}: it is not a number")
        found.append(PublishedRow(row["Team"], row["Model"], overall))
    return found


def score_forecast_sets(
    sets: Sequence[ForecastSet],
    resolved: Sequence[ResolutionSet],
    *,
    questions: Sequence[QuestionSet] = (),
    effects: Mapping[Asked, float] | None = None,
    leaderboard: Sequence[PublishedRow] = (),
    seed: int = SEED,
) -> Standing:
    """Score forecast sets of one or several rounds by the rules of ForecastBench, with Always 0, 0.5 and 1 beside them.

    A forecaster, named by organization and model, may have one set per round. questions: question sets, to which the forecast sets that name them
    are limited; a set of human forecasters answers a part of its round. effects: from `read_effects`; estimated from the sets if they are of
    two or more forecasters, else scores are not adjusted. leaderboard: rows among which each forecaster is ranked.
    Raises `ConfigError` for a set without its resolution set, two resolution sets of a round, and two sets of a forecaster for a round.
    """
    if twice := [due for due, sets_of_round in Counter(item.forecast_due_date for item in resolved).items() if sets_of_round > 1]:
        raise ConfigError(f"scoring the round of {twice[0]}: it has two resolution sets; give one")
    rounds = {item.forecast_due_date: list_resolved(item) for item in resolved}
    outcomes = {
        (item.forecast_due_date, *one.key): one.resolved_to for item in resolved for one in item.resolutions if one and one.resolved
    }
    sets_of = _group_sets(sets, rounds)
    given = {
        name: {(one.forecast_due_date, *item.key): item.forecast for one in own for item in one.forecasts if item}
        for name, own in sets_of.items()
    }
    scored = sorted(outcomes, key=str)
    parts = {item.question_set: item.asked for item in questions}
    answered = {name: {one.forecast_due_date: parts.get(one.question_set) for one in own} for name, own in sets_of.items()}
    columns = {name: [given[name].get(key, 0.5) if _is_asked(key, answered[name]) else None for key in scored] for name in given}
    if effects is None:  # published effects are of all rounds, which constants on the given ones do not represent
        columns |= {name: [p] * len(scored) for name, p in CONSTANTS.items()}
    y = np.array([outcomes[key] for key in scored])
    losses = (np.array(list(columns.values()), dtype=float).T - y[:, None]) ** 2
    difficulty: Literal["published", "estimated", "none"] = "none" if effects is None else "published"
    if effects is None and len(given) > 1:
        effects, difficulty = _estimate_effects(scored, losses[:, : len(given)]), "estimated"
    elif effects is None:
        effects = dict.fromkeys(scored, 0.0)
    table = _score_by_rules(list(columns), scored, losses, effects, seed)
    facts = [_describe(name, own, rounds, answered[name]) for name, own in sets_of.items()]
    shape: dict[str, pl.DataType | type[pl.DataType]] = {
        "forecaster": pl.String,
        "imputed": pl.Float64,
        "excluded": pl.Boolean,
        "cost": pl.Decimal(38, 6),
    }
    table = table.join(pl.DataFrame(facts, schema=shape, orient="row"), on="forecaster", how="left")
    if leaderboard:
        table = _add_ranks(table, leaderboard)
    ours = [
        {
            "forecaster": name,
            "question": str(key),
            "probability": own.get(key),
            "outcome": outcomes[key],
            "cluster": str(key[:3]),
            "kind": _kind(key),
        }
        for name, own in given.items()
        for key in scored
        if _is_asked(key, answered[name])
    ]
    fractional = bool(((y != 0) & (y != 1)).any())
    return Standing(
        table.sort("overall", descending=True, nulls_last=True, maintain_order=True),
        score(pl.DataFrame(ours, schema_overrides={"probability": pl.Float64}), by="kind", fractional=fractional, seed=seed),
        difficulty,
        sum(key not in effects for key in scored),
    )


def _is_asked(key: Asked, answered: Mapping[date, Collection[tuple[str, str]] | None]) -> bool:
    """Return True if a forecaster was asked a question. answered: by due date its questions; None for all."""
    part = answered.get(key[0], ())
    return part is None or key[1:3] in part


def _kind(key: Asked) -> str:
    return "market" if key[1] in MARKETS else "dataset"


def _group_sets(sets: Sequence[ForecastSet], rounds: Mapping[date, object]) -> dict[str, list[ForecastSet]]:
    """Group forecast sets by forecaster, named by organization and model."""
    grouped: dict[str, list[ForecastSet]] = {}
    for item in sets:
        name = f"{item.organization} {item.model}"
        if item.forecast_due_date not in rounds:
            raise ConfigError(f"scoring {name}: no resolution set of {item.forecast_due_date}; give one")
        if name in CONSTANTS or any(item.forecast_due_date == other.forecast_due_date for other in grouped.get(name, [])):
            raise ConfigError(f"scoring {name}: there are two forecast sets of it for {item.forecast_due_date}; give one")
        grouped.setdefault(name, []).append(item)
    return grouped


def _describe(
    name: str,
    sets: Sequence[ForecastSet],
    rounds: Mapping[date, Sequence[tuple[Key, bool]]],
    answered: Mapping[date, Collection[tuple[str, str]] | None],
) -> tuple[str, float, bool, Decimal | None]:
    """Return the name of a forecaster, the share of missing forecasts, whether ForecastBench excludes one of its sets for them, and its cost.

    ForecastBench's own forecasters are never excluded.
    """
    missing = []
    for item in sets:
        asked = [key for key, _ in rounds[item.forecast_due_date] if _is_asked((item.forecast_due_date, *key), answered)]
        missing.append(measure_missing(asked, {one.key for one in item.forecasts if one}))
    costs = [item.cost for item in sets]
    cost = None if None in costs else sum((value for value in costs if value is not None), Decimal(0))
    share = float(np.mean([shares["required"] for shares in missing]))
    own = all(item.organization == item.model_organization == "ForecastBench" for item in sets)
    return name, share, not own and any(value > IMPUTED_LIMIT for shares in missing for value in shares.values()), cost


def _estimate_effects(asked: Sequence[Asked], losses: Floats) -> dict[Asked, float]:
    """Estimate the effect of each question from the two-way model loss = forecaster + question, separately for dataset and market questions.

    losses: (questions, forecasters), NaN without a forecast. The effects of questions are eliminated from the normal equations, which leaves one
    equation per forecaster.
    """
    found: dict[Asked, float] = {}
    for kind in _KINDS:
        rows = [row for row, key in enumerate(asked) if _kind(key) == kind]
        part = losses[rows]
        has = ~np.isnan(part)
        present, total, n = has.astype(float), np.where(has, part, 0.0), has.sum(axis=1)
        keep = n > 0
        present, total, n = present[keep], total[keep], n[keep]
        normal = np.diag(present.sum(axis=0)) - present.T @ (present / n[:, None])
        forecaster = np.linalg.lstsq(normal, total.sum(axis=0) - present.T @ (total.sum(axis=1) / n), rcond=None)[0]
        question = (total.sum(axis=1) - present @ forecaster) / n
        found |= dict(zip([asked[row] for row, kept in zip(rows, keep, strict=True) if kept], question.tolist(), strict=True))
    return found


def _score_by_rules(
    names: Sequence[str], asked: Sequence[Asked], losses: Floats, effects: Mapping[Asked, float], seed: int
) -> pl.DataFrame:
    """Return index, adjusted Brier score and number of questions by kind, with intervals.

    The bootstrap draws questions within due date and source, and keeps their effects.
    """
    place = {key: row for row, key in enumerate(asked)}
    columns: dict[str, Any] = {"forecaster": list(names)}
    draws, values = {}, {}
    for kind in _KINDS:
        universe = [key for key in sorted(effects, key=str) if _kind(key) == kind]
        effect = np.array([effects[key] for key in universe])
        loss = np.array([losses[place[key]] if key in place else np.full(len(names), np.nan) for key in universe]).reshape(-1, len(names))
        values[kind], draws[kind] = _bootstrap_means(loss - effect[:, None], effect, [key[:2] for key in universe], seed)
        columns[f"n_{kind}"] = (~np.isnan(loss)).sum(axis=0)
    values["overall"], draws["overall"] = (values["dataset"] + values["market"]) / 2, (draws["dataset"] + draws["market"]) / 2
    columns["n_overall"] = columns["n_dataset"] + columns["n_market"]
    for kind in (*_KINDS, "overall"):
        low, high = np.quantile(_to_index(draws[kind]), [0.025, 0.975], axis=0)
        columns |= {kind: _to_index(values[kind]), f"{kind}_lower": low, f"{kind}_upper": high, f"brier_{kind}": values[kind]}
    return pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))


def _to_index(brier: Floats) -> Floats:
    """Convert Brier scores to the index, 100 for perfect forecasts and 50 for always 0.5."""
    return 100 * (1 - np.sqrt(np.maximum(brier, 0)))


def _bootstrap_means(excess: Floats, effect: Floats, strata: Sequence[object], seed: int) -> tuple[Floats, Floats]:
    """Return the adjusted Brier score of each forecaster, (F,), and its bootstrap replicates, (replicates, F).

    excess: losses above the effects, (questions, F), NaN without a forecast. The score is the mean excess plus the mean effect of all questions,
    which gives 0.25 for always 0.5 on all of them. strata: within them questions are drawn.
    """
    has = ~np.isnan(excess)
    terms = np.column_stack([np.where(has, excess, 0.0), has, effect, np.ones_like(effect)])
    drawn, random = np.zeros((REPLICATES, terms.shape[1])), np.random.default_rng(seed)
    members: dict[object, list[int]] = {}
    for row, stratum in enumerate(strata):
        members.setdefault(stratum, []).append(row)
    for rows in members.values():
        counts = random.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=REPLICATES)
        drawn += counts @ terms[rows]
    forecasters = excess.shape[1]

    def means(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            own = sums[..., :forecasters] / sums[..., forecasters : 2 * forecasters]
            return own + (sums[..., -2] / sums[..., -1])[..., None]

    return means(terms.sum(axis=0)), means(drawn)


def _add_ranks(table: pl.DataFrame, leaderboard: Sequence[PublishedRow]) -> pl.DataFrame:
    """Add the rank of each forecaster among the published rows by the index with one decimal, and the ranks at the ends of its interval."""

    def rank(index: float | None) -> int | None:
        return None if index is None else 1 + sum(row.overall > Decimal(f"{index:.1f}") for row in leaderboard)

    columns = {"rank": "overall", "best_rank": "overall_upper", "worst_rank": "overall_lower"}
    return table.with_columns(pl.col(source).map_elements(rank, return_dtype=pl.Int64).alias(name) for name, source in columns.items())


def list_neighbours(standing: Standing, leaderboard: Sequence[PublishedRow], count: int = 2) -> pl.DataFrame:
    """List the scored forecasters among the published rows: rank, forecaster and index, with `count` published rows above and below each."""
    own = standing.theirs.filter(pl.col("rank").is_not_null() & pl.col("imputed").is_not_null()).select("rank", "forecaster", "overall")
    rows = [(rank, name, Decimal(f"{index:.1f}"), True) for rank, name, index in own.iter_rows()]
    for row in leaderboard:
        rank = 1 + sum(other.overall > row.overall for other in leaderboard)
        rows.append((rank, f"{row.organization} {row.model}", row.overall, False))
    rows.sort(key=lambda row: -row[2])
    shown = [row[:3] for place, row in enumerate(rows) if any(other[3] for other in rows[max(place - count, 0) : place + count + 1])]
    return pl.DataFrame(shown, schema={"rank": pl.Int64, "forecaster": pl.String, "index": pl.Decimal(6, 1)}, orient="row")
