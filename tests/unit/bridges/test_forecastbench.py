"""Rounds of ForecastBench: import as a release, forecast sets, and invalid files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.bridges.forecastbench import (
    Forecast,
    QuestionSet,
    import_forecasts,
    import_round,
    read_forecast_set,
    read_question_set,
    read_resolution_set,
    select_forecasts,
    write_forecast_set,
)
from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.questions import release
from bellwether.questions.resolutions import find_later_versions, resolve_questions
from bellwether.questions.versions import load_fixed
from bellwether.settings import World
from bellwether.submissions import Submissions
from bellwether.tables.clean import MARKETS, RESOLUTIONS
from tests.unit.bridges.rounds import forecast_set, question_set, resolution_set, write

NAME = "forecastbench-2025-10-26"


def load(folder: Path, *, questions: Any = None, resolutions: Any = None, name: str | None = None) -> pl.DataFrame:
    """Import a round, the one of `rounds` by default, and return the stored questions."""
    (folder / "registry").mkdir(exist_ok=True)
    lake = Lake(str(folder / "lake"), durable=False)
    files = (
        write(folder / "questions.json", questions or question_set()),
        write(folder / "resolutions.json", resolutions or resolution_set()),
    )
    done = import_round(lake, folder / "registry", *files, name=name, world=World.SANDBOX)
    stored = load_fixed(lake, done.name)
    assert stored is not None
    return stored


def test_a_round_becomes_a_release(tmp_path: Path) -> None:
    rows = load(tmp_path)
    assert rows["id"].to_list() == [
        "forecastbench:manifold:m1",
        "forecastbench:fred:DTB3:2025-11-02",
        "forecastbench:fred:DTB3:2025-11-25",
        "forecastbench:acled:a:2025-11-02",
    ]
    assert rows["question"].to_list()[:2] == ["Will m1 happen?", "Will DTB3 rise from 2025-10-26 to 2025-11-02?"]
    assert rows["ground_truth"].to_list() == ["yes", "no", "yes", "no"]
    assert rows["price_24h"].to_list()[:2] == [Decimal("0.756562"), None]
    assert rows["cluster"].to_list()[1:3] == ["forecastbench:fred:DTB3"] * 2
    assert set(rows["close_time"]) == {datetime(2025, 10, 27, tzinfo=UTC)}
    assert rows["settled_at"].to_list()[1] == datetime(2025, 11, 3, tzinfo=UTC)
    recipe = release(NAME, tmp_path / "registry")
    assert (recipe.venues, recipe.cutoff, recipe.version) == (("forecastbench",), datetime(2025, 10, 26, tzinfo=UTC), rows["rules"][0])


def test_a_stored_round_stays_as_it_is(tmp_path: Path) -> None:
    first = load(tmp_path)
    assert load(tmp_path).equals(first)
    later = resolution_set()
    later["resolutions"][0]["resolved_to"] = 0.0
    with pytest.raises(ConfigError, match=f"{NAME}: it exists with other questions or outcomes; import them as {NAME}.v2"):
        load(tmp_path, resolutions=later)
    assert load(tmp_path, resolutions=later, name=f"{NAME}.v2")["ground_truth"].to_list() == ["no", "no", "yes", "no"]
    assert load(tmp_path).equals(first)
    assert (tmp_path / "registry" / "releases.toml").read_text().count("[forecastbench") == 1


def test_later_resolutions_are_the_outcomes_as_known_now(tmp_path: Path) -> None:
    """Of four questions the first is corrected and the last no longer resolved."""
    first, changed_set = load(tmp_path), resolution_set()
    changed_set["resolutions"][0]["resolved_to"] = 0.0
    changed_set["resolutions"] = [row for row in changed_set["resolutions"] if row["source"] != "acled"]
    later = find_later_versions(pl.concat([first, load(tmp_path, resolutions=changed_set, name=f"{NAME}.v2")]), NAME)
    found = resolve_questions(first, MARKETS.empty(), RESOLUTIONS.empty(), later).sort("question_id")
    assert found.select("published", "outcome", "resolution_status").rows() == [
        ("no", None, "disputed"),
        ("no", "no", "final"),
        ("yes", "yes", "final"),
        ("yes", "no", "corrected"),
    ]
    assert set(resolve_questions(first, MARKETS.empty(), RESOLUTIONS.empty())["resolution_status"]) == {"unknown"}


def test_other_resolutions_are_counted(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    resolved = resolution_set()
    resolved["resolutions"] += [{**resolved["resolutions"][0], "id": "m9"}]
    resolved["resolutions"][4]["resolved_to"] = 0.5
    files = write(tmp_path / "q.json", question_set()), write(tmp_path / "r.json", resolved)
    done = import_round(Lake(str(tmp_path / "lake"), durable=False), tmp_path / "registry", *files, name=None, world=World.SANDBOX)
    assert done.left_out == {"unresolved": 1, "combinations": 1, "not in the question set": 1, "between no and yes": 1}
    assert done.questions.height == 3


def changed(build: Callable[[], dict[str, Any]], rows: str, row: int, **fields: Any) -> dict[str, Any]:
    """Return a document with some fields of a row changed; a field that is `...` is removed."""
    document = build()
    document[rows][row] = {name: value for name, value in (document[rows][row] | fields).items() if value is not ...}
    return document


@pytest.mark.parametrize(
    ("questions", "resolutions", "message"),
    [
        (changed(question_set, "questions", 1, source="kalshi"), None, "questions.json, questions, row 2, source = 'kalshi'"),
        (changed(question_set, "questions", 2, question=...), None, "questions.json, questions, row 3, question: Field required"),
        (changed(question_set, "questions", 1, source="manifold", id="m1"), None, "questions, row 2, id = manifold m1: row 1 has it too"),
        (
            changed(question_set, "questions", 0, freeze_datetime_value="N/A"),
            None,
            "row 1, freeze_datetime_value = 'N/A': a market question",
        ),
        (question_set(forecast_due_date=20251026), None, "questions.json, forecast_due_date = '20251026': must be a date as text"),
        (None, changed(resolution_set, "resolutions", 0, resolved_to=1.5), "resolutions.json, resolutions, row 1, resolved_to = '1.5'"),
        (None, changed(resolution_set, "resolutions", 3, resolved="yes"), "resolutions, row 4, resolved = 'yes'"),
        (
            None,
            resolution_set(forecast_due_date="2025-11-09"),
            "resolutions.json, forecast_due_date = 2025-11-09: .*questions.json has 2025-10-26",
        ),
        (None, resolution_set(resolutions=[]), "resolutions.json, resolutions: none is a resolved question"),
        (None, changed(resolution_set, "resolutions", 1, source="manifold", id="m1"), "row 2, id = manifold m1: row 1 has it too"),
        (
            None,
            changed(resolution_set, "resolutions", 3, resolution_date="2025-11-25"),
            "row 4, id = fred DTB3 2025-11-25: row 3 has it too",
        ),
    ],
)
def test_an_invalid_round_is_refused_and_nothing_is_stored(tmp_path: Path, questions: Any, resolutions: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, questions=questions, resolutions=resolutions)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["questions.json", "registry", "resolutions.json"]
    assert not list((tmp_path / "registry").iterdir())


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (changed(forecast_set, "forecasts", 0, forecast=1.5), "set.json, forecasts, row 1, forecast = '1.5'"),
        (changed(forecast_set, "forecasts", 0, forecast="0.5"), "set.json, forecasts, row 1, forecast = '0.5'"),
        (changed(forecast_set, "forecasts", 1, source="kalshi"), "forecasts, row 2, source = 'kalshi'"),
        (
            changed(forecast_set, "forecasts", 2, resolution_date=None),
            "forecasts, row 3, resolution_date = null: a dataset question has a date",
        ),
        (
            changed(forecast_set, "forecasts", 2, resolution_date="2025-11-03"),
            "row 3, resolution_date = 2025-11-03: 8 days after 2025-10-26",
        ),
        (changed(forecast_set, "forecasts", 3, resolution_date="2025-11-02"), "row 4, id = fred DTB3 2025-11-02: row 3 has it too"),
        (forecast_set(model=3), "set.json, model = '3'"),
    ],
)
def test_an_invalid_forecast_set_is_refused(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "set.json", document)
    with pytest.raises(ConfigError, match=message):
        read_forecast_set(path)
    store = Submissions(tmp_path / "submissions")
    with pytest.raises(ConfigError, match=message):
        import_forecasts(store, path, asked(tmp_path), forecaster="mine", taken=(), now=datetime(2026, 11, 1, tzinfo=UTC))
    assert not store.names()


def asked(folder: Path) -> QuestionSet:
    return read_question_set(write(folder / "questions.json", question_set()))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            changed(forecast_set, "forecasts", 1, id="0x3"),
            "set.json, forecasts, row 2, id = '0x3': the question set has no such question of polym",
        ),
        (changed(forecast_set, "forecasts", 1, source="infer"), "row 2, id = '0x2': the question set has no such question of infer"),
        (forecast_set(forecast_due_date="2025-11-09", forecasts=[]), "forecast_due_date = 2025-11-09: the question set has 2025-10-26"),
    ],
)
def test_forecasts_of_other_questions_are_refused(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    store, path = Submissions(tmp_path / "submissions"), write(tmp_path / "set.json", document)
    with pytest.raises(ConfigError, match=message):
        import_forecasts(store, path, asked(tmp_path), forecaster="mine", taken=(), now=datetime(2026, 11, 1, tzinfo=UTC))
    assert not store.names()


def test_a_forecast_set_becomes_a_submission(tmp_path: Path) -> None:
    store, now = Submissions(tmp_path / "submissions"), datetime(2026, 11, 1, tzinfo=UTC)
    path = write(tmp_path / "set.json", forecast_set())
    with pytest.raises(ConfigError, match="gpt-4o is a forecaster already"):
        import_forecasts(store, path, asked(tmp_path), forecaster="gpt-4o", taken=("gpt-4o",), now=now)
    with pytest.raises(ConfigError, match=r"'../mine' is not a valid forecaster name"):
        import_forecasts(store, path, asked(tmp_path), forecaster="../mine", taken=(), now=now)
    assert import_forecasts(store, path, asked(tmp_path), forecaster="mine", taken=(), now=now) == 5
    rows = store.read(["mine"])
    assert dict(zip(rows["market"], rows["probability"], strict=True)) == {
        "forecastbench:manifold:m1": 0.8,
        "forecastbench:polymarket:0x2": 0.4,
        "forecastbench:fred:DTB3:2025-11-02": 0.1,
        "forecastbench:fred:DTB3:2025-11-25": 0.7,
        "forecastbench:acled:a:2025-11-02": 0.2,
    }
    assert set(rows["stated_at"]) == {datetime(2025, 10, 26, tzinfo=UTC)}


def stored_forecasts(*rows: tuple[str, float | None]) -> pl.DataFrame:
    """Return the columns of benchmark/forecasts that are exported."""
    columns = {"question_id": pl.String, "p_yes": pl.Float64}
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(combine=pl.lit("mean"), reasoning=pl.lit(None, pl.String))


ALL = (
    ("forecastbench:manifold:m1", 0.7),
    ("forecastbench:manifold:m1", 0.9),
    ("forecastbench:polymarket:0x2", 0.4),
    ("forecastbench:fred:DTB3:2025-11-02", 0.1),
    ("forecastbench:fred:DTB3:2025-11-25", 0.7),
    ("forecastbench:acled:a:2025-11-02", 0.2),
)


def export(folder: Path, forecasts: list[Forecast], **options: Any) -> Path:
    """Write a forecast set for the round of `rounds`."""
    target = folder / "2025-10-26.me.1.json"
    asked = read_question_set(write(folder / "questions.json", question_set()))
    write_forecast_set(target, forecasts, asked, organization="me", model="mine", model_organization="me", **options)
    return target


def test_forecasts_of_a_release_become_a_forecast_set(tmp_path: Path) -> None:
    target = export(tmp_path, select_forecasts(stored_forecasts(*ALL)))
    assert json.loads(target.read_text()) == forecast_set()
    assert read_forecast_set(export(tmp_path, select_forecasts(stored_forecasts(*ALL)), cost=Decimal("0.25"))).cost == Decimal("0.25")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ALL[2:], "50.0% of the market forecasts are missing|20.0% of the required forecasts are missing"),
        ((*ALL, ("forecastbench:infer:9", 0.5)), "infer 9, id = '9': the question set has no such question"),
        ((*ALL, ("forecastbench:fred:DTB3:2025-11-03", 0.5)), "fred DTB3, resolution_date = 2025-11-03: 8 days after"),
        ((*ALL, ("kalshi:KX", 0.5)), "kalshi:KX is no question of ForecastBench"),
    ],
)
def test_what_forecastbench_would_drop_is_not_written(tmp_path: Path, rows: tuple[tuple[str, float]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        export(tmp_path, select_forecasts(stored_forecasts(*rows)))
    assert not list(tmp_path.glob("*.1.json"))


def test_an_old_round_requires_its_resolved_questions_alone(tmp_path: Path) -> None:
    forecasts = select_forecasts(stored_forecasts(*(row for row in ALL if "0x2" not in row[0])))
    with pytest.raises(ConfigError, match="of the required forecasts are missing"):
        export(tmp_path, forecasts)
    resolved = read_resolution_set(write(tmp_path / "resolutions.json", resolution_set()))
    assert len(read_forecast_set(export(tmp_path, forecasts, resolved=resolved)).forecasts) == 4
