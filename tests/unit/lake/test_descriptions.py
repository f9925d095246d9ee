"""Texts on tables: the data dictionary, previews that are safe for untrusted text, and commands that repair a partition."""

from __future__ import annotations

import re

import click
import polars as pl

from bellwether.lake.checksums import describe_repair
from bellwether.lake.meta import build_dictionary
from bellwether.tables import TABLES, Column, Table
from bellwether.tables.schema import TEXT
from cli.main import main
from resources.io_manager import COLUMNS, WIDTH, preview_markdown


def test_a_bar_in_a_meaning_does_not_break_the_line() -> None:
    odd = Table(name="x/y", row="One thing.", columns=(Column("a", TEXT, "this | that"),), key=("a",))
    assert "| `a` | VARCHAR |  |  | this \\| that |" in build_dictionary([odd])


def cell(text: str) -> str:
    return preview_markdown(pl.DataFrame({"a": [text]})).splitlines()[2].removeprefix("| ").removesuffix(" |")


PARTS = {
    "day": "2026-06-01",
    "week": "2026-05-31",
    "release": "sandbox-2026",
    "forecaster": "market-1h",
    "recording": "r",
    "episode": "E-1",
    "agent": "hold",
}


def parse(words: list[str]) -> None:
    """Parse a command line of Bellwether without running it. Raises `click.UsageError` if it is wrong."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    command.make_context(command.name, words)


def test_every_table_has_its_rows_and_columns_in_the_dictionary() -> None:
    page = build_dictionary()
    for declared in TABLES.values():
        part = page[page.index(f"### {declared.name}\n") :]
        part = part[: part.find("\n### ")]
        assert declared.row in part
        assert [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")] == declared.names


def test_text_stays_in_its_cell() -> None:
    for text in ("a|b", "`code`", "line\nbreak", "<script>alert(1)</script>", "[link](http://x)", "\x00\x1b[31m", "a\\|b", "``|``"):
        shown = cell(text)
        assert shown.startswith("`") and shown.endswith("`")
        assert not set(shown[1:-1]) & set("`|\n\x00\x1b")
    assert cell("x" * 100_000) == f"`{'x' * (WIDTH - 1)}…`"
    assert cell(" \n ") == ""
    wide = preview_markdown(pl.DataFrame({f"c{number}": [number] for number in range(COLUMNS + 3)}))
    assert wide.splitlines()[0].count("`c") == COLUMNS


def test_the_command_that_restores_a_partition_exists() -> None:
    for declared in TABLES.values():
        text = describe_repair(declared.name, tuple(PARTS[name] for name in declared.partitioned_by))
        commands = re.findall(r"`bellwether ([^`]*)`", text)
        for command in commands:
            parse(re.sub("DAY|WEEK", "2026-06-01", command).split())
        assert commands or text.endswith("in the UI") or "from a backup" in text, declared.name
    assert "otherwise restore the file from a backup" in describe_repair("arena/decisions", ("2026-05-31",))
    assert describe_repair("benchmark/questions", ("sandbox-2026",)).startswith("restore the file from a backup"), "never drawn again"
