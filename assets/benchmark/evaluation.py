"""The command `bellwether evaluate`: language models on a release, asked side by side, then scored and ranked through the graph.

Not here: how a model is asked (bellwether/forecasting, bellwether/models). Dagster is imported inside, so that other commands stay quick.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from assets.benchmark.results import show_leaderboards
from bellwether.console import AS_JSON, console, emit, grid
from bellwether.errors import BellwetherError, ConfigError
from bellwether.progress import Advance
from bellwether.progress import Progress as Shown
from bellwether.settings import settings
from orchestration.session import close, runner

if TYPE_CHECKING:
    from bellwether.forecasting.evaluation import Evaluation, Progress
    from bellwether.forecasting.forecaster import Forecaster
    from bellwether.forecasting.language_model import LanguageModel
    from bellwether.journal import Journal
    from bellwether.models.client import Limits, ModelClient
    from orchestration.runner import Runner


class Dollars(click.ParamType):
    """An exact amount of money."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """`value` as a Decimal from 0."""
        try:
            amount = value if isinstance(value, Decimal) else Decimal(value)
        except InvalidOperation:
            self.fail(f"{value!r} is no amount of dollars", param, ctx)
        if not amount.is_finite() or amount < 0:
            self.fail(f"{value!r} is no amount of dollars", param, ctx)
        return amount


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be evaluated: the release, who was named, everybody who is scored, and those among them that are asked."""

    release: str
    named: list[str]
    forecasters: dict[str, Forecaster]
    models: list[LanguageModel]


@click.command()
@click.option("--models", "first", multiple=True, metavar="NAME...", help="Models to evaluate; `bellwether models` lists them.")
@click.argument("more", nargs=-1, metavar="")
@click.option("--release", help="Release to answer; the first of this world when left out.")
@click.option("--samples", type=click.IntRange(1), help="Only the first N questions of the release; all when left out.")
@click.option("--resume", is_flag=True, help="Go on with the latest evaluation that was left unfinished.")
@click.option("--dry-run", is_flag=True, help="Only say what it would take and cost.")
@click.option("--budget", type=Dollars(), help="Most dollars that all models together may spend; BELLWETHER_BUDGET when left out.")
@click.option("--budget-per-model", type=Dollars(), help="Most dollars that one model may spend; entries with the same id count as one.")
@click.option("--concurrency", type=click.IntRange(1), help="Most calls under way at a time, over all models.")
@click.option("--requests-per-minute", type=click.IntRange(1), help="Most requests per minute, over all models.")
@click.option("--tokens-per-minute", type=click.IntRange(1), help="Most tokens per minute, over all models.")
@AS_JSON
def evaluate(
    *,
    first: tuple[str, ...],
    more: tuple[str, ...],
    release: str | None,
    samples: int | None,
    resume: bool,
    dry_run: bool,
    budget: Decimal | None,
    budget_per_model: Decimal | None,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Let language models answer a release, then score and rank them beside the baselines.

    Every answer is stored as it comes, and none is paid for twice: an evaluation that is interrupted, or stopped by its budget, goes on where
    it was. One model that cannot be asked stops no other.
    """
    from assets.benchmark import runs
    from bellwether.models.client import Limits

    names = (*first, *more)
    begun = _unfinished(names, release, samples) if resume else None
    chosen = _choose(names or (begun.models if begun else ()), begun.release if begun else _named(release, samples))
    if dry_run:
        _estimate(chosen, begun, as_json)
        return
    _require_a_key(chosen.models)
    with runner(venues=False) as work:
        questions = runs.questions(work, chosen.release)
        _require_questions(chosen.release, questions)
        if begun is not None:
            begun.require_unchanged(questions)
        whole, each = _budgets(budget, budget_per_model, begun)
        allowed = Limits(dollars=whole, dollars_per_model=each, **limits)
        try:
            ends = _evaluate(work, chosen, questions, begun, allowed)
        except KeyboardInterrupt:
            click.echo("\nWhat was answered is kept; `bellwether evaluate --resume` goes on.", err=True)
            raise
    stopped = {name: str(end) for name, end in ends.items() if end is not None}
    close(work, as_json, results=show_leaderboards((chosen.release,), as_json), stopped=stopped)
    if stopped:
        sys.exit(1)


def _unfinished(names: Sequence[str], release: str | None, samples: int | None) -> Evaluation:
    """The evaluation to go on with. Its models and release are its own: others would make it another evaluation."""
    found = _evaluations().unfinished(_named(release, samples) if release or samples else None)
    if names and set(names) != set(found.models):
        raise ConfigError(f"resuming {found.run}: it evaluates {', '.join(found.models)}; name the same models, or none")
    return found


def _evaluations() -> Any:
    from bellwether.forecasting.evaluation import Evaluations

    return Evaluations(settings().evaluations_path)


def _named(release: str | None, samples: int | None) -> str:
    from bellwether.questions import release as find
    from bellwether.questions import releases_here

    here = list(releases_here())
    if release is None and not here:
        raise ConfigError(f"bellwether evaluate: no release belongs to the world {settings().world}; name one with --release")
    whole = release or here[0]
    return find(whole if samples is None else f"{whole}@{samples}").name


def _choose(names: Sequence[str], release: str) -> Chosen:
    """The named forecasters, and the baselines: what a model does not beat is not skill."""
    from bellwether.forecasting import available, forecaster
    from bellwether.forecasting.language_model import LanguageModel

    if not names:
        raise click.UsageError("name at least one model after --models; `bellwether models` lists them")
    here = available()
    for name in names:
        if forecaster(name).name not in here:
            raise ConfigError(
                f"bellwether evaluate: {name} cannot be asked in the world {settings().world}; `bellwether models` says where"
            )
    named = {name: here[name] for name in dict.fromkeys(names)}
    baselines = {name: entry for name, entry in here.items() if not isinstance(entry, LanguageModel)}
    return Chosen(release, list(named), {**baselines, **named}, [entry for entry in named.values() if isinstance(entry, LanguageModel)])


def _require_a_key(models: Sequence[LanguageModel]) -> None:
    """Raise `ConfigError` where no model can be asked, before anything is built; name those that cannot where others can."""
    from bellwether.models.keys import status

    lacking = {model.name: found for model in models if not (found := status(model.model)).is_ready}
    if lacking and len(lacking) == len(models):
        missing = next((found.variable for found in lacking.values() if found.variable), None)
        advice = f"set {missing} to your key, or choose a model that needs none" if missing else "choose other models"
        said = "; ".join(f"{name}: {found}" for name, found in lacking.items())
        raise ConfigError(
            f"bellwether evaluate: none of the models can be asked ({said}). Nothing was built; {advice} (`bellwether models`)"
        )
    for name, found in lacking.items():
        click.echo(f"Warning: {name} cannot be asked ({found}); the other models are.", err=True)


def _budgets(stated: Decimal | None, each: Decimal | None, begun: Evaluation | None) -> tuple[Decimal, Decimal | None]:
    """Of all models and of each: what is given; else that of the evaluation that goes on; else that of the settings, and none for each."""
    whole, each_before = (settings().budget, None) if begun is None else (begun.dollars, begun.dollars_per_model)
    return whole if stated is None else stated, each_before if each is None else each


# --- beforehand --------------------------------------------------------------------------------------------------------


def _require_questions(release: str, questions: pl.DataFrame) -> None:
    if questions.is_empty():
        raise ConfigError(
            f"bellwether evaluate: {release} has no question in this world; pull days first (`bellwether pull`, `bellwether demo`)"
        )


def _estimate(chosen: Chosen, begun: Evaluation | None, as_json: bool) -> None:
    """Show what it would take, on the questions as they are fixed or would be; nothing is written."""
    from bellwether.journal import Journal
    from bellwether.lake import Lake
    from bellwether.questions.versions import draw

    questions = draw(Lake(settings().lake_uri), chosen.release)
    _require_questions(chosen.release, questions)
    if begun is not None:
        begun.require_unchanged(questions)
    with Journal.of(settings()) as journal:
        _show_estimates(_estimates(chosen, questions, journal), as_json)


def _estimates(chosen: Chosen, questions: pl.DataFrame, journal: Journal) -> list[dict[str, Any]]:
    from bellwether.forecasting.interview import estimated

    return [{"model": model.name, **estimated(model.model, questions, journal)} for model in chosen.models]


def _show_estimates(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    names = {"model": "model", "calls": "calls", "answered already": "have", "prompt tokens": "tokens in", "answer tokens": "out"}
    shown = names | {"expected $": "expected $", "at most $": "at most $"}
    console().print(grid(pl.DataFrame([{title: row[name] for name, title in shown.items()} for row in found], schema=list(shown.values()))))
    for row in found:
        console().print(f"{row['model']}: {row['questions']} questions; {row['basis']}", markup=False, soft_wrap=True)
    if found:
        console().print(f"Prices: {found[0]['price map']}. Nothing was asked.", markup=False)


# --- asking ------------------------------------------------------------------------------------------------------------


def _evaluate(
    work: Runner, chosen: Chosen, questions: pl.DataFrame, begun: Evaluation | None, limits: Limits
) -> dict[str, BellwetherError | None]:
    """Ask all models side by side, then let the graph read their answers from the journal. By name: None, or why it stopped."""
    from assets.benchmark.runs import release
    from assets.warehouse.runs import publish
    from bellwether.forecasting.evaluation import Evaluation

    assert limits.dollars is not None
    evaluation = begun or _evaluations().begin(Evaluation.of(chosen.release, chosen.named, limits.dollars, questions, datetime.now(UTC)))
    evaluation = replace(evaluation, dollars=limits.dollars, dollars_per_model=limits.dollars_per_model)
    _evaluations().keep(evaluation)
    ends = _ask(work, chosen.models, questions, evaluation.run, limits) if chosen.models else {}
    done = [name for name in chosen.forecasters if ends.get(name) is None]
    ends |= release(
        work, chosen.release, done, again=[model.name for model in chosen.models], asking=_configuration(limits, paid_by=evaluation.run)
    )
    publish(work)
    if not any(ends.values()):
        _evaluations().finish(evaluation)
    return ends


def _configuration(limits: Limits, *, paid_by: str) -> dict[str, Any]:
    """The same limits for the graph, which asks again what failed on the way."""
    given = {name: value for name, value in asdict(limits).items() if value is not None}
    return {name: float(value) if isinstance(value, Decimal) else value for name, value in given.items()} | {"paid_by": paid_by}


def _ask(
    work: Runner, models: Sequence[LanguageModel], questions: pl.DataFrame, run: str, limits: Limits
) -> dict[str, BellwetherError | None]:
    from bellwether.forecasting.evaluation import ask_all

    async def all_of_them(progress: Progress) -> dict[str, BellwetherError | None]:
        async with work.models.of_run(run, limits).client() as client:
            with _interruptible(client) as interrupted:
                ends = await ask_all(models, questions, client, progress)
            if interrupted.is_set():
                raise KeyboardInterrupt
            return ends

    with _stages(work.progress) as progress:
        return asyncio.run(all_of_them(progress))


@contextmanager
def _interruptible(client: ModelClient) -> Iterator[asyncio.Event]:
    """Ctrl-C and SIGTERM let requests under way come back, since they are paid for, and sets the event; a second one cuts them off."""
    loop, interrupted = asyncio.get_running_loop(), asyncio.Event()
    former = signal.getsignal(signal.SIGTERM)

    def restore() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTERM, former)

    def interrupt() -> None:
        restore()
        interrupted.set()
        click.echo("\nWaiting for the answers that are under way; Ctrl-C again cuts them off.", err=True)
        client.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield interrupted
    finally:
        restore()


@contextmanager
def _stages(progress: Shown) -> Iterator[Progress]:
    """A stage for each model, from its first answer on."""
    with ExitStack() as stages:
        told: dict[str, tuple[Advance, int]] = {}

        def tell(name: str, done: int, total: int) -> None:
            advance, before = told[name] if name in told else (stages.enter_context(progress.stage(name, total)), 0)
            advance(done - before)
            told[name] = (advance, done)

        yield tell
