"""Repair of partitions: a command that exists, or instructions where no command helps."""

from __future__ import annotations

import re

import click
import pytest

from bellwether.lake.repair import describe_repair, describe_repair_by_name
from bellwether.tables import TABLES, Table
from cli.main import main

PARTS = {
    "day": "2026-06-01",
    "week": "2026-05-31",
    "release": "sandbox-2026",
    "forecaster": "market-1h",
    "recording": "r",
    "episode": "E-1",
    "agent": "hold",
}


def partition(table: Table) -> tuple[str, ...]:
    return tuple(PARTS[name] for name in table.partitioned_by)


def parse(words: list[str]) -> None:
    """Parse a command line of Bellwether without running it. Raises `click.UsageError` if it is wrong."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    command.make_context(command.name, words)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_the_command_that_restores_a_partition_is_one_that_there_is(table: Table) -> None:
    text = describe_repair(table, partition(table))
    commands = re.findall(r"`bellwether ([^`]*)`", text)
    for command in commands:
        parse(re.sub("DAY|WEEK", "2026-06-01", command).split())
    assert commands or text.endswith("in the UI") or "from a backup" in text


def test_a_week_of_the_arena_that_was_lived_through_comes_from_a_backup() -> None:
    assert describe_repair_by_name("arena/decisions", ("2026-05-31",)) == (
        "`bellwether arena run --week 2026-05-31` restores it where the week was reconstructed; otherwise restore the file from a backup"
    )


def test_the_questions_of_a_release_are_never_drawn_again() -> None:
    assert describe_repair_by_name("benchmark/questions", ("sandbox-2026",)).startswith("restore the file from a backup")


def test_a_table_that_this_version_does_not_know_has_a_remedy() -> None:
    assert describe_repair_by_name("clean/quotes", ("2026-06-01",)) == "materialize that partition again"
