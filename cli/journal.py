"""The command `bellwether journal`: shows states and costs of model calls, and reopens failed ones."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
import polars as pl

from bellwether.console import console, emit, grid
from bellwether.journal import Journal, records
from bellwether.journal.values import format_dollars
from bellwether.settings import settings
from cli.options import AS_JSON

if TYPE_CHECKING:
    from bellwether.journal import CallStatus, Journal


def _open_journal() -> Journal:
    return Journal.of(settings())


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def journal(context: click.Context, as_json: bool) -> None:
    """Show model calls, their costs and expired leases, and the arena's records."""
    if context.invoked_subcommand is None:
        with _open_journal() as opened:
            _show_overview(opened, as_json)


def _show_overview(opened: Journal, as_json: bool) -> None:
    if not opened.exists():
        opened.require_no_answers()
        emit(
            {"journal": opened.where, "calls": [], "usage": [], "expired": [], "records": {}, "unfinished": []}
        ) if as_json else console().print(f"No model calls yet; the journal will be at {opened.where}", markup=False, soft_wrap=True)
        return

    counts, usage, expired = opened.counts(), opened.usage("purpose", "model"), opened.expired()
    stored, unfinished = records.count_records(opened), records.read_unfinished(opened)
    if as_json:
        tables = {"calls": counts.to_dicts(), "usage": usage.to_dicts(), "expired": [status.to_dict() for status in expired]}
        emit({"journal": opened.where, **tables, "records": stored, "unfinished": [asdict(entry) for entry in unfinished]})
        return
    console().print(f"Journal  {opened.where}", markup=False, soft_wrap=True)
    console().print(grid(counts, title="Calls"))
    console().print(grid(_cost_table(usage), title="Attempts and costs"))
    for status in expired:
        console().print(_format_lease(status), markup=False, soft_wrap=True)
    if stored:
        console().print(f"Arena records: {', '.join(f'{kind} {count}' for kind, count in stored.items())}", markup=False, soft_wrap=True)
    for record in unfinished:
        console().print(str(record), markup=False, soft_wrap=True)


def _cost_table(usage: pl.DataFrame) -> pl.DataFrame:
    """Select from the usage of models the columns that fit a terminal. Dollars become text."""
    dollars = [pl.col(name).map_elements(format_dollars, return_dtype=pl.String) for name in ("spent", "reserved")]
    return usage.select("purpose", "model", "attempts", *dollars, "unknown")


def _format_lease(status: CallStatus) -> str:
    return f"lease expired {status.lease_expires_at:%Y-%m-%d %H:%M:%S}  {status.key[:12]}  {status.model}  held by {status.holder}"


@journal.command()
@AS_JSON
def failures(as_json: bool) -> None:
    """List failed calls with keys and reasons.

    The next run retries open ones.
    """
    with _open_journal() as opened:
        statuses = [*opened.failures(), *opened.unanswered()] if opened.exists() else []
    if as_json:
        emit([status.to_dict() for status in statuses])
        return
    for status in statuses:
        when = status.finished_at or status.created_at
        retried = "" if status.finished_at else " (open: the next run retries it)"
        line = f"{status.key[:12]}  {when:%Y-%m-%d %H:%M}  {status.outcome}  {status.model}  {status.purpose}: {status.reason}{retried}"
        console().print(line, markup=False, soft_wrap=True)
    if not statuses:
        console().print("No call has failed.")


@journal.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--note", default="", help="Reason, stored with the failure.")
@click.option("--by", default=None, help="Name of the operator.  [default: your login name]")
def reopen(keys: tuple[str, ...], note: str, by: str | None) -> None:
    """Reopen failed calls, so that the next run repeats them.

    The first 8 digits of a KEY suffice.
    """
    with _open_journal() as opened:
        for key in [opened.find(beginning) for beginning in keys]:
            opened.reopen(key, by=by or getpass.getuser(), note=note)
            console().print(f"reopened {key}", soft_wrap=True)
