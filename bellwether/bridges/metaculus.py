"""Bridge to Metaculus: its binary questions become releases, reports of bots are scored by its rules, and a release is served to bots.

Files are those of its interface and of `forecasting-tools`, which stores the posts of the interface in its questions. Only binary questions are read;
others are listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import AliasChoices, BeforeValidator, Field, RootModel, model_validator

from bellwether.bridges.files import FilePart, Instant, Probability, read_file
from bellwether.bridges.releases import store_release
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.questions.release import Release
from bellwether.scoring.score import ScoreResult, score
from bellwether.settings import World
from bellwether.tables.benchmark import HORIZONS
from bellwether.tables.schema import PRICE

#: Name of Metaculus as the venue of questions.
VENUE = "metaculus"
#: Lowest and highest probability that Metaculus accepts.
LOWEST, HIGHEST = 0.001, 0.999
_SHOWN = 80


class _CommunityPrediction(FilePart):
    """Prediction of the community from `start_time` (seconds since 1970) on; `centers` has its probability."""

    start_time: Annotated[float, Field(ge=0, lt=10**11)]
    centers: Annotated[list[Probability], Field(max_length=1)] | None = None


class _Aggregation(FilePart):
    history: list[_CommunityPrediction] = Field(default_factory=list)
    latest: _CommunityPrediction | None = None


class _Aggregations(FilePart):
    recency_weighted: _Aggregation = _Aggregation()


class _Binary(FilePart):
    """Question of a post."""

    id: int
    title: str = Field(min_length=1)
    type: Literal["binary"]
    description: str | None = None
    resolution_criteria: str | None = None
    fine_print: str | None = None
    open_time: Instant | None = None
    scheduled_close_time: Instant
    actual_close_time: Instant | None = None
    scheduled_resolve_time: Instant | None = None
    actual_resolve_time: Instant | None = None
    resolution: str | None = None
    aggregations: _Aggregations = _Aggregations()


class _Category(FilePart):
    name: str


class _Projects(FilePart):
    category: list[_Category] = Field(default_factory=list)


class Post(FilePart):
    """Post with one binary question; the questions of a group have posts of one id."""

    id: int
    question: _Binary
    projects: _Projects = _Projects()

    @property
    def outcome(self) -> int | None:
        """Outcome, 1 for yes; None if the question is open or was annulled."""
        return {"yes": 1, "no": 0}.get(self.question.resolution or "")

    @property
    def close_time(self) -> datetime:
        """Time after which no forecast counts: the close, or an earlier resolution."""
        question, planned = self.question, self.question.scheduled_close_time
        return min(planned, question.actual_close_time or planned, question.actual_resolve_time or planned)

    def community(self, at: datetime) -> tuple[datetime, float] | None:
        """Return the latest prediction of the community at a time, with its own time; None without one."""
        aggregation = self.question.aggregations.recency_weighted
        known = [*aggregation.history, *([aggregation.latest] if aggregation.latest else [])]
        stated = [(datetime.fromtimestamp(item.start_time, UTC), item.centers[0]) for item in known if item.centers]
        return max((item for item in stated if item[0] <= at), default=None)


class _Entry(FilePart):
    """Entry of a file: a post with a binary question, or the reason for leaving it out."""

    post: Post | None = None
    reason: str | None = None


def _parse_entry(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a post, or a question of forecasting-tools")
    post = value.get("api_json") or value
    question = post.get("question") if isinstance(post, dict) else None
    if isinstance(question, dict):
        kind = question.get("type")
        return {"post": post} if kind in {"binary", None} else {"reason": str(kind)[:_SHOWN]}
    kinds = ("group_of_questions", "conditional", "notebook")
    return {"reason": next((kind for kind in kinds if isinstance(post, dict) and kind in post), "it has no post of the interface")}


class _Questions(RootModel[list[Annotated[_Entry, BeforeValidator(_parse_entry)]]]):
    """File of posts or questions: a list, a page of the interface, or one of them."""

    @model_validator(mode="before")
    @classmethod
    def _list_entries(cls, value: object) -> object:
        return value.get("results", [value]) if isinstance(value, dict) else value


class _ReportedQuestion(FilePart):
    id_of_post: int = Field(validation_alias=AliasChoices("id_of_post", "post_id", "question_id"))
    id_of_question: int | None = None


class Report(FilePart):
    """Report of a bot on a binary question."""

    question: _ReportedQuestion
    prediction: Annotated[float, Field(ge=LOWEST, le=HIGHEST, validation_alias=AliasChoices("prediction", "prediction_in_decimal"))]


def _skip_distribution(value: object) -> object:
    return None if isinstance(value, dict) and isinstance(value.get("prediction"), dict | list) else value


class _Reports(RootModel[list[Annotated[Report | None, BeforeValidator(_skip_distribution)]]]):
    """File of reports, as `forecasting-tools` saves them; other predictions than probabilities are None."""


def read_questions(path: Path) -> tuple[list[Post], list[str]]:
    """Read binary questions, .json or .json.gz; return them, and a line for each other entry with its row and type.

    A file is a list of posts of Metaculus's interface or of questions that `forecasting-tools` saved, or a page of the interface. Raises `ConfigError`
    with file, row, field and value, and for a question that occurs twice.
    """
    posts, left_out, rows = [], list[str](), dict[int, int]()
    for row, entry in enumerate(read_file(path, _Questions).root, 1):
        if entry.post is None:
            left_out.append(f"row {row}: {entry.reason}")
        elif (first := rows.setdefault(entry.post.question.id, row)) != row:
            raise ConfigError(f"{path}, row {row}, id = {entry.post.question.id}: row {first} has this question too; remove one")
        else:
            posts.append(entry.post)
    return posts, left_out


def read_reports(path: Path) -> list[tuple[int, Report]]:
    """Read the reports of a bot on binary questions with their rows, .json or .json.gz. Raises `ConfigError` with file, row, field and value."""
    return [(row, report) for row, report in enumerate(read_file(path, _Reports).root, 1) if report is not None]


def import_questions(lake: Lake, registry: Path | None, path: Path, *, name: str, world: World) -> tuple[pl.DataFrame, list[str]]:
    """Store the resolved binary questions of a file as a release; return them, and a line for each other entry.

    Prices are the predictions of the community. Raises `ConfigError` for an invalid file, and as `store_release`; then nothing is stored.
    """
    posts, left_out = read_questions(path)
    rows = []
    for post in posts:
        if post.outcome is None:
            left_out.append(f"question {post.question.id}: {post.question.resolution or 'not resolved'}")
        elif post.question.open_time is None or post.question.open_time >= post.close_time:
            raise ConfigError(
                f"{path}, question {post.question.id}, open_time = {post.question.open_time}: it must be before the close, {post.close_time}"
            )
        else:
            rows.append(_question_row(post))
    if not rows:
        raise ConfigError(f"{path}: no binary question is resolved; download the questions again after their resolution")
    first = min(row["close_time"] for row in rows) - timedelta(seconds=1)
    text = "Binary questions of Metaculus."
    stored = store_release(lake, registry, name, rows, venue=VENUE, description=text, cutoff=first.replace(microsecond=0), world=world)
    return stored, left_out


def _question_row(post: Post) -> dict[str, Any]:
    """Return the columns of benchmark/questions of a resolved question."""
    question = post.question
    ended = question.actual_resolve_time or question.scheduled_resolve_time or post.close_time
    known = {name: post.community(post.close_time - timedelta(hours=hours)) for name, hours in HORIZONS.items()}
    prices = {name: stated for name, stated in known.items() if stated is not None}
    return {
        "id": f"{VENUE}:{question.id}",
        "market_id": str(question.id),
        "question": question.title.replace("\x00", ""),
        "description": describe(question.resolution_criteria, question.fine_print, question.description),
        "category": post.projects.category[0].name if post.projects.category else "unknown",
        "ground_truth": "yes" if post.outcome else "no",
        "series_ticker": str(post.id),
        "event_id": str(post.id),
        "cluster": f"{VENUE}:{post.id}",
        "open_time": question.open_time,
        "close_time": post.close_time,
        "settled_at": max(ended, post.close_time),
        **{f"price_{name}": Decimal(str(p)).quantize(Decimal(10) ** -PRICE.scale) for name, (_, p) in prices.items()},
        **{f"price_{name}_at": at for name, (at, _) in prices.items()},
    }


def describe(*texts: str | None) -> str:
    """Combine resolution criteria, fine print and background to the description of a question."""
    whole = "\n\n".join(text.replace("\x00", "").strip() for text in texts if text and text.strip())
    return whole[: Release.model_fields["description_limit"].default]


def baseline_score(p: float, outcome: int) -> float:
    """Return Metaculus's baseline score of a probability: 0 for one half, 100 for certainty; https://www.metaculus.com/help/scores-faq/."""
    return 100 * (1 + math.log2(p if outcome else 1 - p))


def peer_scores(probabilities: Sequence[float], outcome: int) -> list[float]:
    """Return Metaculus's peer score of each of two or more forecasters: how much its log score exceeds the mean of the others', times 100."""
    logs = [math.log(p if outcome else 1 - p) for p in probabilities]
    return [100 * (own - (sum(logs) - own) / (len(logs) - 1)) for own in logs]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Scores of bots.

    theirs: one row per forecaster and, if known, the community: mean baseline score with its standard error and number of questions, and the same of
        the peer score, null without peers. ours: `bellwether.scoring.score` with the community as market. left_out: reports that are not scored.
    """

    theirs: pl.DataFrame
    ours: ScoreResult
    left_out: tuple[str, ...]


def score_reports(paths: Sequence[Path], questions: Path) -> Standing:
    """Score files of reports, each of one forecaster named after its file, on the resolved questions of a file.

    Every forecast counts for the whole time of its question. Peers are the forecasters of the other files. Raises `ConfigError` with file, row, field
    and value, for repeated reports, and without any report on a resolved question.
    """
    posts = {post.question.id: post for post in read_questions(questions)[0]}
    members = Counter(post.id for post in posts.values())
    numbers = {post.id: number for number, post in posts.items() if members[post.id] == 1}  # early reports state the post alone
    names = [path.name.partition(".")[0] for path in paths]
    if repeated := next((name for name, times in Counter(names).items() if times > 1), None):
        raise ConfigError(f"scoring {', '.join(map(str, paths))}: two files are called {repeated}; a file has the name of its forecaster")
    forecasts, left_out = dict[int, dict[str, float]](), list[str]()
    for path, name in zip(paths, names, strict=True):
        for row, report in read_reports(path):
            stated = report.question
            number = numbers.get(stated.id_of_post) if stated.id_of_question is None else stated.id_of_question
            if number is None or number not in posts or posts[number].outcome is None:
                problem = "not resolved" if number in posts else "not in the file of questions"
                left_out.append(f"{path}, row {row}, post {stated.id_of_post}: {problem}")
            elif name in (known := forecasts.setdefault(number, {})):
                raise ConfigError(f"{path}, row {row}, question {number}: an earlier row has a report on it; keep one")
            else:
                known[name] = report.prediction
    if not forecasts:
        raise ConfigError(f"scoring {', '.join(map(str, paths))}: no report is on a resolved binary question of {questions}")
    rows = list[dict[str, Any]]()
    scores: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in (*names, "community")}
    for number, known in forecasts.items():
        post, outcome = posts[number], posts[number].outcome or 0
        for name, peer in zip(known, peer_scores([*known.values()], outcome) if len(known) > 1 else [None] * len(known), strict=True):
            scores[name][0].append(baseline_score(known[name], outcome))
            scores[name][1].extend([] if peer is None else [peer])
        crowd = post.community(post.close_time)
        if crowd is not None:
            scores["community"][0].append(baseline_score(min(max(crowd[1], LOWEST), HIGHEST), outcome))
        market = None if crowd is None else crowd[1]
        rows += [
            {
                "forecaster": name,
                "question": str(number),
                "probability": p,
                "outcome": outcome,
                "cluster": str(post.id),
                "market_price": market,
            }
            for name, p in known.items()
        ]
    schema = {"forecaster": pl.String, "question": pl.String, "probability": pl.Float64, "outcome": pl.Int64, "cluster": pl.String}
    table = [
        {"forecaster": name, **_summarize("baseline", baselines), **_summarize("peer", peers)}
        for name, (baselines, peers) in scores.items()
        if baselines
    ]
    return Standing(
        pl.DataFrame(table, infer_schema_length=None),
        score(pl.DataFrame(rows, schema=schema | {"market_price": pl.Float64})),
        tuple(left_out),
    )


def _summarize(name: str, values: Sequence[float]) -> dict[str, float | int | None]:
    """Return mean, standard error and number of scores."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {name: fmean(values) if values else None, f"{name}_se": error, f"n_{name}": len(values)}
