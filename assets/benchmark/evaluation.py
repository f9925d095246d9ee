"""Evaluation of language models on a release: calls run concurrently, then the graph scores and ranks the forecasts.

Dagster is imported inside functions: `bellwether evaluate --dry-run` and wrong options do not need it.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from bellwether import forecasting
from bellwether.console import Advance
from bellwether.console import Progress as Shown
from bellwether.errors import BellwetherError, ConfigError
from bellwether.forecasting.elicitation_run import describe_estimate, evaluate_models
from bellwether.forecasting.language_model import LanguageModel
from bellwether.journal.journal import Journal
from bellwether.lake import Lake
from bellwether.models.keys import status
from bellwether.questions import release as find
from bellwether.questions import releases_here
from bellwether.questions.versions import draw, require_questions
from bellwether.settings import settings

if TYPE_CHECKING:
    from bellwether.forecasting.elicitation_run import ModelProgress
    from bellwether.forecasting.forecaster import Forecaster
    from bellwether.models.client import Limits, ModelClient
    from orchestration.runner import Runner


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Plan of an evaluation. named: names given by the user. forecasters: all to score, including baselines. models: language models among the
    named.
    """

    release: str
    named: list[str]
    forecasters: dict[str, Forecaster]
    models: list[LanguageModel]


def release_name(release: str | None, samples: int | None) -> str:
    """Return the full name of a release (default: the first release of the current world). samples: choose the subset of the release's first `samples` questions.

    Raises `ConfigError` for an unknown release.
    """
    offered = list(releases_here())
    if release is None and not offered:
        raise ConfigError(f"bellwether evaluate: no release belongs to the world {settings().world}; name one with --release")
    whole = release or offered[0]
    return find(whole if samples is None else f"{whole}@{samples}").name


def plan_evaluation(names: Sequence[str], release: str) -> EvaluationPlan:
    """Plan the evaluation of the named forecasters and of all baselines on a release."""
    available = forecasting.available()
    for name in names:
        if forecasting.forecaster(name).name not in available:
            raise ConfigError(
                f"bellwether evaluate: {name} cannot be asked in the world {settings().world}; `bellwether models` says where"
            )
    named = {name: available[name] for name in dict.fromkeys(names)}
    baselines = {name: entry for name, entry in available.items() if not isinstance(entry, LanguageModel)}
    return EvaluationPlan(
        release, list(named), {**baselines, **named}, [entry for entry in named.values() if isinstance(entry, LanguageModel)]
    )


def require_any_key(models: Sequence[LanguageModel]) -> None:
    """Raise `ConfigError` if no model can be called, for lack of a key or for another reason. If only some cannot, print a warning that names them.

    A fleet is not checked, since its workers have the keys.
    """
    if settings().fleet is not None:
        return
    unready = {model.name: key for model in models if not (key := status(model.model)).is_ready}
    if unready and len(unready) == len(models):
        missing = next((key.variable for key in unready.values() if key.variable), None)
        advice = f"set {missing} to your key, or choose a model that needs none" if missing else "choose other models"
        reasons = "; ".join(f"{name}: {key}" for name, key in unready.items())
        raise ConfigError(
            f"bellwether evaluate: none of the models can be asked ({reasons}). Nothing was built; {advice} (`bellwether models`)"
        )
    for name, key in unready.items():
        sys.stderr.write(f"Warning: {name} cannot be asked ({key}); the other models are.\n")


def estimate_costs(chosen: EvaluationPlan) -> list[dict[str, Any]]:
    """Estimate calls, tokens and cost of each model. If the release is not stored, its questions are built in memory."""
    questions = draw(Lake.of(settings()), chosen.release)
    require_questions(chosen.release, questions)
    with Journal.of(settings()) as journal:
        return [{"model": model.name, **describe_estimate(model.model, questions, journal)} for model in chosen.models]


def evaluate(work: Runner, chosen: EvaluationPlan, questions: pl.DataFrame, limits: Limits) -> dict[str, BellwetherError | None]:
    """Send the calls of all models concurrently, then score their answers from the journal. Returns None or the error of each forecaster."""
    from assets.benchmark.runs import evaluate_release
    from assets.summary.runs import publish

    run = f"evaluate-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    # In a fleet the runs send the requests, divided among the workers; the journal that all share pays for each once.
    ends = _send_calls(work, chosen.models, questions, run, limits) if chosen.models and settings().fleet is None else {}
    answered = [name for name in chosen.forecasters if ends.get(name) is None]
    ends |= evaluate_release(
        work, chosen.release, answered, repeated=[model.name for model in chosen.models], config=_run_config(limits, paid_by=run)
    )
    publish(work)
    return ends


def _run_config(limits: Limits, *, paid_by: str) -> dict[str, Any]:
    """Return the configuration of benchmark/forecasts with these limits. paid_by: name of the budget that all runs of the evaluation share."""
    return {**{name: float(dollars) for name, dollars in asdict(limits).items() if dollars is not None}, "paid_by": paid_by}


def _send_calls(
    work: Runner, models: Sequence[LanguageModel], questions: pl.DataFrame, run: str, limits: Limits
) -> dict[str, BellwetherError | None]:
    """Send the calls of all models concurrently. Returns per model its error, or None. Raises `KeyboardInterrupt` after a signal."""

    async def send(progress: ModelProgress) -> dict[str, BellwetherError | None]:
        async with work.models.of_run(run, limits).client() as client:
            with _handle_signals(client) as interrupted:
                ends = await evaluate_models(models, questions, client, progress)
            if interrupted.is_set():
                raise KeyboardInterrupt
            return ends

    with _track_models(work.progress) as progress:
        return asyncio.run(send(progress))


@contextmanager
def _handle_signals(client: ModelClient) -> Iterator[asyncio.Event]:
    """On Ctrl-C or SIGTERM, let the client finish its requests and start no more; a second signal cancels them. Yields an event that the first
    signal sets.
    """
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
def _track_models(progress: Shown) -> Iterator[ModelProgress]:
    """Show a progress stage for each model, from the model's first answer on. Yields the function to call whenever a model's number of answers changes."""
    with ExitStack() as stages:
        shown: dict[str, tuple[Advance, int]] = {}

        def report(name: str, answered: int, total: int) -> None:
            advance, previous = shown[name] if name in shown else (stages.enter_context(progress.stage(name, total)), 0)
            advance(answered - previous)
            shown[name] = (advance, answered)

        yield report
