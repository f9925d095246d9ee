"""Lineups are read, checked and refused by name; rules decide as they say."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from bellwether.arena.decision import Action
from bellwether.arena.lineup import Lineup, lineup, rule_of
from bellwether.arena.market import Market
from bellwether.arena.parsing import parse_decision
from bellwether.arena.trivial import RULES, answer
from bellwether.arena.validation import Limits
from bellwether.errors import ConfigError
from bellwether.settings import World
from tests.arena.world import V1, V2, binary, named, usd

#: `gpt` is the control of the lineups here.
FAMILIES = '[a]\ntitle = "t"\ncontrol = true\n[a.releases.gpt]\nreleased = 2026-01-01\n'


def _read(folder: Path, text: str, families: str = FAMILIES) -> Lineup:
    (folder / "lineups.toml").write_text(text, encoding="utf-8")
    (folder / "families.toml").write_text(families, encoding="utf-8")
    (folder / "models.toml").write_text('[gpt]\nmodel = "local/m"\n', encoding="utf-8")
    return lineup("mine", folder)


def test_the_built_in_lineups_can_be_used_where_they_say() -> None:
    assert len(lineup("sandbox").models) == 8
    assert lineup("rules").models == ()
    assert {rule_of(member) for member in lineup("rules").families.values()} == set(RULES)
    assert lineup("sandbox").worlds == (World.SANDBOX,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gtp"\n', r"families.*no model is called 'gtp'.*did you mean gpt"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "rule/wait"\n', "there is no such rule.*rule/hold"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "gpt"\nb = "gpt"\n', "'gpt' decides for two families"),
        ('[mine]\ntitle = "t"\n[mine.families]\n"A B" = "gpt"\n', "'A B' cannot be a family"),
        ('[mine]\ntitle = "t"\nmethodology = "v9"\n[mine.families]\na = "gpt"\n', "methodology = 'v9': no such methodology"),
        ('[mine]\ntitle = "t"\n[mine.families]\na = "sandbox-calibrated"\n', "cannot be asked in the world playback"),
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
    assert lineup("rules", tmp_path).models == ()
    with pytest.raises(ConfigError, match="cannot be asked in the world playback"):
        lineup("mine", tmp_path)
    (tmp_path / "lineups.toml").write_text(text.replace("[mine.families]", 'worlds = ["sandbox"]\n[mine.families]'), encoding="utf-8")
    assert lineup("mine", tmp_path).models == ("sandbox-calibrated",)


MARKETS = [binary("a", "0.9"), binary("b", "0.3"), named({"X": "0.2", "Y": "0.79"}, "c"), binary("d", None), binary("e", "1")]


def _decided(rule: str, markets: list[Market], rules: object = V1, cash: str = "10000", key: str = "c/f/w") -> object:
    limits = Limits.of(rules, usd(cash))  # type: ignore[arg-type]
    return parse_decision(answer(rule, markets, limits, key), limits)


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
    one = answer("random", MARKETS, limits, "c/f/w")
    assert one == answer("random", MARKETS, limits, "c/f/w")
    assert len({answer("random", MARKETS, limits, f"c/f/{number}") for number in range(20)}) > 10
    assert all(
        json.loads(answer("random", MARKETS, limits, f"c/f/{number}"))["action"] in (Action.BET, Action.HOLD) for number in range(20)
    )
