"""Rows that quote models contain no credentials and are otherwise unchanged, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from bellwether.lake import Lake
from bellwether.lake.warehouse import publish
from bellwether.site.source import open_source
from bellwether.tables import table
from bellwether.tables.exports import redact_rows
from tests.site.world import rows

SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def test_a_decision_keeps_its_form_and_its_tickers() -> None:
    said = {"action": "BET", "bets": [{"market_id": "KXA-SK-26JAN01-T3", "side": "YES", "amount": 1.5}], "reasoning": f"first\n{SECRET}"}
    bad = {"action": "SELL", "sells": [{"position_id": f"x/{SECRET}", "percentage": 100}], "reasoning": f"Bearer {SECRET}"}
    clean = json.dumps({**said, "reasoning": "why"}, separators=(",", ":"))
    frame = pl.DataFrame({"decision": [json.dumps(said), json.dumps(bad), clean, SECRET, None]})
    found = redact_rows("arena/decisions", frame)["decision"].to_list()
    assert json.loads(found[0]) == {**said, "reasoning": "first\n***"}
    assert json.loads(found[1]) == {"action": "SELL", "sells": [{"position_id": "x/***", "percentage": 100}], "reasoning": "***"}
    assert found[2:] == [clean, "***", None]


@pytest.mark.parametrize("name", ["arena/decisions", "arena/refusals", "benchmark/forecasts"])
def test_the_site_reads_stored_rows_without_keys(tmp_path: Path, name: str) -> None:
    lake = Lake(str(tmp_path / "lake"))
    quoting = {
        "arena/decisions": {"reasoning": f"my key {SECRET}", "message": SECRET, "decision": json.dumps({"reasoning": f"a\n{SECRET}"})},
        "arena/refusals": {"message": f"{SECRET} is no market"},
        "benchmark/forecasts": {"raw_response": f"<think>{SECRET}</think>", "reasoning": SECRET},
    }[name]
    made = rows(name, 1, **quoting)
    declared = table(name)
    partition = tuple(str(made[column][0]) for column in declared.partitioned_by)
    lake.write(declared, partition, made, run_id="test")
    publish(lake, tmp_path / "warehouse.duckdb")
    with open_source(tmp_path / "warehouse.duckdb") as source:
        found = source.frame(name)
    assert found.height == 1
    assert SECRET not in str(found.rows())
    assert "***" in str(found.rows())
