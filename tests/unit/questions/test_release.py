"""Releases: built-in ones, the user's own, and error messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether.errors import ConfigError
from bellwether.questions import Release, release, releases

VALID = 'description = "mine"\ncutoff = 2026-01-01T00:00:00Z\nseed = 1\n'


def user_folder(folder: Path, releases_toml: str, forecasters_toml: str = "") -> Path:
    (folder / "releases.toml").write_text(releases_toml, encoding="utf-8")
    (folder / "forecasters.toml").write_text(forecasters_toml, encoding="utf-8")
    return folder


def model(name: str, knowledge_cutoff: str) -> str:
    return f'[{name}]\ndescription = "a model"\nkind = "constant"\np_yes = 0.5\nknowledge_cutoff = {knowledge_cutoff}\n'


def test_built_in_releases_load_and_carry_their_own_names() -> None:
    built_in = releases()
    assert {"sandbox-2026", "kalshi-live"} <= built_in.keys()
    assert all(name == made.name for name, made in built_in.items())


def test_the_users_folder_adds_releases_with_the_seeds_defaults(tmp_path: Path) -> None:
    mine = releases(user_folder(tmp_path, f"[mine]\n{VALID}"))["mine"]
    assert (mine.per_series, mine.description_limit, mine.min_description) == (2, 5000, 10)
    assert mine.cutoff == datetime(2026, 1, 1, tzinfo=UTC)
    assert set(releases(tmp_path)) == {*releases(), "mine"}


def test_the_cutoff_defaults_to_the_latest_knowledge_of_the_models_named(tmp_path: Path) -> None:
    text = '[mine]\ndescription = "mine"\nseed = 1\nmodels = ["early", "late", "always-no"]\n'
    models = model("early", "2025-01-01") + model("late", "2025-06-30T12:00:00Z") + model("unnamed", "2026-01-01")
    assert releases(user_folder(tmp_path, text, models))["mine"].cutoff == datetime(2025, 6, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"[mine]\n{VALID}sample_sizes = 3\n", ["[mine]", "sample_sizes = 3", "no such field", "sample_size"]),
        (f'[mine]\n{VALID}sample_size = "300"\n', ["sample_size = '300'", "integer"]),
        (f"[mine]\n{VALID}per_series = -1\n", ["per_series = -1"]),
        (f"[mine]\n{VALID}min_description = 6000\n", ["min_description 6000", "description_limit 5000"]),
        (f"[mine]\n{VALID}until = 2025-01-01T00:00:00Z\n", ["until 2025-01-01", "not after the cutoff"]),
        (f'[mine]\n{VALID}models = ["gpt-9"]\n', ["models = ['gpt-9']", "'gpt-9'", "always-no"]),
        (f'[mine]\n{VALID}models = ["known"]\n', ["cutoff", "2026-02-02", "[mine]"]),
        ('[mine]\ndescription = "x"\ncutoff = 2026-01-01T00:00:00Z\n', ["seed", "is missing"]),
        ('[mine]\ndescription = "x"\nseed = 1\n', ["cutoff", "is missing"]),
        ('[mine]\ndescription = "x"\nseed = 1\ncutoff = "2026-01-01"\n', ["cutoff = '2026-01-01'", "without quotes"]),
        ('[mine]\ndescription = "x"\nseed = 1\ncutoff = 2026-01-01T00:00:00\n', ["cutoff", "offset"]),
        (f"[Mine/1]\n{VALID}".replace("[Mine/1]", '["Mine/1"]'), ["[Mine/1]", "lower-case"]),
        (f'[mine]\nname = "other"\n{VALID}', ["name = 'other'", "header"]),
        (f"[sandbox-2026]\n{VALID}", ["[sandbox-2026]", "already defined", "rename"]),
        ("sample_size = 3\n", ["sample_size = 3", "outside of any entry"]),
        (f"[mine]\n{VALID}[mine]\n{VALID}", ["not a TOML file", "mine"]),
    ],
)
def test_a_wrong_release_is_named_with_file_field_and_value(tmp_path: Path, text: str, found: list[str]) -> None:
    user_folder(tmp_path, text, model("known", "2026-02-01"))
    with pytest.raises(ConfigError) as error:
        releases(tmp_path)
    for part in [str(tmp_path / "releases.toml"), *found]:
        assert part in str(error.value)


def test_a_registry_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="BELLWETHER_REGISTRY"):
        releases(tmp_path / "absent")


def test_an_unknown_release_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'nope'.*sandbox-2026"):
        release("nope")


def test_the_version_changes_with_what_decides_the_questions_and_with_nothing_else() -> None:
    base = Release(name="a", description="x", cutoff=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
    changed = [
        {"seed": 2},
        {"sample_size": 5},
        {"per_series": 3},
        {"cutoff": datetime(2026, 1, 2, tzinfo=UTC)},
        {"categories": ("Politics",)},
    ]
    versions = {base.version, *(base.model_copy(update=change).version for change in changed)}
    assert len(versions) == len(changed) + 1
    assert base.model_copy(update={"name": "b", "description": "y", "models": ("always-no",)}).version == base.version


def test_a_release_can_be_made_smaller_by_its_name() -> None:
    small, whole = release("sandbox-2026@200"), release("sandbox-2026")
    assert (small.name, small.sample_size) == ("sandbox-2026@200", 200)
    assert small.model_copy(update={"name": whole.name, "sample_size": 300}) == whole
    assert small.version != whole.version


@pytest.mark.parametrize("name", ["sandbox-2026@0", "sandbox-2026@", "sandbox-2026@ten", "sandbox-2026@301", "sandbox-2026@2@3"])
def test_a_size_that_the_release_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="sandbox-2026@"):
        release(name)
