"""Settings from the environment, domains of other packages, units of integers, and rows without credentials."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from bellwether.arena.units import share_value, shares_for
from bellwether.domains import DOMAINS
from bellwether.errors import ConfigError, SchemaError
from bellwether.replay.units import CENT, CONTRACT, centicents, cost
from bellwether.settings import Settings, World, settings
from bellwether.tables.exports import redact_rows
from bellwether.units import CentiCents, Lots, MicroDollars, MicroShares, SharePrice
from tests.unit.site.world import rows


@pytest.mark.parametrize(
    ("name", "value"), [("WORLD", "elsewhere"), ("CANDLE_DAYS", "0"), ("SANDBOX_NOW", "2026-10-01T00:00:00"), ("FIRST_DAY", "soon")]
)
def test_a_wrong_setting_names_the_variable_and_its_value(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"BELLWETHER_{name}", value)
    settings.cache_clear()
    with pytest.raises(ConfigError, match=f"BELLWETHER_{name}") as refused:
        settings()
    assert value in str(refused.value)


def test_a_budget_of_zero_is_one_and_below_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUDGET", "WEEK_BUDGET", "WEEK_MODEL_BUDGET"):
        monkeypatch.setenv(f"BELLWETHER_{name}", "0")
    settings.cache_clear()
    found = settings()
    assert (found.budget, found.week_budget, found.week_model_budget) == (0, 0, 0)
    monkeypatch.setenv("BELLWETHER_BUDGET", "-0.01")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"BELLWETHER_BUDGET.*-0\.01"):
        settings()


def test_worlds_never_share_a_place(tmp_path: Path) -> None:
    places = [Settings(home=tmp_path, world=world) for world in World]
    for place in ("lake_uri", "warehouse_uri", "dagster_home"):
        assert len({getattr(found, place) for found in places}) == len(World)


def test_a_misspelled_setting_is_named_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BELLWETHER_REGISTY", "x")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"the environment: BELLWETHER_REGISTY is no setting; did you mean BELLWETHER_REGISTRY\?"):
        settings()
    monkeypatch.delenv("BELLWETHER_REGISTY")
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("OTHER=1\nBELLWETHER_XYZ=1\n")
    settings.cache_clear()
    with pytest.raises(ConfigError, match=r"reading \.env: BELLWETHER_XYZ is no setting; \.env\.example lists the settings"):
        settings()


def test_products_have_their_unit() -> None:
    assert cost(CentiCents(45 * CENT), Lots(10 * CONTRACT)) == 4_500_000
    assert share_value(MicroShares(10_000_000), SharePrice(450_000)) == 4_500_000
    assert shares_for(MicroDollars(4_500_000), SharePrice(450_000)) == 10_000_000


def test_a_price_finer_than_a_hundredth_of_a_cent_is_refused() -> None:
    assert centicents("0.0085") == 85 and centicents("0.9975") == 9975
    with pytest.raises(SchemaError, match=r"a price: 0\.00851 is finer than a hundredth of a cent"):
        centicents("0.00851")


SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def test_a_decision_keeps_its_form_and_its_tickers() -> None:
    said = {"action": "BET", "bets": [{"market_id": "KXA-SK-26JAN01-T3", "side": "YES", "amount": 1.5}], "reasoning": f"first\n{SECRET}"}
    bad = {"action": "SELL", "sells": [{"position_id": f"x/{SECRET}", "percentage": 100}], "reasoning": f"Bearer {SECRET}"}
    clean = json.dumps({**said, "reasoning": "why"}, separators=(",", ":"))
    frame = pl.DataFrame({"decision": [json.dumps(said), json.dumps(bad), clean, SECRET, None]})
    found = redact_rows("arena/decisions", frame)["decision"].to_list()
    assert json.loads(found[0]) == {**said, "reasoning": "first\n***"}
    assert json.loads(found[1]) == {"action": "SELL", "sells": [{"position_id": "x/***", "percentage": 100}], "reasoning": "***"}
    assert found[2:] == [clean, "***", None]


def test_every_table_and_its_rules_are_declared_once() -> None:
    tables = [declared.name for domain in DOMAINS for module in domain.table_modules() for declared in module.TABLES]
    rules = [name for domain in DOMAINS if (module := domain.rules_module()) for name in module.RULES]
    assert (len(set(tables)), len(set(rules))) == (len(tables), len(rules))


def test_only_the_sandboxs_lake_may_be_lost_with_the_power(tmp_path: Path) -> None:
    from resources import LakeResource

    durable = {world: LakeResource.of(Settings(world=world, home=tmp_path)).durable for world in (World.SANDBOX, World.LIVE)}
    assert durable == {World.SANDBOX: False, World.LIVE: True}


def test_exported_rows_quote_no_key() -> None:
    quoting = {
        "arena/decisions": {"reasoning": f"my key {SECRET}", "message": SECRET, "decision": json.dumps({"reasoning": f"a\n{SECRET}"})},
        "arena/refusals": {"message": f"{SECRET} is no market"},
        "benchmark/forecasts": {"raw_response": f"<think>{SECRET}</think>", "reasoning": SECRET},
    }
    for name, values in quoting.items():
        found = redact_rows(name, rows(name, 1, **values))
        assert found.height == 1
        assert SECRET not in str(found.rows()), name
        assert "***" in str(found.rows()), name
