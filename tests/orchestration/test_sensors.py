"""Registered releases and forecasters become partitions. Derived tables follow their inputs once."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from assets.benchmark.partitions import forecasters
from bellwether.errors import ConfigError
from bellwether.forecasting import available, without_key
from bellwether.questions import releases
from bellwether.replay.registry import agents
from bellwether.settings import settings
from orchestration.sensors import registered_partitions, registry


def test_the_first_tick_adds_everything_registered_and_the_next_nothing() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = registry(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        added = {request.partitions_def_name: list(request.partition_keys) for request in result.dynamic_partitions_requests or ()}
        assert added == {"release": ["sandbox-2026", "sandbox-both"], "forecaster": forecasters(), "agent": list(agents())}
        for name, keys in added.items():
            instance.add_dynamic_partitions(name, keys)
        assert isinstance(registry(dg.build_sensor_context(instance=instance)), dg.SkipReason)


def test_a_new_forecaster_in_the_users_registry_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forecasters.toml").write_text('[mine]\ndescription = "Mine."\nkind = "constant"\np_yes = 0.4\n')
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("release", list(releases()))
        instance.add_dynamic_partitions("forecaster", list(available()))
        instance.add_dynamic_partitions("agent", list(agents()))
        monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
        settings.cache_clear()
        result = registry(dg.build_sensor_context(instance=instance))
        assert isinstance(result, dg.SensorResult)
        assert [list(request.partition_keys) for request in result.dynamic_partitions_requests or ()] == [["mine"]]


def test_a_registry_that_cannot_be_read_fails_the_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forecasters.toml").write_text('[mine]\nkind = "constnat"\ndescription = "x"\n')
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    settings.cache_clear()
    with dg.DagsterInstance.ephemeral() as instance, pytest.raises(ConfigError, match="constnat"):
        registry(dg.build_sensor_context(instance=instance))


def test_the_registry_says_which_forecasters_lack_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('[mine]\nmodel = "openai/mine"\nknowledge_cutoff = 2025-01-01\nworlds = ["sandbox", "live"]\n')
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings.cache_clear()
    assert without_key()["mine"] == "key missing: OPENAI_API_KEY"
    with dg.DagsterInstance.ephemeral() as instance:
        for request in registered_partitions(instance):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        found = registry(dg.build_sensor_context(instance=instance))
        assert isinstance(found, dg.SkipReason)
        assert "mine (key missing: OPENAI_API_KEY)" in str(found.skip_message)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert "mine" not in without_key()
    settings.cache_clear()
