"""The data dictionary lists every table and column."""

from __future__ import annotations

import pytest

from bellwether.lake.dictionary import build_dictionary
from bellwether.tables import TABLES, Column, Table
from bellwether.tables.schema import TEXT


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_rows_and_columns_on_the_page(name: str) -> None:
    declared, page = TABLES[name], build_dictionary()
    part = page[page.index(f"### {name}\n") :]
    part = part[: part.find("\n### ")]
    assert declared.row in part
    assert [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")] == declared.names


def test_a_bar_in_a_meaning_does_not_break_the_line() -> None:
    odd = Table(name="x/y", row="One thing.", columns=(Column("a", TEXT, "this | that"),), key=("a",))
    assert "| `a` | VARCHAR |  |  | this \\| that |" in build_dictionary([odd])
