"""Settings from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bellwether.errors import ConfigError
from bellwether.settings import Settings, World, settings
from cli.main import main
from resources import LakeResource


@pytest.mark.parametrize(
    ("name", "value"), [("WORLD", "elsewhere"), ("CANDLE_DAYS", "0"), ("SANDBOX_NOW", "2026-07-01T00:00:00"), ("FIRST_DAY", "soon")]
)
def test_a_wrong_setting_names_the_variable_and_its_value(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"BELLWETHER_{name}", value)
    settings.cache_clear()
    with pytest.raises(ConfigError, match=f"BELLWETHER_{name}") as refused:
        settings()
    assert value in str(refused.value)


def test_a_budget_of_zero_is_one_and_below_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUDGET", "WEEK_BUDGET", "WEEK_MODEL_BUDGET"):
        monkeypatch.setenv(f"BELLWETHER_{name}", "0")
    settings.cache_clear()
    found = settings()
    assert (found.budget, found.week_budget, found.week_model_budget) == (0, 0, 0)
    monkeypatch.setenv("BELLWETHER_BUDGET", "-0.01")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"BELLWETHER_BUDGET.*-0\.01"):
        settings()


def test_the_command_line_shows_it_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLWETHER_WORLD", "elsewhere")
    settings.cache_clear()
    result = CliRunner().invoke(main, ["leaderboard"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: reading BELLWETHER_WORLD")


def test_worlds_never_share_a_place(tmp_path: Path) -> None:
    places = [Settings(home=tmp_path, world=world) for world in World]
    for place in ("lake_uri", "warehouse_uri", "dagster_home"):
        assert len({getattr(found, place) for found in places}) == len(World)


def test_only_the_sandboxs_lake_may_be_lost_with_the_power(tmp_path: Path) -> None:
    worlds = [Settings(world=world, home=tmp_path) for world in World]
    assert {config.world: LakeResource.of(config).durable for config in worlds} == {World.SANDBOX: False, World.LIVE: True}


def test_the_sandboxs_present_is_its_own() -> None:
    config = Settings(world=World.SANDBOX)
    assert config.now() == config.sandbox_now


def test_a_misspelled_setting_is_named_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BELLWETHER_REGISTY", "x")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"the environment: BELLWETHER_REGISTY is no setting; did you mean BELLWETHER_REGISTRY\?"):
        settings()
    monkeypatch.delenv("BELLWETHER_REGISTY")
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("OTHER=1\nBELLWETHER_XYZ=1\n")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"reading \.env: BELLWETHER_XYZ is no setting; \.env\.example lists the settings"):
        settings()
