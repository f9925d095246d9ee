"""The registry of forecasters: built-in entries, user entries, and error messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting import KINDS, available, competitors, forecaster, forecasters
from bellwether.settings import Settings, World

CONSTANT = '[mine]\ndescription = "mine"\nkind = "constant"\np_yes = 0.7\n'


def user_file(folder: Path, text: str) -> Path:
    (folder / "forecasters.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_built_in_baselines_are_there_under_their_own_names() -> None:
    built_in = forecasters()
    assert {"market-1h", "market-6h", "market-24h", "market-7d", "base-rate", "always-half", "always-no", "random"} <= built_in.keys()
    assert all(name == made.name for name, made in built_in.items())
    assert {made.kind for made in built_in.values()} == {*KINDS, "language_model", "tool_model"}
    # The version of a model with tools contains the digest of its corpus, which the demo generates.
    plain = [made for made in built_in.values() if made.kind != "tool_model"]
    assert len({made.version for made in plain}) == len(plain)


def test_knowledge_until_a_date_includes_that_day(tmp_path: Path) -> None:
    folder = user_file(tmp_path, f"{CONSTANT}knowledge_cutoff = 2025-08-31\n")
    assert forecaster("mine", folder).knowledge_cutoff == datetime(2025, 9, 1, tzinfo=UTC)


def test_the_version_changes_with_the_parameters_and_not_with_the_name(tmp_path: Path) -> None:
    twin, other = CONSTANT.replace("mine", "twin"), CONSTANT.replace("mine", "other").replace("0.7", "0.6")
    made = forecasters(user_file(tmp_path, CONSTANT + twin + other))
    assert made["mine"].version == made["twin"].version != made["other"].version


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CONSTANT.replace('"constant"', '"oracle"'), ["kind = 'oracle'", "no such kind", "market_price"]),
        (CONSTANT.replace('kind = "constant"\n', ""), ["kind", "is missing", "market_price"]),
        (CONSTANT.replace("0.7", "1.7"), ["p_yes = 1.7"]),
        (f"{CONSTANT}seed = 1\n", ["seed = 1", "no such field", "p_yes"]),
        (f'{CONSTANT}knowledge_cutoff = "2025"\n', ["knowledge_cutoff = '2025'"]),
        (f"{CONSTANT}knowledge_cutoff = 2025-08-31T20:00:00\n", ["knowledge_cutoff", "offset"]),
        ('[mine]\ndescription = "mine"\nkind = "market_price"\nhorizon = "2h"\n', ["horizon = '2h'", "24h"]),
        (CONSTANT.replace("mine]", "always-no]"), ["[always-no]", "already defined"]),
    ],
)
def test_a_wrong_forecaster_is_named_with_file_field_and_value(tmp_path: Path, text: str, found: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        forecasters(user_file(tmp_path, text))
    for part in [str(tmp_path / "forecasters.toml"), *found]:
        assert part in str(error.value)


def test_an_unknown_forecaster_is_an_error_that_suggests_similar_ones() -> None:
    with pytest.raises(ConfigError, match=r"'alway-no'; did you mean always-no.*\? `bellwether models` lists them"):
        forecaster("alway-no")
    with pytest.raises(ConfigError, match=r"'xyz'; `bellwether models` lists them"):
        forecaster("xyz")


def test_a_name_in_both_registries_is_refused(tmp_path: Path) -> None:
    folder = user_file(tmp_path, CONSTANT)
    (folder / "models.toml").write_text('[mine]\nmodel = "openai/mine"\napi_base = "http://127.0.0.1:1/v1"\n')
    with pytest.raises(ConfigError, match=r"'mine' is in both .*forecasters.toml and .*models.toml"):
        forecasters(folder)


def in_world(monkeypatch: pytest.MonkeyPatch, world: World, *models: str) -> None:
    monkeypatch.setattr("bellwether.forecasting.registry.settings", lambda: Settings(world=world, models=models))


def test_only_what_is_free_takes_part_without_being_named(monkeypatch: pytest.MonkeyPatch) -> None:
    in_world(monkeypatch, World.SANDBOX)
    assert {"sandbox-calibrated", "always-no"} <= competitors().keys()
    assert "gpt-4o" in available()
    in_world(monkeypatch, World.LIVE)
    assert {made.kind for made in competitors().values()} == set(KINDS)
    assert "sandbox-calibrated" not in available()


def test_a_model_takes_part_when_the_settings_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    in_world(monkeypatch, World.LIVE, "gpt-4o")
    assert [name for name, made in competitors().items() if made.kind == "language_model"] == ["gpt-4o"]


def test_a_model_of_the_settings_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    in_world(monkeypatch, World.LIVE, "sandbox-calibrated")
    with pytest.raises(ConfigError, match="BELLWETHER_MODELS names 'sandbox-calibrated'"):
        competitors()
