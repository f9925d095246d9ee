"""Commands of the benchmark: releases, forecasts, leaderboards, reports and datasets."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
import polars as pl

from assets.benchmark.results import print_leaderboards
from bellwether.arena.methodology import methodologies
from bellwether.console import console, emit, grid
from bellwether.errors import ConfigError, suggestion
from bellwether.forecasting.registry import load_registered
from bellwether.lake import Lake
from bellwether.lake.warehouse import query
from bellwether.publish import export as write
from bellwether.questions import ReleaseName, releases
from bellwether.questions import release as named
from bellwether.questions.versions import find_new_version, list_versions
from bellwether.report.writer import write_report
from bellwether.settings import settings
from bellwether.tables import TABLES, table
from bellwether.untrusted_text import visible
from cli.delays import warn_of_delays
from cli.options import AS_JSON, DAY, DOLLARS
from orchestration.run_session import emit_summary, print_summary, runner

if TYPE_CHECKING:
    from bellwether.questions import Release


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
    cloup.option("--resume", is_flag=True, help="Continue the latest unfinished evaluation."),
    cloup.option("--dry-run", is_flag=True, help="Estimate calls and cost; send no request."),
)
@cloup.option_group(
    "Limits",
    cloup.option("--budget", type=DOLLARS, help="Maximum dollars of all models together.  [default: BELLWETHER_BUDGET]"),
    cloup.option("--budget-per-model", type=DOLLARS, help="Maximum dollars of one model; entries with the same id share it."),
)
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
) -> None:
    """Collect the answers of language models to a release, then score and rank them with the baselines.

    Every answer is stored on arrival and paid for once: an evaluation that was interrupted, or stopped by its budget, continues where it
    stopped. A model that cannot be reached does not stop the others.
    """
    from assets.benchmark import evaluation, runs
    from bellwether.models.client import Limits

    names = (*first, *more)
    begun = evaluation.find_unfinished(names, release, samples) if resume else None
    if begun is not None:
        chosen = evaluation.plan_evaluation(begun.models, begun.release)
    elif names:
        chosen = evaluation.plan_evaluation(names, evaluation.release_name(release, samples))
    else:
        raise click.UsageError("name at least one model after --models; `bellwether models` lists them")
    if dry_run:
        _show_estimates(evaluation.estimate_costs(chosen, begun), as_json)
        return
    evaluation.require_any_key(chosen.models)
    with runner(venues=False) as work:
        questions = runs.build_questions(work, chosen.release)
        evaluation.require_questions(chosen.release, questions)
        if begun is not None:
            begun.require_unchanged(questions)
        whole, each = evaluation.resolve_limits(budget, budget_per_model, begun)
        allowed = Limits(dollars=whole, dollars_per_model=each)
        try:
            ends = evaluation.evaluate(work, chosen, questions, begun, allowed)
        except KeyboardInterrupt:
            click.echo("\nAnswers are kept; `bellwether evaluate --resume` continues.", err=True)
            raise
    stopped = {name: str(end) for name, end in ends.items() if end is not None}
    if as_json:
        emit_summary(work, {"stopped": stopped})
    else:
        print_leaderboards((chosen.release,))
        print_summary(work, stopped=stopped)
    if stopped:
        sys.exit(1)


def _show_estimates(estimates: list[dict[str, Any]], as_json: bool) -> None:
    """Print the estimated calls, tokens and cost of each model."""
    if as_json:
        emit(estimates)
        return
    names = {"model": "model", "calls": "calls", "answered already": "stored", "prompt tokens": "tokens in", "answer tokens": "out"}
    titles = names | {"expected $": "expected $", "at most $": "at most $"}
    rows = [{title: row[name] for name, title in titles.items()} for row in estimates]
    console().print(grid(pl.DataFrame(rows, schema=list(titles.values()))))
    for row in estimates:
        console().print(f"{row['model']}: {row['questions']} questions; {row['basis']}", markup=False, soft_wrap=True)
    if estimates:
        console().print(f"Prices: {estimates[0]['price map']}. No request was sent.", markup=False)


#: A cohort's name, which no release has.
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
#: Maximum number of refused lines that are printed.
_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--forecaster", metavar="NAME", help="Forecaster, if FILE has no such column.")
@click.option(
    "--week",
    type=DAY,
    help="Week of the arena (its Sunday), if FILE has no such column.",
)
@click.option("--dry-run", is_flag=True, help="Check every line; store nothing.")
def submit(file: Path, forecaster: str | None, week: datetime | None, *, dry_run: bool) -> None:
    """Submit forecasts in FILE (CSV, Parquet or JSON lines): market, probability, stated_at, forecaster.

    They become a forecaster of the benchmark, and of the arena in the weeks of their markets. Forecasts that are already stored stay unchanged. If
    any line is refused, nothing is stored, and the command exits with 1.
    """
    from bellwether.submissions import Submissions, validate_rows
    from bellwether.submissions.files import assign_week, read_forecasts
    from bellwether.submissions.weeks import load_arena_families, load_markets, load_weeks

    config = settings()
    table, store = read_forecasts(file), Submissions(config.submissions_path)
    rows = table.frame if week is None else assign_week(table.frame, week.date())
    lake = Lake.of(config)
    weeks = load_weeks(lake, methodologies(config.registry))
    taken = [*load_registered(), *load_arena_families(lake)]
    with nullcontext() if dry_run else store.lock():
        markets = load_markets(lake)
        checked = validate_rows(rows, markets, store.read(), forecaster=forecaster, taken=taken, now=config.now(), weeks=weeks)
        stores = not (dry_run or checked.refused.height)
        if stores:
            store.add(checked.accepted)
    refused_lines = [(table.place(row), reason) for row, reason in checked.refused.head(_SHOWN).iter_rows()]
    for place, reason in refused_lines:
        console().print(f"{place}: {visible(reason)}", markup=False, highlight=False, soft_wrap=True)
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
        console().print(f"Next: `bellwether release` scores {', '.join(names[:5])} on the questions of a release.")
        if in_the_arena:
            console().print("`bellwether arena run` ranks them with the arena's families.")
    if refused_lines:
        console().print("Nothing was stored; correct or remove the refused lines.")
        sys.exit(1)


@click.command()
@click.argument("release")
@click.option("--to", "reports", help="Folder or object-store URL for the report's folder.  [default: BELLWETHER_REPORTS]")
def report(release: str, reports: str | None) -> None:
    """Write the report of RELEASE from the published warehouse.

    It has a JSON file per model with all its predictions, a summary, metadata, the dataset analysis, and a page in Markdown with figures.
    docs/scoring.md describes the files.
    """
    from bellwether.report.inputs import add_registry, read_inputs

    inputs = read_inputs(settings().warehouse_uri, release)
    warn_of_delays([table("benchmark/leaderboard")], published=True)
    files = write_report(add_registry(inputs), reports or settings().reports_uri)
    for file in files:
        console().print(file, markup=False, soft_wrap=True)


@click.command()
@click.argument("which", required=False, metavar="[RELEASE|COHORT]")
@click.option(
    "--to", "target", type=click.Path(path_type=Path), help="Target folder, or a .zip of a cohort; an earlier export is replaced."
)
@click.option("--without-prompts", is_flag=True, help="Leave prompts and answers of a cohort out.")
@click.option("--license", "license_id", default="mit", show_default=True, help="Licence identifier of the Hub.")
@click.option(
    "--upload",
    "repository",
    metavar="OWNER/NAME",
    help="Upload it as this dataset of the Hugging Face Hub (HF_TOKEN, extra `huggingface`).",
)
@click.option("--private", is_flag=True, help="Make the uploaded dataset private.")
@click.option("--delta", metavar="FOLDER|URL", help="Update Delta Lake copies of tables there (extra `delta`).")
@click.option("--table", "names", multiple=True, metavar="GROUP/NAME", help="Table for --delta; repeatable.  [default: all]")
def export(which: str | None, target: Path | None, *, without_prompts: bool, delta: str | None, names: tuple[str, ...], **hub: Any) -> None:
    """Write a release, or a cohort of the arena (its Sunday), as a dataset.

    A release is a folder of Parquet and a card (docs/scoring.md). A cohort also has CSV files and the leaderboard's query (docs/arena.md).
    With --delta, copies of the lake's tables for other engines are updated instead:
    `bellwether export --delta s3://bucket/delta --table clean/markets`.
    """
    if delta is not None:
        if which is not None or target is not None or hub["repository"] is not None:
            raise click.UsageError("--delta is for tables; leave out RELEASE, --to and --upload.")
        _export_delta(delta, names)
        return
    if which is None or target is None:
        raise click.UsageError("Name a RELEASE or COHORT and a folder with --to, or a place for tables with --delta.")
    if names:
        raise click.UsageError("--table is for --delta.")
    if _DAY.fullmatch(which):
        if hub["repository"] is not None:
            raise click.UsageError("--upload is for releases.")
        _export_cohort(DAY.convert(which, None, None).date(), target, with_messages=not without_prompts)
        return
    if without_prompts:
        raise click.UsageError("--without-prompts is for cohorts of the arena.")
    _export_release(which, target, **hub)


def _export_cohort(cohort: date, target: Path, *, with_messages: bool) -> None:
    from bellwether.arena.export import build_cohort_tables, export_cohort

    tables = build_cohort_tables(_open_lake(), methodologies(settings().registry), cohort, with_messages=with_messages)
    warn_of_delays(declared for declared in TABLES.values() if declared.group == "arena")
    written = export_cohort(tables, cohort, target)
    counts = ", ".join(f"{rows.height:,} {name}" for name, rows in tables.items())
    console().print(f"{written}: {counts}", markup=False, soft_wrap=True)


def _export_delta(url: str, names: tuple[str, ...]) -> None:
    from bellwether.publish.delta import update_copies

    empty = True
    for copy in update_copies(_open_lake(), url, [table(name) for name in names] or TABLES.values()):
        empty = False
        text = f"{copy.location}: {copy.written} partitions written, {copy.removed} removed, {copy.unchanged} unchanged"
        cut = f"; in microseconds instead of nanoseconds: {', '.join(copy.cut)}" if copy.cut else ""
        console().print(text + cut, markup=False, soft_wrap=True)
    if empty:
        raise ConfigError(f"exporting to {url}: the lake has no rows of {', '.join(names) or 'any table'}; `bellwether pull` fetches some")


def _export_release(release: str, folder: Path, *, license_id: str, repository: str | None, private: bool) -> None:
    from bellwether.publish import upload

    if private and repository is None:
        raise ConfigError("exporting: --private is for an upload; name the dataset with --upload OWNER/NAME, or leave --private out")
    questions = query(settings().warehouse_uri, "FROM benchmark.questions WHERE release = $release", {"release": release})
    if questions.is_empty():
        published = query(settings().warehouse_uri, "SELECT DISTINCT release FROM benchmark.questions ORDER BY ALL")["release"].to_list()
        raise ConfigError(f"exporting {release!r}: the warehouse has no such release; {suggestion(release, published)}")
    warn_of_delays([table("benchmark/questions")], published=True)
    written = write(questions, folder, world=settings().world, recipe=_recipe(release), license_id=license_id)
    console().print(f"{written.rows} questions of {release} in {written.folder}", markup=False, soft_wrap=True)
    if repository is not None:
        console().print(f"published at {upload(written.folder, repository, private=private)}", markup=False, soft_wrap=True)


def _recipe(name: str) -> Release | None:
    """Return how the registry defines a release; None if the release was removed from the registry."""
    return named(name) if ReleaseName.parse(name).base in releases() else None
