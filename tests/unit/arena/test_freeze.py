"""A cohort keeps its families, releases and prices. Changes of the registry apply to later cohorts, and appear as a new release of the
family.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from click.testing import CliRunner

from assets.arena import runs
from assets.arena.assets import _make_weeks
from bellwether.arena.lineup import Terms, build_release_rows, current_terms, load_lineup, load_registered_families
from bellwether.arena.prompt import FIRST_VERSION
from bellwether.arena.records import FrozenCohort, decode_record, encode_record, store_once
from bellwether.arena.weekly.context import build_cohort, freeze_cohort, list_deciding_cohorts, load_cohort
from bellwether.errors import ConfigError, LakeError
from bellwether.models.registry import models
from bellwether.tables import arena as tables
from cli import arena as commands
from tests.arena.test_queries import _row as row_of
from tests.arena.weeks import SEVEN, WEEK, Arena

MODELS = '[third]\nmodel = "sandbox/noisy"\nworlds = ["sandbox"]\n\n[first]\nmodel = "sandbox/contrarian"\nworlds = ["sandbox"]\n\n[second]\nmodel = "sandbox/overconfident"\nworlds = ["sandbox"]\n'
FIRST = '[rising]\ntitle = "Rising"\n[rising.releases.first]\nreleased = 2026-01-01\ninput_price = 2\noutput_price = 4\n'
BOTH = FIRST.replace("= 4", "= 40") + "[rising.releases.second]\nreleased = 2026-04-20\ninput_price = 3\noutput_price = 6\n"
#: A family that keeps its release when its price changes.
STEADY = '[steady]\ntitle = "Steady"\n[steady.releases.third]\nreleased = 2026-01-01\ninput_price = {}\noutput_price = 8\n'
LINEUP = '[pair]\ntitle = "t"\nmethodology = "small"\nworlds = ["sandbox"]\n[pair.families]\ncalibrated = "sandbox-calibrated"\nsteady = "third"\nrising = "{}"\n'


def _register(folder: Path, release: str, competing: str, known: str = MODELS) -> None:
    for name, text in (("models.toml", known), ("families.toml", competing), ("lineups.toml", LINEUP.format(release))):
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    """A week with the first release. Afterwards its price and model change, and the lineup gets a second release."""
    arena = Arena(tmp_path_factory.mktemp("arena"), lineup="pair")
    _register(arena.registry, "first", FIRST + STEADY.format(5))
    arena.decide(WEEK)
    _register(arena.registry, "second", BOTH + STEADY.format(7), MODELS.replace("contrarian", "slow"))
    arena.decide(WEEK + SEVEN)
    return arena


def test_a_cohort_keeps_its_release_and_prices_and_the_next_one_has_the_new_ones(upgraded: Arena) -> None:
    rows = upgraded.read(tables.AGENTS).filter(pl.col("family") == "rising").sort("week")
    assert rows["model"].to_list() == ["first", "second"]
    assert rows["model_id"].to_list() == ["sandbox/contrarian", "sandbox/overconfident"]
    assert rows.select("input_price", "output_price").rows() == [(Decimal(2), Decimal(4)), (Decimal(3), Decimal(6))]


def test_calls_of_the_old_cohort_go_to_its_model_at_its_prices(upgraded: Arena) -> None:
    with upgraded.journal() as journal:
        attempts = journal.export()["attempts"].filter(pl.col("purpose") == "arena/decisions")
    made = {row["scope"]: row for row in attempts.iter_rows(named=True)}
    later = WEEK + SEVEN
    assert made[f"{WEEK}/rising/{later}"]["model"] == made[f"{WEEK}/rising/{WEEK}"]["model"] == "sandbox/contrarian"
    assert made[f"{later}/rising/{later}"]["model"] == "sandbox/overconfident"
    rising = {f"{WEEK}/rising/{later}": (2, 4), f"{later}/rising/{later}": (3, 6)}
    steady = {f"{WEEK}/steady/{later}": (5, 8), f"{later}/steady/{later}": (7, 8)}
    for scope, (put_in, out) in {**rising, **steady}.items():
        one = made[scope]
        assert one["cost_microdollars"] == one["prompt_tokens"] * put_in + one["completion_tokens"] * out > 0


def test_releases_are_told_by_the_cohorts_that_used_them(upgraded: Arena) -> None:
    found = build_release_rows(upgraded.read(tables.AGENTS), load_registered_families(upgraded.registry)).filter(
        pl.col("family") == "rising"
    )
    columns = ("title", "model", "released", "first_cohort", "last_cohort", "cohorts", "previous", "input_price")
    assert found.select(columns).rows() == [
        ("Rising", "first", date(2026, 1, 1), WEEK, WEEK, 1, None, Decimal(2)),
        ("Rising", "second", date(2026, 4, 20), WEEK + SEVEN, WEEK + SEVEN, 1, "first", Decimal(3)),
    ]


def test_a_running_cohort_keeps_its_lineup_when_another_is_asked_for(upgraded: Arena) -> None:
    upgraded.lineup = "few"
    (upgraded.registry / "lineups.toml").write_text('[few]\ntitle = "t"\nmethodology = "small"\n[few.families]\nhold = "rule/hold"\n')
    with upgraded.journal() as journal:
        world = upgraded.world(journal)
        cohorts = list_deciding_cohorts(world, WEEK + SEVEN, reconstructed=True)
        assert [(one.lineup, one.members["rising"]) for one in cohorts] == [("pair", "second"), ("pair", "first")]


def test_running_a_week_with_another_lineup_than_its_cohort_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tables.AGENTS.frame([row_of("arena/agents", week=WEEK, agent_id=f"{WEEK}/f", lineup="pair")])
    monkeypatch.setattr(commands, "open_table_reader", lambda known_at: lambda table: rows)
    found = CliRunner().invoke(commands.arena, ["run", "--week", str(WEEK), "--lineup", "rules"])
    assert found.exit_code == 2
    assert f"the cohort {WEEK} keeps the lineup pair" in " ".join(found.output.replace("│", " ").split())


def test_agents_of_an_older_version_are_made_again_from_the_journal(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="few")
    older = replace(tables.AGENTS, version="2")
    names = [str(WEEK), str(WEEK + SEVEN)]
    with arena.journal() as journal:
        world = arena.world(journal)
        for name in names:
            freeze_cohort(world, date.fromisoformat(name), reconstructed=True)
            arena.lake.write(older, (name,), older.empty(), run_id="r")
        with pytest.raises(LakeError, match="written by version 2"):
            arena.read(tables.AGENTS)
        launched: list[dict[str, object]] = []
        work = SimpleNamespace(lake=arena.lake, launch=lambda job, label, **more: launched.append({"job": job.name, **more}))
        runs.upgrade_agents(work)  # type: ignore[arg-type]
        assert [(one["job"], one["partitions"]) for one in launched] == [("arena_agents", names)]
        for name, made, _ in _make_weeks(world, names, {"agents"}, forced=True, polled=()):
            arena.lake.write(tables.AGENTS, (name,), made["agents"], run_id="r")
    assert arena.read(tables.AGENTS)["week"].unique().len() == 2
    launched.clear()
    runs.upgrade_agents(work)  # type: ignore[arg-type]
    assert launched == []


def test_a_cohort_without_terms_is_read_as_it_was_stored(upgraded: Arena) -> None:
    with upgraded.journal() as journal:
        stored = load_cohort(upgraded.world(journal).records, WEEK)
    assert stored is not None
    assert decode_record(FrozenCohort, encode_record(stored)) == stored
    older = encode_record(stored).replace(b'"terms"', b'"terms_of_later"').split(b',"terms_of_later"')[0] + b',"week":"2026-04-19"}'
    assert decode_record(FrozenCohort, older).terms == {}
    assert decode_record(FrozenCohort, older).members == stored.members


def test_a_price_of_the_map_is_frozen_to_be_read_and_calls_keep_the_map(tmp_path: Path) -> None:
    (tmp_path / "lineups.toml").write_text('[mine]\ntitle = "t"\n[mine.families]\ngpt = "gpt-5.2"\ncontrol = "gpt-4o-mini"\n')
    terms = current_terms(load_lineup("mine", tmp_path), tmp_path)["gpt"]
    assert (terms.model_id, terms.input_price, terms.output_price) == ("openai/gpt-5.2", Decimal("1.75"), Decimal(14))
    assert terms.price_list.startswith("litellm")
    known = models(tmp_path)["gpt-5.2"]
    assert terms.apply_to(known) == known
    assert decode_record(Terms, encode_record(terms)) == terms


RELEASED = "released = 2026-01-01\n"
LINE = '[mine]\ntitle = "t"\n[mine.families]\n'


@pytest.mark.parametrize(
    ("competing", "lined", "said"),
    [
        ("", f'{LINE}gpt = "gpt-5.2"\n', r"lineups.toml: \[mine\] families = .*compete without a control.*control = \"gpt-4o-mini\""),
        (
            "",
            f'{LINE}gpt = "claude-opus-4.5"\ncontrol = "gpt-4o-mini"\n',
            r"families.gpt = 'claude-opus-4.5': is a release of the family claude-opus",
        ),
        (
            "",
            f'{LINE}gpt = "gpt-5.1-high"\ncontrol = "gpt-4o-mini"\n',
            r"families.gpt = 'gpt-5.1-high': is not a release of gpt; its releases are gpt-5.1, gpt-5.2",
        ),
        ("", f'{LINE}o = "o1-mini"\ncontrol = "gpt-4o-mini"\n', r"families.o = 'o1-mini': o1-mini has no known price"),
        ("", f'{LINE}hold = "gpt-5.2"\n', "hold is 'gpt-5.2', but the rule hold competes under this name"),
        ("", f'{LINE}gpt = "gpt-5.1"\ngpt = "gpt-5.2"\n', r'lineups.toml: \[mine.families\] gpt = "gpt-5.2" \(line 5\): is given twice'),
        (f"[o.releases.o1-mini]\n{RELEASED}", "", r"families.toml: \[o\] title: is missing"),
        (
            f'[o]\ntitle = "t"\n[o.releases.o1-mini]\n{RELEASED}',
            f'{LINE}o = "o1-mini"\ncontrol = "gpt-4o-mini"\n',
            r"families.o = 'o1-mini': o1-mini has no known price; set input_price and output_price in .o.releases.\"o1-mini\". of families.toml",
        ),
        (f'[o]\ntitle = "t"\n[o.releases.o1]\n{RELEASED}input_price = 1\n', "", r"\[o\] releases.o1 = .*: output_price is missing"),
        (f'[o]\ntitle = "t"\n[o.releases.o1]\n{RELEASED}input_price = -1\noutput_price = 1\n', "", r"releases.o1.input_price = -1: "),
        ('[o]\ntitle = "t"\n[o.releases.o1]\nreleased = "2026"\n', "", r"releases.o1.released = '2026': must be a date"),
        ('[o]\ntitle = "t"\n[o.releases.o1]\n', "", r"releases.o1.released: is missing"),
        (f'[o]\ntitle = "t"\n[o.releases.o9]\n{RELEASED}', "", r"releases.o9 = .*: no model has this name"),
        (f'[o]\ntitle = "t"\n[o.releases."gpt-5.2"]\n{RELEASED}', "", r"releases.gpt-5.2 = .*: is a release of the family gpt"),
        (f'[gpt.releases."gpt-5.2"]\n{RELEASED}', "", r"\[gpt\] releases.gpt-5.2 = .*: is already a release in .*families.toml"),
        (f'[gpt]\ntitle = "t"\n[gpt.releases.gpt-4o]\n{RELEASED}', "", r"\[gpt\] title = 't': the family is already defined"),
        (f"[control.releases.o1]\n{RELEASED}", "", r"\[control\] entry: a control has exactly one release; this one has gpt-4o-mini, o1"),
        (f'[o]\ntitle = "t"\nhas = ["o"]\n[o.releases.o1]\n{RELEASED}', "", "provider and has belong together"),
    ],
)
def test_what_is_wrong_is_refused_by_file_field_and_value(tmp_path: Path, competing: str, lined: str, said: str) -> None:
    (tmp_path / "families.toml").write_text(competing)
    (tmp_path / "lineups.toml").write_text(lined)
    with pytest.raises(ConfigError, match=said):
        load_lineup("mine", tmp_path)


def test_releases_of_live_and_reconstructed_cohorts_are_apart_and_rules_have_none() -> None:
    def agent(week: date, model: str, *, reconstructed: bool) -> dict[str, object]:
        return row_of("arena/agents", week=week, agent_id=f"{week}/f", family="f", model=model, reconstructed=reconstructed)

    rows = [
        agent(WEEK, "a", reconstructed=True),
        agent(WEEK + SEVEN, "b", reconstructed=False),
        agent(WEEK, "rule/hold", reconstructed=False),
    ]
    found = build_release_rows(tables.AGENTS.frame(rows), {})
    assert found.select("reconstructed", "model", "previous", "title").rows() == [(False, "b", None, "f"), (True, "a", None, "f")]
    assert build_release_rows(tables.AGENTS.empty(), {}).is_empty()


def test_decisions_name_the_version_of_the_prompt_that_their_cohort_keeps(tmp_path: Path) -> None:
    arena = Arena(tmp_path, lineup="few")
    with arena.journal() as journal:
        world = arena.world(journal)
        older = replace(build_cohort(world, WEEK, reconstructed=True), prompt=FIRST_VERSION)
        store_once(world.records, FrozenCohort, WEEK.isoformat(), lambda: older)
    arena.decide(WEEK)
    assert arena.read(tables.DECISIONS)["prompt_version"].unique().to_list() == [FIRST_VERSION]
