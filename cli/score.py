"""`bellwether score`: scores of forecasts in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import cloup
import polars as pl

from bellwether.console import console, emit, grid
from bellwether.errors import ConfigError
from bellwether.formatting import counted
from bellwether.scoring.score import score as score_files
from bellwether.scoring.text_tables import print_result
from cli.options import AS_JSON, find_flag, list_given, print_left_out, refuse_others


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
    cloup.option(
        "--loss", type=click.Choice(["brier", "log_loss"]), default="brier", show_default=True, help="Loss of paired comparisons."
    ),
)
@cloup.option_group(
    "Rules of other benchmarks (docs/bridges.md)",
    cloup.option(
        "--forecastbench", multiple=True, type=click.Path(path_type=Path), help="Resolution set of a round of ForecastBench; repeatable."
    ),
    cloup.option(
        "--question-set",
        "questions",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Question set of FILES that answer a part of a round; repeatable.",
    ),
    cloup.option("--effects", type=click.Path(path_type=Path), help="Published difficulties of its questions (question_fixed_effects)."),
    cloup.option("--leaderboard", type=click.Path(path_type=Path), help="Its published leaderboard (CSV), for the rank of FILES."),
    cloup.option("--prophet-arena", type=click.Path(path_type=Path), help="Resolved events of Prophet Arena (events.jsonl)."),
    cloup.option("--metaculus", type=click.Path(path_type=Path), help="Resolved questions of Metaculus; FILES are reports of bots."),
)
@cloup.option_group(
    "Results",
    cloup.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write one page with interactive diagrams."),
)
@AS_JSON
@click.pass_context
def score(context: click.Context, files: tuple[Path, ...], *, html: Path | None, as_json: bool, **options: Any) -> None:
    """Score forecasts in CSV, Parquet or JSON-lines files.

    Columns have one of a few names (probability, outcome, forecaster, question_id, series, weight, market_price) or are named by options.
    docs/scoring.md explains the files and the tables.
    """
    rules = {name: options.pop(name) for name in _RULES}
    for name in ("forecastbench", "prophet_arena", "metaculus"):
        if rules[name]:
            used = {"files", "as_json", name, *(("questions", "effects", "leaderboard") if name == "forecastbench" else ())}
            refuse_others(context, used, f"with {find_flag(context, name)}")
            _RULES[name](files, as_json=as_json, **rules)
            return
    if stray := [name for name in list_given(context) if name in rules]:
        raise click.UsageError(f"{find_flag(context, stray[0])} needs --forecastbench.")
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


def _score_forecastbench(
    files: tuple[Path, ...],
    *,
    as_json: bool,
    forecastbench: tuple[Path, ...],
    questions: tuple[Path, ...],
    effects: Path | None,
    leaderboard: Path | None,
    **_: Any,
) -> None:
    """Score forecast sets by the rules of ForecastBench, and by ours."""
    from bellwether.bridges.forecastbench import read_forecast_set, read_question_set, read_resolution_set
    from bellwether.bridges.forecastbench_scores import list_neighbours, read_effects, read_leaderboard, score_forecast_sets

    board = [] if leaderboard is None else read_leaderboard(leaderboard)
    standing = score_forecast_sets(
        [read_forecast_set(path) for path in files],
        [read_resolution_set(path) for path in forecastbench],
        effects=None if effects is None else read_effects(effects),
        questions=[read_question_set(path) for path in questions],
        leaderboard=board,
    )
    if as_json:
        facts = {"difficulty": standing.difficulty, "without_effect": standing.without_effect}
        emit({**facts, "forecastbench": standing.theirs.to_dicts(), "bellwether": standing.ours.to_dict()})
        return
    kinds = ("dataset", "market", "overall")
    interval = "{} [{}, {}]"
    index = [pl.format(interval, *(pl.col(f"{kind}{end}").round(1) for end in ("", "_lower", "_upper"))).alias(kind) for kind in kinds]
    brier = [pl.col(f"brier_{kind}").round(3) for kind in kinds]
    console().print(grid(standing.theirs.select("forecaster", *index), title="Index of ForecastBench, 100 is best"))
    console().print(grid(standing.theirs.select("forecaster", *brier, "n_dataset", "n_market"), title="Brier score, adjusted"))
    ranks = [name for name in ("rank", "best_rank", "worst_rank") if name in standing.theirs.columns]
    own = standing.theirs.filter(pl.col("imputed").is_not_null())
    console().print(
        grid(own.select("forecaster", *ranks, (100 * pl.col("imputed")).round(1).alias("missing %"), "excluded", pl.col("cost").round(2)))
    )
    if board:
        console().print(grid(list_neighbours(standing, board), title="Beside the published rows"))
    if standing.difficulty != "published":
        source = "estimated from these forecast sets" if standing.difficulty == "estimated" else "not adjusted for"
        console().print(f"Difficulty is {source}; published rows are comparable with --effects only.")
    if standing.without_effect:
        console().print(f"{counted(standing.without_effect, 'resolved question')} without a published difficulty left out.")
    console().print("\nBellwether's scores of the stated forecasts:")
    print_result(console(), standing.ours)


def _score_prophet_arena(files: tuple[Path, ...], *, as_json: bool, prophet_arena: Path, **_: Any) -> None:
    """Score forecasts by the rules of Prophet Arena, and by ours."""
    from bellwether.bridges.prophet_arena import average_return, list_forecasts, read_events, read_forecasts, score_cells

    events = read_events(prophet_arena)
    cells = read_forecasts(files, events)
    report, returns = score_cells(cells), average_return(cells)
    if not report.n_cells:
        raise ConfigError(
            f"scoring {', '.join(map(str, files))}: {prophet_arena} resolves no outcome of these forecasts; give resolved events"
        )
    ours = score_files(list_forecasts(cells))
    if as_json:
        emit({**report.to_dict(), "digest": report.digest(), "average_return": returns, "bellwether": ours.to_dict()})
        return
    rows = [
        {
            "agent": row.agent,
            "slice": row.slice,
            "Brier": row.brier,
            "skill": row.skill,
            "SE": row.skill_se,
            "ECE": row.ece,
            "events": row.n_events,
        }
        for row in report.scores
    ]
    table = pl.DataFrame(rows).with_columns(pl.col("Brier", "skill", "SE", "ECE").cast(pl.Float64).round(4))
    paid = pl.DataFrame(
        {"agent": [*returns], "average return": [*returns.values()]}, schema={"agent": pl.String, "average return": pl.Float64}
    )
    console().print(grid(table, title="Scores of Prophet Arena"))
    console().print(grid(paid.with_columns(pl.col("average return").round(4)), title="Payout per dollar"))
    console().print(f"digest {report.digest()}", soft_wrap=True)
    console().print("\nBellwether's scores, a question per outcome and window:")
    print_result(console(), ours)


def _score_metaculus(files: tuple[Path, ...], *, as_json: bool, metaculus: Path, **_: Any) -> None:
    """Score reports of bots by the rules of Metaculus, and by ours."""
    from bellwether.bridges.metaculus import score_reports

    standing = score_reports(files, metaculus)
    if as_json:
        emit({"metaculus": standing.theirs.to_dicts(), "left_out": standing.left_out, "bellwether": standing.ours.to_dict()})
        return
    print_left_out(standing.left_out)
    rounded = standing.theirs.with_columns(pl.col("baseline", "baseline_se", "peer", "peer_se").cast(pl.Float64).round(1))
    console().print(grid(rounded, title="Scores of Metaculus, means over questions"))
    console().print("\nBellwether's scores, with the community as market:")
    print_result(console(), standing.ours)


#: Rules of other benchmarks by option; the other options belong to ForecastBench.
_RULES: dict[str, Any] = {
    "forecastbench": _score_forecastbench,
    "questions": None,
    "effects": None,
    "leaderboard": None,
    "prophet_arena": _score_prophet_arena,
    "metaculus": _score_metaculus,
}
