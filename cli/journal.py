"""The command `bellwether journal`: states and costs of model calls, reopening of failed ones, and exchange of answers with other journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import polars as pl

from bellwether.console import console, emit, grid
from bellwether.formatting import visible
from bellwether.journal import records
from bellwether.journal.journal import Journal
from bellwether.journal.values import format_dollars
from bellwether.settings import settings
from cli.options import AS_JSON, operator_name

if TYPE_CHECKING:
    from bellwether.journal.journal import Journal
    from bellwether.journal.values import CallStatus

#: Failed calls that are listed; --json has all.
_MOST_FAILURES = 20


def _open_journal() -> Journal:
    return Journal.of(settings())


@click.group(invoke_without_command=True)
@AS_JSON
@click.pass_context
def journal(context: click.Context, as_json: bool) -> None:
    """Show model calls with costs and failures, and the arena's records.

    The next run retries open calls; `journal reopen` reopens failed ones.
    """
    if context.invoked_subcommand is None:
        with _open_journal() as opened:
            _show_overview(opened, as_json)


def _show_overview(opened: Journal, as_json: bool) -> None:
    if not opened.exists():
        opened.require_no_answers()
        emit({"journal": opened.where, "calls": [], "usage": [], "failures": [], "records": {}}) if as_json else console().print(
            f"No model calls yet; the journal will be at {opened.where}", markup=False, soft_wrap=True
        )
        return

    counts, usage, stored = opened.counts(), opened.usage("purpose", "model"), records.count_records(opened)
    failures = [*opened.unanswered(), *opened.failures()]  # the last are shown: those that only an operator reopens
    if as_json:
        listed = [status.to_dict() for status in failures]
        emit({"journal": opened.where, "calls": counts.to_dicts(), "usage": usage.to_dicts(), "failures": listed, "records": stored})
        return
    console().print(f"Journal  {opened.where}", markup=False, soft_wrap=True)
    console().print(grid(counts, title="Calls"))
    console().print(grid(_cost_table(usage), title="Attempts and costs"))
    if stored:
        console().print(f"Arena records: {', '.join(f'{kind} {count}' for kind, count in stored.items())}", markup=False, soft_wrap=True)
    for status in failures[-_MOST_FAILURES:]:
        console().print(_failure_line(status), markup=False, soft_wrap=True)
    if len(failures) > _MOST_FAILURES:
        console().print(f"The last {_MOST_FAILURES} of {len(failures)} failures; --json has all.")


def _cost_table(usage: pl.DataFrame) -> pl.DataFrame:
    """Select from the usage of models the columns that fit a terminal. Dollars become text."""
    dollars = [pl.col(name).map_elements(format_dollars, return_dtype=pl.String) for name in ("spent", "reserved")]
    return usage.select("purpose", "model", "attempts", *dollars, "in_flight", "unknown")


def _failure_line(status: CallStatus) -> str:
    """Format a failed call, or an open one whose last attempt failed, with the beginning of its key and the reason."""
    when, retried = status.finished_at or status.created_at, "" if status.finished_at else " (open: the next run retries it)"
    return f"{status.key[:12]}  {when:%Y-%m-%d %H:%M}  {status.outcome}  {status.model}  {status.purpose}: {status.reason}{retried}"


@journal.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--note", default="", help="Reason, stored with the failure and your login name.")
def reopen(keys: tuple[str, ...], note: str) -> None:
    """Reopen failed calls, so that the next run repeats them.

    The first 8 digits of a KEY suffice.
    """
    with _open_journal() as opened:
        for key in [opened.find(beginning) for beginning in keys]:
            opened.reopen(key, by=operator_name(), note=note)
            console().print(f"reopened {key}", soft_wrap=True)


@journal.command()
@click.argument("beginning", metavar="KEY")
@AS_JSON
def show(beginning: str, as_json: bool) -> None:
    """Show the messages of a model call, and its answer.

    The last call of a forecast, `call_key` in benchmark/forecasts, has all calls of tools before it. The first 8 digits of KEY suffice.
    """
    with _open_journal() as opened:
        key = opened.find(beginning)
        request, answered = json.loads(opened.request(key)), opened.answer(key)
    answer = None if answered is None else answered.content
    if as_json:
        emit({"key": key, "request": request, "answer": answer})
        return
    for message in request["messages"]:
        if message.get("content") is not None:
            _print_message(message["role"], message["content"])
        for call in message.get("tool_calls") or ():
            _print_message("calls", f"{call['function']['name']} {call['function']['arguments']}")
    _print_message("answer", "none yet" if answer is None else answer)


def _print_message(title: str, content: object) -> None:
    """Print the content of a message under its title, without control characters."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    console().print(f"[{title}]\n{visible(text, chr(10))}\n", markup=False, highlight=False, soft_wrap=True)


@journal.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export_answers(file: Path) -> None:
    """Write all answers to FILE as JSON lines, for `journal import`."""
    with _open_journal() as opened:
        count = opened.export_answers(file) if opened.exists() else 0
    console().print(f"exported {count} answers to {file}" if count else "The journal has no answers.", markup=False, soft_wrap=True)


@journal.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def import_answers(file: Path) -> None:
    """Add the answers in FILE to calls without one.

    Nothing is imported if one differs from the journal's. A lost journal is created; answers in the lake that FILE lacks may be paid for again.
    """
    with _open_journal() as opened:
        count = opened.import_answers(file)
    console().print(f"imported {count} answers", markup=False, soft_wrap=True)
