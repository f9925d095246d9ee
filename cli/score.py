"""`bellwether score`: scores of forecasts in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import cloup

from bellwether.console import console, emit
from bellwether.errors import ConfigError
from bellwether.scoring.score import score as score_files
from bellwether.scoring.text_tables import print_result
from cli.options import AS_JSON


@cloup.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@cloup.option_group(
    "Columns",
    cloup.option("--probability", multiple=True, metavar="COLUMN", help="Probability of yes; several columns are one forecaster each."),
    cloup.option("--outcome", metavar="COLUMN", help="Outcome: yes or no, 1 or 0."),
    cloup.option("--forecaster", metavar="COLUMN", help="Forecaster; without it, each file is a forecaster."),
    cloup.option("--question", multiple=True, metavar="COLUMN", help="Question; several columns form one key."),
    cloup.option(
        "--cluster",
        multiple=True,
        metavar="COLUMN",
        help="Cluster of dependent questions, such as the event; two columns for two-way clusters.",
    ),
    cloup.option("--weight", metavar="COLUMN", help="Weight of a question."),
    cloup.option("--market", metavar="COLUMN", help="Market price of yes at the time of the forecast."),
    cloup.option("--by", multiple=True, metavar="COLUMN", help="Also score the groups of this column; repeatable."),
    cloup.option("--percent", multiple=True, metavar="COLUMN", help="Divide this column of probabilities or prices by 100; repeatable."),
)
@cloup.option_group(
    "Outcomes in a file of their own",
    cloup.option("--outcomes", type=click.Path(path_type=Path), help="File with the outcome of each question, if FILES have none."),
    cloup.option(
        "--on",
        multiple=True,
        metavar="COLUMN[=COLUMN]",
        help="Join --outcomes on this column, or on two with different names; repeatable.",
    ),
)
@cloup.option_group(
    "Rows that count",
    cloup.option("--keep", type=click.Choice(["last", "first", "mean"]), help="Choice among repeated forecasts; last and first need --at."),
    cloup.option("--at", metavar="COLUMN", help="Time of the forecast, for --keep and --before."),
    cloup.option("--before", metavar="COLUMN", help="Exclude forecasts at or after this time, such as the close."),
    cloup.option("--skip-unresolved", is_flag=True, help="Exclude rows without an outcome."),
    cloup.option("--fractional", is_flag=True, help="Accept outcomes between 0 and 1."),
)
@cloup.option_group(
    "Statistics",
    cloup.option("--independent", is_flag=True, help="Treat questions as independent despite a cluster column."),
    cloup.option(
        "--loss", type=click.Choice(["brier", "log_loss"]), default="brier", show_default=True, help="Loss of paired comparisons."
    ),
    cloup.option(
        "--level",
        default=0.95,
        show_default=True,
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Level of the intervals.",
    ),
    cloup.option("--seed", default=1950, show_default=True, type=click.IntRange(0, 2**63 - 1), help="Seed of simulated distributions."),
)
@cloup.option_group(
    "Results",
    cloup.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write one page with interactive diagrams."),
)
@AS_JSON
def score(files: tuple[Path, ...], *, html: Path | None, as_json: bool, **options: Any) -> None:
    """Score forecasts in CSV, Parquet or JSON-lines files.

    Columns have one of a few names (probability, outcome, forecaster, question_id, series, weight, market_price) or are named by options.
    docs/scoring.md explains the files and the tables.
    """
    _require_no_overwrite(files, options["outcomes"], html)
    result = score_files(list(files), **options)
    if as_json:
        emit(result.to_dict())
    else:
        print_result(console(), result)
    if html is not None:
        result.write_html(html)
        click.echo(f"wrote {html}", err=True)


def _require_no_overwrite(files: tuple[Path, ...], outcomes: Path | None, html: Path | None) -> None:
    """Raise `ConfigError` if `html`, the page to write, is one of the input files."""
    read = {path.resolve() for path in (*files, *([] if outcomes is None else [outcomes]))}
    if html is not None and html.resolve() in read:
        raise ConfigError(f"writing {html}: it is read as data; name another file with --html")
