"""Methodologies, lineups, rule agents and cohorts. A cohort keeps its families, releases and prices; changes of the registry apply to later cohorts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.as_known import read_as_known
from bellwether.arena.decision import Action
from bellwether.arena.lineup import Lineup, Terms, build_release_rows, current_terms, load_lineup, load_registered_families, rule_name
from bellwether.arena.market import Market
from bellwether.arena.methodology import load_methodology, methodologies
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.records import FrozenCohort, decode_record, encode_record
from bellwether.arena.rule_agents import RULES, answer_by_rule
from bellwether.arena.weekly.context import list_deciding_cohorts, load_cohort
from bellwether.errors import ConfigError
from bellwether.models.model import models
from bellwether.settings import World
from bellwether.tables import arena as tables
from bellwether.tables.arena_rankings import RELEASES
from tests.unit.arena.weeks import REGISTRY, SEVEN, WEEK, Arena
from tests.unit.arena.world import V1, V2, binary, named, row_of, usd

#: Prices in dollars per million tokens; those of `first` and `third` change.
MODELS, LATER = (
    "".join(
        f'[{name}]\nmodel = "acme/{name}"\ninput_price = {prompt}\noutput_price = {answer}\n\n'
        for name, prompt, answer in (("first", 2, first), ("second", 3, 6), ("third", third, 8))
    )
    + REGISTRY["models.toml"]
    for first, third in ((4, 5), (40, 7))
)
FIRST = '[rising]\ntitle = "Rising"\n[rising.releases]\nfirst = 2026-01-01\n'
#: A family that keeps its release when its price changes.
STEADY = '[steady]\ntitle = "Steady"\n[steady.releases]\nthird = 2026-01-01\n'
LINEUP = '[pair]\ntitle = "t"\nmethodology = "small"\n[pair.families]\nmute = "mute"\nsteady = "third"\nrising = "{}"\n'


def _register(folder: Path, release: str, competing: str, known: str = MODELS) -> None:
    families = REGISTRY["families.toml"] + competing
    for name, text in (("models.toml", known), ("families.toml", families), ("lineups.toml", LINEUP.format(release))):
        (folder / name).write_text(text)


def test_a_cohort_keeps_its_release_and_prices_and_the_next_one_has_the_new_ones(tmp_path: Path) -> None:
    """After the first week, the release's price and model change, and the lineup gets a second release."""
    arena, later = Arena(tmp_path, lineup="pair"), WEEK + SEVEN
    _register(arena.registry, "first", FIRST + STEADY)
    arena.decide(WEEK)
    _register(arena.registry, "second", f"{FIRST}second = 2026-04-20\n{STEADY}", LATER.replace("acme/first", "acme/renamed"))
    arena.decide(later)

    rows = arena.read(tables.AGENTS).filter(pl.col("family") == "rising").sort("week")
    assert rows.select("model", "model_id", "input_price", "output_price").rows() == [
        ("first", "acme/first", Decimal(2), Decimal(4)),
        ("second", "acme/second", Decimal(3), Decimal(6)),
    ]
    with arena.journal() as journal:
        attempts = journal.export()["attempts"].filter(pl.col("purpose") == "arena/decisions")
        stored = load_cohort(arena.world(journal).records, WEEK)
    made = {row["scope"]: row["model"] for row in attempts.iter_rows(named=True)}
    assert made[f"{WEEK}/rising/{later}"] == made[f"{WEEK}/rising/{WEEK}"] == "acme/first"
    assert made[f"{later}/rising/{later}"] == "acme/second"
    priced = {scope: (float(entry.input_price or 0), float(entry.output_price or 0)) for scope, entry in arena.entries.items()}
    rising = {f"{WEEK}/rising/{later}": (2, 4), f"{later}/rising/{later}": (3, 6)}
    steady = {f"{WEEK}/steady/{later}": (5, 8), f"{later}/steady/{later}": (7, 8)}
    assert {scope: priced[scope] for scope in rising | steady} == rising | steady
    assert stored is not None
    assert decode_record(FrozenCohort, encode_record(stored)) == stored

    releases = build_release_rows(arena.read(tables.AGENTS), load_registered_families(arena.registry)).filter(family="rising")
    columns = ("title", "model", "released", "first_cohort", "last_cohort", "cohorts", "previous", "input_price")
    assert releases.select(columns).rows() == [
        ("Rising", "first", date(2026, 1, 1), WEEK, WEEK, 1, None, Decimal(2)),
        ("Rising", "second", date(2026, 4, 20), later, later, 1, "first", Decimal(3)),
    ]
    known_at = datetime.combine(later, time(), UTC)
    read = read_as_known(arena.lake, methodologies(arena.registry), known_at, families=load_registered_families(arena.registry))
    assert read(RELEASES).filter(family="steady").select("cohorts", "last_cohort").rows() == [(1, WEEK)]

    arena.lineup = "few"
    (arena.registry / "lineups.toml").write_text('[few]\ntitle = "t"\nmethodology = "small"\n[few.families]\nhold = "rule/hold"\n')
    with arena.journal() as journal:
        deciding = list_deciding_cohorts(arena.world(journal), later, reconstructed=True)
    assert [(one.lineup, one.members["rising"]) for one in deciding] == [("pair", "second"), ("pair", "first")]


def test_a_price_of_the_map_is_frozen_to_be_read_and_calls_keep_the_map(tmp_path: Path) -> None:
    (tmp_path / "lineups.toml").write_text('[mine]\ntitle = "t"\n[mine.families]\ngpt = "gpt-5.2"\ncontrol = "gpt-4o-mini"\n')
    terms = current_terms(load_lineup("mine", tmp_path), tmp_path)["gpt"]
    assert (terms.model_id, terms.input_price, terms.output_price) == ("openai/gpt-5.2", Decimal("1.75"), Decimal(14))
    assert terms.price_list.startswith("litellm")
    known = models(tmp_path)["gpt-5.2"]
    assert terms.apply_to(known) == known
    assert decode_record(Terms, encode_record(terms)) == terms


LINE = '[mine]\ntitle = "t"\n[mine.families]\n'


def test_invalid_families_and_lineups_are_refused_by_file_field_and_value(tmp_path: Path) -> None:
    for competing, lined, message in [
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
        ("[o.releases]\no1-mini = 2026-01-01\n", "", r"families.toml: \[o\] title: is missing"),
        (
            '[o]\ntitle = "t"\n[o.releases]\no1-mini = 2026-01-01\n',
            f'{LINE}o = "o1-mini"\ncontrol = "gpt-4o-mini"\n',
            r"families.o = 'o1-mini': o1-mini has no known price; set input_price and output_price in models.toml",
        ),
        ('[o]\ntitle = "t"\n[o.releases]\no1 = "2026"\n', "", r"releases.o1 = '2026': .*valid date"),
        ('[o]\ntitle = "t"\n[o.releases]\no9 = 2026-01-01\n', "", r"releases.o9 = .*: no model has this name"),
        ('[o]\ntitle = "t"\n[o.releases]\n"gpt-5.2" = 2026-01-01\n', "", r"releases.gpt-5.2 = .*: is a release of the family gpt"),
        ('[gpt.releases]\n"gpt-5.2" = 2026-01-01\n', "", r"\[gpt\] releases.gpt-5.2 = .*: is already a release in .*families.toml"),
        ('[gpt]\ntitle = "t"\n[gpt.releases]\ngpt-4o = 2026-01-01\n', "", r"\[gpt\] title = 't': the family is already defined"),
        (
            "[control.releases]\no1 = 2026-01-01\n",
            "",
            r"\[control\] entry: a control has exactly one release; this one has gpt-4o-mini, o1",
        ),
    ]:
        (tmp_path / "families.toml").write_text(competing)
        (tmp_path / "lineups.toml").write_text(lined)
        with pytest.raises(ConfigError, match=message):
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


# --- methodologies, lineups and rules -----------------------------------------------------------------------------------


def test_the_constants_of_the_seed() -> None:
    v1 = load_methodology()
    assert (v1.name, v1.cash, v1.smallest_bet, v1.largest_bet(usd(10_000))) == ("v1", usd(10_000), usd(50), usd(2_500))
    assert (v1.universe, v1.decision_cohorts, v1.mark_minutes, v1.fill, v1.limit) == (500, 5, 10, "mid", "bet")
    assert (v1.temperature, v1.max_tokens, v1.timeout_seconds, v1.malformed_retries) == (0, 16_000, 40, 1)
    assert (v1.unknown_winner, v1.primary) == ("refund", ("brier_size", "return"))


def test_what_differs_between_the_methodologies() -> None:
    v1, v2 = load_methodology("v1"), load_methodology("v2")
    own = {"limit": "decision", "unknown_winner": "defer", "primary": ("return",), "fill": "realistic", "fees": "venue"}
    assert v1.model_copy(update={**own, "share_step": Decimal("0.01"), "name": "v2", "title": v2.title}) == v2
    for name, rules in (("v1-kalshi", v1), ("v2-kalshi", v2)):
        variant = load_methodology(name)
        assert rules.model_copy(update={"venue": "kalshi", "name": name, "title": variant.title}) == variant
    assert set(methodologies()) == {"v1", "v1-kalshi", "v2", "v2-kalshi"}


def test_an_invalid_entry_is_named_with_file_field_and_value(tmp_path: Path) -> None:
    for text, parts in [
        ('[x]\nlike = "v1"\nbet_fraction = "1.5"', ("[x]", "bet_fraction = '1.5'", "methodologies.toml")),
        ('[x]\nlike = "v1"\nfill = "best"', ("fill = 'best'", "mid")),
        ('[x]\nlike = "v3"', ("like = 'v3'", "unknown methodology")),
        ('[x]\nlike = "y"\n[y]\nlike = "x"', ("is circular",)),
        ('[x]\nlike = "v1"\nminimum_bet = 5000', ("no bet is possible",)),
        ('[x]\nlike = "v1"\nmark_minutes = 7', ("is not a divisor of 60",)),
        ('[x]\nlike = "v1"\ninitial_cash = nan', ("initial_cash",)),
        ('[v1]\ntitle = "t"', ("already defined",)),
    ]:
        (tmp_path / "methodologies.toml").write_text(text)
        with pytest.raises(ConfigError) as error:
            methodologies(tmp_path)
        assert all(part in str(error.value) for part in parts), error.value


def test_limits_are_cut_and_never_rounded_up() -> None:
    v1 = load_methodology()
    assert v1.largest_bet(usd("9999.99")) == usd("2499.9975")
    assert v1.printed_largest_bet(usd("9999.99")) == usd("2499.99")
    assert (v1.largest_bet(3), v1.largest_bet(-usd(5))) == (0, 0)


#: `gpt` is the control family of these lineups.
FAMILIES = '[a]\ntitle = "t"\ncontrol = true\n[a.releases]\ngpt = 2026-01-01\n'


def _read(folder: Path, text: str, families: str = FAMILIES) -> Lineup:
    (folder / "lineups.toml").write_text(text, encoding="utf-8")
    (folder / "families.toml").write_text(families, encoding="utf-8")
    (folder / "models.toml").write_text('[gpt]\nmodel = "local/m"\n', encoding="utf-8")
    return load_lineup("mine", folder)


def test_the_built_in_lineups_can_be_used_where_they_say() -> None:
    assert load_lineup("rules").models == ()
    assert {rule_name(member) for member in load_lineup("rules").families.values()} == set(RULES)
    assert load_lineup("sandbox").worlds == (World.SANDBOX,)


def test_an_invalid_lineup_is_named_with_field_and_value(tmp_path: Path) -> None:
    for text, message in [
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gtp"\n', r"families.*unknown model 'gtp'.*did you mean gpt"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "rule/wait"\n', "unknown rule.*rule/hold"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gpt"\nb = "gpt"\n', "'gpt' represents two families"),
        ('[mine]\ntitle = "t"\n[mine.families]\n"A B" = "gpt"\n', "'A B' cannot be a family"),
        ('[mine]\ntitle = "t"\nmethodology = "v9"\n[mine.families]\na = "gpt"\n', "methodology = 'v9': unknown methodology"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "sandbox-calibrated"\n', "is not available in the world"),
        ('[rules]\ntitle = "t"\n[rules.families]\na = "gpt"\n', "already defined"),
    ]:
        with pytest.raises(ConfigError, match=message):
            _read(tmp_path, text)


def test_an_invalid_lineup_that_is_not_requested_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "lineups.toml").write_text('[mine]\ntitle = "t"\n[mine.families]\ncalibrated = "sandbox-calibrated"\n', encoding="utf-8")
    assert load_lineup("rules", tmp_path).models == ()
    with pytest.raises(ConfigError):
        load_lineup("mine", tmp_path)


MARKETS = [binary("a", "0.9"), binary("b", "0.3"), named({"X": "0.2", "Y": "0.79"}, "c"), binary("d", None), binary("e", "1")]


def _decided(rule: str, markets: list[Market], rules: object = V1, cash: str = "10000", key: str = "c/f/w") -> object:
    limits = Limits.of(rules, usd(cash))  # type: ignore[arg-type]
    return parse_decision(answer_by_rule(rule, markets, limits, key), limits)


def test_rules_give_decisions_that_are_accepted() -> None:
    for rule, rules, cash, markets in product(RULES, (V1, V2), ("10000", "9999.99", "200", "10", "0"), (MARKETS, MARKETS[3:4], [])):
        for key in ("c/f/1", "c/f/2", "c/f/3"):
            assert _decided(rule, markets, rules, cash, key).problem is None  # type: ignore[attr-defined]


def test_the_favourite_bets_on_the_dearest_sides_below_a_dollar() -> None:
    found = _decided("favourite", MARKETS)
    assert [(bet.market_id, bet.side, bet.amount) for bet in found.bets] == [  # type: ignore[attr-defined]
        ("a", "YES", usd("2500")),
        ("c", "Y", usd("2500")),
        ("b", "NO", usd("2500")),
    ]


def test_the_proportional_one_bets_as_much_as_the_market_believes() -> None:
    found = _decided("proportional", MARKETS)
    assert [(bet.market_id, bet.side, bet.amount, bet.probability) for bet in found.bets] == [  # type: ignore[attr-defined]
        ("a", "YES", usd("2250"), 0.9),
        ("b", "NO", usd("1750"), 0.7),
        ("c", "Y", usd("1975"), 0.79),
    ]


def test_the_random_one_draws_from_the_name_of_its_decision_alone() -> None:
    limits = Limits.of(V1, usd("10000"))
    one = answer_by_rule("random", MARKETS, limits, "c/f/w")
    assert one == answer_by_rule("random", MARKETS, limits, "c/f/w")
    assert len({answer_by_rule("random", MARKETS, limits, f"c/f/{number}") for number in range(20)}) > 10
    assert all(
        json.loads(answer_by_rule("random", MARKETS, limits, f"c/f/{number}"))["action"] in (Action.BET, Action.HOLD)
        for number in range(20)
    )
