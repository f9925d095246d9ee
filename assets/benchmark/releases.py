"""The command `bellwether release`: build a release once, let forecasters answer it, rank them, and make new versions on request.

Not here: which questions there are and what tells versions apart (bellwether/questions). Dagster is imported inside, so that lists stay quick.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from assets.benchmark.results import show_leaderboards
from bellwether.console import AS_JSON, console, emit, grid
from bellwether.errors import ConfigError
from bellwether.settings import settings
from orchestration.session import close, require_success, runner

if TYPE_CHECKING:
    from bellwether.lake import Lake
    from bellwether.questions.versions import Comparison
    from orchestration.runner import Runner

#: Questions of a difference that are named one by one.
_MOST_NAMED = 20


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--forecaster",
    "chosen",
    multiple=True,
    help="Only this forecaster; may be repeated. When left out: all that cost nothing, and BELLWETHER_MODELS.",
)
@click.option("--list", "listing", is_flag=True, help="List the registered releases and their versions.")
@click.option("--diff", is_flag=True, help="Only show what a new version of each would change.")
@click.option("--new-version", is_flag=True, help="Show what a new version would change, and build it.")
@click.option("--yes", is_flag=True, help="Build the new version without asking.")
@AS_JSON
def release(
    names: tuple[str, ...], chosen: tuple[str, ...], *, listing: bool, diff: bool, new_version: bool, yes: bool, as_json: bool
) -> None:
    """Build the releases NAMES from what has been pulled, let the forecasters answer them, score and rank.

    The questions of a release are fixed when it is first built. What is pulled later enters with a new version, NAME.v2, which has its own forecasts,
    scores and leaderboard. Releases are declared in releases.toml (docs/benchmark.md).
    """
    from bellwether.forecasting import forecaster
    from bellwether.questions import release as named

    if listing:
        _list(as_json)
        return
    if not names:
        raise click.UsageError("name at least one release; `bellwether release --list` shows them")
    for name in names:
        named(name)
    for name in chosen:
        forecaster(name)
    if diff or new_version:
        compared = [_compared(name) for name in names]
        _show(compared, as_json=as_json and not new_version)
        if not new_version:
            return
        names = tuple(one.new_name for one in compared if one.difference)
        if not names or not _confirmed(names, yes=yes):
            return
    _build(names, chosen, as_json)


def _build(names: tuple[str, ...], chosen: tuple[str, ...], as_json: bool) -> None:
    with runner() as work:
        answer_and_publish(work, names, chosen)
    close(work, as_json, results=show_leaderboards(names, as_json))


def answer_and_publish(work: Runner, releases: Sequence[str], chosen: Sequence[str] = ()) -> None:
    """Build, answer and rank releases, and publish. Then raises the first failure of a forecaster."""
    from assets.benchmark.runs import answer
    from assets.warehouse.runs import publish

    ends = answer(work, releases, chosen)
    publish(work)
    require_success(ends)


def _lake() -> Lake:
    from bellwether.lake import Lake

    return Lake(settings().lake_uri)


def _list(as_json: bool) -> None:
    from bellwether.questions import releases
    from bellwether.questions.versions import built

    lake = _lake()
    found: list[dict[str, Any]] = [
        {
            "release": name,
            "cutoff": entry.cutoff,
            "description": entry.description,
            "versions": [
                {"name": one.name, "version": one.version, "questions": one.questions, "digest": one.digest} for one in built(lake, name)
            ],
        }
        for name, entry in releases().items()
    ]
    if as_json:
        emit(found)
        return
    for row in found:
        console().print(f"{row['release']:<16} {row['cutoff']:%Y-%m-%d}  {row['description']}", markup=False)
        for one in row["versions"]:
            console().print(
                f"  version {one['version']}: {one['name']}, {one['questions']} questions, digest {one['digest'][:16]}", markup=False
            )


def _compared(name: str) -> Comparison:
    from bellwether.questions import ReleaseName
    from bellwether.questions.versions import compare

    named = ReleaseName.parse(name)
    if named.size:
        raise ConfigError(f"comparing versions: {name} is the beginning of {named.whole_name}; name that")
    return compare(_lake(), named.base)


def _confirmed(names: tuple[str, ...], *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"building {', '.join(names)} needs a confirmation; add --yes")
    return click.confirm(f"Build {', '.join(names)}?", err=True)


def _show(compared: list[Comparison], *, as_json: bool) -> None:
    if as_json:
        emit(
            [
                {
                    "release": one.old_name,
                    "new": one.new_name,
                    "questions": one.difference.rows(),
                    "added": len(one.difference.added),
                    "removed": len(one.difference.removed),
                    "changed": len(one.difference.changed),
                    "forecasters": one.affected,
                }
                for one in compared
            ]
        )
        return
    for one in compared:
        _show_one(one)


def _show_one(one: Comparison) -> None:
    found = one.difference
    if not found:
        console().print(f"{one.old_name}: nothing has changed since it was built.", markup=False)
        return
    aspects = Counter(aspect for changed in found.changed.values() for aspect in changed)
    said = f" ({', '.join(f'{aspect} {count}' for aspect, count in aspects.items())})" if aspects else ""
    console().print(
        f"{one.new_name} would have {found.common + len(found.added)} questions: {len(found.added)} added, {len(found.removed)} removed, "
        f"{len(found.changed)} changed{said}.",
        markup=False,
        soft_wrap=True,
    )
    rows = found.rows()
    for row in rows[:_MOST_NAMED]:
        console().print(f"  {row['question']}: {row['change']}", markup=False, soft_wrap=True)
    if len(rows) > _MOST_NAMED:
        console().print(f"  and {len(rows) - _MOST_NAMED} more (--json names all)", markup=False)
    if one.affected:
        console().print(grid(_scores(one.affected)))
        console().print(
            "unanswered: questions of the new version without a forecast on these words and dates. Brier: of the forecasts made so far, on the\n"
            "questions and by the outcomes of either version.",
            style="dim",
            soft_wrap=True,
        )


def _scores(affected: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {"forecaster": "forecaster", "unanswered": "unanswered", "brier": "Brier", "brier_new": "Brier, new version"}
    return pl.DataFrame([{title: row[name] for name, title in columns.items()} for row in affected], schema_overrides=_TYPES)


_TYPES = {"Brier": pl.Float64, "Brier, new version": pl.Float64}
