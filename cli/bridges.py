"""Commands that exchange releases and forecasts with other tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import cloup
import polars as pl

from bellwether.console import console
from bellwether.errors import ConfigError, suggestion
from bellwether.files import atomic_file
from bellwether.formatting import counted
from bellwether.lake import Lake
from bellwether.lake.warehouse import query
from bellwether.questions import ReleaseName, releases
from bellwether.questions import release as named
from bellwether.questions.versions import load_fixed
from bellwether.settings import settings
from bellwether.tables import Table, table
from bellwether.tables.benchmark import FORECASTS, SCORES
from cli.delays import warn_of_delays
from cli.options import DAY, print_left_out, refuse_others


def _export_tables(target: str, *, names: tuple[str, ...] = ()) -> None:
    """Update the Delta Lake copies of tables."""
    from bellwether.publish.delta import update_copies
    from bellwether.tables import TABLES

    empty = True
    for copy in update_copies(Lake.of(settings()), target, [table(name) for name in names] or TABLES.values()):
        empty = False
        text = f"{copy.location}: {copy.written} partitions written, {copy.removed} removed, {copy.unchanged} unchanged"
        cut = f"; in microseconds instead of nanoseconds: {', '.join(copy.cut)}" if copy.cut else ""
        console().print(text + cut, markup=False, soft_wrap=True)
    if empty:
        raise ConfigError(
            f"exporting to {target}: the lake has no rows of {', '.join(names) or 'any table'}; `bellwether pull` fetches some"
        )


def _export_dataset(release: str, target: str, *, license_id: str | None = None, repository: str | None = None) -> None:
    """Write a dataset folder for the Hugging Face Hub."""
    from bellwether.publish import export as write_dataset

    recipe = named(release) if ReleaseName.parse(release).base in releases() else None
    forecasts, scores = (read_rows(name, release) for name in (FORECASTS, SCORES))
    written = write_dataset(
        read_questions(release),
        target,
        forecasts=forecasts,
        scores=scores,
        world=settings().world,
        recipe=recipe,
        license_id=license_id,
        repository=repository,
    )
    console().print(f"{written.rows} questions of {release} in {written.folder}", markup=False, soft_wrap=True)


def _export_report(release: str, target: str) -> None:
    """Write the report of a release: a page in Markdown with figures, and KalshiBench's file set in JSON."""
    from bellwether.report.inputs import add_registry, read_inputs
    from bellwether.report.writer import write_report

    inputs = read_inputs(settings().warehouse_uri, release)
    warn_of_delays([table("benchmark/leaderboard")], published=True)
    for file in write_report(add_registry(inputs), target):
        console().print(file, markup=False, soft_wrap=True)


def _export_cohort(cohort: str, target: str) -> None:
    """Write a cohort of the arena as CSV and Parquet. cohort: its Sunday."""
    from bellwether.arena.export import build_cohort_tables, export_cohort
    from bellwether.arena.methodology import methodologies
    from bellwether.tables import TABLES

    sunday = DAY.convert(cohort, None, None).date()
    tables = build_cohort_tables(Lake.of(settings()), methodologies(settings().registry), sunday)
    warn_of_delays(declared for declared in TABLES.values() if declared.group == "arena")
    written = export_cohort(tables, sunday, Path(target))
    counts = ", ".join(f"{rows.height:,} {name}" for name, rows in tables.items())
    console().print(f"{written}: {counts}", markup=False, soft_wrap=True)


def _export_logs(release: str, target: str, *, forecasters: tuple[str, ...] = ()) -> None:
    """Write the forecasts as logs of Inspect AI."""
    _require_extra("inspect", "inspect_ai")
    from bellwether.bridges.inspect_ai import write_logs

    questions, forecasts = read_questions(release), read_forecasts(release, forecasters)
    written = write_logs(questions, forecasts, Path(target))
    console().print(f"{forecasts.height:,} samples in {len(written)} logs; open them: inspect view --log-dir {target}", soft_wrap=True)


def _export_forecast_set(
    release: str,
    target: str,
    *,
    forecasters: tuple[str, ...] = (),
    questions: Path | None = None,
    resolutions: Path | None = None,
    organization: str | None = None,
) -> None:
    """Write the forecasts of one forecaster as a forecast set of ForecastBench."""
    from bellwether.bridges.forecastbench import read_question_set, read_resolution_set, select_forecasts, write_forecast_set

    if questions is None or organization is None or len(forecasters) != 1:
        raise click.UsageError("The format forecastbench needs --questions, --organization and one --forecaster.")
    rows = read_forecasts(release, forecasters)
    models, costs = rows["model"].drop_nulls().unique().sort(), rows["cost"].to_list()
    forecasts = select_forecasts(rows)
    write_forecast_set(
        Path(target),
        forecasts,
        read_question_set(questions),
        organization=organization,
        model=forecasters[0],
        model_organization=models[0].partition("/")[0] if len(models) else organization,
        resolved=None if resolutions is None else read_resolution_set(resolutions),
        cost=None if None in costs else sum(costs, Decimal(0)),
    )
    console().print(f"{len(forecasts):,} forecasts of {forecasters[0]} in {target}", markup=False, soft_wrap=True)


def _export_arena_forecasts(release: str, target: str, *, forecasters: tuple[str, ...] = (), questions: Path | None = None) -> None:
    """Write the forecasts for Prophet Arena."""
    from bellwether.bridges.prophet_arena import read_events, select_forecasts, write_forecasts

    if questions is None:
        raise click.UsageError("The format prophet-arena needs the events of the release, --questions.")
    events = read_events(questions)
    forecasts = select_forecasts(read_forecasts(release, forecasters), events)
    write_forecasts(Path(target), forecasts, events)
    console().print(f"{len(forecasts):,} forecasts in {target}", markup=False, soft_wrap=True)


#: Formats: the function that writes one, and its options.
_EXPORTS: dict[str, tuple[Callable[..., None], frozenset[str]]] = {
    "arena": (_export_cohort, frozenset()),
    "huggingface": (_export_dataset, frozenset({"license_id", "repository"})),
    "report": (_export_report, frozenset()),
    "inspect": (_export_logs, frozenset({"forecasters"})),
    "delta": (_export_tables, frozenset({"names"})),
    "forecastbench": (_export_forecast_set, frozenset({"forecasters", "questions", "resolutions", "organization"})),
    "prophet-arena": (_export_arena_forecasts, frozenset({"forecasters", "questions"})),
}


@cloup.command()
@click.argument("which", required=False, metavar="[RELEASE|COHORT]")
@cloup.option("--to", "target", required=True, metavar="FOLDER|FILE|URL", help="Target; an earlier export is replaced.")
@cloup.option("--format", "form", type=click.Choice([*_EXPORTS]), default="huggingface", show_default=True, help="Format of the export.")
@cloup.option_group(
    "Options of inspect, forecastbench and prophet-arena",
    cloup.option("--forecaster", "forecasters", multiple=True, metavar="NAME", help="Forecaster; repeatable.  [default: all]"),
)
@cloup.option_group(
    "Options of forecastbench and prophet-arena",
    cloup.option("--questions", type=click.Path(path_type=Path), help="Question set of the round, or events."),
    cloup.option(
        "--resolutions",
        type=click.Path(path_type=Path),
        help="Resolution set of an old round, whose resolved questions alone are required.",
    ),
    cloup.option("--organization", help="Your organization."),
)
@cloup.option_group(
    "Options of huggingface",
    cloup.option("--license", "license_id", help="Licence identifier of the Hub.  [default: of the origin, or mit]"),
    cloup.option("--repository", metavar="OWNER/NAME", help="Dataset of the Hub, for the metadata.  [default: bellwether/RELEASE]"),
)
@cloup.option_group(
    "Options of delta",
    cloup.option("--table", "names", multiple=True, metavar="GROUP/NAME", help="Table; repeatable.  [default: all]"),
)
@click.pass_context
def export(context: click.Context, which: str | None, target: str, form: str, **options: Any) -> None:
    """Write a release from the published warehouse in the format of another tool (docs/bridges.md).

    The format arena writes a cohort of the arena, named by its Sunday. The format delta updates Delta Lake copies of the lake's tables for other
    engines (extra `delta`), without RELEASE.
    """
    write, allowed = _EXPORTS[form]
    refuse_others(context, {"which", "target", "form", *allowed}, f"of the format {form}")
    given = {name: value for name, value in options.items() if value}
    if form == "delta":
        if which is not None:
            raise click.UsageError("The format delta is for tables; leave out RELEASE.")
        write(target, **given)
    elif which is None:
        raise click.UsageError("Name a RELEASE, which `bellwether release` lists, or a COHORT for the format arena.")
    else:
        write(which, target, **given)


def read_questions(release: str) -> pl.DataFrame:
    """Read the questions of a release from the published warehouse. Raises `ConfigError` with similar names for an unknown release."""
    questions = query(settings().warehouse_uri, "FROM benchmark.questions WHERE release = $release", {"release": release})
    if questions.is_empty():
        published = query(settings().warehouse_uri, "SELECT DISTINCT release FROM benchmark.questions ORDER BY ALL")["release"].to_list()
        raise ConfigError(f"exporting {release!r}: the warehouse has no such release; {suggestion(release, published)}")
    warn_of_delays([table("benchmark/questions")], published=True)
    return questions


def read_forecasts(release: str, forecasters: tuple[str, ...] = ()) -> pl.DataFrame:
    """Read the forecasts of a release from the published warehouse. forecasters: names, by default all. Raises `ConfigError` for a forecaster
    without forecasts, and for a release without any.
    """
    frame = read_rows(FORECASTS, release)
    names = frame["forecaster"].unique().sort().to_list()
    for name in forecasters:
        if name not in names:
            raise ConfigError(f"exporting {release!r}: {name!r} has no forecasts of it; {suggestion(name, names)}")
    if frame.is_empty():
        raise ConfigError(f"exporting {release!r}: it has no forecasts; `bellwether release {release}` collects some")
    return frame.filter(pl.col("forecaster").is_in(forecasters or names))


def read_rows(source: Table, release: str) -> pl.DataFrame:
    """Read the rows of a release from a benchmark table of the published warehouse."""
    frame = query(settings().warehouse_uri, f"FROM {source.group}.{source.short_name} WHERE release = $release", {"release": release})
    return frame.cast(pl.Schema(source.schema))


def _require_extra(extra: str, module: str) -> None:
    """Raise `ConfigError` if the package of an extra is not installed."""
    if find_spec(module) is None:
        raise ConfigError(f"the extra `{extra}` is not installed; run `pip install -e '.[{extra}]'`")


def _import_log(path: Path, *, forecaster: str | None, target: Path | None) -> None:
    """Submit the forecasts of Inspect logs, or write them to a file."""
    _require_extra("inspect", "inspect_ai")
    from bellwether.bridges.inspect_ai import read_logs
    from bellwether.submissions.files import select_columns
    from cli.benchmark import submit_rows

    imported = read_logs(path, forecaster)
    print_left_out(imported.left_out)
    if imported.table.frame.is_empty():
        raise ConfigError(f"importing {path}: no sample has a forecast that counts")
    if target is None:
        rows = select_columns(imported.table)
        submit_rows(rows.frame, rows.place, forecaster, dry_run=False)
        return
    with atomic_file(target) as draft:
        imported.table.frame.write_csv(draft)
    console().print(f"{imported.table.frame.height:,} forecasts in {target}; next: bellwether score {target}", markup=False, soft_wrap=True)


def _import_forecastbench(
    path: Path, *, forecaster: str | None, questions: Path | None, resolutions: Path | None, release: str | None
) -> None:
    """Store a round of ForecastBench as a release, or one of its forecast sets as a submission."""
    from bellwether.bridges.forecastbench import LICENSE, import_forecasts, import_round, read_question_set
    from bellwether.forecasting.registry import load_registered
    from bellwether.submissions import Submissions
    from bellwether.submissions.weeks import load_arena_families

    config = settings()
    lake = Lake.of(config)
    if resolutions is not None:
        done = import_round(lake, config.registry, path, resolutions, name=release, world=config.world)
        console().print(f"{done.questions.height:,} questions in the release {done.name}, under {LICENSE}", soft_wrap=True)
        for reason, count in done.left_out.items():
            console().print(f"{counted(count, 'resolution')} left out: {reason}")
        console().print(f"Next: bellwether release {done.name}", soft_wrap=True)
        return
    if forecaster is None or questions is None:
        raise click.UsageError("Name the --forecaster and the --questions of a forecast set, or the --resolutions of a question set.")
    taken = [*load_registered(), *load_arena_families(lake)]
    store, asked = Submissions(config.submissions_path), read_question_set(questions)
    count = import_forecasts(store, path, asked, forecaster=forecaster, taken=taken, now=config.now())
    console().print(
        f"{count:,} forecasts of {forecaster} stored. Next: `bellwether release NAME` scores them on the release of their round."
    )


def _import_events(path: Path, *, release: str | None) -> None:
    """Store resolved events of Prophet Arena as a release."""
    from bellwether.bridges.prophet_arena import import_events

    if release is None:
        raise click.UsageError("The format prophet-arena needs a name for the --release.")
    config = settings()
    questions = import_events(Lake.of(config), config.registry, path, name=release, world=config.world)
    console().print(f"{questions.height:,} questions in the release {release}. Next: bellwether release {release}", soft_wrap=True)


def _import_questions(path: Path, *, release: str | None) -> None:
    """Store resolved binary questions of Metaculus as a release."""
    from bellwether.bridges.metaculus import import_questions

    if release is None:
        raise click.UsageError("The format metaculus needs a name for the --release.")
    config = settings()
    questions, left_out = import_questions(Lake.of(config), config.registry, path, name=release, world=config.world)
    print_left_out(left_out)
    console().print(f"{questions.height:,} questions in the release {release}. Next: bellwether release {release}")


#: Formats of files to import: the function that imports one, and its options.
_IMPORTS: dict[str, tuple[Callable[..., None], frozenset[str]]] = {
    "inspect": (_import_log, frozenset({"forecaster", "target"})),
    "forecastbench": (_import_forecastbench, frozenset({"forecaster", "questions", "resolutions", "release"})),
    "prophet-arena": (_import_events, frozenset({"release"})),
    "metaculus": (_import_questions, frozenset({"release"})),
}


@cloup.command("import")
@click.argument("path", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
@cloup.option("--format", "form", type=click.Choice([*_IMPORTS]), required=True, help="Format of the file.")
@cloup.option("--forecaster", metavar="NAME", help="Name of the forecaster.  [default: the model's name, in the format inspect]")
@cloup.option_group(
    "Options of inspect",
    cloup.option(
        "--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write a CSV for `bellwether score`; submit nothing."
    ),
)
@cloup.option_group(
    "Options of forecastbench, prophet-arena and metaculus",
    cloup.option("--questions", type=click.Path(path_type=Path), help="Question set of the round: FILE is a forecast set."),
    cloup.option("--resolutions", type=click.Path(path_type=Path), help="Resolution set: FILE is the question set, and becomes a release."),
    cloup.option("--release", metavar="NAME", help="Name of the release.  [default of forecastbench: forecastbench-DATE]"),
)
@click.pass_context
def import_(context: click.Context, path: Path, form: str, **options: Any) -> None:
    """Submit the forecasts in a file of another tool, as `bellwether submit` does, or make a release of its questions (docs/bridges.md).

    If any forecast is refused, nothing is stored, and the command exits with 1.
    """
    read, allowed = _IMPORTS[form]
    refuse_others(context, {"path", "form", *allowed}, f"of the format {form}")
    read(path, **{name: value for name, value in options.items() if name in allowed})


@click.command()
@click.argument("release")
@click.option("--forecaster", required=True, metavar="NAME", help="Name of the bot as a forecaster.")
@click.option("--port", default=8322, show_default=True, type=click.IntRange(0, 65535), help="Port on 127.0.0.1; 0: a free one.")
def metaculus(release: str, forecaster: str, port: int) -> None:
    """Serve the questions of RELEASE to a bot of Metaculus on 127.0.0.1 until interrupted.

    Its answers become a forecaster of the benchmark (docs/bridges.md).
    """
    from bellwether.bridges.metaculus_server import API_PATH, Interview, build_application
    from bellwether.forecasting.registry import load_registered
    from bellwether.sandbox.server import serve
    from bellwether.submissions import Submissions
    from bellwether.submissions.weeks import load_arena_families

    config = settings()
    lake = Lake.of(config)
    questions = load_fixed(lake, release)
    if questions is None:
        raise ConfigError(f"serving {release!r}: it was not built; build it: bellwether release {release}")
    taken = [*load_registered(), *load_arena_families(lake)]
    interview = Interview(questions, Submissions(config.submissions_path), forecaster, taken=taken, clock=config.now)
    with serve(build_application(interview), port=port) as site:
        console().print(f"Start the bot with METACULUS_API_BASE_URL={site.root}{API_PATH}; Ctrl-C ends it", soft_wrap=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console().print(f"stopped. Next: bellwether release {release}", soft_wrap=True)
