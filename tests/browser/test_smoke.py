"""Smoke test of the site in Chromium: home, leaderboard, forecaster and arena decision in both colour schemes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.site import build
from tests.browser.chromium import Missing, chromium, draw
from tests.browser.screenshots import SCHEMES, page_of
from tests.unit.site.world import HOSTILE, Size, published

pytestmark = pytest.mark.browser

SIZE = Size(questions=6, prices=3, models=2, samples=4, episodes=1, agents=1, orders=20, cohorts=1, families=2, markets=10)


def words(kind: str, place: int) -> str:
    return f"{kind}-{place}" if kind in ("release", "model", "episode", "agent", "family") else f"{kind} {HOSTILE}{place}"


def test_pages_draw_their_charts_without_errors_in_both_schemes(tmp_path: Path) -> None:
    site = build(published(tmp_path, SIZE, words), tmp_path / "site").folder
    try:
        with chromium() as browser:
            for scheme in SCHEMES:
                context = browser.new_context(color_scheme=scheme)
                page, seen = context.new_page(), []
                page.on("console", lambda message, seen=seen: seen.append(f"{message.type}: {message.text}"))
                page.on("pageerror", lambda error, seen=seen: seen.append(f"error: {error}"))
                for kind in ("home", "leaderboard", "forecaster", "decision"):
                    page.goto(page_of(site, kind).as_uri())
                    assert all(draw(page)), (scheme, kind)
                    assert page.evaluate("window.hacked === undefined"), (scheme, kind)
                    assert seen == [], (scheme, kind)
                context.close()
    except Missing as missing:
        pytest.skip(str(missing))
