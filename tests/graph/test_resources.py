"""The lake, the warehouse, the journal and the venues as resources, without a password in the storage of Dagster."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from bellwether.journal.values import Answered
from bellwether.settings import settings
from orchestration.definitions import build_defs
from resources import LakeIOManager, LakeResource, WarehouseResource, venues
from resources.models import JournalResource
from resources.venues import WorldResource
from tests.unit.journal.calls import begin_call, make_reply
from tests.unit.lake.frames import PRICES, prices

DAY = ("2025-09-01",)


@pytest.fixture
def warehouse(tmp_path: Path) -> WarehouseResource:
    lake = LakeResource(uri=str(tmp_path / "lake")).lake
    lake.write(PRICES, DAY, prices(), run_id="r1")
    resource = WarehouseResource(database=str(tmp_path / "warehouse.duckdb"))
    resource.publish(lake)
    return resource


def test_the_lake_can_be_chosen_when_a_run_is_launched(tmp_path: Path) -> None:
    @dg.asset(key=["raw", "kalshi_series"])
    def series(lake: LakeResource) -> None:
        lake.lake.write(PRICES, DAY, prices(), run_id="r1")

    lake = LakeResource.configure_at_launch()
    config = {"resources": {"lake": {"config": {"uri": str(tmp_path / "chosen")}}}}
    resources = {"lake": lake, "io_manager": LakeIOManager(lake=lake)}
    assert dg.materialize([series], resources=resources, run_config=config).success
    assert (tmp_path / "chosen" / "clean").is_dir()


@dg.asset
def decision(journal: JournalResource) -> str:
    found = begin_call(journal.journal)
    return f"stored {found.content}" if isinstance(found, Answered) else found.answer(make_reply()).content


def test_steps_of_different_runs_share_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    told = [dg.materialize([decision], resources={"journal": JournalResource(url=url)}).output_for_node("decision") for _ in range(2)]
    assert told == ["0.7", "stored 0.7"]


def test_the_password_of_the_setting_is_in_nothing_that_dagster_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_JOURNAL", "postgresql://user:s3cret@host/db")
    settings.cache_clear()
    resource = JournalResource()
    definitions = dg.Definitions(assets=[decision], resources={"journal": resource})
    kept = [
        repr(resource),
        str(resource.model_dump()),
        repr(resource.journal),
        repr(JournalResource(url="postgresql://user:s3cret@host/db")),
    ]
    kept.append(str(definitions.get_repository_def().get_top_level_resources()["journal"].config_schema.default_value))
    assert not [text for text in kept if "s3cret" in text]


@pytest.fixture
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> WorldResource:
    """The live world with two venues behind a proxy that requires a password."""
    monkeypatch.setenv("BELLWETHER_WORLD", "live")
    monkeypatch.setenv("BELLWETHER_GAMMA_URL", "https://user:s3cret@proxy.example/gamma")
    monkeypatch.setenv("BELLWETHER_KALSHI_STREAM_URL", "wss://user:s3cret@proxy.example/ws")
    monkeypatch.setenv("BELLWETHER_CLOB_URL", "https://mirror.example/clob")
    settings.cache_clear()
    return WorldResource.of(settings())


def test_the_password_of_an_address_is_in_nothing_that_dagster_keeps(behind_a_proxy: WorldResource) -> None:
    definitions = build_defs(config=settings())
    kept = [repr(behind_a_proxy), str(behind_a_proxy.model_dump()), repr(settings())]
    for name, resource in definitions.get_repository_def().get_top_level_resources().items():
        kept += [name, str(resource.config_schema.default_value)]
    assert not [text for text in kept if "s3cret" in text]
    assert any("mirror.example" in text for text in kept)


def test_addresses_with_a_password_are_those_of_the_settings_all_the_same(behind_a_proxy: WorldResource) -> None:
    with behind_a_proxy.addresses() as found:
        assert found.gamma == "https://user:s3cret@proxy.example/gamma"
        assert found.kalshi_stream == "wss://user:s3cret@proxy.example/ws"
        assert (found.clob, found.kalshi) == ("https://mirror.example/clob", settings().kalshi_url)


def test_a_signal_ends_a_step_that_would_be_tried_again_and_the_steps_beside_it() -> None:
    """Dagster's retry policies also apply to interrupts, so that Ctrl-C would restart the step."""
    began: list[str] = []

    async def wait(name: str) -> None:
        began.append(name)
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    def asset(name: str) -> dg.AssetsDefinition:
        @dg.asset(name=name, retry_policy=dg.RetryPolicy(max_retries=2))
        def made() -> None:
            venues.run(lambda: wait(name))

        return made

    try:
        result = dg.materialize([asset("one"), asset("two")], raise_on_error=False)
        assert not result.success
        assert len(began) == 1, "the other one asks no venue after the signal"
    finally:
        venues.resume_requests()

    async def answer() -> int:
        return 3

    assert venues.run(answer) == 3


def test_a_connection_of_the_warehouse_is_closed_after_an_exception(warehouse: WarehouseResource) -> None:
    with pytest.raises(ZeroDivisionError), warehouse.get_connection() as connection:
        assert connection.execute("SELECT count(*) FROM clean.prices").fetchall() == [(6,)]
        _ = 1 / 0
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")
