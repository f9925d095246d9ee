"""`bellwether trading`: the results tables of agents, from the warehouse or from a folder of backtests, and the report."""

from __future__ import annotations

from pathlib import Path

import click

from bellwether.console import AS_JSON, console, emit
from bellwether.settings import settings


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--agent", "agents", multiple=True, help="Show only this agent; may be repeated.")
@click.option("--unsettled", is_flag=True, help="Count episodes that left a position unsettled in totals, at its mark.")
@click.option("--rules", help="Show only backtests under this rule set.")
@click.option(
    "--report", "to", metavar="FOLDER", help="Also write the trading report with its figures below this folder or object-store URL."
)
@click.option("--name", default="trading", show_default=True, help="Name of the report.")
@AS_JSON
def trading(
    folder: Path | None, *, agents: tuple[str, ...], rules: str | None, unsettled: bool, to: str | None, name: str, as_json: bool
) -> None:
    """Show what agents earned: a table per agent with its episodes, then all agents beside one another.

    Backtests come from the published warehouse, or from FOLDER, which `bellwether backtest --out FOLDER` wrote. docs/trading-metrics.md says what
    each number is.
    """
    from bellwether.extras import require_platform
    from bellwether.replay.results.lines import agent_tables, comparison_table, interval_table
    from bellwether.replay.results.show import show
    from bellwether.replay.results.summary import results, summarise
    from bellwether.report.trading_inputs import backtests_of, chosen, titles

    if folder is None:
        require_platform("bellwether trading without a FOLDER")
    found = chosen(backtests_of(folder, settings().warehouse_path), agents, rules)
    lines, summary = results(found, unsettled=unsettled), summarise(found, unsettled=unsettled)
    if as_json:
        emit({"agents": summary.to_dicts(), "results": lines.to_dicts()})
    else:
        called = titles()
        for table in (*agent_tables(lines, called), comparison_table(summary, called), interval_table(summary, called)):
            show(table)
            console().print()
    if to is not None:
        for file in _report(folder, agents, rules, (to, name)):
            click.echo(f"wrote {file}", err=True)


def _report(folder: Path | None, agents: tuple[str, ...], rules: str | None, to: tuple[str, str]) -> list[str]:
    from dataclasses import replace

    from bellwether.report.trading import write_trading_report
    from bellwether.report.trading_inputs import inputs_of_folder, inputs_of_warehouse, tapes_of

    config = settings()
    inputs = inputs_of_folder(folder, agents, rules) if folder else inputs_of_warehouse(config.warehouse_path, agents, rules)
    tapes = tapes_of(inputs.backtests, config.episodes_path, config.tapes_path)
    reports, name = to
    return write_trading_report(replace(inputs, name=name, tapes=tapes), reports)
