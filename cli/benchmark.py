"""Commands of the benchmark: releases, forecasts, leaderboards and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import cloup
import polars as pl

from assets.benchmark.results import print_audit, print_leaderboards
from bellwether.arena.methodology import methodologies
from bellwether.console import console, grid
from bellwether.errors import ConfigError
from bellwether.forecasting.registry import load_registered
from bellwether.formatting import visible
from bellwether.lake import Lake
from bellwether.questions import ReleaseName, releases
from bellwether.questions import release as named
from bellwether.questions.versions import find_new_version, list_versions
from bellwether.settings import settings
from cli.options import DOLLARS
from orchestration.run_session import print_summary, runner


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--forecaster",
    "chosen",
    multiple=True,
    help="Forecaster; repeatable.  [default: all free ones, and BELLWETHER_MODELS]",
)
@click.option("--new-version", is_flag=True, help="Build a new version if the questions have changed.")
def release(names: tuple[str, ...], chosen: tuple[str, ...], *, new_version: bool) -> None:
    """Build the releases NAMES, collect forecasts, score and rank; list the releases without NAMES.

    The questions of a release are fixed when it is first built. What is pulled later enters with a new version, NAME.v2, which has its own forecasts,
    scores and leaderboard. Releases are declared in releases.toml (docs/benchmark.md).
    """
    from bellwether.forecasting import forecaster

    if not names:
        _list_releases()
        return
    for name in names:
        named(name)
    for name in chosen:
        forecaster(name)
    if new_version:
        names = tuple(version for name in names if (version := _find_new_version(name)))
        if not names:
            return
    from assets.benchmark.runs import forecast_and_publish

    with runner() as work:
        forecast_and_publish(work, names, chosen)
    print_leaderboards(names)
    print_summary(work)


def _open_lake() -> Lake:
    return Lake.of(settings())


def _list_releases() -> None:
    """Print the registered releases and their versions in the lake."""
    lake = _open_lake()
    for name, entry in releases().items():
        console().print(f"{name:<16} {entry.cutoff:%Y-%m-%d}  {entry.description}", markup=False)
        for stored in list_versions(lake, name):
            line = f"  version {stored.version}: {stored.name}, {stored.questions} questions, digest {stored.digest[:16]}"
            console().print(line, markup=False)


def _find_new_version(name: str) -> str | None:
    """Return the name of the next version of a release; None after a message if nothing has changed. Raises `ConfigError` for a subset (the
    first N questions).
    """
    whole = ReleaseName.parse(name)
    if whole.size:
        raise ConfigError(f"building a new version: {name} is the beginning of {whole.whole_name}; name that")
    version = find_new_version(_open_lake(), whole.base)
    if version is None:
        console().print(f"{name}: nothing has changed since it was built.", markup=False)
    return version


@cloup.command()
@click.argument("more", nargs=-1, metavar="")
@cloup.option_group(
    "Models and questions",
    cloup.option("--models", "first", multiple=True, metavar="NAME...", help="Models to evaluate; `bellwether models` lists them."),
    cloup.option("--release", help="Release to answer.  [default: the first of this world]"),
    cloup.option("--samples", type=click.IntRange(1), help="Number of questions, the first of the release.  [default: all]"),
    cloup.option("--dry-run", is_flag=True, help="Estimate calls and cost; send no request."),
)
@cloup.option_group(
    "Limits",
    cloup.option("--budget", type=DOLLARS, help="Maximum dollars of all models together.  [default: BELLWETHER_BUDGET]"),
    cloup.option("--budget-per-model", type=DOLLARS, help="Maximum dollars of one model; entries with the same id share it."),
)
def evaluate(
    *,
    first: tuple[str, ...],
    more: tuple[str, ...],
    release: str | None,
    samples: int | None,
    dry_run: bool,
    budget: Decimal | None,
    budget_per_model: Decimal | None,
) -> None:
    """Collect the answers of language models to a release, then score and rank them with the baselines.

    Every answer is stored on arrival and paid for once: an evaluation that was interrupted, or stopped by its budget, continues where it
    stopped. A model that cannot be reached does not stop the others.
    """
    from assets.benchmark import evaluation, runs
    from bellwether.models.client import Limits

    names = (*first, *more)
    if not names:
        raise click.UsageError("name at least one model after --models; `bellwether models` lists them")
    chosen = evaluation.plan_evaluation(names, evaluation.release_name(release, samples))
    if dry_run:
        _show_estimates(evaluation.estimate_costs(chosen))
        return
    evaluation.require_any_key(chosen.models)
    with runner(venues=False) as work:
        questions = runs.build_questions(work, chosen.release)
        allowed = Limits(settings().budget if budget is None else budget, budget_per_model)
        ends = evaluation.evaluate(work, chosen, questions, allowed)
    stopped = {name: str(end) for name, end in ends.items() if end is not None}
    print_leaderboards((chosen.release,))
    print_summary(work, stopped=stopped)
    if stopped:
        sys.exit(1)


def _show_estimates(estimates: list[dict[str, Any]]) -> None:
    """Print the estimated calls, tokens and cost of each model."""
    names = {"model": "model", "calls": "calls", "answered already": "stored", "prompt tokens": "tokens in", "answer tokens": "out"}
    titles = names | {"expected $": "expected $", "at most $": "at most $"}
    rows = [{title: row[name] for name, title in titles.items()} for row in estimates]
    console().print(grid(pl.DataFrame(rows, schema=list(titles.values()))))
    for row in estimates:
        console().print(f"{row['model']}: {row['questions']} questions; {row['basis']}", markup=False, soft_wrap=True)
    if estimates:
        console().print(f"Prices: {estimates[0]['price map']}. No request was sent.", markup=False)


#: Maximum number of refused lines that are printed.
_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--forecaster", metavar="NAME", help="Forecaster, if FILE has no such column.")
@click.option("--dry-run", is_flag=True, help="Check every line; store nothing.")
def submit(file: Path, forecaster: str | None, *, dry_run: bool) -> None:
    """Submit forecasts in FILE (CSV, Parquet or JSON lines): market, probability, stated_at, forecaster.

    They become a forecaster of the benchmark, and of the arena in the weeks of their markets. Forecasts that are already stored stay unchanged. If
    any line is refused, nothing is stored, and the command exits with 1.
    """
    from bellwether.submissions.files import read_forecasts

    table = read_forecasts(file)
    submit_rows(table.frame, table.place, forecaster, dry_run=dry_run)


def submit_rows(rows: pl.DataFrame, place: Callable[[int], str], forecaster: str | None, *, dry_run: bool) -> None:
    """Store the forecasts in `rows` if all are valid, and print the result. Exits with 1 if any row is refused.

    rows: from `bellwether.submissions.files`. place: formats the location of a row. forecaster: name for rows without one.
    """
    from bellwether.submissions import Submissions, validate_rows
    from bellwether.submissions.weeks import load_arena_families, load_markets, load_weeks

    config = settings()
    store, lake = Submissions(config.submissions_path), Lake.of(config)
    weeks = load_weeks(lake, methodologies(config.registry))
    taken = [*load_registered(), *load_arena_families(lake)]
    with nullcontext() if dry_run else store.lock():
        markets = load_markets(lake)
        checked = validate_rows(rows, markets, store.read(), forecaster=forecaster, taken=taken, now=config.now(), weeks=weeks)
        stores = not (dry_run or checked.refused.height)
        if stores:
            store.add(checked.accepted)
    refused_lines = [(place(row), reason) for row, reason in checked.refused.head(_SHOWN).iter_rows()]
    for location, reason in refused_lines:
        console().print(f"{visible(location)}: {visible(reason)}", markup=False, highlight=False, soft_wrap=True)
    if (more := checked.refused.height - len(refused_lines)) > 0:
        console().print(f"and {more:,} more")
    valid = pl.concat([checked.accepted, checked.unchanged])
    names, in_the_arena = sorted(valid["forecaster"].unique()), weeks.count_fitting(valid)
    verb = "accepted" if stores else "valid"
    unchanged = f"{checked.unchanged.height:,} unchanged, " if checked.unchanged.height else ""
    console().print(f"{checked.accepted.height:,} forecasts {verb}, {unchanged}{checked.refused.height:,} refused")
    if in_the_arena:
        console().print(f"{in_the_arena:,} of them are on a market of their week in the arena")
    if names and stores:
        console().print(f"Next: `bellwether release NAME` scores {', '.join(names[:5])} on the questions of that release.")
        if in_the_arena:
            console().print("`bellwether arena run` ranks them with the arena's families.")
    if refused_lines:
        console().print("Nothing was stored; correct or remove the refused lines.")
        sys.exit(1)


@click.command()
@click.argument("release")
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="File of documents to search.  [default: those of the forecasters]",
)
def audit(release: str, corpus: str | None) -> None:
    """Find how outcomes of RELEASE may have leaked, and score its forecasters without these questions.

    Leaks are questions that reveal each other's outcomes, documents that state an outcome and were visible at the time of a forecast, and the
    memory of models: the jump of their score at the knowledge cutoff. docs/clean-room.md describes the audit.
    """
    from assets.benchmark.runs import audit_release

    named(release)
    with runner(venues=False) as work:
        audit_release(work, release, corpus)
    print_audit(release)
