"""`bellwether export` of the published warehouse, and its error messages."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.publish.card import CARD, DATA
from bellwether.settings import settings
from bellwether.tables.benchmark import FORECASTS, QUESTIONS, SCORES
from cli.bridges import export
from tests.unit.publish.rows import questions


@pytest.fixture
def warehouse(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    lake.write(QUESTIONS, ("made-up",), questions(), run_id="r")
    lake.write(QUESTIONS, ("other",), questions(2, release="other"), run_id="r")
    publish(lake, settings().warehouse_uri, tables=(QUESTIONS, FORECASTS, SCORES))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(export, arguments)


@pytest.mark.usefixtures("warehouse")
def test_a_release_is_exported_from_the_warehouse_and_no_other(tmp_path: Path) -> None:
    result = run("made-up", "--to", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "6 questions of made-up" in result.output
    assert pl.read_parquet(tmp_path / "out" / DATA)["release"].unique().to_list() == ["made-up"]
    assert "**Generated.**" in (tmp_path / "out" / CARD).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("2026-09-06", "--format", "arena", "--to", "x", "--license", "mit"), "--license is not an option of the format arena"),
        (("made-up", "--to", "x", "--table", "x"), "--table is not an option of the format huggingface"),
        (("2026-09-06", "--format", "arena", "--to", "x"), "no cohort started in this week"),
    ],
)
def test_options_of_the_other_kind_and_unknown_cohorts_are_refused(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"
