"""Fees of real fills to the last digit, and the multiplier of each series."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bellwether.replay.rules import OrderFees, rule_set, rules_for
from bellwether.replay.units import MICROS

pytestmark = pytest.mark.real

#: Baseball pays half the fee, and every other series of these fills pays all of it. Four of them are also recorded as series objects.
HALF = ("KXMLBGAME", "KXMLBSPREAD", "KXMLBKS")


def fills(recordings: Path) -> list[dict[str, Any]]:
    path = recordings / "kalshi/rest_2026_08/portfolio_fills_redacted.json"
    if not path.is_file():
        pytest.skip(f"no fills at {path}")
    return json.loads(path.read_text(encoding="utf-8"))["payload"]["fills"]


def cost(rules: str, fill: dict[str, Any], multiplier: str) -> Decimal:
    order = OrderFees(rule_set(rules), {"type": "quadratic_with_maker_fees", "multiplier": multiplier})
    price = fill[f"{fill['outcome_side']}_price_dollars"]
    return order.fill(fill["count_fp"], price, action=fill["action"], role="taker" if fill["is_taker"] else "maker").net


def series(fill: dict[str, Any]) -> str:
    return str(fill["ticker"]).split("-", 1)[0]


def test_every_real_fill_costs_what_it_cost(recordings: Path):
    recorded = fills(recordings)
    for fill in recorded:
        rules = rules_for("kalshi", datetime.fromisoformat(fill["created_time"]).date())
        assert cost(rules.name, fill, "0.5" if series(fill) in HALF else "1") == Decimal(fill["fee_cost"]), fill
    assert len(recorded) >= 33


def test_each_series_has_exactly_one_multiplier_that_fits(recordings: Path):
    recorded = fills(recordings)
    for name in {series(fill) for fill in recorded}:
        of_series = [fill for fill in recorded if series(fill) == name]
        fit = [
            m for m in ("0", "0.25", "0.5", "1", "2") if all(cost("kalshi-2026-05-28", f, m) == Decimal(f["fee_cost"]) for f in of_series)
        ]
        assert fit == ["0.5" if name in HALF else "1"], name


def test_the_multipliers_are_those_of_the_recorded_series(recordings: Path):
    path = recordings / "kalshi/rest_2026_08/series_fee_fields.json"
    if not path.is_file():
        pytest.skip(f"no series at {path}")
    stated = {name: body["series"]["fee_multiplier"] for name, body in json.loads(path.read_text(encoding="utf-8"))["payloads"].items()}
    assert stated and all(value == (0.5 if name in HALF else 1) for name, value in stated.items())


@pytest.mark.parametrize("other", ["kalshi-2025-07-01", "kalshi-2026-03-09", "kalshi-2026-08-30"])
def test_the_rules_before_and_after_do_not_fit_the_fills(recordings: Path, other: str):
    differ = [fill for fill in fills(recordings) if cost(other, fill, "0.5" if series(fill) in HALF else "1") != Decimal(fill["fee_cost"])]
    assert differ


def test_the_balance_changes_by_whole_hundredths_of_a_cent(recordings: Path):
    unit = Decimal(rule_set("kalshi-2026-05-28").balance_unit) / MICROS
    for fill in fills(recordings):
        price = Decimal(fill[f"{fill['outcome_side']}_price_dollars"])
        assert (price * Decimal(fill["count_fp"]) + Decimal(fill["fee_cost"])) % unit == 0
