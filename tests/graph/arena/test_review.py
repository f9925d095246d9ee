"""The asset of the weekly review."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from assets.arena.review import review as review_asset
from bellwether.arena.weekly import interventions
from bellwether.arena.weekly.context import WeekContext
from bellwether.models import prices
from tests.unit.arena.test_review import GPT_NOW, PRICED, SOLD
from tests.unit.arena.weeks import LATER, Arena


def test_the_asset_has_the_rows_and_numbers_of_the_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "price_map", lambda: {"gpt-5.2": SOLD, "gpt-9.1": SOLD})
    arena = Arena(tmp_path)
    monkeypatch.setattr(interventions, "load_families", lambda models, folder: {"gpt": GPT_NOW})
    with arena.journal() as journal:

        class Means:
            def world(self, run: str) -> WeekContext:
                return arena.world(journal, run)

        made = review_asset(dg.build_asset_context(), arena=Means())
    assert isinstance(made, dg.Output)
    assert made.value.select("family", "state", "model_id", "known_at").rows() == [("gpt", "upgrade", "openai/gpt-5.2", LATER)]
    assert made.value["offers"].to_list() == [["openai/gpt-9.1"]]
    assert made.value.select("input_price", "output_price").rows() == [PRICED]
    assert {name: one.value for name, one in made.metadata.items() if isinstance(one, dg.IntMetadataValue)} == {
        "unchanged": 0,
        "upgrade": 1,
        "needs_review": 0,
        "dismissed": 0,
    }
    assert '["gpt-9.1"]' in str(made.metadata["to adopt"].value)
