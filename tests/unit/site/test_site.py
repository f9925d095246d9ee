"""The static site: numbers, hostile texts, determinism, incremental builds, and bad input."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.calibration import reliability_bands
from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish, query
from bellwether.pages.render import POLICY, data_script
from bellwether.pages.values import money, number, p_value, percent, price, slug, thin_indices
from bellwether.settings import settings
from bellwether.site import build, read_site_state, read_warehouse_state, writer
from bellwether.site.data_pages import csv
from bellwether.site.paths import agent_path, family_path
from bellwether.tables import TABLES, table
from tests.html_pages import Reader
from tests.unit.site.world import HOSTILE, NOW, Size, arena, published, write

SMALL = Size(questions=4, prices=2, models=3, samples=8, orders=20, cohorts=2, families=2, markets=12)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the chart library, which takes seconds to bundle and which only a browser needs."""
    monkeypatch.setattr(writer, "chart_library", lambda: b"")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def warehouse(place: Path) -> Path:
    return published(place, SMALL)


@pytest.fixture(scope="module")
def site(place: Path, warehouse: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "chart_library", lambda: b"")
        build(warehouse, place / "site")
    yield place / "site"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake, its warehouse and its site for one release of one question."""
    folder = tmp_path_factory.mktemp("tiny")
    lake = Lake(str(folder / "lake"))
    write(lake, Size(questions=1, prices=0, models=1, episodes=0, cohorts=0))
    publish(lake, folder / "w.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "chart_library", lambda: b"")
        build(folder / "w.duckdb", folder / "site")
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def data_of(path: Path) -> dict[str, Any]:
    """Return the value of a data script: {texts, entries} of a page's texts, or {rows, columns} of a grid."""
    text = path.read_text("utf-8")
    found: dict[str, Any] = json.loads("[" + text[len("bellwether.put(") : -3] + "]")[1]
    return found


# --- numbers -----------------------------------------------------------------------------------------------------------


def columns_of(page: Path, caption: str, name: str = "") -> list[dict[str, tuple[str, Any]]]:
    """Return the rows of a table as text and key by title of the column. name: file name of a table with a data file."""
    heads, *rows = Reader(page).tables[caption]
    if name:
        keys = data_of(page.with_suffix(f".{name}.js"))["columns"]
        rows = [[(cell[0], keys[column][place]) for column, cell in enumerate(row)] for place, row in enumerate(rows)]
    return [dict(zip((title for title, _ in heads), row, strict=True)) for row in rows]


def number_of(cell: tuple[str, Any]) -> float | None:
    return None if cell[1] is None else float(cell[1])


def test_every_cell_of_a_benchmark_leaderboard_is_the_warehouses(site: Path, warehouse: Path) -> None:
    board = query(warehouse, "FROM benchmark.leaderboard ORDER BY rank")
    found = columns_of(site / "benchmark/release-0/index.html", "Leaderboard of release-0", "board")
    exact = {"Rank": "rank", "Coverage": "coverage", "Scored": "n", "Accuracy": "accuracy", "Calibration error": "ece"}
    exact |= {"Brier score [95\u00a0%]": "brier", "Gain over the price [95\u00a0%]": "skill_vs_market", "Brier skill": "brier_skill"}
    for cells, row in zip(found, board.iter_rows(named=True), strict=True):
        assert {title: number_of(cells[title]) for title in exact} == {
            title: None if row[name] is None else float(row[name]) for title, name in exact.items()
        }
        assert cells["Brier score [95\u00a0%]"][0] == f"{row['brier']:.3f} [{row['brier_lower']:.3f},\u00a0{row['brier_upper']:.3f}]"
        assert (cells["Rank"][0], cells["Forecaster"][0]) == (f"{row['rank']} {row['group']}", f"{row['forecaster']} language model")
        assert cells["Cost"][0] == "$0.00100"
    parts = data_of(site / "benchmark/release-0/index.board.js")["columns"]
    scope = [head for head, _ in Reader(site / "benchmark/release-0/index.html").tables["Leaderboard of release-0"][0]].index("Questions")
    assert parts[scope].count("all questions") == board.height < len(parts[scope])
    part = query(warehouse, "FROM benchmark.scores WHERE scope = 'category:category-1' AND metric = 'brier'")
    brier = {parts[1][place]: parts[2][place] for place, one in enumerate(parts[scope]) if one == "category: category-1"}
    assert brier == dict(part.select("forecaster", "value").iter_rows())


def test_every_cell_of_the_arenas_leaderboard_is_the_warehouses_with_its_interval(site: Path, warehouse: Path) -> None:
    rows = query(warehouse, "FROM arena.rankings WHERE NOT contaminated ORDER BY rank")
    books = {row["family"]: row for row in query(warehouse, "FROM arena.leaderboard").iter_rows(named=True)}
    found = columns_of(site / "arena/index.html", "Leaderboard of v1, live cohorts", f"board-{slug('v1, live cohorts')}")
    metrics = {"Brier minus price": ("brier_vs_price", ".3f"), "Return": ("return", ".1%"), "Brier score": ("brier_stated", ".3f")}
    metrics |= {"Brier score of bet sizes": ("brier_size", ".3f"), "Skill over the price": ("skill_price", ".2f")}
    assert [cells["Family"][1] for cells in found] == rows["family"].unique(maintain_order=True).to_list()
    for cells in found:
        own = {row["metric"]: row for row in rows.filter(family=cells["Family"][1]).iter_rows(named=True)}
        for title, (name, form) in metrics.items():
            value, lower, upper = (own[name][one] for one in ("value", "lower", "upper"))
            assert number_of(cells[f"{title} [95\u00a0%]"]) == value
            assert cells[f"{title} [95\u00a0%]"][0].replace("\u00a0", "") == f"{value:{form}} [{lower:{form}},{upper:{form}}]"
        assert cells["Rank"] == (
            f"{own['brier_vs_price']['rank']} {own['brier_vs_price']['letters']}",
            float(own["brier_vs_price"]["rank"]),
        )
        for title, name in {"Profit": "profit", "Cohorts": "cohorts", "Bets": "bets", "Cost": "cost"}.items():
            value = books[cells["Family"][1]][name]
            assert number_of(cells[title]) == (None if value is None else float(value)), name


def test_every_cell_of_the_table_of_agents_is_the_warehouses(site: Path, warehouse: Path) -> None:
    summary = query(warehouse, "FROM replay.summary ORDER BY pnl DESC")
    found = columns_of(site / "trading/index.html", "Agents over all their episodes, by P&L", "agents")
    for cells, row in zip(found, summary.iter_rows(named=True), strict=True):
        assert cells["Agent"][0] == f"{row['agent']} {row['episodes']} episodes"
        assert (number_of(cells["P&L"]), number_of(cells["Mean P&L [lowest, highest]"])) == (float(row["pnl"]), row["pnl_mean"])
        ends = [money(row[name]).text for name in ("pnl_mean", "pnl_min", "pnl_max")]
        assert cells["Mean P&L [lowest, highest]"][0] == f"{ends[0]} [{ends[1]},\u00a0{ends[2]}]"


def test_an_interval_is_drawn_on_the_scale_of_its_column(site: Path, warehouse: Path) -> None:
    board = query(warehouse, "FROM benchmark.leaderboard ORDER BY rank")
    page = (site / "benchmark/release-0/index.html").read_text()
    lines = re.findall(r'<line class="([iv])" x1="([\d.]+)" x2="([\d.]+)"', page)[: 2 * board.height]
    low, high = board["brier_lower"].min(), board["brier_upper"].max()
    for place, row in enumerate(board.iter_rows(named=True)):
        ends, value = ([float(one) for one in lines[2 * place + one][1:]] for one in (0, 1))
        expected = [2 + 96 * (row[name] - low) / (high - low) for name in ("brier_lower", "brier_upper", "brier")]
        assert [*ends, value[0]] == pytest.approx(expected, abs=0.06)


def headline(page: Path) -> dict[str, tuple[str, str | None]]:
    """Return the tiles of a page by name: text and exact value."""
    tiles = "".join(re.findall(r'<dl class="stats">.*?</dl>', page.read_text("utf-8"), re.DOTALL))
    found = re.findall(r"<dt[^>]*>(.*?)</dt>\s*<dd([^>]*)>(.*?)</dd>", tiles, re.DOTALL)
    keys = [re.search(r'data-key="([^"]*)"', attributes) for _, attributes, _ in found]
    return {
        unescape(name): (unescape(re.sub("<[^>]*>", "", shown)).strip(), key and key[1])
        for (name, _, shown), key in zip(found, keys, strict=True)
    }


def test_headline_numbers_are_those_of_the_warehouse(site: Path, warehouse: Path) -> None:
    board = query(warehouse, "FROM benchmark.leaderboard ORDER BY rank")
    summary = query(warehouse, "FROM replay.summary ORDER BY pnl_mean DESC, agent").row(0, named=True)
    home = headline(site / "index.html")
    assert home["Questions"][0] == str(board["n_questions"][0])
    for row in board.rows(named=True):
        found = headline(site / f"benchmark/release-0/forecaster/{row['forecaster']}.html")
        assert [
            float(str(found[one][1])) for one in ("Rank", "Brier score", "Skill over the base rate", "Calibration error", "Coverage")
        ] == [row[one] for one in ("rank", "brier", "brier_skill", "ece", "coverage")]
    agent = headline(site / f"trading/agent/{summary['agent']}.html")
    assert [float(str(agent[one][1])) for one in ("P&L", "Mean P&L")] == [float(summary[one]) for one in ("pnl", "pnl_mean")]
    run = query(warehouse, "FROM replay.backtests ORDER BY episode, agent").row(0, named=True)
    sheet = headline(site / f"trading/episode/{run['episode']}/agent/{run['agent']}.html")
    assert [float(str(sheet[one][1])) for one in ("P&L", "Fees")] == [float(run[one]) for one in ("pnl", "fees")]


def test_headline_numbers_of_the_arena_are_those_of_the_warehouse(site: Path, warehouse: Path) -> None:
    for row in query(warehouse, "FROM arena.leaderboard").rows(named=True):
        family = headline(site / family_path(row["family"]))
        assert [float(str(family[one][1])) for one in ("Profit", "Bets")] == [float(row["profit"]), row["bets"]]
    agent, cash = query(warehouse, "SELECT agent_id, initial_cash FROM arena.agents ORDER BY 1").row(0)
    total = query(warehouse, f"SELECT total FROM arena.portfolios WHERE agent_id = '{agent}' ORDER BY \"at\" DESC LIMIT 1").item()
    own = headline(site / agent_path(agent))
    assert (own["Total"][1], own["Return"][1]) == (str(float(total)), str(float(total - cash) / float(cash)))


def test_numbers_are_written_as_they_are_rounded() -> None:
    assert (number(-0.0004, 3).text, number(float("nan"), 2).text, number(None).text, number(float("inf")).text) == ("0.000", "–", "–", "∞")
    assert [price(value).text for value in (0.0005, Decimal("0.9995"), 0.5, 0.041, 1, None)] == [
        "0.0005",
        "0.9995",
        "0.50",
        "0.041",
        "1.00",
        "–",
    ]
    assert (money(-1234.5, signed=True).text, percent(0.256, 1).text, number(1234567).text) == ("−$1,234.50", "25.6\u00a0%", "1,234,567")
    assert [(p_value(p).text, p_value(p).key) for p in (0.0, 9.9e-5, 1e-4, None, float("nan"))] == [
        ("< 0.0001", 0.0),
        ("< 0.0001", 9.9e-5),
        ("0.0001", 1e-4),
        ("–", None),
        ("–", None),
    ]
    assert p_value(0.0004, 3).text == "< 0.001"
    assert list(thin_indices(5, 9)) == [0, 1, 2, 3, 4] and (
        thin_indices(1000, 7)[0],
        thin_indices(1000, 7)[-1],
        len(thin_indices(1000, 7)),
    ) == (0, 999, 7)


def test_a_reliability_diagram_has_the_band_of_calibrated_forecasts(site: Path, warehouse: Path) -> None:
    page = (site / "benchmark/release-0/forecaster/model-1.html").read_text()
    about = next(json.loads(one) for one in re.findall(r'<script type="application/json">(.*?)</script>', page) if "observed" in one)
    p = query(warehouse, "FROM benchmark.forecasts WHERE forecaster = 'model-1' AND release = 'release-0' ORDER BY question_id")["p_yes"]
    expected = reliability_bands(p, ["event"] * len(p), resamples=200).drop_nulls("lower")
    low, high = (about["fields"].index(name) for name in ("low", "high"))
    found = [(row[low], row[high]) for row in about["rows"] if row[low] is not None]
    assert found == list(expected.select("lower", "upper").iter_rows()) and len(found) > 1
    assert about["spec"]["layer"][0]["mark"]["type"] == "area"


# --- the pages ---------------------------------------------------------------------------------------------------------


def test_every_link_leads_to_a_file_of_the_site_and_every_page_has_the_policy(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    anchors: dict[Path, set[str]] = {}
    assert len(pages) > 50
    for page in pages:
        read = Reader(page)
        for link in read.links:
            if page.name == "404.html" and link.startswith("/"):
                assert (site / link[1:]).exists(), link
            elif not link.startswith(("#", "data:,")):
                path, _, place = link.partition("#")
                target = page.parent / path
                assert target.resolve().is_relative_to(site) and (target.exists() or link.endswith("vega.js")), (page, link)
                if place:
                    anchors.setdefault(target.resolve(), set()).add(place)
        policy = ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
        assert policy in read.tags or (page.name == "404.html" and "<style>" in page.read_text("utf-8"))
        assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name == "style"], page
        assert page.stat().st_size <= 300_000
        assert not re.search(r"https?://(?!vega\.github\.io/schema)", page.read_text("utf-8").rpartition("</style>")[2]), page
    assert len(anchors) > 3
    for target, places in anchors.items():
        assert places <= {named.get("id") for _, named in Reader(target).tags}, target


def test_a_tear_sheet_has_the_fills_of_its_agent_on_the_price_and_the_positions_they_leave(site: Path, warehouse: Path) -> None:
    run = query(warehouse, "FROM replay.backtests WHERE episode = 'episode-0' ORDER BY agent").row(0, named=True)
    charts = charts_of(site / f"trading/episode/episode-0/agent/{slug(run['agent'])}.html")
    fills = query(warehouse, f"FROM replay.fills WHERE episode = 'episode-0' AND agent = '{run['agent']}' ORDER BY ticker, fill_id")
    drawn = [row for row in charts["Contracts at each price over time, with trades and fills"] if row["fill"] is not None]
    expected = [(row["ticker"], float(row["price"]), "bought" if row["action"] == "buy" else "sold") for row in fills.iter_rows(named=True)]
    assert sorted((row["name"], row["fill"], row["way"]) for row in drawn) == sorted(expected)
    assert expected and all(row["what"].startswith(f"{run['agent']}: ") for row in drawn)
    held = charts["Contracts of YES held, those of NO as negative"]
    for ticker in set(fills["ticker"]):
        total, positions = 0.0, []
        for row in fills.filter(ticker=ticker).iter_rows(named=True):
            total += float(row["size"]) * (1 if (row["action"] == "buy") == (row["side"] == "yes") else -1)
            positions.append(total)
        assert [row["y"] for row in held if row["name"] == ticker][: len(positions)] == pytest.approx(positions)


def charts_of(page: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all charts of a page by title."""
    beside = page.with_suffix(".charts.js")
    held = json.loads("[" + beside.read_text()[len("bellwether.put(") : -3] + "]")[1] if beside.exists() else []
    found = {}
    for holder in re.findall(r"<figure.*?</figure>", page.read_text(), re.DOTALL):
        title, data = (
            re.findall(one, holder, re.DOTALL)[0] for one in (r"<figcaption[^>]*>(.*?)</figcaption>", r'"application/json">(.*?)</script>')
        )
        about = json.loads(data)
        about = held[about["place"]] if "place" in about else about
        found[title] = [dict(zip(about["fields"], row, strict=True)) for row in about["rows"]]
    return found


def test_an_episode_has_the_books_of_its_markets_over_time_with_every_number_of_the_warehouse(site: Path, warehouse: Path) -> None:
    rows = query(warehouse, "FROM replay.books WHERE episode = 'episode-1' ORDER BY ticker, \"at\"")
    heat_map = charts_of(site / "trading/episode/episode-1/index.html")["Contracts at each price over time, with trades and fills"]
    states = [row for row in heat_map if row["fill"] is None]
    assert len(states) == rows.height == 24
    for row, drawn in zip(rows.iter_rows(named=True), states, strict=True):
        assert (drawn["name"], drawn["x"]) == (row["ticker"], f"{row['at']:%Y-%m-%dT%H:%M:%S}.000Z")
        for name in ("traded", "trade_price"):
            assert drawn[name] == (None if row[name] is None else float(row[name])), name
        for name in ("bid_prices", "bid_sizes", "ask_prices", "ask_sizes"):
            assert drawn[name] == (None if row[name] is None else [float(one) for one in row[name]]), name
    assert [row["bid_prices"] for row in states].count(None) == 2 and [row["ask_prices"] for row in states].count([]) == 2
    for one, after in pairwise(states):
        assert one["until"] == (after["x"] if after["name"] == one["name"] else one["x"])
    fills = query(warehouse, "FROM replay.fills WHERE episode = 'episode-1'")
    drawn = [(row["fill"], row["way"]) for row in heat_map if row["fill"] is not None]
    expected = [(float(row["price"]), "bought" if row["action"] == "buy" else "sold") for row in fills.iter_rows(named=True)]
    assert sorted(drawn) == sorted(expected) and expected


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A site whose names and texts are hostile."""

    def words(kind: str, place: int) -> str:
        if kind in ("release", "model", "episode", "agent"):
            return f"{kind}<script>\"'{place}"
        return f"{kind}{HOSTILE}{place}" + ("x" * 100_000 if kind in ("response", "criteria") and not place else "")

    size = Size(questions=2, prices=1, models=1, episodes=1, agents=1, samples=2, orders=4, cohorts=1, families=1, markets=4)
    return build(published(tmp_path, size, words), tmp_path / "site").folder


def test_hostile_texts_are_text_everywhere(hostile: Path) -> None:
    for page in hostile.rglob("*.html"):
        read = Reader(page)
        known = {
            "img": 0,
            "script": sum(tag == "script" and ("src" in named or named.get("type") == "application/json") for tag, named in read.tags),
        }
        assert {tag: sum(one == tag for one, _ in read.tags) for tag in known} == known, page
        assert not [named for _, named in read.tags if any(name.startswith("on") for name in named)], page
        assert not [link for link in read.links if ":" in link and link != "data:,"], page
        assert page.stat().st_size <= 300_000, page
    for data in hostile.rglob("*.js"):
        if data.parent.name != "static":
            text = data.read_text("utf-8")
            assert not re.search("[<>&\u2028\u2029]", text), data
            json.loads("[" + text[len("bellwether.put(") : -3] + "]")
    page = next(hostile.glob("benchmark/*/index.html")).read_text("utf-8")
    assert "&lt;/script&gt;&lt;script&gt;window.hacked=1" in page and "release&lt;script&gt;" in page


def test_a_csv_file_has_no_formula() -> None:
    frame = pl.DataFrame({"text": ["=1+1", "+1", "-1", "@x", "\tx", "plain", None], "number": [-1] * 7, "list": [["=a", "b"]] * 7})
    assert csv(frame).decode().splitlines()[1:4] == ["'=1+1,-1,'=a; b", "'+1,-1,'=a; b", "'-1,-1,'=a; b"]
    assert pl.read_csv(csv(frame))["number"].to_list() == [-1] * 7


def test_names_never_share_a_file() -> None:
    names = ["a", "A", "a/b", "a b", "../x", "index", "con", "é", "a" * 300, "", ".", "a.", "a-b", "\u202e"]
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names) and all(re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,60}", one) and ".." not in one for one in slugs)


def test_a_script_of_data_is_json_that_ends_no_element() -> None:
    data = data_script("x", [HOSTILE, float("nan"), {"a": None}]).decode()
    assert "<" not in data and "\u2028" not in data
    assert json.loads("[" + data[len("bellwether.put(") : -3] + "]") == ["x", [HOSTILE, None, {"a": None}]]


# --- building ----------------------------------------------------------------------------------------------------------


def test_the_same_warehouse_gives_the_same_bytes_and_writes_nothing_again(site: Path, warehouse: Path, tmp_path: Path) -> None:
    fresh = build(warehouse, tmp_path / "fresh")
    assert snapshot(tmp_path / "fresh") == snapshot(site) and fresh.written == fresh.files
    again = build(warehouse, tmp_path / "fresh")
    assert (again.written, again.files, again.bytes) == (0, fresh.files, fresh.bytes)
    assert read_site_state(tmp_path / "fresh") == read_warehouse_state(warehouse) and read_site_state(tmp_path / "none") is None


def copy_lake(place: Path, target: Path) -> None:
    """Copy a lake with its catalog."""
    shutil.copytree(place / "lake", target / "lake")
    shutil.copy(place / "lake.catalog.db", target)


@pytest.fixture
def with_new_cohort(place: Path, site: Path, tmp_path: Path) -> Path:
    """A folder with the warehouse `w.duckdb` of one cohort more, and the former site."""
    copy_lake(place, tmp_path)
    shutil.copytree(site, tmp_path / "site")
    arena(Lake(str(tmp_path / "lake"), clock=lambda: NOW), replace(SMALL, cohorts=SMALL.cohorts + 1))
    publish(Lake(str(tmp_path / "lake")), tmp_path / "w.duckdb")
    return tmp_path


def test_a_new_cohort_writes_its_pages_and_few_others(with_new_cohort: Path) -> None:
    tmp_path = with_new_cohort
    before = snapshot(tmp_path / "site")
    second = build(tmp_path / "w.duckdb", tmp_path / "site")
    changed = {path for path, data in snapshot(tmp_path / "site").items() if before.get(path) != data}
    assert second.written == len(changed) < len(before) / 2
    assert not [path for path in changed if path.startswith(("benchmark", "trading")) or "cohort/2025-06-29" in path]


@pytest.fixture
def outdated(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The warehouse of the settings' lake, in which a rebuild failed."""
    copy_lake(warehouse.parent, tmp_path)
    monkeypatch.setenv("BELLWETHER_LAKE", str(tmp_path / "lake"))
    settings.cache_clear()
    lake, board = Lake(str(tmp_path / "lake"), clock=lambda: NOW), table("arena/leaderboard")
    lake.write(board, (), lake.slice(board).read(), run_id="r", inputs={"arena/trades": "of rows before the last ones"})
    publish(lake, tmp_path / "w.duckdb")
    return tmp_path / "w.duckdb"


def test_every_page_names_a_table_whose_rebuild_failed(outdated: Path, tmp_path: Path) -> None:
    build(outdated, tmp_path / "site")
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert pages and all(
        f"Out of date, because a rebuild failed or is overdue: arena/leaderboard of {NOW:%Y-%m-%d %H:%M} UTC." in page for page in pages
    )


@pytest.fixture
def undefined(tmp_path: Path) -> Path:
    """A warehouse with NaN and null in every column that allows them."""
    lake = Lake(str(tmp_path / "lake"))
    write(lake, Size(questions=1, prices=1, models=1, episodes=1, agents=1, cohorts=1, families=1, markets=3))
    for name in (
        "benchmark/leaderboard",
        "benchmark/scores",
        "benchmark/reliability",
        "benchmark/comparisons",
        "replay/summary",
        "arena/leaderboard",
        "arena/rankings",
        "arena/calibration",
    ):
        for partition, manifest in lake.manifests(table(name)).items():
            frame = pl.read_parquet(lake.storage.location(manifest.file))
            columns = [column for column in TABLES[name].columns if column.name not in TABLES[name].key]
            bad: list[Any] = [pl.lit(float("nan"), pl.Float64).alias(one.name) for one in columns if one.dtype == pl.Float64()]
            bad += [pl.lit(None, one.dtype).alias(one.name) for one in columns if one.nullable and one.dtype != pl.Float64()]
            lake.write(table(name), partition, frame.with_columns(bad), run_id="bad")
    publish(lake, tmp_path / "w.duckdb")
    return tmp_path / "w.duckdb"


def test_nan_and_null_in_every_column_are_shown_as_missing(undefined: Path, tmp_path: Path) -> None:
    build(undefined, tmp_path / "site")
    assert all(
        cell[0] != "nan"
        for rows_ in Reader(tmp_path / "site/benchmark/release-0/index.html").tables.values()
        for row in rows_
        for cell in row
    )


@pytest.mark.parametrize("damage", ["missing", "no database", "files gone", "disk full"])
def test_a_site_that_cannot_be_built_leaves_the_old_one(damage: str, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.duckdb"
    shutil.copyfile(tiny / "w.duckdb", path)
    shutil.copytree(tiny / "site", tmp_path / "site")
    before = snapshot(tmp_path / "site")
    expected: type[BellwetherError] = LakeError
    if damage == "missing":
        path.unlink()
    elif damage == "no database":
        path.write_bytes(b"nothing" * 100)
    elif damage == "files gone":
        (tmp_path / "site/benchmark/release-0/index.html").write_text("changed by hand, so that it is made again")
        before = snapshot(tmp_path / "site")
        gone = tiny / "lake/benchmark/forecasts"
        gone.rename(tiny / "gone")
    else:
        expected = BellwetherError

        def full(page: Any) -> Any:
            raise OSError(28, "No space left on device")

        for module in ("home", "benchmark", "release", "trading", "arena", "data_pages", "method"):
            monkeypatch.setattr(f"bellwether.site.{module}.render", full)
        (tmp_path / "site" / "index.html").write_text("changed by hand, so that it is made again")
        before = snapshot(tmp_path / "site")
    try:
        with pytest.raises(expected, match=r"w\.duckdb|site"):
            build(path, tmp_path / "site")
    finally:
        if damage == "files gone":
            (tiny / "gone").rename(tiny / "lake/benchmark/forecasts")
    assert snapshot(tmp_path / "site") == before and not list(tmp_path.glob(".site*"))


def test_a_folder_of_something_else_is_not_replaced(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="contains other files"):
        build(warehouse, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_leaks_of_a_release_are_shown_with_the_scores_without_them(site: Path) -> None:
    page = site / "benchmark/release-0/index.html"
    assert "100.0 % of the questions have a leak." in unescape(page.read_text(encoding="utf-8")).replace("\u00a0", " ")
    tables = Reader(page).tables
    scores = [[cell[0] for cell in row] for row in tables["Scores with and without leaks"][1:]]
    assert [row[:3] for row in scores] == [
        [f"model-{n}", part, "0.210 [0.110,\u00a00.310]"] for n in range(SMALL.models) for part in ("all", "no leak")
    ]
    charts = charts_of(page)
    jumps = charts["Jump of the Brier score at the knowledge cutoff; above 0 the forecaster may remember outcomes"]
    assert [(row["name"], row["value"], row["lower"]) for row in jumps] == [(f"model-{n}", 0.21, 0.11) for n in range(SMALL.models)]
    curve = charts["Brier score by days from the knowledge cutoff to the close; shaded: 95 % intervals over clusters"]
    points = [(row["x"], row["y"], row["lower"], row["upper"]) for row in curve if row["name"] == "model-0"]
    assert points == [(x, 0.21, 0.11, 0.31) for x in (-455.0, -45.0, 455.0)]
    leaks = [[cell[0] for cell in row] for row in tables["Questions with a leak"][1:]]
    assert [row[2] for row in leaks] == [f"statement-{number}" for number in range(SMALL.questions)]
