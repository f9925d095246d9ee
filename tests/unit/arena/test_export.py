"""An exported cohort is self-contained: one query over its files gives its leaderboard, and no cell is a formula or a secret."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from bellwether.arena import export
from bellwether.arena.decision import Action, Decision
from bellwether.arena.export import CARD, MARK, QUERY, build_cohort_tables, export_cohort
from bellwether.arena.lineup import load_registered_families
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings.standings import read_tables_as_known
from bellwether.arena.records import DecisionPlan, Intent, load_record
from bellwether.arena.results import Facts
from bellwether.arena.weekly import queries
from bellwether.arena.weekly.rows import build_decisions_rows
from bellwether.errors import ConfigError
from bellwether.tables import arena as tables
from bellwether.tables.arena_lineups import RELEASES
from tests.arena.weeks import WEEK, Arena


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A cohort of two models and the rules whose markets are resolved, and a second cohort."""
    arena = Arena(tmp_path_factory.mktemp("exported"))
    for number in range(3):
        week = WEEK + number * timedelta(days=7)
        if number < 2:
            arena.decide(week)
        arena.evidence(week)
    return arena


@pytest.fixture(scope="module")
def exported(arena: Arena) -> dict[str, pl.DataFrame]:
    with arena.journal() as journal:
        return build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK, journal)


def query_leaderboard(folder: Path) -> pl.DataFrame:
    """Run the query in the folder of the export, and return its rows."""
    text = (folder / QUERY).read_text().replace("'data/", f"'{folder}/data/")
    return duckdb.sql(text).pl()


def test_one_query_over_the_export_gives_its_leaderboard(exported: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    """Recomputes every published column from the facts and the tables computed from them."""
    found, expected = query_leaderboard(export_cohort(exported, WEEK, tmp_path / "cohort")), exported["leaderboard"].sort("family")
    assert found["scored"].sum() > 0
    assert found["brier_stated"].drop_nulls().len() >= 2
    assert found["drawdown"].max() > 0
    assert set(expected.columns) - set(found.columns) == {"completed"}
    for name in set(found.columns) - {"model"}:
        if found[name].dtype == pl.Float64:
            pairs = zip(found[name], expected[name], strict=True)
            assert all(one == (None if other is None else pytest.approx(other, abs=1e-12)) for one, other in pairs), name
        else:
            assert found[name].to_list() == expected[name].to_list(), name


def test_the_export_is_of_this_cohort_alone(arena: Arena, exported: dict[str, pl.DataFrame]) -> None:
    assert exported["agents"]["agent_id"].to_list() == [
        f"{WEEK}/{name}" for name in ("calibrated", "favourite", "hold", "malformed", "proportional", "random")
    ]
    assert exported["decisions"].height == 12
    assert exported["universe"]["week"].unique().sort().to_list() == [WEEK, WEEK + timedelta(days=7)]
    assert set(exported["evidence"]["market_id"]) <= set(exported["trades"]["market_id"])
    assert arena.read(tables.DECISIONS).height == 18


def test_prompts_and_answers_are_in_it_in_order_unless_left_out(arena: Arena, exported: dict[str, pl.DataFrame]) -> None:
    mine = exported["messages"].filter(decision_id=f"{WEEK}/calibrated/{WEEK}")
    assert mine["role"].to_list() == ["system", "user", "assistant"]
    assert mine["number"].to_list() == [1, 2, 3]
    assert "market_id" in mine["content"][1]
    assert mine["content"][2].startswith("{")
    assert "messages" not in build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK)


def test_a_cell_that_is_a_formula_is_text_in_csv_and_as_it_was_in_parquet(exported: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    evil = {**exported, "decisions": exported["decisions"].with_columns(reasoning=pl.lit('=HYPERLINK("http://x")'))}
    folder = export_cohort(evil, WEEK, tmp_path / "cohort")
    assert pl.read_parquet(folder / "data" / "decisions.parquet")["reasoning"][0].startswith("=")
    for file in (folder / "csv").iterdir():
        rows = pl.read_csv(file, infer_schema=False)
        texts = [name for name, dtype in pl.read_parquet(folder / "data" / f"{file.stem}.parquet").schema.items() if dtype == pl.String]
        for name in texts:
            assert not rows[name].str.contains(r"^[=+\-@\t\r]").any(), (file.stem, name)
        assert rows.height == evil[file.stem].height


def test_a_zip_holds_the_same_files(exported: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "photo").write_text("mine")
    folder, file = export_cohort(exported, WEEK, tmp_path / "a"), export_cohort(exported, WEEK, tmp_path / "b.zip")
    assert sorted(tmp_path.iterdir()) == [folder, tmp_path / "b", file]
    assert (tmp_path / "b" / "photo").is_file()
    with zipfile.ZipFile(file) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        assert names == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert archive.read(CARD) == (folder / CARD).read_bytes()


def test_the_card_describes_every_table_and_column(exported: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    text = (export_cohort(exported, WEEK, tmp_path / "cohort") / CARD).read_text()
    assert MARK in text
    assert "; reconstructed" in text
    for name, rows in exported.items():
        part = text.split(f"## {name}\n")[1].split("\n## ")[0]
        assert f" {rows.height} rows." in part
        assert all(f"| {column} |" in part for column in rows.columns)


def secrets() -> Iterator[str]:
    yield "sk-ant-api03-" + "a" * 80
    yield "sk-proj-" + "b" * 60


def test_a_key_that_a_model_repeats_is_not_exported(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:

    for secret in secrets():
        messages = [{"role": "user", "content": f"my key is {secret}"}]
        monkeypatch.setattr(export, "load_record", lambda *asked, said=messages: _with(asked, DecisionPlan, messages=said))
        with arena.journal() as journal:
            rows = build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK, journal)["messages"]
        assert not rows["content"].str.contains(secret, literal=True).any()


def keyed(decision: Decision, secret: str) -> Decision:
    return replace(decision, reasoning=f'Line one\n{secret}, "Bearer {secret}"', message=f"saw {secret}")


def test_a_key_in_a_models_reasoning_is_in_no_row_of_the_week_and_what_was_decided_stays(arena: Arena) -> None:
    secret = next(secrets())
    done = arena.decide(WEEK)
    told = [
        (task, replace(one, intent=one.intent and replace(one.intent, decision=keyed(one.intent.decision, secret))))
        for task, one in done.decisions
    ]
    with arena.journal() as journal:
        world = arena.world(journal)
        kept, found = (build_decisions_rows(world, one)[0] for one in (done, replace(done, decisions=told)))
    assert secret not in str(found.rows())
    texts = ("decision", "reasoning", "message")
    assert found.drop(texts).equals(kept.drop(texts))
    for mine, before in zip(found["decision"], kept["decision"], strict=True):
        if mine is not None:
            said = json.loads(mine)
            assert "***" in said.pop("reasoning")
            assert said == {name: value for name, value in json.loads(before).items() if name != "reasoning"}


def test_a_key_that_stored_rows_have_is_neither_exported_nor_explained(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, facts = next(secrets()), Facts.load(arena.lake)
    decisions = facts.decisions.with_columns(
        reasoning=pl.lit(secret), decision=pl.lit(json.dumps({"action": "HOLD", "reasoning": f"a\n{secret}"}))
    )
    refusals = pl.concat([facts.refusals, tables.REFUSALS.frame([_refusal(facts.decisions["decision_id"][0], secret)])])
    monkeypatch.setattr(Facts, "load", lambda _: replace(facts, decisions=decisions, refusals=refusals))
    made = build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK)
    assert made["refusals"]["message"].str.contains("saw ***", literal=True).any()
    assert all(secret not in str(frame.rows()) for frame in made.values())
    name = f"{WEEK}/calibrated/{WEEK}"
    said = keyed(Decision(Action.HOLD), secret)
    monkeypatch.setattr(queries, "stored_record", lambda *asked: _with(asked, Intent, decision=said))
    with arena.journal() as journal:
        explained = queries.explain_decision(
            journal, lambda one: refusals if one is tables.REFUSALS else arena.read(one), arena.world(journal), name
        )
    assert secret not in str(explained)
    assert explained.intent is not None
    assert "***" in explained.intent.decision.to_json()


def _with(asked: Any, kind: type, **changes: object) -> Any:
    """Return the stored record with other fields if it is of this kind."""
    found: Any = load_record(*asked)
    return replace(found, **changes) if asked[1] is kind else found


def _refusal(decision: str, secret: str) -> dict[str, object]:
    at = datetime(2026, 4, 19, 1, tzinfo=UTC)
    return {"week": WEEK, "decision_id": decision, "leg": 9, "reason": "market unknown", "message": f"saw {secret}", "known_at": at}


def test_a_cohort_that_is_not_there_and_a_folder_of_others_are_refused(
    arena: Arena, exported: dict[str, pl.DataFrame], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no cohort started"):
        build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK - timedelta(days=7))
    (tmp_path / "photos").mkdir()
    with pytest.raises(ConfigError, match="other files"):
        export_cohort(exported, WEEK, tmp_path / "photos")
    again = export_cohort(exported, WEEK, tmp_path / "cohort")
    assert export_cohort(exported, WEEK, tmp_path / "cohort") == again


def test_releases_are_told_as_they_were_known(arena: Arena) -> None:
    def told(at: datetime) -> list[tuple[object, ...]]:
        read = read_tables_as_known(arena.lake, methodologies(arena.registry), {}, at, load_registered_families(arena.registry))
        return read(RELEASES).select("family", "first_cohort", "last_cohort", "cohorts").rows()

    second = WEEK + timedelta(days=7)
    one, both = (told(datetime.combine(day, datetime.min.time(), UTC)) for day in (second, second + timedelta(days=7)))
    assert one == [(name, WEEK, WEEK, 1) for name in ("calibrated", "malformed")]
    assert both == [(name, WEEK, second, 2) for name in ("calibrated", "malformed")]
