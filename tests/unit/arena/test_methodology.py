"""Methodologies, lineups, rule agents, units, and the numbers of docs/arena.md."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random

import pytest

from bellwether.arena.account import Account
from bellwether.arena.decision import Action
from bellwether.arena.facts import Agent
from bellwether.arena.ledger import LedgerKind
from bellwether.arena.lineup import Lineup, load_lineup, rule_name
from bellwether.arena.market import Market
from bellwether.arena.methodology import load_methodology, methodologies
from bellwether.arena.parsing import Limits, parse_decision
from bellwether.arena.rule_agents import RULES, answer_by_rule
from bellwether.arena.units import divide_half_even, micros, money_text, percent_text, share_value
from bellwether.errors import ConfigError, SchemaError
from bellwether.settings import World
from tests.arena.world import V1, V2, binary, named, usd


def test_the_constants_of_the_seed() -> None:
    v1 = load_methodology()
    assert (v1.name, v1.cash, v1.smallest_bet, v1.largest_bet(usd(10_000))) == ("v1", usd(10_000), usd(50), usd(2_500))
    assert (v1.universe, v1.decision_cohorts, v1.mark_minutes, v1.fill, v1.limit) == (500, 5, 10, "mid", "bet")
    assert (v1.temperature, v1.max_tokens, v1.timeout_seconds, v1.malformed_retries) == (0, 16_000, 40, 1)
    assert (v1.unknown_winner, v1.primary) == ("refund", ("brier_size", "return"))


def test_what_differs_between_the_methodologies() -> None:
    v1, v2, realistic = (load_methodology(name) for name in ("v1", "v2", "v1-realistic"))
    assert (v2.limit, v2.unknown_winner, v2.primary, v2.fill) == ("decision", "defer", ("return",), "mid")
    assert (realistic.fill, realistic.fees, realistic.step) == ("realistic", "venue", usd("0.01"))
    assert (
        realistic.model_copy(update={"name": v1.name, "title": v1.title, "fill": "mid", "fees": "none", "share_step": v1.share_step}) == v1
    )


def entry(tmp_path: Path, text: str) -> str:
    (tmp_path / "methodologies.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        methodologies(tmp_path)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[x]\nlike = "v1"\nbet_fraction = "1.5"', ("[x]", "bet_fraction = '1.5'", "methodologies.toml")),
        ('[x]\nlike = "v1"\nfill = "best"', ("fill = 'best'", "mid")),
        ('[x]\nlike = "v1"\nbets = 3', ("bets = 3", "no such field")),
        ('[x]\nlike = "v3"', ("like = 'v3'", "unknown methodology")),
        ('[x]\nlike = "y"\n[y]\nlike = "x"', ("is circular",)),
        ('[x]\ntitle = "t"', ("is missing",)),
        ('[x]\nlike = "v1"\nminimum_bet = 5000', ("no bet is possible",)),
        ('[x]\nlike = "v1"\nmark_minutes = 7', ("is not a divisor of 60",)),
        ('[x]\nlike = "v1"\nuniverse = "500"', ("universe = '500'",)),
        ('[x]\nlike = "v1"\ninitial_cash = nan', ("initial_cash",)),
        ('[v1]\ntitle = "t"', ("already defined",)),
    ],
)
def test_a_wrong_entry_is_named_with_file_field_and_value(tmp_path: Path, text: str, found: tuple[str, ...]) -> None:
    message = entry(tmp_path, text)
    assert all(part in message for part in found), message


def test_quotients_are_rounded_half_to_even() -> None:
    rng = Random(1)
    for _ in range(1_000):
        a, b = rng.randrange(-(10**6), 10**12), rng.choice((2, 4, 10, rng.randrange(1, 10**6)))
        assert divide_half_even(a, b) == round(Fraction(a, b))


def test_limits_are_cut_and_never_rounded_up() -> None:
    v1 = load_methodology()
    assert v1.largest_bet(usd("9999.99")) == usd("2499.9975")
    assert v1.printed_largest_bet(usd("9999.99")) == usd("2499.99")
    assert (v1.largest_bet(3), v1.largest_bet(-usd(5))) == (0, 0)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "abc", "", None, "1e999999999"])
def test_what_is_no_amount_is_refused(value: str) -> None:
    with pytest.raises(SchemaError):
        micros(value)


def test_amounts_finer_than_a_millionth_are_rounded_half_to_even() -> None:
    assert [micros(Decimal(text)) for text in ("0.0000005", "0.0000015", "1e-999999")] == [0, 2, 0]


def test_texts() -> None:
    assert money_text(usd("2499.9975")) == "2,499.99"
    assert [percent_text(price) for price in (435_000, 400, 1_000_000, 0, 800_000)] == ["43.5", "0.04", "100.0", "0.0", "80.0"]
    assert share_value(usd(1250), usd("0.4")) == usd(500)


#: `gpt` is the control family of these lineups.
FAMILIES = '[a]\ntitle = "t"\ncontrol = true\n[a.releases.gpt]\nreleased = 2026-01-01\n'


def _read(folder: Path, text: str, families: str = FAMILIES) -> Lineup:
    (folder / "lineups.toml").write_text(text, encoding="utf-8")
    (folder / "families.toml").write_text(families, encoding="utf-8")
    (folder / "models.toml").write_text('[gpt]\nmodel = "local/m"\n', encoding="utf-8")
    return load_lineup("mine", folder)


def test_the_built_in_lineups_can_be_used_where_they_say() -> None:
    assert len(load_lineup("sandbox").models) == 8
    assert load_lineup("rules").models == ()
    assert {rule_name(member) for member in load_lineup("rules").families.values()} == set(RULES)
    assert load_lineup("sandbox").worlds == (World.SANDBOX,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gtp"\n', r"families.*unknown model 'gtp'.*did you mean gpt"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "rule/wait"\n', "unknown rule.*rule/hold"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gpt"\nb = "gpt"\n', "'gpt' represents two families"),
        ('[mine]\ntitle = "t"\n[mine.families]\n"A B" = "gpt"\n', "'A B' cannot be a family"),
        ('[mine]\ntitle = "t"\nmethodology = "v9"\n[mine.families]\na = "gpt"\n', "methodology = 'v9': unknown methodology"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "sandbox-calibrated"\n', "is not available in the world live"),
        ('[mine]\ntitle = "t"\n', "families: is missing"),
        ('[mine]\ntitle = "t"\nspeed = 1\n[mine.families]\na = "gpt"\n', "speed = 1: no such field"),
        ('[mine]\ntitle = "t"\nworlds = ["mars"]\n[mine.families]\na = "gpt"\n', "worlds"),
        ('[rules]\ntitle = "t"\n[rules.families]\na = "gpt"\n', "already defined"),
    ],
)
def test_what_is_wrong_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _read(tmp_path, text)


def test_a_lineup_that_nobody_asks_for_stops_nobody(tmp_path: Path) -> None:
    text = '[mine]\ntitle = "t"\n[mine.families]\ncalibrated = "sandbox-calibrated"\n'
    (tmp_path / "lineups.toml").write_text(text, encoding="utf-8")
    assert load_lineup("rules", tmp_path).models == ()
    with pytest.raises(ConfigError, match="is not available in the world live"):
        load_lineup("mine", tmp_path)
    (tmp_path / "lineups.toml").write_text(text.replace("[mine.families]", 'worlds = ["sandbox"]\n[mine.families]'), encoding="utf-8")
    assert load_lineup("mine", tmp_path).models == ("sandbox-calibrated",)


MARKETS = [binary("a", "0.9"), binary("b", "0.3"), named({"X": "0.2", "Y": "0.79"}, "c"), binary("d", None), binary("e", "1")]


def _decided(rule: str, markets: list[Market], rules: object = V1, cash: str = "10000", key: str = "c/f/w") -> object:
    limits = Limits.of(rules, usd(cash))  # type: ignore[arg-type]
    return parse_decision(answer_by_rule(rule, markets, limits, key), limits)


@pytest.mark.parametrize("rule", list(RULES))
def test_rules_give_decisions_that_are_accepted(rule: str) -> None:
    for rules, cash, markets in product((V1, V2), ("10000", "9999.99", "200", "10", "0"), (MARKETS, MARKETS[3:4], [])):
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


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "arena.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(example, {})


def test_the_numbers_are_those_of_the_methodologies() -> None:
    known = methodologies()
    assert all(f"`{name}`" in PAGE for name in known)
    v1 = known["v1"]
    assert f"${money_text(v1.cash)[:-3]} at the start" in PAGE
    assert f"bets from ${v1.minimum_bet}" in PAGE
    assert f"the {v1.universe} open markets" in PAGE
    assert f"refunded after {v1.grace_days} days" in PAGE
    assert f"until {v1.deadline_hours} hours after" in PAGE
    assert (v1.decision_cohorts, v1.mark_minutes, v1.confirmations, v1.dispute_hours, v1.source_gap * 100) == (5, 10, 2, 2, 5)


def test_every_kind_of_entry_is_explained() -> None:
    assert all(re.search(rf"\b{kind}\b", PAGE) for kind in LedgerKind)


@pytest.mark.parametrize(
    ("owner", "former", "current"),
    [
        (V1, "least", "smallest_bet"),
        (V1, "most", "largest_bet"),
        (V1, "printed_most", "printed_largest_bet"),
        (Account.of(Agent("a", "2026-03-01", "f", "v1", V1.cash)), "held", "find_position"),
        (Account.of(Agent("a", "2026-03-01", "f", "v1", V1.cash)), "problem", "explain_problem"),
    ],
)
def test_former_attributes_warn_and_are_the_current_ones(owner: object, former: str, current: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{former} is deprecated until 0.4; use {current}"):
        assert getattr(owner, former) == getattr(owner, current)
