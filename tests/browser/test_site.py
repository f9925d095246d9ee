"""The site in a real browser: opened from the folder and over HTTP, at three widths, light and dark."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bellwether.lake.warehouse import query
from bellwether.site import build
from bellwether.site.arena_paths import agent_path, cohort_path, decision_path, family_path, market_path
from bellwether.site.release import question_path
from orchestration.site_server import open_site_server
from tests.browser import chromium
from tests.browser.screenshots import KINDS, SCHEMES, WIDTHS, page_of
from tests.site.world import Size, published
from tests.unit.site.test_site import HOSTILE

pytestmark = [pytest.mark.slow, pytest.mark.browser]
#: Timeout of a page in milliseconds, long enough for a busy machine.
PATIENCE = 30_000
#: Totals of the overview of trading: column and table.
TOTALS = (("trades", "episodes"), ("fills", "backtests"))
_MARKS = "[...document.querySelectorAll('.chart .canvas')].map(one => one.querySelectorAll('svg [class^=mark-] path, svg [class^=mark-] line').length)"


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


def draw(page: Any) -> list[int]:
    """Scroll through the page until every chart is drawn, and return the number of marks of each."""
    for place in range(page.locator(".chart").count()):
        chart = page.locator(".chart").nth(place)
        chart.scroll_into_view_if_needed()
        chart.locator("svg").wait_for(state="attached")
    marks: list[int] = page.evaluate(_MARKS)
    return marks


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_opens_from_the_folder_at_every_width_in_both_themes(kind: str, site: Path, page: Any) -> None:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        axe = None
    else:
        axe = Axe()
    page.goto(page_of(site, kind).as_uri())
    assert all(draw(page))
    for scheme, width in product(SCHEMES, WIDTHS):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # axe would measure colours in transition
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (scheme, width)
        assert page.seen == []
        violations = axe.run(page).response["violations"] if axe else []
        page.seen.clear()  # The policy of the page refuses axe's own requests.
        serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in violations if rule["impact"] in ("serious", "critical")]
        assert serious == [], (scheme, width)
    assert all(draw(page))
    assert page.evaluate("window.hacked === undefined")
    assert page.seen == []


def headline(page: Any, path: Path) -> dict[str, tuple[str, str | None]]:
    """Return the tiles of a page by name: text and exact value."""
    page.goto(path.as_uri())
    tiles = page.locator(".stats > div")
    tiles.first.wait_for()
    return {
        one.locator("dt").text_content(): (one.locator("dd").first.text_content(), one.locator("dd").first.get_attribute("data-key"))
        for one in tiles.all()
    }


def test_headline_numbers_are_those_of_the_warehouse(site: Path, page: Any) -> None:
    warehouse = site.parent / "warehouse.duckdb"
    board = query(warehouse, "FROM benchmark.leaderboard ORDER BY rank")
    best, summary = board.row(0, named=True), query(warehouse, "FROM replay.summary ORDER BY pnl_mean DESC, agent").row(0, named=True)
    home = headline(page, site / "index.html")
    assert (home["Brier score"], home["Questions"][0]) == ((f"{best['brier']:.3f}", str(best["brier"])), str(best["n_questions"]))
    assert home["Leader"][0] == "No leader: fewer than 3 episodes"
    for row in board.rows(named=True):
        found = headline(page, site / f"benchmark/release-0/forecaster/{row['forecaster']}.html")
        assert [
            float(str(found[one][1])) for one in ("Rank", "Brier score", "Skill over the base rate", "Calibration error", "Coverage")
        ] == [row[one] for one in ("rank", "brier", "brier_skill", "ece", "coverage")]
    agent = headline(page, site / f"trading/agent/{summary['agent']}.html")
    assert [float(str(agent[one][1])) for one in ("P&L", "Mean P&L")] == [float(summary[one]) for one in ("pnl", "pnl_mean")]
    run = query(warehouse, "FROM replay.backtests ORDER BY episode, agent").row(0, named=True)
    sheet = headline(page, site / f"trading/episode/{run['episode']}/agent/{run['agent']}.html")
    assert [float(str(sheet[one][1])) for one in ("P&L", "Fees")] == [float(run[one]) for one in ("pnl", "fees")]
    decision = query(
        warehouse,
        "SELECT d.decision_id, count(t.trade_id) n FROM arena.decisions d LEFT JOIN arena.trades t ON t.agent_id = d.agent_id AND t.week = d.week GROUP BY ALL ORDER BY 1",
    ).row(0)
    assert headline(page, site / decision_path(decision[0]))["Executed legs"][0] == str(decision[1])
    assert page.seen == []


def test_headline_numbers_of_overviews_episodes_and_questions_are_those_of_the_warehouse(site: Path, page: Any) -> None:
    warehouse = site.parent / "warehouse.duckdb"
    best = query(warehouse, "FROM benchmark.leaderboard WHERE rank = 1").row(0, named=True)
    release = headline(page, site / "benchmark/release-0/index.html")
    assert (release["Best forecaster"][0], release["Its Brier score"][1]) == (best["forecaster"], str(best["brier"]))
    question = query(warehouse, "FROM benchmark.questions ORDER BY ordinal").row(0, named=True)
    shown = headline(page, site / question_path("release-0", question["id"]))
    assert (shown["Outcome"][0], float(str(shown["Price 24 h before"][1]))) == (question["ground_truth"], float(question["price_24h"]))
    trades, fills = (query(warehouse, f"SELECT sum({name}) FROM replay.{table}").item() for name, table in TOTALS)
    trading = headline(page, site / "trading/index.html")
    assert [float(str(trading[name][1])) for name in ("Recorded trades", "Fills")] == [float(trades), float(fills)]
    assert query(warehouse, "SELECT sum(orders) FROM replay.backtests WHERE episode = 'episode-0'").item() == 0
    episode = headline(page, site / "trading/episode/episode-0/index.html")
    assert (episode["Best agent"][0], episode["Its P&L"][1]) == ("No agent traded", None)
    bets = query(warehouse, "SELECT sum(bets) FROM arena.leaderboard").item()
    assert float(str(headline(page, site / "arena/index.html")["Bets"][1])) == float(bets)
    market, traded = query(warehouse, "SELECT market_id, sum(amount) FROM arena.trades GROUP BY ALL ORDER BY market_id LIMIT 1").row(0)
    assert float(str(headline(page, site / market_path(market))["Traded"][1])) == pytest.approx(float(traded))
    assert page.seen == []


def test_headline_numbers_of_the_arena_are_those_of_the_warehouse(site: Path, page: Any) -> None:
    warehouse = site.parent / "warehouse.duckdb"
    for row in query(warehouse, "FROM arena.leaderboard").rows(named=True):
        family = headline(page, site / family_path(row["family"]))
        assert [float(str(family[one][1])) for one in ("Profit", "Bets")] == [float(row["profit"]), row["bets"]]
    agent, week, cash = query(warehouse, "SELECT agent_id, week, initial_cash FROM arena.agents ORDER BY 1").row(0)
    trades = query(warehouse, f"SELECT count(*) FROM arena.trades WHERE agent_id LIKE '{week}/%'").item()
    agents = query(warehouse, f"SELECT count(*) FROM arena.agents WHERE week = '{week}'").item()
    cohort = headline(page, site / cohort_path(week))
    assert (cohort["Agents"][0], cohort["Executed legs"][0]) == (str(agents), str(trades))
    total = query(warehouse, f"SELECT total FROM arena.portfolios WHERE agent_id = '{agent}' ORDER BY \"at\" DESC LIMIT 1").item()
    own = headline(page, site / agent_path(agent))
    assert (own["Total"][1], own["Return"][1]) == (str(float(total)), str(float(total) / float(cash) - 1))
    assert page.seen == []


def test_the_tear_sheet_of_an_agent_sums_up_its_markets_and_orders(site: Path, page: Any) -> None:
    warehouse = site.parent / "warehouse.duckdb"
    page.goto((site / "trading/agent/agent-0.html").as_uri())
    shown = (
        page.locator("table", has_text="Settlement P&L")
        .locator("tbody td:last-child")
        .evaluate_all("all => all.map(one => one.dataset.key)")
    )
    gains = query(warehouse, "SELECT pnl FROM replay.market_pnl WHERE agent = 'agent-0' ORDER BY pnl DESC")["pnl"].to_list()
    assert [float(one) for one in shown] == [float(one) for one in gains]
    fees = query(warehouse, "SELECT sum(fees) FROM replay.backtests WHERE agent = 'agent-0'").item()
    assert page.locator(".facts tr", has_text="Fees").first.locator("td").get_attribute("data-key") == str(float(fees))
    assert all(draw(page)) and page.seen == []


def test_the_data_of_a_chart_has_titles_of_axes(site: Path, page: Any) -> None:
    page.goto((site / "trading/agent/agent-0.html").as_uri())
    data = page.locator("figure", has_text="Cumulative P&L over").locator("details.data")
    data.locator("summary").click()
    shows(data.locator("th")).to_have_text(["name", "episodes", "dollars", "lower", "upper"])


def test_pages_work_over_http(site: Path, page: Any) -> None:
    with open_site_server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/benchmark/release-0/index.html")
        assert all(draw(page))
        page.locator("td a", has_text="model-0").first.click()
        shows(page).to_have_url(re.compile("/forecaster/model-0.html$"))
        assert all(draw(page))
        server.shutdown()
    assert page.seen == []


def test_search_takes_wildcards_literally_and_text_as_text(site: Path, page: Any) -> None:
    page.goto((site / "arena/markets.html").as_uri())
    shown = page.locator(".grid tbody tr td:first-child")
    for asked, places in (("100%", {7}), ("a_b", {9}), ("%", {7}), ("happen, 11", {11, *range(110, 120)})):
        page.fill("input[type=search]", asked)
        page.locator(".pages [role=status]", has_text=re.compile(rf"of {2 * len(places)}$")).wait_for()
        assert {int(text.split(", ")[1].split("?")[0]) for text in shown.all_text_contents()} == places
    page.fill("input[type=search]", "happen, 1? </script>")
    page.locator(".pages [role=status]", has_text=re.compile("of 2$")).wait_for()
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


def test_a_table_sorts_by_exact_values_and_a_long_text_is_shown_whole(site: Path, page: Any) -> None:
    page.goto((site / "benchmark/release-0/index.html").as_uri())
    board = page.locator(".grid", has=page.locator("caption", has_text="Leaderboard of release-0"))
    board.locator("th button", has_text="Rank").click()
    board.locator("th button", has_text="Rank").click()
    shows(board.locator("tbody td:first-child")).to_have_text(["3", "2", "1"])
    board.get_by_label("Part").select_option(index=2)
    shows(board.locator("tbody td:first-child")).to_have_text(["–", "–", "–"])
    details = page.locator("details.data").first
    details.locator("summary").click()
    shows(details.locator("tbody tr")).to_have_count(3)
    assert page.seen == []


def test_three_clicks_lead_from_a_score_to_its_prompt_in_view(site: Path, page: Any) -> None:
    page.goto((site / "index.html").as_uri())
    page.locator("a[href='benchmark/release-0/index.html']").first.click()
    page.locator("td a", has_text="model-0").first.click()
    page.locator("td a[href*='#said-']").first.click()
    opened = page.locator("details.text[open]#said-model-0")
    opened.locator("pre").nth(3).wait_for()
    shows(opened.locator("pre").first).to_be_in_viewport()
    page.wait_for_timeout(1_500)  # Charts above the prompt are drawn only in view, and do not move it.
    shows(opened.locator("pre").first).to_be_in_viewport()
    page.mouse.wheel(0, -5000)
    page.wait_for_function("scrollY === 0")
    assert page.seen == []


def test_a_probability_opens_the_prompt_and_the_answer_as_text(site: Path, page: Any) -> None:
    page.goto((site / "benchmark/release-0/forecaster/model-0.html").as_uri())
    page.locator("td a[href*='#said-']").first.click()
    opened = page.locator("details.text[open]#said-model-0")
    opened.locator("pre").nth(3).wait_for()
    shown = opened.locator("pre").all_text_contents()
    assert shown[0].startswith("You are an expert") and "Question: Will" in shown[1] and shown[2].startswith("reasoning ")
    assert "<script>window.hacked=1" in shown[3] and page.evaluate("window.hacked === undefined")
    assert all(draw(page))
    page.goto(next(site.glob("arena/cohort/*/decision/*.html")).as_uri())
    page.locator("details#prompt summary").click()
    shows(page.locator("details#prompt pre").nth(1)).to_contain_text("market_id")
    assert page.seen == []


def test_a_printed_page_has_every_chart(site: Path, page: Any) -> None:
    page.set_viewport_size({"width": 1000, "height": 300})
    page.goto((site / "benchmark/release-0/index.html").as_uri())
    page.locator(".chart svg").first.wait_for(state="attached")
    assert not all(page.evaluate(_MARKS))
    page.evaluate(f"addEventListener('afterprint', () => {{ window.printed = {_MARKS}; }})")
    page.pdf()
    assert all(page.evaluate("window.printed"))
    assert page.seen == []


def test_a_chart_is_a_picture(site: Path, browser: Any) -> None:
    page = site / "benchmark/release-0/index.html"
    with Image.open(io.BytesIO(chromium.picture(browser, page, "Reliability diagrams", lines=["model-1"]))) as shown:
        colours = {colour for _, colour in shown.convert("RGB").getcolors(1 << 20)}
        assert shown.width > 300 and (0xD9, 0x70, 0x3F) in colours and (0x3A, 0x7F, 0xC1) not in colours
    with pytest.raises(LookupError, match="no line nobody"):
        chromium.picture(browser, page, "Reliability diagrams", lines=["nobody"])
    with pytest.raises(LookupError, match="no chart whose title begins"):
        chromium.picture(browser, page, "no such chart")


def test_a_page_is_painted(site: Path, browser: Any) -> None:
    assert 0 < chromium.paint(browser, site / "index.html") < 30


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
