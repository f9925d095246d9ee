"""Rows stored by raw assets: every reject is a row, and an older answer never replaces a newer one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

import assets.venues.raw
from assets.venues import runs
from assets.venues.raw import select_rows
from bellwether.lake import Lake
from bellwether.settings import Settings, Venue
from bellwether.tables import table
from bellwether.venues.kalshi.wire import ParsedRecords, parse_markets, parse_series
from bellwether.venues.wire.rejects import Origin
from orchestration.definitions import build_defs
from orchestration.runner import RunFailed
from resources.io_manager import Unchanged
from tests.orchestration.conftest import open_world
from tests.venues.wire_objects import market

DAY = date(2026, 6, 1)


def pulled(parsed: ParsedRecords) -> SimpleNamespace:
    """Return a pull of one page of a listing."""

    def rows() -> Iterator[Any]:
        yield parsed.rows

    return SimpleNamespace(series=rows, markets=rows, rejects=lambda: parsed.rejects, summary=lambda: {"requests": 1})


def test_series_that_do_not_fit_are_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Origin("GET /series", 0, datetime(2026, 3, 20, tzinfo=UTC))
    found = parse_series([{"ticker": "KXONE", "title": "One"}, {"title": "without a ticker"}], origin)
    monkeypatch.setattr("resources.venues.KalshiVenue.run", lambda venue, work: pulled(found))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [assets.venues.raw.kalshi_series], instance=instance, resources=build_defs(config=Settings(home=tmp_path)).resources
        )
    assert result.success
    lake = Lake(Settings(home=tmp_path).lake_uri)
    assert lake.slice(table("raw/kalshi_series")).read()["series_ticker"].to_list() == ["KXONE"]
    (told,) = lake.slice(table("raw/kalshi_series_rejects")).read().iter_rows(named=True)
    assert (told["day"], told["table"], told["body"]) == (date(2026, 3, 20), "raw/kalshi_series", '{"title":"without a ticker"}')


@pytest.mark.slow
def test_answers_of_a_clock_that_was_set_back_replace_nothing(tmp_path: Path) -> None:
    def pull(now: str, *, refresh: bool) -> None:
        world = open_world(tmp_path, venues=(Venue.KALSHI,), sandbox_now=datetime.fromisoformat(now))
        with world.instance:
            runner = world.runner()
            runs.pull_series(runner)
            runs.pull_days(runner, DAY, DAY, refresh=refresh)

    pull("2026-07-01T00:00:00Z", refresh=False)
    lake, pulls = Lake(Settings(home=tmp_path).lake_uri), table("raw/kalshi_pulls")
    before = lake.manifest(pulls, (DAY.isoformat(),))
    with pytest.raises(
        RunFailed, match=r"stored rows at 2026-07-01 00:00:00; the stored rows are kept. A clock was set back.*BELLWETHER_SANDBOX_NOW"
    ):
        pull("2026-06-15T00:00:00Z", refresh=True)
    assert lake.manifest(pulls, (DAY.isoformat(),)) == before
    assert lake.slice(table("raw/kalshi_markets")).scan().select("known_at").max().collect().item() == datetime(2026, 7, 1, tzinfo=UTC)


def test_markets_of_the_archive_that_do_not_fit_are_rows_before_any_day_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin, whole = Origin("GET /historical/markets", 0, datetime(2026, 3, 20, tzinfo=UTC)), market("KXONE-1")
    objects = [whole, {**whole, "ticker": "KXONE-2", "volume_fp": "many"}]
    found = parse_markets(objects, origin, day=date(2026, 3, 20), source="historical", table=table("raw/kalshi_archive"))
    monkeypatch.setattr("resources.venues.KalshiVenue.run", lambda venue, work: pulled(found))
    with dg.DagsterInstance.ephemeral() as instance:
        defs = build_defs(config=Settings(home=tmp_path))
        result = defs.resolve_job_def("archive").execute_in_process(instance=instance)
    assert result.success
    lake = Lake(Settings(home=tmp_path).lake_uri)
    assert lake.slice(table("raw/kalshi_archive")).read()["ticker"].to_list() == ["KXONE-1"]
    (told,) = lake.slice(table("raw/kalshi_archive_rejects")).read().iter_rows(named=True)
    assert (told["record_id"], told["table"], told["field"], told["value"]) == ("KXONE-2", "raw/kalshi_archive", "volume_fp", "many")
    assert json.loads(told["body"])["ticker"] == "KXONE-2"
    (check,) = (one for one in result.get_asset_check_evaluations() if one.check_name == "few_rejects")
    assert check.passed


class Followed:
    """A pull of a day, with the number of its base where it only followed open markets."""

    day = DAY

    def __init__(self, base: object) -> None:
        self.pull = SimpleNamespace(base=base)

    def markets(self) -> str:
        return "markets"

    def candles(self) -> str:
        return "candles"


def test_what_following_cannot_change_is_left_as_it_is(tmp_path: Path) -> None:
    lake, candles, markets = Lake(str(tmp_path)), "raw/kalshi_candles", "raw/kalshi_markets"
    assert select_rows(lake, candles, "candles", Followed("0001")) == "candles", "the lake has none"
    manifest = lake.write(table(candles), (DAY.isoformat(),), table(candles).empty(), run_id="run")
    assert isinstance(select_rows(lake, candles, "candles", Followed("0001")), Unchanged)
    assert select_rows(lake, candles, "candles", Followed(None)) == "candles", "the day was pulled as a whole"
    assert select_rows(lake, markets, "markets", Followed("0001")) == "markets"
    lake.storage.delete(manifest.file)
    assert select_rows(lake, candles, "candles", Followed("0001")) == "candles", "what the lake has lost is restored"


@pytest.mark.slow
def test_refresh_restores_a_day_whose_manifests_stored_pages_and_notes_are_damaged(tmp_path: Path) -> None:
    tables = ("raw/kalshi_archive", "raw/kalshi_pulls", "raw/kalshi_markets", "raw/polymarket_pulls", "raw/polymarket_markets")
    day, world = date(2026, 3, 2), open_world(tmp_path)
    with world.instance:
        runs.pull(world.runner(), day, day, with_archive=True)
        before = {name: world.lake.slice(table(name)).rows for name in tables}
        raw = Path(world.lake.uri) / "raw"
        for pattern in ("*_pulls/**/manifest.json", "*_pages/**/pages.parquet", "*_pages/**/done.json"):
            damaged = list(raw.glob(pattern))
            assert len(damaged) >= 2
            for path in damaged:
                path.write_bytes(b'{"x')
        runs.pull(world.runner(), day, day, with_archive=True, refresh=True)
        assert {name: world.lake.slice(table(name)).rows for name in tables} == before
        again = world.runner()
        runs.pull(again, day, day, with_archive=True)
        assert again.stats.runs == 0
