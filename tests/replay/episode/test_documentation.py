"""docs/episodes.md says what is, and its example runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from bellwether.replay.episode import validate
from bellwether.replay.episode.metadata import Market, Metadata, dump_market, dump_metadata
from bellwether.replay.episode.writer import BOOK, SERIES, TRADES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "episodes.md").read_text(encoding="utf-8")


def test_the_example_makes_the_episode_that_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```\n\n    (.*?)\n", PAGE, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code[0], "episodes.md", "exec"), {})
    assert said.getvalue().strip() == code[1]
    report = validate(tmp_path / "RAIN-26JAN20")
    assert report.errors == report.warnings == []


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(("title", "schema"), [("orderbook.parquet", BOOK), ("trades.parquet", TRADES)])
def test_every_column_is_described_in_its_place_with_its_type(title: str, schema: object) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section(title), flags=re.MULTILINE)
    written = {"string": "text", "timestamp[ns, tz=UTC]": "timestamp[ns, UTC]"}
    assert rows == [(field.name, written.get(str(field.type), str(field.type))) for field in schema]  # type: ignore[attr-defined]


def test_every_column_of_a_series_is_described() -> None:
    assert re.findall(r"`(\w+)`", section("exogenous.parquet"))[:2] == SERIES.names[:2]


def test_every_key_of_the_metadata_is_described() -> None:
    described = set(re.findall(r"`(\w+)`", section("metadata.json")))
    metadata = Metadata("x", 0, 1, (Market("A"),))
    assert set(dump_metadata(metadata, "")) | set(dump_market(Market("A"))) <= described
