"""Methodologies as data, units and rounding."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from bellwether.arena.methodology import methodologies, methodology
from bellwether.arena.units import divided, micros, money_text, percent_text, value_of
from bellwether.errors import ConfigError, SchemaError
from tests.arena.world import usd


def test_the_constants_of_the_seed() -> None:
    v1 = methodology()
    assert (v1.name, v1.cash, v1.least, v1.most(usd(10_000))) == ("v1", usd(10_000), usd(50), usd(2_500))
    assert (v1.universe, v1.decision_cohorts, v1.mark_minutes, v1.fill, v1.limit) == (500, 5, 10, "mid", "bet")
    assert (v1.temperature, v1.max_tokens, v1.timeout_seconds, v1.malformed_retries) == (0, 16_000, 40, 1)
    assert (v1.unknown_winner, v1.primary) == ("refund", ("brier_size", "return"))


def test_what_differs_between_the_methodologies() -> None:
    v1, v2, realistic = (methodology(name) for name in ("v1", "v2", "v1-realistic"))
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
        ('[x]\nlike = "v3"', ("like = 'v3'", "no such methodology")),
        ('[x]\nlike = "y"\n[y]\nlike = "x"', ("goes in a circle",)),
        ('[x]\ntitle = "t"', ("is missing",)),
        ('[x]\nlike = "v1"\nminimum_bet = 5000', ("no bet would be possible",)),
        ('[x]\nlike = "v1"\nmark_minutes = 7', ("does not divide an hour",)),
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
        assert divided(a, b) == round(Fraction(a, b))


def test_limits_are_cut_and_never_rounded_up() -> None:
    v1 = methodology()
    assert v1.most(usd("9999.99")) == usd("2499.9975")
    assert v1.printed_most(usd("9999.99")) == usd("2499.99")
    assert (v1.most(3), v1.most(-usd(5))) == (0, 0)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "abc", "", None, "1e999999999"])
def test_what_is_no_amount_is_refused(value: str) -> None:
    with pytest.raises(SchemaError):
        micros(value)


def test_amounts_finer_than_a_millionth_are_rounded_half_to_even() -> None:
    assert [micros(Decimal(text)) for text in ("0.0000005", "0.0000015", "1e-999999")] == [0, 2, 0]


def test_texts() -> None:
    assert money_text(usd("2499.9975")) == "2,499.99"
    assert [percent_text(price) for price in (435_000, 400, 1_000_000, 0, 800_000)] == ["43.5", "0.04", "100.0", "0.0", "80.0"]
    assert value_of(usd(1250), usd("0.4")) == usd(500)
