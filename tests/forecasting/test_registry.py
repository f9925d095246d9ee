"""The registry of forecasters: the built-in ones, the user's own, and what is wrong with a wrong one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting import KINDS, forecaster, forecasters

CONSTANT = '[mine]\ndescription = "mine"\nkind = "constant"\np_yes = 0.7\n'


def user_file(folder: Path, text: str) -> Path:
    (folder / "forecasters.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_built_in_baselines_are_there_under_their_own_names() -> None:
    built_in = forecasters()
    assert {"market-1h", "market-6h", "market-24h", "market-7d", "base-rate", "always-half", "always-no", "random"} <= built_in.keys()
    assert all(name == made.name for name, made in built_in.items())
    assert {made.kind for made in built_in.values()} == set(KINDS)
    assert len({made.version for made in built_in.values()}) == len(built_in)


def test_the_users_folder_adds_forecasters(tmp_path: Path) -> None:
    mine = forecaster("mine", user_file(tmp_path, CONSTANT))
    assert (mine.kind, mine.knowledge_cutoff) == ("constant", None)


def test_knowledge_until_a_date_includes_that_day(tmp_path: Path) -> None:
    folder = user_file(tmp_path, f"{CONSTANT}knowledge_cutoff = 2025-08-31\n")
    assert forecaster("mine", folder).knowledge_cutoff == datetime(2025, 9, 1, tzinfo=UTC)


def test_knowledge_until_an_instant_is_that_instant_in_utc(tmp_path: Path) -> None:
    folder = user_file(tmp_path, f"{CONSTANT}knowledge_cutoff = 2025-08-31T20:00:00-04:00\n")
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
        (CONSTANT.replace("0.7", "nan"), ["p_yes = nan"]),
        (CONSTANT.replace("0.7", '"0.7"'), ["p_yes = '0.7'"]),
        (CONSTANT.replace("p_yes = 0.7\n", ""), ["p_yes", "is missing"]),
        (f"{CONSTANT}seed = 1\n", ["seed = 1", "no such field", "p_yes"]),
        (f'{CONSTANT}knowledge_cutoff = "2025"\n', ["knowledge_cutoff = '2025'"]),
        (f"{CONSTANT}knowledge_cutoff = 2025-08-31T20:00:00\n", ["knowledge_cutoff", "offset"]),
        ('[mine]\ndescription = "mine"\nkind = "market_price"\nhorizon = "2h"\n', ["horizon = '2h'", "24h"]),
        (CONSTANT.replace("mine]", "always-no]"), ["[always-no]", "already defined"]),
        ('[mine]\nkind = "random"\nseed = 1\n', ["description", "is missing"]),
    ],
)
def test_a_wrong_forecaster_is_named_with_file_field_and_value(tmp_path: Path, text: str, found: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        forecasters(user_file(tmp_path, text))
    for part in [str(tmp_path / "forecasters.toml"), *found]:
        assert part in str(error.value)


def test_an_unknown_forecaster_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'nope'.*always-no"):
        forecaster("nope")
