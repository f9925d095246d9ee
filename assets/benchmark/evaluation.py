"""Evaluation of language models on a release: calls run concurrently, then the graph scores and ranks the forecasts.

Dagster is imported inside, so that `bellwether evaluate --dry-run` and its refusals stay quick.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether import forecasting
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.elicitation_run import describe_estimate
from bellwether.forecasting.evaluation import Evaluation, Evaluations, evaluate_models
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal import Journal
from bellwether.lake import Lake
from bellwether.models.keys import status
from bellwether.progress import Advance
from bellwether.progress import Progress as Shown
from bellwether.questions import release as find
from bellwether.questions import releases_here
from bellwether.questions.versions import draw
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.forecasting.evaluation import Progress
    from bellwether.forecasting.forecaster import Forecaster
    from bellwether.models.client import Limits, ModelClient
    from orchestration.runner import Runner


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Plan of an evaluation: release, named forecasters, all scored forecasters, and language models among them."""

    release: str
    named: list[str]
    forecasters: dict[str, Forecaster]
    models: list[LanguageModel]


def find_unfinished(names: Sequence[str], release: str | None, samples: int | None) -> Evaluation:
    """Find the unfinished evaluation to continue. Raises `ConfigError` if no evaluation is unfinished, or if other models are named."""
    found = _evaluations().read_unfinished(release_name(release, samples) if release or samples else None)
    if names and set(names) != set(found.models):
        raise ConfigError(f"resuming {found.run}: it evaluates {', '.join(found.models)}; name the same models, or none")
    return found


def _evaluations() -> Any:
    return Evaluations(settings().evaluations_path)


def release_name(release: str | None, samples: int | None) -> str:
    """Return the name of a release, by default the first of this world; with `samples`, that of its first `samples` questions.

    Raises `ConfigError` for an unknown release.
    """
    here = list(releases_here())
    if release is None and not here:
        raise ConfigError(f"bellwether evaluate: no release belongs to the world {settings().world}; name one with --release")
    whole = release or here[0]
    return find(whole if samples is None else f"{whole}@{samples}").name


def plan_evaluation(names: Sequence[str], release: str) -> EvaluationPlan:
    """Plan the evaluation of the named forecasters together with the baselines."""
    here = forecasting.available()
    for name in names:
        if forecasting.forecaster(name).name not in here:
            raise ConfigError(
                f"bellwether evaluate: {name} cannot be asked in the world {settings().world}; `bellwether models` says where"
            )
    named = {name: here[name] for name in dict.fromkeys(names)}
    baselines = {name: entry for name, entry in here.items() if not isinstance(entry, LanguageModel)}
    return EvaluationPlan(
        release, list(named), {**baselines, **named}, [entry for entry in named.values() if isinstance(entry, LanguageModel)]
    )


def require_any_key(models: Sequence[LanguageModel]) -> None:
    """Raise `ConfigError` if no model is available, before anything is built; name the unavailable ones if others are available.

    In a fleet its workers have the keys.
    """
    if settings().fleet is not None:
        return
    lacking = {model.name: found for model in models if not (found := status(model.model)).is_ready}
    if lacking and len(lacking) == len(models):
        missing = next((found.variable for found in lacking.values() if found.variable), None)
        advice = f"set {missing} to your key, or choose a model that needs none" if missing else "choose other models"
        said = "; ".join(f"{name}: {found}" for name, found in lacking.items())
        raise ConfigError(
            f"bellwether evaluate: none of the models can be asked ({said}). Nothing was built; {advice} (`bellwether models`)"
        )
    for name, found in lacking.items():
        sys.stderr.write(f"Warning: {name} cannot be asked ({found}); the other models are.\n")


def resolve_limits(stated: Decimal | None, each: Decimal | None, begun: Evaluation | None) -> tuple[Decimal, Decimal | None]:
    """Return the budget of all models and that of each: as given, else of the evaluation in progress, else of the settings."""
    whole, each_before = (settings().budget, None) if begun is None else (begun.dollars, begun.dollars_per_model)
    return whole if stated is None else stated, each_before if each is None else each


def require_questions(release: str, questions: pl.DataFrame) -> None:
    """Raise `ConfigError` if the release has no question."""
    if questions.is_empty():
        raise ConfigError(
            f"bellwether evaluate: {release} has no question in this world; pull days first (`bellwether pull`, `bellwether demo`)"
        )


def estimate_costs(chosen: EvaluationPlan, begun: Evaluation | None) -> list[dict[str, Any]]:
    """Estimate calls, tokens and cost of each model. Questions that are not stored are built in memory."""
    questions = draw(Lake(settings().lake_uri), chosen.release)
    require_questions(chosen.release, questions)
    if begun is not None:
        begun.require_unchanged(questions)
    with Journal.of(settings()) as journal:
        return [{"model": model.name, **describe_estimate(model.model, questions, journal)} for model in chosen.models]


def evaluate(
    work: Runner, chosen: EvaluationPlan, questions: pl.DataFrame, begun: Evaluation | None, limits: Limits
) -> dict[str, BellwetherError | None]:
    """Send the calls of all models concurrently, then score their answers from the journal.

    Returns None for each forecaster that finished, and the error for any other.
    """
    from assets.benchmark.runs import evaluate_release
    from assets.warehouse.runs import publish

    assert limits.dollars is not None
    evaluation = begun or _evaluations().begin(Evaluation.of(chosen.release, chosen.named, limits.dollars, questions, datetime.now(UTC)))
    evaluation = replace(evaluation, dollars=limits.dollars, dollars_per_model=limits.dollars_per_model)
    _evaluations().store(evaluation)
    # In a fleet the runs send the requests, divided among the workers; the journal that all share pays for each once.
    ends = _send_calls(work, chosen.models, questions, evaluation.run, limits) if chosen.models and settings().fleet is None else {}
    done = [name for name in chosen.forecasters if ends.get(name) is None]
    ends |= evaluate_release(
        work, chosen.release, done, again=[model.name for model in chosen.models], asking=_run_config(limits, paid_by=evaluation.run)
    )
    publish(work)
    if not any(ends.values()):
        _evaluations().finish(evaluation)
    return ends


def _run_config(limits: Limits, *, paid_by: str) -> dict[str, Any]:
    """Configuration of the graph with the same limits; it retries failed calls."""
    given = {name: value for name, value in asdict(limits).items() if value is not None}
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in given.items()} | {"paid_by": paid_by}


def _send_calls(
    work: Runner, models: Sequence[LanguageModel], questions: pl.DataFrame, run: str, limits: Limits
) -> dict[str, BellwetherError | None]:
    async def all_of_them(progress: Progress) -> dict[str, BellwetherError | None]:
        async with work.models.of_run(run, limits).client() as client:
            with _handle_signals(client) as interrupted:
                ends = await evaluate_models(models, questions, client, progress)
            if interrupted.is_set():
                raise KeyboardInterrupt
            return ends

    with _track_models(work.progress) as progress:
        return asyncio.run(all_of_them(progress))


@contextmanager
def _handle_signals(client: ModelClient) -> Iterator[asyncio.Event]:
    """Set the event on Ctrl-C or SIGTERM and wait for running requests; a second signal cancels them."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    former = signal.getsignal(signal.SIGTERM)

    def restore() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTERM, former)

    def interrupt() -> None:
        restore()
        interrupted.set()
        sys.stderr.write("\nWaiting for the answers that are under way; Ctrl-C again cuts them off.\n")
        client.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield interrupted
    finally:
        restore()


@contextmanager
def _track_models(progress: Shown) -> Iterator[Progress]:
    """Show a progress stage per model from its first answer on."""
    with ExitStack() as stages:
        told: dict[str, tuple[Advance, int]] = {}

        def tell(name: str, done: int, total: int) -> None:
            advance, before = told[name] if name in told else (stages.enter_context(progress.stage(name, total)), 0)
            advance(done - before)
            told[name] = (advance, done)

        yield tell
