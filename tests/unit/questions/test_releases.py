"""Releases: names, the user's own, errors, and questions that never change after they are built."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.forecasting import forecaster
from bellwether.lake import Lake
from bellwether.questions import Release, ReleaseName, release, releases
from bellwether.questions.release import digest
from bellwether.questions.versions import draw, find_new_version, list_versions
from bellwether.settings import settings
from bellwether.tables.benchmark import QUESTIONS
from bellwether.tables.clean import MARKETS, PRICES
from tests.unit.clean.rows import market, markets, price, prices

VALID = 'description = "mine"\ncutoff = 2026-01-01T00:00:00Z\nseed = 1\n'


def user_folder(folder: Path, releases_toml: str, forecasters_toml: str = "") -> Path:
    (folder / "releases.toml").write_text(releases_toml, encoding="utf-8")
    (folder / "forecasters.toml").write_text(forecasters_toml, encoding="utf-8")
    return folder


def model(name: str, knowledge_cutoff: str) -> str:
    return f'[{name}]\ndescription = "a model"\nkind = "constant"\np_yes = 0.5\nknowledge_cutoff = {knowledge_cutoff}\n'


def test_the_users_folder_adds_releases_with_the_seeds_defaults(tmp_path: Path) -> None:
    mine = releases(user_folder(tmp_path, f"[mine]\n{VALID}"))["mine"]
    assert (mine.per_series, mine.description_limit, mine.min_description) == (2, 5000, 10)
    assert mine.cutoff == datetime(2026, 1, 1, tzinfo=UTC)
    assert set(releases(tmp_path)) == {*releases(), "mine"}


def test_the_cutoff_defaults_to_the_latest_knowledge_of_the_models_named(tmp_path: Path) -> None:
    text = '[mine]\ndescription = "mine"\nseed = 1\nmodels = ["early", "late", "always-no"]\n'
    models = model("early", "2025-01-01") + model("late", "2025-06-30T12:00:00Z") + model("unnamed", "2026-01-01")
    assert releases(user_folder(tmp_path, text, models))["mine"].cutoff == datetime(2025, 6, 30, 12, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (f"[mine]\n{VALID}sample_sizes = 3\n", ("sample_sizes",)),
        (f'[mine]\n{VALID}sample_size = "300"\n', ("sample_size",)),
        (f"[mine]\n{VALID}min_description = 6000\n", ("min_description", "description_limit")),
        (f"[mine]\n{VALID}until = 2025-01-01T00:00:00Z\n", ("until", "cutoff")),
        (f'[mine]\n{VALID}models = ["known"]\n', ("cutoff", "2026-02-02")),
        ('[mine]\ndescription = "x"\nseed = 1\ncutoff = 2026-01-01T00:00:00\n', ("cutoff", "offset")),
        (f"[sandbox-2026]\n{VALID}", ("[sandbox-2026]",)),
        (f"[mine]\n{VALID}[mine]\n{VALID}", ("TOML",)),
    ],
)
def test_an_invalid_release_is_named_with_file_and_field(tmp_path: Path, text: str, fields: tuple[str, ...]) -> None:
    user_folder(tmp_path, text, model("known", "2026-02-01"))
    with pytest.raises(ConfigError) as error:
        releases(tmp_path)
    for part in (str(tmp_path / "releases.toml"), *fields):
        assert part in str(error.value)


def test_other_invalid_releases_are_refused(tmp_path: Path) -> None:
    for text in (
        f"[mine]\n{VALID}per_series = -1\n",
        f'[mine]\n{VALID}models = ["gpt-9"]\n',
        '[mine]\ndescription = "x"\ncutoff = 2026-01-01T00:00:00Z\n',
        '[mine]\ndescription = "x"\nseed = 1\n',
        f'["Mine/1"]\n{VALID}',
        f'[mine]\nname = "other"\n{VALID}',
        "sample_size = 3\n",
    ):
        user_folder(tmp_path, text)
        with pytest.raises(ConfigError):
            releases(tmp_path)
    with pytest.raises(ConfigError):
        releases(tmp_path / "absent")
    with pytest.raises(ConfigError):
        release("nope")


REGISTRY = """
[small]
description = "Four questions."
cutoff = 2026-01-01T00:00:00Z
sample_size = 4
per_series = 0
seed = 7
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with six markets, and a registry with a release of four questions."""
    folder = tmp_path / "registry"
    folder.mkdir()
    (folder / "releases.toml").write_text(REGISTRY)
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(folder))
    settings.cache_clear()
    made = Lake(str(tmp_path / "lake"))
    pull(made, [market(f"M{number}") for number in range(6)])
    return made


def pull(lake: Lake, rows: Sequence[dict[str, Any]]) -> None:
    """Write markets, and a price of each a day before its close, to the lake."""
    for day in {row["day"] for row in rows}:
        own = [row for row in rows if row["day"] == day]
        lake.write(MARKETS, (day.isoformat(),), markets(*own), run_id="r")
        quotes = [{**price(24.5, row["market_id"]), "day": day} for row in own]
        lake.write(PRICES, (day.isoformat(),), prices(*quotes), run_id="r")


def fix(lake: Lake, name: str = "small") -> pl.DataFrame:
    """Build a release, as the asset does."""
    rows = draw(lake, name)
    lake.write(QUESTIONS, (name,), rows, run_id="r")
    return rows


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("small", ("small", 1, None)),
        ("small.v2", ("small", 2, None)),
        ("small.v13@40", ("small", 13, 40)),
        ("small@3", ("small", 1, 3)),
        ("a.v", ("a.v", 1, None)),
    ],
)
def test_a_name_says_release_version_and_size(text: str, parts: tuple[str, int, int | None]) -> None:
    named = ReleaseName.parse(text)
    assert (named.base, named.number, named.size) == parts
    assert str(named) == text


def test_a_release_of_the_registry_cannot_be_called_like_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "releases.toml").write_text(REGISTRY.replace("[small]", '["small.v2"]'))
    monkeypatch.setenv("BELLWETHER_REGISTRY", str(tmp_path))
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"releases\.toml: \[small\.v2\] reads as a version"):
        release("small")


def test_what_is_pulled_later_leaves_a_release_as_it_is(lake: Lake) -> None:
    before = fix(lake)
    rates = forecaster("base-rate").forecast(before)
    row = market("M0")
    earlier = [
        market(f"E{number}", day=row["day"] - timedelta(days=40), settled_at=row["open_time"] - timedelta(days=3)) for number in range(50)
    ]
    pull(lake, [market(f"M{number}", outcome="no", settlement_value=Decimal(0), question="Other words?") for number in range(9)])
    pull(lake, earlier)
    assert draw(lake, "small").equals(before)
    assert forecaster("base-rate").forecast(draw(lake, "small")).equals(rates)
    changed = draw(lake, "small.v2")
    assert changed["version"].unique().to_list() == [2]
    assert set(changed["ground_truth"]) == {"no"}
    assert digest(changed) != digest(before)


def test_a_smaller_sample_is_the_beginning_of_the_release_whatever_was_pulled_since(lake: Lake) -> None:
    whole = fix(lake)
    pull(lake, [market(f"M{number}") for number in range(20, 60)])
    part = draw(lake, "small@3")
    assert part["id"].to_list() == whole["id"].head(3).to_list()
    assert set(part["release"]) == {"small@3"}
    assert draw(lake, "small.v2")["id"].to_list() != whole["id"].to_list()


def test_versions_come_in_order(lake: Lake) -> None:
    with pytest.raises(ConfigError, match=r"its predecessor small does not exist"):
        draw(lake, "small.v2")
    fix(lake)
    with pytest.raises(ConfigError, match=r"its predecessor small\.v2 does not exist"):
        draw(lake, "small.v3")
    fix(lake, "small.v2")
    assert [(one.name, one.version, one.questions) for one in list_versions(lake, "small")] == [("small", 1, 4), ("small.v2", 2, 4)]
    assert len({one.digest for one in list_versions(lake, "small")}) == 1


def test_a_new_version_is_due_when_a_question_has_changed(lake: Lake) -> None:
    with pytest.raises(ConfigError, match="small was not built yet"):
        find_new_version(lake, "small")
    fix(lake)
    assert find_new_version(lake, "small") is None
    pull(lake, [market(f"M{number}", question="Other words?") for number in range(9)])
    assert find_new_version(lake, "small") == "small.v2"


def test_the_digest_is_of_the_questions_and_not_of_their_name(lake: Lake) -> None:
    rows = fix(lake)
    renamed = rows.with_columns(release=pl.lit("other"), version=pl.lit(5, pl.Int32))
    assert digest(rows) == digest(rows.reverse()) == digest(renamed)
    assert digest(rows) != digest(rows.with_columns(close_time=pl.lit(datetime(2026, 5, 1, tzinfo=UTC)).cast(rows.schema["close_time"])))
