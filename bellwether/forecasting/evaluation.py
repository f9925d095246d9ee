"""Evaluation of several language models on one release: concurrent, and resumable after an interruption.

Answers are in the journal. This module stores the options of an evaluation and digests of its questions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import polars as pl

from bellwether.errors import BellwetherError, ConfigError
from bellwether.files import atomic_file, create
from bellwether.forecasting.elicitation_run import NOT_ASKED, run_elicitation
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Outcome
from bellwether.models.client import ModelClient

_ASKED = ("question", "description", "source", "market_id", "open_time", "close_time")
#: Failures without a response of the model, which count against the server.
_ON_THE_WAY = (Outcome.PROVIDER_ERROR.value, Outcome.TIMEOUT.value, Outcome.RATE_LIMIT.value)
#: Reasons of `MALFORMED` for responses that come from no model; empty answers and reasoning alone come from the model.
_NO_ANSWER = r"^HTTP |\(finish reason: none\)$"
_RUN = re.compile(r"evaluate-[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?")

#: Progress callback, called after each sample with the model and its completed and total numbers of samples.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Options of an evaluation, and digests of its questions.

    Attributes:
        run: name under which spending is counted, so that a resumed evaluation shares the budget.
        release: name of the release. models: names of the forecasters. dollars: total budget. dollars_per_model: budget of each model, if any.
        questions: digest of each question's prompt and dates, by question id.
        finished: True once every model has its forecasts.
    """

    run: str
    release: str
    models: tuple[str, ...]
    dollars: Decimal
    questions: Mapping[str, str]
    finished: bool = False
    dollars_per_model: Decimal | None = None

    @classmethod
    def of(cls, release: str, models: Sequence[str], dollars: Decimal, questions: pl.DataFrame, now: datetime) -> Evaluation:
        """Create an evaluation and compute the digests of its questions. now: start (UTC), part of its name."""
        return cls(f"evaluate-{now:%Y%m%dT%H%M%SZ}", release, tuple(models), dollars, question_digests(questions))

    def require_unchanged(self, questions: pl.DataFrame) -> None:
        """Raise `ConfigError` with the number of changes if the release's questions have changed since the start of the evaluation."""
        current = question_digests(questions)
        changed = sorted(name for name in current.keys() & self.questions.keys() if current[name] != self.questions[name])
        new, removed = sorted(current.keys() - self.questions.keys()), sorted(self.questions.keys() - current.keys())
        if changed or new or removed:
            first = (changed + new + removed)[0]
            raise ConfigError(
                f"resuming {self.run}: the questions of {self.release} have changed since it began: {len(changed)} have another text or date, "
                f"{len(new)} are new, {len(removed)} were removed, first {first!r}. Run it without --resume: answers to unchanged questions are reused"
            )


def question_digests(questions: pl.DataFrame) -> dict[str, str]:
    """Return a digest of each question's prompt and dates, by question id."""
    return {
        row["id"]: hashlib.sha256(json.dumps([row[name] for name in _ASKED], default=str).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        for row in questions.select("id", *_ASKED).iter_rows(named=True)
    }


class Evaluations:
    """Store of evaluations: one JSON file each, in a local folder or an object store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, evaluation: Evaluation) -> Evaluation:
        """Store a new evaluation. If another evaluation started in the same second, the name gets a suffix, so that each has its own
        budget.
        """
        name, number = evaluation.run, 1
        while not create(self._path(evaluation)):
            number += 1
            evaluation = replace(evaluation, run=f"{name}-{number}")
        self.store(evaluation)
        return evaluation

    def store(self, evaluation: Evaluation) -> None:
        """Store an evaluation atomically, replacing the earlier state."""
        with atomic_file(self._path(evaluation)) as draft:
            draft.write_text(json.dumps(asdict(evaluation), default=str, indent=1), encoding="utf-8")

    def _path(self, evaluation: Evaluation) -> Path:
        return self._folder / f"{evaluation.run}.json"

    def finish(self, evaluation: Evaluation) -> None:
        """Mark the evaluation as finished."""
        self.store(replace(evaluation, finished=True))

    def read_unfinished(self, release: str | None = None) -> Evaluation:
        """Return the latest unfinished evaluation. release: only of this release. Raises `ConfigError` if none is found."""
        stored = (path for path in self._folder.glob("evaluate-*.json") if path.stat().st_size)
        for name in sorted((path.stem for path in stored if _RUN.fullmatch(path.stem)), reverse=True):
            evaluation = self._read(name)
            if not evaluation.finished and release in (None, evaluation.release):
                return evaluation
        of = f" of {release}" if release else ""
        raise ConfigError(f"resuming an evaluation{of}: no unfinished evaluation; run it without --resume")

    def _read(self, name: str) -> Evaluation:
        path = self._folder / f"{name}.json"
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            per_model = stored.get("dollars_per_model")
            money = {"dollars": Decimal(stored["dollars"]), "dollars_per_model": None if per_model is None else Decimal(per_model)}
            return Evaluation(**{**stored, "models": tuple(stored["models"]), **money})
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise ConfigError(f"{path}: is not a valid evaluation ({error}); delete it") from None


async def evaluate_models(
    forecasters: Sequence[LanguageModel], questions: pl.DataFrame, client: ModelClient, progress: Progress
) -> dict[str, BellwetherError | None]:
    """Evaluate all models on all questions concurrently. Returns for each model by name the error that stopped it, or None.

    The other models continue. A model whose requests all failed at the server counts as stopped.
    """

    async def run(forecaster: LanguageModel) -> BellwetherError | None:
        try:
            rows = await run_elicitation(forecaster, questions, client, lambda done, total: progress(forecaster.name, done, total))
        except BellwetherError as error:
            return error
        return _server_failure(forecaster.name, rows)

    errors = await asyncio.gather(*(run(forecaster) for forecaster in forecasters))
    return dict(zip((forecaster.name for forecaster in forecasters), errors, strict=True))


def _server_failure(name: str, rows: pl.DataFrame) -> BellwetherError | None:
    """Return an error with the most frequent reason if every request of a model failed at the server, else None. Requests that the server
    rejected do not count as failures.
    """
    sent = rows.filter(pl.col("failure").is_null() | (pl.col("failure") != NOT_ASKED))
    unspoken = (pl.col("output_tokens").fill_null(0) == 0) & pl.col("error").str.contains(_NO_ANSWER)
    refused = (pl.col("failure") == Outcome.PROVIDER_ERROR.value) & pl.col("error").str.starts_with("HTTP 4")
    failed = pl.col("failure").is_in(_ON_THE_WAY) & ~refused
    lost = sent.filter(failed | ((pl.col("failure") == Outcome.MALFORMED.value) & unspoken))
    if lost.is_empty() or lost.height < sent.height:
        return None
    errors = lost["error"]
    return BellwetherError(f"calling {name}: all {len(errors)} calls failed: {errors.mode().sort()[0]}; resume when that is fixed")
