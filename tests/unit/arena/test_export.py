"""An exported cohort is self-contained: its leaderboard follows from its other files, and no cell is a formula or a secret."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from bellwether.arena.decision import Decision
from bellwether.arena.export import CARD, MARK, build_cohort_tables, export_cohort
from bellwether.arena.methodology import methodologies
from bellwether.arena.results import Facts
from bellwether.arena.weekly import queries
from bellwether.arena.weekly.rows import build_decisions_rows, build_messages_rows
from bellwether.errors import ConfigError
from bellwether.tables import arena as tables
from tests.unit.arena.weeks import SEVEN, WEEK, Arena


def resolved_weeks(folder: Path, cohorts: int = 1) -> Arena:
    """Return an arena with one or two cohorts of models and rules whose markets are resolved."""
    arena = Arena(folder)
    for number in range(cohorts + 1):
        week = WEEK + number * SEVEN
        if number < cohorts:
            arena.decide(week)
        arena.evidence(week)
    return arena


def export(arena: Arena) -> dict[str, pl.DataFrame]:
    return build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK)


#: Query that computes the leaderboard of an exported cohort from its facts and ledger.
LEADERBOARD = Path(__file__).parent / "arena_leaderboard.sql"


def query_leaderboard(folder: Path) -> pl.DataFrame:
    """Compute the leaderboard from the other files of the export."""
    text = LEADERBOARD.read_text().replace("'data/", f"'{folder}/data/")
    return duckdb.sql(text).pl()


def test_one_query_over_the_export_of_a_cohort_gives_its_leaderboard(tmp_path: Path) -> None:
    """Recomputes every published column from the facts and the tables computed from them. The other cohort is left out."""
    arena = resolved_weeks(tmp_path / "home", 2)
    exported = export(arena)
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
    families = ("favourite", "hold", "mute", "oracle", "proportional", "random")
    assert exported["agents"]["agent_id"].to_list() == [f"{WEEK}/{name}" for name in families]
    assert (exported["decisions"].height, arena.read(tables.DECISIONS).height) == (12, 18)
    assert exported["universe"]["week"].unique().sort().to_list() == [WEEK, WEEK + SEVEN]
    assert set(exported["evidence"]["market_id"]) <= set(exported["trades"]["market_id"])


def test_prompts_and_answers_are_in_it_in_order_unless_left_out(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    arena.decide()
    mine = export(arena)["messages"].filter(decision_id=f"{WEEK}/oracle/{WEEK}")
    assert mine.select("role", "number").rows() == [("system", 1), ("user", 2), ("assistant", 3)]
    assert "market_id" in mine["content"][1]
    assert mine["content"][2].startswith("{")
    with pytest.raises(ConfigError):
        build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK - SEVEN)


def test_files_of_an_export_have_no_formulas_and_are_described_and_packed(tmp_path: Path) -> None:
    exported = export(resolved_weeks(tmp_path / "home"))
    exported["decisions"] = exported["decisions"].with_columns(reasoning=pl.lit('=HYPERLINK("http://x")'))
    folder = export_cohort(exported, WEEK, tmp_path / "a")
    assert pl.read_parquet(folder / "data" / "decisions.parquet")["reasoning"][0].startswith("=")
    for file in (folder / "csv").iterdir():
        rows = pl.read_csv(file, infer_schema=False)
        texts = [name for name, dtype in pl.read_parquet(folder / "data" / f"{file.stem}.parquet").schema.items() if dtype == pl.String]
        for name in texts:
            assert not rows[name].str.contains(r"^[=+\-@\t\r]").any(), (file.stem, name)
        assert rows.height == exported[file.stem].height

    card = (folder / CARD).read_text()
    assert MARK in card
    assert "; reconstructed" in card
    for name, rows in exported.items():
        part = card.split(f"## {name}\n")[1].split("\n## ")[0]
        assert f" {rows.height} rows." in part
        assert all(f"| {column} |" in part for column in rows.columns)

    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "photo").write_text("mine")
    file = export_cohort(exported, WEEK, tmp_path / "b.zip")
    with zipfile.ZipFile(file) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        assert names == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert archive.read(CARD) == (folder / CARD).read_bytes()
    assert (tmp_path / "b" / "photo").is_file()
    with pytest.raises(ConfigError):
        export_cohort(exported, WEEK, tmp_path / "b")
    assert export_cohort(exported, WEEK, tmp_path / "a") == folder, "an earlier export is replaced"


SECRETS = ("sk-ant-api03-" + "a" * 80, "sk-proj-" + "b" * 60)


def keyed(decision: Decision, secret: str) -> Decision:
    return replace(decision, reasoning=f'Line one\n{secret}, "Bearer {secret}"', message=f"saw {secret}")


def test_a_key_that_a_model_repeats_is_not_stored(tmp_path: Path) -> None:
    """What was decided stays, and so do the other columns."""
    arena, secret = Arena(tmp_path), SECRETS[0]
    done = arena.decide()
    repeated = [
        (task, replace(one, intent=one.intent and replace(one.intent, decision=keyed(one.intent.decision, secret))))
        for task, one in done.decisions
    ]
    with arena.journal() as journal:
        world = arena.world(journal)
        kept, found = (build_decisions_rows(world, one)[0] for one in (done, replace(done, decisions=repeated)))
    assert secret not in str(found.rows())
    texts = ("decision", "reasoning", "message")
    assert found.drop(texts).equals(kept.drop(texts))
    for mine, before in zip(found["decision"], kept["decision"], strict=True):
        decision = json.loads(mine)
        assert "***" in decision.pop("reasoning")
        assert decision == {name: value for name, value in json.loads(before).items() if name != "reasoning"}
    for secret in SECRETS:
        messages = [{"role": "user", "content": f"my key is {secret}"}]
        told = [(task, replace(one, plan=one.plan and replace(one.plan, messages=messages))) for task, one in done.decisions]
        with arena.journal() as journal:
            world = arena.world(journal)
            rows = build_messages_rows(world, replace(done, decisions=told), *build_decisions_rows(world, done))
        assert rows.filter(role="user")["content"].unique().to_list() == ["my key is ***"]


def test_a_key_in_stored_rows_is_neither_exported_nor_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arena = Arena(tmp_path)
    arena.decide()
    secret, facts = SECRETS[0], Facts.load(arena.lake)
    decisions = facts.decisions.with_columns(
        reasoning=pl.lit(secret), decision=pl.lit(json.dumps({"action": "HOLD", "reasoning": f"a\n{secret}"}))
    )
    refusal = {
        "week": WEEK,
        "decision_id": facts.decisions["decision_id"][0],
        "leg": 9,
        "reason": "market unknown",
        "message": f"saw {secret}",
    }
    refusals = tables.REFUSALS.frame([{**refusal, "known_at": datetime(2026, 4, 19, 1, tzinfo=UTC)}])
    monkeypatch.setattr(Facts, "load", lambda _: replace(facts, decisions=decisions, refusals=refusals))
    made = build_cohort_tables(arena.lake, methodologies(arena.registry), WEEK)
    assert made["refusals"]["message"].to_list() == ["saw ***"]
    assert all(secret not in str(frame.rows()) for frame in made.values())
    stored = {tables.REFUSALS.name: refusals, tables.DECISIONS.name: decisions}
    explained = queries.explain_decision(lambda one: stored.get(one.name, arena.read(one)), f"{WEEK}/oracle/{WEEK}")
    assert secret not in str({name: frame.rows() for name, frame in explained.items()})
    assert explained["decision"]["reasoning"].to_list() == ["***"]
