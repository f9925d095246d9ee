"""docs/sandbox.md says what the sandbox does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bellwether.sandbox.faults import HEADER, HTTP_FAULTS, STREAM_FAULTS
from bellwether.sandbox.limits import Limits
from bellwether.sandbox.models import PERSONALITIES, skill
from bellwether.sandbox.services import CLOB_PATH, CONTROL_PATH, GAMMA_PATH, KALSHI_PATH, KALSHI_STREAM_PATH, MODELS_PATH

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sandbox.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> dict[str, list[str]]:
    """Lines of tables whose first cell is a name, by that name."""
    lines = re.findall(r"^\| `([^`]+)` \|(.*)\|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in lines}


def test_every_fault_is_listed_once_and_no_other() -> None:
    assert list(rows(section("Faults"))) == [*HTTP_FAULTS, *STREAM_FAULTS]
    assert HEADER in PAGE


def test_every_personality_is_listed_with_its_transformation() -> None:
    listed = rows(section("Models of known skill"))
    assert {model: cells[0] for model, cells in listed.items()} == {model: skill(model).formula for model in PERSONALITIES}


def test_every_address_is_listed() -> None:
    mounts = {KALSHI_PATH, KALSHI_STREAM_PATH, GAMMA_PATH, CLOB_PATH, MODELS_PATH, CONTROL_PATH}
    assert set(rows(section("Addresses"))) == mounts


@pytest.mark.parametrize("service", ["gamma", "clob"])
def test_the_windows_of_polymarket_are_the_documented_ones(service: str) -> None:
    line = next(line for line in section("Limits").splitlines() if line.lower().startswith(f"| {service}"))
    for prefix, most in getattr(Limits(), service):
        assert f"{most:,}" in line
        assert f"`{prefix}`" in line or not prefix


def test_the_other_limits_are_the_documented_ones() -> None:
    limits, text = Limits(), section("Limits")
    assert (
        f"{limits.tokens_per_second:g} tokens per second, a bucket of {limits.burst_seconds:g} seconds, {limits.cost:g} tokens per read"
        in text
    )
    assert f"{limits.requests_per_minute:g} requests and {limits.tokens_per_minute:,.0f} tokens per minute" in text
    assert f"delayed up to {limits.patience:g} seconds" in text
