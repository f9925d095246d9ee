"""Commands that exchange releases and forecasts with other tools."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import cloup
import polars as pl

from bellwether.console import console
from bellwether.errors import ConfigError, suggestion
from bellwether.files import atomic_file
from bellwether.lake import Lake
from bellwether.lake.warehouse import query
from bellwether.publish import export as write_dataset
from bellwether.questions import ReleaseName, releases
from bellwether.questions import release as named
from bellwether.settings import settings
from bellwether.tables import Table, table
from bellwether.tables.benchmark import FORECASTS, SCORES
from bellwether.untrusted_text import visible
from cli.benchmark import submit_rows
from cli.delays import warn_of_delays
from cli.options import DAY


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


def _export_dataset(release: str, target: str, *, license_id: str = "mit", repository: str | None = None, private: bool = False) -> None:
    """Write a dataset folder for the Hugging Face Hub."""
    from bellwether.publish import upload

    if private and repository is None:
        raise ConfigError("exporting: --private is for an upload; name the dataset with --upload OWNER/NAME, or leave --private out")
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
    if repository is not None:
        console().print(f"published at {upload(written.folder, repository, private=private)}", markup=False, soft_wrap=True)


def _export_cohort(cohort: str, target: str, *, without_prompts: bool = False) -> None:
    """Write a cohort of the arena as CSV and Parquet. cohort: its Sunday."""
    from bellwether.arena.export import build_cohort_tables, export_cohort
    from bellwether.arena.methodology import methodologies
    from bellwether.tables import TABLES

    sunday = DAY.convert(cohort, None, None).date()
    tables = build_cohort_tables(Lake.of(settings()), methodologies(settings().registry), sunday, with_messages=not without_prompts)
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


#: Formats: the function that writes one, and its options.
_EXPORTS: dict[str, tuple[Callable[..., None], frozenset[str]]] = {
    "arena": (_export_cohort, frozenset({"without_prompts"})),
    "huggingface": (_export_dataset, frozenset({"license_id", "repository", "private"})),
    "inspect": (_export_logs, frozenset({"forecasters"})),
    "delta": (_export_tables, frozenset({"names"})),
}
_FLAGS = {
    "forecasters": "--forecaster",
    "license_id": "--license",
    "repository": "--upload",
    "private": "--private",
    "names": "--table",
    "without_prompts": "--without-prompts",
}


@cloup.command()
@click.argument("which", required=False, metavar="[RELEASE|COHORT]")
@cloup.option("--to", "target", required=True, metavar="FOLDER|FILE|URL", help="Target; an earlier export is replaced.")
@cloup.option("--format", "form", type=click.Choice([*_EXPORTS]), default="huggingface", show_default=True, help="Format of the export.")
@cloup.option_group(
    "Options of inspect",
    cloup.option("--forecaster", "forecasters", multiple=True, metavar="NAME", help="Forecaster; repeatable.  [default: all]"),
)
@cloup.option_group(
    "Options of huggingface",
    cloup.option("--license", "license_id", help="Licence identifier of the Hub.  [default: mit]"),
    cloup.option("--upload", "repository", metavar="OWNER/NAME", help="Upload it as this dataset (HF_TOKEN, extra `huggingface`)."),
    cloup.option("--private", is_flag=True, help="Make the uploaded dataset private."),
)
@cloup.option_group(
    "Options of arena",
    cloup.option("--without-prompts", is_flag=True, help="Leave prompts and answers out."),
)
@cloup.option_group(
    "Options of delta",
    cloup.option("--table", "names", multiple=True, metavar="GROUP/NAME", help="Table; repeatable.  [default: all]"),
)
def export(which: str | None, target: str, form: str, **options: Any) -> None:
    """Write a release from the published warehouse in the format of another tool (docs/bridges.md).

    The format arena writes a cohort of the arena, named by its Sunday. The format delta updates Delta Lake copies of the lake's tables for other
    engines (extra `delta`), without RELEASE.
    """
    given = {name: value for name, value in options.items() if value}
    write, allowed = _EXPORTS[form]
    for name in given:
        if name not in allowed:
            raise click.UsageError(f"{_FLAGS[name]} is not an option of the format {form}.")
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
    return frame.cast(dict(source.schema))


def _require_extra(extra: str, module: str) -> None:
    """Raise `ConfigError` if the package of an extra is not installed."""
    if find_spec(module) is None:
        raise ConfigError(f"the extra `{extra}` is not installed; run `pip install -e '.[{extra}]'`")


def _import_log(path: Path, *, forecaster: str | None, target: Path | None, dry_run: bool) -> None:
    """Submit the forecasts of Inspect logs, or write them to a file."""
    _require_extra("inspect", "inspect_ai")
    from bellwether.bridges.inspect_ai import read_logs
    from bellwether.submissions.files import select_columns

    imported = read_logs(path, forecaster)
    for text in imported.left_out[:_SHOWN]:
        console().print(f"left out: {visible(text)}", markup=False, highlight=False, soft_wrap=True)
    if (more := len(imported.left_out) - _SHOWN) > 0:
        console().print(f"and {more:,} more left out")
    if imported.table.frame.is_empty():
        raise ConfigError(f"importing {path}: no sample has a forecast that counts")
    if target is None:
        rows = select_columns(imported.table)
        submit_rows(rows.frame, rows.place, forecaster, dry_run=dry_run)
        return
    with atomic_file(target) as draft:
        imported.table.frame.write_csv(draft)
    console().print(f"{imported.table.frame.height:,} forecasts in {target}; next: bellwether score {target}", markup=False, soft_wrap=True)


#: Maximum number of samples left out that are printed.
_SHOWN = 20

#: Formats of forecasts: the function that imports a file.
_IMPORTS: dict[str, Callable[..., None]] = {"inspect": _import_log}


@click.command("import")
@click.argument("path", metavar="FILE|FOLDER", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice([*_IMPORTS]), required=True, help="Format of the file.")
@click.option("--forecaster", metavar="NAME", help="Name of the forecaster.  [default: the model's name]")
@click.option("--to", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write a CSV for `bellwether score`; submit nothing.")
@click.option("--dry-run", is_flag=True, help="Check every forecast; store nothing.")
def import_(path: Path, form: str, **options: Any) -> None:
    """Submit the forecasts in a file of another tool, as `bellwether submit` does (docs/bridges.md).

    If any forecast is refused, nothing is stored, and the command exits with 1.
    """
    _IMPORTS[form](path, **options)
