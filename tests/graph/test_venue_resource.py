"""Addresses of the venues as a resource: read from the settings, and no password in Dagster's storage."""

from __future__ import annotations

import asyncio
import os
import signal

import dagster as dg
import pytest

from bellwether.settings import settings
from orchestration.definitions import build_defs
from resources import venues
from resources.venues import WorldResource


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
        await asyncio.sleep(3600)

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
