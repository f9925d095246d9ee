"""The site in a real browser: opened from the folder and over HTTP, at three widths, light and dark."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bellwether.site import build
from orchestration.site_server import open_site_server
from tests.browser import chromium
from tests.browser.screenshots import KINDS, SCHEMES, WIDTHS, page_of
from tests.unit.site.world import HOSTILE, Size, published

pytestmark = [pytest.mark.nightly, pytest.mark.browser]
#: Timeout of a page in milliseconds, long enough for a busy machine.
PATIENCE = 30_000


def words(kind: str, place: int) -> str:
    """Return a plain name followed by hostile text. Names of markets also contain SQL wildcards."""
    if kind in ("release", "model", "episode", "agent", "family"):
        return f"{kind}-{place}"
    if kind == "Will this end well":
        return f"Will {'100%' if place == 7 else 'a_b' if place == 9 else 'it'} happen, {place}? {HOSTILE if place == 1 else ''}"
    return f"{kind} {HOSTILE}{place}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    size = Size(questions=30, prices=5, models=3, episodes=1, agents=2, samples=20, orders=60, cohorts=2, families=2, markets=120, trades=3)
    return build(published(folder, size, words), folder / "site").folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        with chromium.chromium() as browser:
            yield browser
    except chromium.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def only_page(browser: Any) -> Iterator[Any]:
    """One page for all tests, because Chromium compiles the chart library once per page. Tests use `page`."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.seen = []
    page.on("console", lambda message: page.seen.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: page.seen.append(f"error: {error}"))
    # Leaving a page aborts its pending loads.
    page.on("requestfailed", lambda request: request.failure == "net::ERR_ABORTED" or page.seen.append(f"{request.failure}: {request.url}"))
    page.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:", "http://127.0.0.1:")) or page.seen.append(f"outside: {request.url}"),
    )
    yield page
    context.close()


@pytest.fixture
def page(only_page: Any) -> Iterator[Any]:
    """An empty page that records every error, warning and request in `page.seen`."""
    only_page.set_viewport_size({"width": 1000, "height": 900})
    only_page.emulate_media(color_scheme="light")
    only_page.seen.clear()
    yield only_page
    only_page.goto("about:blank")


def shows(one: Any) -> Any:
    """Return assertions on a locator or page that wait until they hold."""
    from playwright import sync_api

    sync_api.expect.set_options(timeout=PATIENCE)
    return sync_api.expect(one)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_opens_from_the_folder_at_every_width_in_both_themes(kind: str, site: Path, page: Any) -> None:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        axe = None
    else:
        axe = Axe()
    page.goto(page_of(site, kind).as_uri())
    assert all(chromium.draw(page))
    for scheme, width in product(SCHEMES, WIDTHS):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # axe would measure colours in transition
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (scheme, width)
        assert page.seen == []
        violations = axe.run(page).response["violations"] if axe else []
        page.seen.clear()  # The policy of the page refuses axe's own requests.
        serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in violations if rule["impact"] in ("serious", "critical")]
        assert serious == [], (scheme, width)
    assert all(chromium.draw(page))
    assert page.evaluate("window.hacked === undefined")
    assert page.seen == []


def test_pages_work_over_http(site: Path, page: Any) -> None:
    with open_site_server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/benchmark/release-0/index.html")
        assert all(chromium.draw(page))
        page.locator("td a", has_text="model-0").first.click()
        shows(page).to_have_url(re.compile("/forecaster/model-0.html$"))
        assert all(chromium.draw(page))
        server.shutdown()
    assert page.seen == []


def test_search_takes_wildcards_literally_and_text_as_text(site: Path, page: Any) -> None:
    page.goto(next(site.glob("arena/cohort/*/index.html")).as_uri())
    shown = page.locator(".grid tbody tr td:nth-child(2)")
    for asked, places in (("100%", {7}), ("a_b", {9}), ("%", {7}), ("happen, 11", {11, *range(110, 120)})):
        page.fill("input[type=search]", asked)
        page.locator(".pages [role=status]", has_text=re.compile(rf"of {len(places)}$")).wait_for()
        assert {int(text.split(", ")[1].split("?")[0]) for text in shown.all_text_contents()} == places
    page.fill("input[type=search]", "happen, 1? </script>")
    page.locator(".pages [role=status]", has_text=re.compile("of 1$")).wait_for()
    shows(shown.first).to_contain_text("<script>window.hacked=1")
    page.fill("input[type=search]", "no such market")
    page.wait_for_selector("text=nothing matches")
    assert page.seen == [] and page.evaluate("window.hacked === undefined")


def test_a_grid_pages_sorts_and_filters_all_its_rows(site: Path, page: Any) -> None:
    page.goto((site / "trading/episode/episode-0/agent/agent-0.html").as_uri())
    grid = page.locator(".grid", has=page.locator("caption", has_text="Orders"))
    first = grid.locator("tbody tr:first-child td:first-child")
    shows(first).to_have_text("0")
    shows(grid.locator("[role=status]")).to_have_text("1–25 of 60")
    grid.locator("text=Next").click()
    first.filter(has_text="25").wait_for()
    grid.locator("th button").first.click()
    grid.locator("th button").first.click()
    first.filter(has_text="59").wait_for()
    grid.get_by_label("Action").select_option("buy")
    grid.locator("[role=status]", has_text="1–25 of 30").wait_for()
    shows(first).to_have_text("59")
    shows(grid.locator("tbody tr td:nth-child(4)")).to_have_text(["buy"] * 25)
    assert page.seen == []


def test_a_leaderboard_shows_picked_columns_and_charts_are_drawn_before_they_are_seen(site: Path, page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((site / "benchmark/release-0/index.html").as_uri())
    board = page.locator(".grid").first
    shows(board.locator("thead th:visible")).to_have_count(3)
    board.locator("summary", has_text="Columns").click()
    board.get_by_label("Accuracy").check()
    shows(board.locator("tbody tr:first-child td:visible")).to_have_count(4)
    page.wait_for_function("[...document.querySelectorAll('.canvas')].every(one => one.querySelector('svg'))")
    assert page.seen == []


def test_a_probability_opens_the_prompt_and_the_answer_as_text(site: Path, page: Any) -> None:
    page.goto((site / "benchmark/release-0/forecaster/model-0.html").as_uri())
    page.locator("td a[href*='#said-']").first.click()
    opened = page.locator("details.text[open]#said-model-0")
    opened.locator("pre").nth(3).wait_for()
    shown = opened.locator("pre").all_text_contents()
    assert shown[0].startswith("You are an expert") and "Question: Will" in shown[1] and shown[2].startswith("reasoning ")
    assert "<script>window.hacked=1" in shown[3] and page.evaluate("window.hacked === undefined")
    assert "whole conversation: bellwether journal show model-0 " in shown[4]
    assert all(chromium.draw(page))
    page.goto(next(site.glob("arena/cohort/*/decision/*.html")).as_uri())
    page.locator("details#prompt summary").click()
    shows(page.locator("details#prompt pre").nth(1)).to_contain_text("market_id")
    assert page.seen == []


def test_a_page_says_when_it_is_older_than_its_schedule_allows(browser: Any, site: Path) -> None:
    rules = (site / "static/publication.css").read_text()
    published = datetime.fromisoformat(re.search(r'--published: "(.*?)"', rules)[1])  # type: ignore[index]
    for hours, late in ((35, False), (37, True)):
        context = browser.new_context()
        page = context.new_page()
        page.clock.set_fixed_time(published + timedelta(hours=hours))
        page.goto((site / "arena/index.html").as_uri())
        page.wait_for_timeout(300)
        assert page.locator(".banner[role=alert]").count() == late, hours
        if late:
            assert f"published {published:%Y-%m-%d %H:%M} UTC" in page.locator(".banner[role=alert]").text_content()
        context.close()
