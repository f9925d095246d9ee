"""The exported folder: its files, its completeness, and untrusted text in its card."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
import yaml

from bellwether.errors import BellwetherError, ConfigError
from bellwether.publish import dataset, export
from bellwether.publish.card import CARD, DATA
from bellwether.publish.dataset import SHARED
from bellwether.settings import World
from tests.unit.publish.rows import questions


def read(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "data" / "test-*.parquet")


def header(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / CARD).read_text(encoding="utf-8").split("---\n")[1])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_rows_have_kalshibenchs_columns_first_and_in_its_types(tmp_path: Path) -> None:
    written = export(questions(), tmp_path / "out", world=World.LIVE)
    rows = read(written.folder)
    assert tuple(rows.columns[:9]) == SHARED
    assert rows.schema["close_time"] == pl.String
    assert rows.schema["market_probability"] == pl.Float64
    assert rows["close_time"][0] == "2026-03-01T12:00:00Z"
    assert set(rows["ground_truth"]) == {"yes", "no"}
    assert (written.release, written.rows) == ("made-up", 6)


def test_the_cards_header_describes_exactly_what_the_file_holds(tmp_path: Path) -> None:
    folder = export(questions(), tmp_path / "out", world=World.LIVE).folder
    meta = header(folder)
    (info,) = meta["dataset_info"]
    declared = {feature["name"]: feature["dtype"] for feature in info["features"]}
    arrow = {"string": "large_string", "float64": "double"}
    found = {field.name: str(field.type) for field in pq.read_schema(folder / DATA)}
    assert {name: arrow.get(dtype, dtype) for name, dtype in declared.items()} == found
    assert info["splits"] == [{"name": "test", "num_bytes": info["splits"][0]["num_bytes"], "num_examples": 6}]
    assert meta["configs"] == [{"config_name": "questions", "default": True, "data_files": [{"split": "test", "path": "data/test-*"}]}]
    assert (meta["license"], meta["size_categories"], meta["pretty_name"]) == ("mit", ["n<1K"], "Bellwether made-up")


def test_the_same_questions_give_the_same_bytes_whatever_their_order(tmp_path: Path) -> None:
    export(questions(), tmp_path / "a", world=World.LIVE)
    export(questions().reverse(), tmp_path / "b", world=World.LIVE)
    export(questions(), tmp_path / "a", world=World.LIVE)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_that_holds_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / CARD).write_text("my thesis", encoding="utf-8")
    with pytest.raises(ConfigError, match="no earlier export"):
        export(questions(), tmp_path, world=World.LIVE)
    assert contents(tmp_path) == {CARD: b"my thesis"}


def test_a_failure_leaves_the_earlier_export_and_no_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(questions(6), tmp_path / "out", world=World.LIVE)
    before = contents(tmp_path / "out")

    def broken(*args: object, **kwargs: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset, "card", broken)
    with pytest.raises(BellwetherError, match="No space left on device"):
        export(questions(3), tmp_path / "out", world=World.LIVE)
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_interruption_between_two_names_brings_the_earlier_export_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(questions(6), tmp_path / "out", world=World.LIVE)
    before, rename, renamed = contents(tmp_path / "out"), os.rename, []

    def interrupted(source: Path, target: Path) -> None:
        renamed.append(source)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(questions(3), tmp_path / "out", world=World.LIVE)
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("rows", "license_id", "found"),
    [
        (questions(0), "mit", "0 releases"),
        (pl.concat([questions(1), questions(1, release="other")]), "mit", "2 releases"),
        (questions(1), "MIT\nevil: true", "licence"),
    ],
)
def test_what_cannot_be_a_dataset_is_an_error(tmp_path: Path, rows: pl.DataFrame, license_id: str, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        export(rows, tmp_path / "out", world=World.LIVE, license_id=license_id)
    assert not (tmp_path / "out").exists()


def test_no_text_of_a_venue_breaks_the_card(tmp_path: Path) -> None:
    hostile = "</table><script>alert(1)</script>|x|\n---\nlicense: evil\n# Heading `code` [link](http://evil)"
    folder = export(questions(4, category=hostile, question=hostile, description=hostile), tmp_path / "out", world=World.LIVE).folder
    text = (folder / CARD).read_text(encoding="utf-8")
    assert "<script>" not in text
    assert header(folder)["license"] == "mit"
    assert "# Heading" not in re.findall(r"^#.*", text, re.MULTILINE)
    line = next(line for line in text.splitlines() if "alert" in line)
    assert len(re.findall(r"(?<!\\)\|", line)) == 4
    assert read(folder)["question"][0] == hostile


def test_the_card_says_how_many_what_share_and_until_when(tmp_path: Path) -> None:
    text = (export(questions(), tmp_path / "out", world=World.LIVE).folder / CARD).read_text(encoding="utf-8")
    for part in (
        "| questions | 6 |",
        "| answered yes | 33.3 % |",
        "2025-10-01",
        "2026-03-01 to 2026-03-06",
        "`abcdef012345`",
        "final price",
    ):
        assert part in text
    assert re.search(r"24h before the close \| 50.0 %", text)


def test_a_round_of_forecastbench_keeps_its_licence_and_origin(tmp_path: Path) -> None:
    rows = questions().with_columns(source=pl.lit("forecastbench"))
    with pytest.raises(ConfigError, match="which is not mit"):
        export(rows, tmp_path / "out", world=World.SANDBOX, license_id="mit")
    page = (export(rows, tmp_path / "out", world=World.SANDBOX).folder / CARD).read_text(encoding="utf-8")
    assert "license: cc-by-sa-4.0" in page and "those of [ForecastBench]" in page and "Generated" not in page
