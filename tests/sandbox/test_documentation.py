"""docs/sandbox.md matches the sandbox."""

from __future__ import annotations

import re
from pathlib import Path

from bellwether.sandbox.models import PERSONALITIES, skill
from bellwether.sandbox.services import CLOB_PATH, CONTROL_PATH, GAMMA_PATH, KALSHI_PATH, KALSHI_STREAM_PATH, MODELS_PATH

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sandbox.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> dict[str, list[str]]:
    """Return the table rows whose first cell is a name, by that name."""
    lines = re.findall(r"^\| `([^`]+)` \|(.*)\|$", text, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in lines}


def test_every_personality_is_listed_with_its_transformation() -> None:
    listed = rows(section("Models of known skill"))
    assert {model: cells[0] for model, cells in listed.items()} == {model: skill(model).formula for model in PERSONALITIES}


def test_every_address_is_listed() -> None:
    mounts = {KALSHI_PATH, KALSHI_STREAM_PATH, GAMMA_PATH, CLOB_PATH, MODELS_PATH, CONTROL_PATH}
    assert set(rows(section("Addresses"))) == mounts
