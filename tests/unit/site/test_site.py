"""The static site: numbers, hostile texts, determinism, incremental builds, and bad input."""

from __future__ import annotations

import io
import json
import re
import shutil
import statistics
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.calibration import reliability_bands
from bellwether.errors import BellwetherError, ConfigError, LakeError
from bellwether.lake import Lake
from bellwether.lake.warehouse import publish, query
from bellwether.pages import columns
from bellwether.pages.model import Chart, Note
from bellwether.pages.render import POLICY, data_script
from bellwether.pages.values import money, number, p_value, percent, price, slug, thin_indices
from bellwether.site import build, contents, read_site_state, read_warehouse_state, texts, trading
from bellwether.site.data_pages import csv
from bellwether.site.release import consistency_bands
from bellwether.tables import TABLES, table
from tests.html_pages import Reader
from tests.site.world import NOW, Size, arena, published, write
from tests.site.world import rows as rows_of

SMALL = Size(questions=6, prices=3, models=3, samples=8, orders=40, cohorts=2, families=2, markets=30)
#: Every escape from text into markup, script, style or another reading direction.
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'`<!--]]>{{7*7}}"
    "javascript:window.hacked=1 \u202eabc\u2066 \u2028\u2029 =1+1 \U0001f4a3 "
)


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the chart library, which takes seconds to bundle and which only a browser needs."""
    monkeypatch.setattr(contents, "chart_library", lambda: b"")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def warehouse(place: Path) -> Path:
    return published(place, SMALL)


@pytest.fixture(scope="module")
def site(place: Path, warehouse: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "chart_library", lambda: b"")
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
        patch.setattr(contents, "chart_library", lambda: b"")
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


def test_every_cell_of_a_benchmark_leaderboard_is_the_warehouses(site: Path, warehouse: Path) -> None:
    board = query(warehouse, "FROM benchmark.leaderboard ORDER BY rank")
    found = Reader(site / "benchmark/release-0/index.html").tables["Leaderboard of release-0"][1:]
    assert [row[1][0] for row in found] == board["forecaster"].to_list()
    keys = data_of(site / "benchmark/release-0/index.board.js")["columns"]
    assert [one for one, part in zip(keys[1], keys[14], strict=True) if part == "all questions"] == board["forecaster"].to_list()
    for place, (cells, row) in enumerate(zip(found, board.iter_rows(named=True), strict=True)):
        exact = (0, "rank"), (2, "brier"), (4, "brier_skill"), (8, "accuracy"), (9, "ece"), (11, "coverage"), (12, "n")
        assert [keys[column][place] for column, _ in exact] == [float(row[name]) for _, name in exact]
        assert cells[2][0] == f"{row['brier']:.3f} [{row['brier_lower']:.3f}, {row['brier_upper']:.3f}]"
        assert (cells[3][0], cells[8][0]) == (row["group"], f"{row['accuracy'] * 100:.1f}\u00a0%")
        facts = Reader(site / f"benchmark/release-0/forecaster/{row['forecaster']}.html").tables["Its line of the leaderboard"]
        own = {name[0]: value for name, value in facts}
        estimated = {name for name in row if f"{name}_lower" in row}
        parts_of = {f"{name}_{end}" for name in estimated for end in ("lower", "upper", "reason")}
        for name in row.keys() - parts_of - {"brier_method"}:
            shown_text, shown_key = own[columns.title(name) + (" [95 %]" if name in estimated else "")]
            if isinstance(row[name], float):
                assert float(str(shown_key)) == row[name], name
            elif row[name] is None:
                assert shown_text == "–", name
        assert len(own) == len(row.keys() - parts_of)


def test_every_cell_of_the_arenas_books_is_the_warehouses(site: Path, warehouse: Path) -> None:
    board = query(warehouse, "FROM arena.leaderboard ORDER BY family")
    found = Reader(site / "arena/index.html").tables["Books of v1, live cohorts"]
    heads = {
        "Return": "return",
        "Profit": "profit",
        "Brier, stated": "brier_stated",
        "Cohorts": "cohorts",
        "Bets": "bets",
        "Win rate": "win_rate",
    }
    assert [cells[0][0] for cells in found[1:]] == board["family"].to_list()
    for cells, row in zip(found[1:], board.iter_rows(named=True), strict=True):
        shown_keys = {head[0]: cell[1] for head, cell in zip(found[0], cells, strict=True)}
        for head, name in heads.items():
            key = shown_keys[head]
            assert (None if key is None else float(key)) == (None if row[name] is None else float(row[name])), name


def test_every_cell_of_the_arenas_ranking_is_the_warehouses_with_its_interval(site: Path, warehouse: Path) -> None:
    rows = query(warehouse, "FROM arena.rankings WHERE NOT contaminated ORDER BY rank")
    found = Reader(site / "arena/index.html").tables["Ranking of v1, live cohorts"]
    heads = {
        "Brier vs price [95 %]": ("brier_vs_price", ".3f"),
        "Brier, stated [95 %]": ("brier_stated", ".3f"),
        "Return [95 %]": ("return", ".1%"),
    }
    heads |= {"Brier, size [95 %]": ("brier_size", ".3f"), "Skill over the price [95 %]": ("skill_price", ".2f")}
    assert [cells[1][0] for cells in found[1:]] == rows["family"].unique(maintain_order=True).to_list()
    for cells in found[1:]:
        shown = dict(zip((head[0] for head in found[0]), cells, strict=True))
        own = {row["metric"]: row for row in rows.filter(family=cells[1][0]).iter_rows(named=True)}
        for head, (name, form) in heads.items():
            value, lower, upper = (own[name][one] for one in ("value", "lower", "upper"))
            assert float(str(shown[head][1])) == value
            assert shown[head][0].replace("\u00a0", "") == f"{value:{form}} [{lower:{form}}, {upper:{form}}]"
        assert (shown["Rank"][1], shown["Group"][0]) == (
            str(float(own["brier_vs_price"]["rank"])),
            own["brier_vs_price"]["letters"],
        )


def test_families_that_could_know_the_outcomes_are_ranked_apart(site: Path) -> None:
    tables = Reader(site / "arena/index.html").tables
    ranked = [row[1][0] for row in tables["Ranking of v1, live cohorts"][1:]]
    apart = [row[1][0] for row in tables["Ranking of v1, live cohorts of models that could know the outcomes"][1:]]
    assert apart == ["family-1"] and not set(ranked) & set(apart)


def test_every_cell_of_the_table_of_agents_is_the_warehouses(site: Path, warehouse: Path) -> None:
    summary = query(warehouse, "FROM replay.summary ORDER BY pnl DESC")
    found = Reader(site / "trading/index.html").tables["Agents over all their episodes, by P&L"][1:]
    for cells, row in zip(found, summary.iter_rows(named=True), strict=True):
        assert cells[0][0] == row["agent"] and float(str(cells[3][1])) == float(row["pnl"])
        assert [float(str(cell[1])) for cell in cells[5:8]] == [row[name] for name in ("pnl_mean", "pnl_min", "pnl_max")]


def test_a_ratio_per_episode_is_the_mean_over_the_deviation_of_settled_episodes() -> None:
    pnl, unsettled = [1.0, 2.0, 6.0, 100.0, 1.0, 3.0], [False, False, False, True, False, False]
    runs = rows_of("replay/backtests", 6, agent=["a"] * 4 + ["b"] * 2, rules="r", pnl=pnl, unsettled=unsettled)
    assert trading.ratios_of(runs) == {("a", "r"): pytest.approx(statistics.mean(pnl[:3]) / statistics.stdev(pnl[:3]))}


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


def test_the_files_of_a_grid_hold_every_row(site: Path, warehouse: Path) -> None:
    kept = data_of(site / "trading/episode/episode-0/agent/agent-0.orders.js")
    orders = query(warehouse, "FROM replay.orders WHERE episode = 'episode-0' AND agent = 'agent-0' ORDER BY order_id")
    assert [row[0] for row in kept["rows"]] == [str(one) for one in orders["order_id"]] and kept["columns"][0] == orders[
        "order_id"
    ].to_list()


def test_no_head_of_a_table_is_the_name_of_a_column(site: Path) -> None:
    heads = {head for page in site.rglob("*.html") for head in re.findall(r"<th[^>]*>([^<]*)<", page.read_text())}
    assert {"Brier [95 %]", "P&amp;L", "Largest drawdown"} <= heads
    assert [head for head in heads if re.search(r"[a-z]_[a-z]", head)] == []


def test_a_reliability_diagram_has_the_band_of_calibrated_forecasts(site: Path, warehouse: Path) -> None:
    page = (site / "benchmark/release-0/forecaster/model-1.html").read_text()
    about = next(json.loads(one) for one in re.findall(r'<script type="application/json">(.*?)</script>', page) if "observed" in one)
    p = query(warehouse, "FROM benchmark.forecasts WHERE forecaster = 'model-1' AND release = 'release-0' ORDER BY question_id")["p_yes"]
    expected = reliability_bands(p, ["event"] * len(p), resamples=200).drop_nulls("lower")
    low, high = (about["fields"].index(name) for name in ("low", "high"))
    found = [(row[low], row[high]) for row in about["rows"] if row[low] is not None]
    assert found == list(expected.select("lower", "upper").iter_rows()) and len(found) > 1
    assert about["spec"]["layer"][0]["mark"]["type"] == "area"


def test_a_band_leaves_out_what_the_forecaster_could_know() -> None:
    p = [0.1, 0.15, 0.9, 0.95]
    answers = pl.DataFrame(
        {"question_id": list("abcd"), "forecaster": "m", "p_yes": [*p[:3], None], "could_know": [False, False, True, False]}
    )
    found = consistency_bands(answers, pl.DataFrame({"id": list("abcd"), "cluster": list("abcd")}))
    assert found["bin"].to_list() == [1] and found.select((pl.col("low") <= 0.125) & (pl.col("high") >= 0.125)).to_series().all()


# --- the pages ---------------------------------------------------------------------------------------------------------


def test_every_link_leads_to_a_file_of_the_site_and_every_page_has_the_policy(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    anchors: dict[Path, set[str]] = {}
    assert len(pages) > 50
    for page in pages:
        read = Reader(page)
        for link in read.links:
            if not link.startswith(("#", "data:,")):
                path, _, place = link.partition("#")
                target = page.parent / path
                assert target.resolve().is_relative_to(site) and (target.exists() or link.endswith("vega.js")), (page, link)
                if place:
                    anchors.setdefault(target.resolve(), set()).add(place)
        assert ("meta", {"http-equiv": "Content-Security-Policy", "content": POLICY}) in read.tags
        assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on") or name == "style"], page
        assert page.stat().st_size <= 300_000
        assert not re.search(r"https?://(?!vega\.github\.io/schema)", page.read_text("utf-8")), page
    assert len(anchors) > 5
    for target, places in anchors.items():
        assert places <= {named.get("id") for _, named in Reader(target).tags}, target


def test_a_score_leads_to_the_prompt_and_the_answer_in_three_clicks(site: Path, warehouse: Path) -> None:
    home = site / "benchmark/release-0/index.html"
    board = [link for link in Reader(home).links if "forecaster/model-0" in link]
    forecaster = (home.parent / board[0]).resolve()
    path, _, place = next(link for link in Reader(forecaster).links if "#said-" in link).partition("#")
    question = (forecaster.parent / path).resolve()
    assert place == "said-model-0" and place in [named.get("id") for _, named in Reader(question).tags]
    found = data_of(question.with_suffix(".said.js"))
    number = re.findall(r'<details class="text" id="(said-[^"]+)"', question.read_text()).index(place)
    words_of = {label: found["texts"][at] for label, at, _ in found["entries"][number]}
    row = query(warehouse, "FROM benchmark.questions WHERE id = $id", {"id": question.stem}).row(0, named=True)
    assert row["question"] in words_of["prompt, user"] and words_of["response, verbatim"].startswith("response-")
    assert "prompt, system" in words_of and words_of["parsed as"].startswith("probability of yes")
    assert len(found["texts"]) < sum(len(one) for one in found["entries"])


def test_a_prompt_of_another_protocol_is_not_made_up() -> None:
    question = {"source": "kalshi", "market_id": "m", "question": "Q?", "description": "d"}
    asked = pl.DataFrame(
        [{"forecaster": "a", "sample": 0, "as_of": NOW, "elicitation": form, "prompt_hash": "0" * 16, "call_key": "key", "repaired": None} for form in ("tags/1", "tags/0", "songs/1")]
    ).with_columns(pl.lit(None, pl.String).alias(name) for name in ("reasoning", "raw_response", "error", "answer", "parsed_by", "contradiction"))  # fmt: skip
    asked = asked.with_columns(p_yes=0.5, confidence=None, attempts=1, output_tokens=1, cost=None)
    (entry,) = texts.forecast_entries(question, asked.rows(named=True))
    assert [label for label, _, _ in entry.texts] == ["prompt, not shown", "parsed as"] * 3
    assert all("another version of the protocol" in body for label, body, _ in entry.texts if "not shown" in label)


def test_a_decision_has_its_prompt_and_its_answer(site: Path) -> None:
    page = next(site.glob("arena/cohort/*/decision/*.html"))
    (prompt,) = data_of(page.with_suffix(".said.js"))["entries"]
    texts = data_of(page.with_suffix(".said.js"))["texts"]
    assert next((label, texts[at]) for label, at, _ in prompt) == ("system", "rules-0")
    assert data_of(page.with_suffix(".answers.js"))["texts"] == ["answer-0"]
    label, at, rest = prompt[1]
    assert (
        label == "user"
        and texts[at].startswith("portfolio-0 of ")
        and "market_id" in texts[at] + (data_of(site / f"{rest}.js") if rest else "")
    )  # type: ignore[operator]


def test_the_arena_lists_recent_decisions_with_refused_legs_and_costs_of_the_warehouse(site: Path, warehouse: Path) -> None:
    tables = Reader(site / "arena/index.html").tables
    read_warehouse_state = query(
        warehouse,
        "SELECT a.family, d.decision_id, d.legs, list(r.reason ORDER BY r.leg) FILTER (r.reason IS NOT NULL) AS reasons FROM arena.decisions d JOIN arena.agents a USING (agent_id) "
        "LEFT JOIN arena.refusals r ON r.decision_id = d.decision_id AND r.superseded_at IS NULL GROUP BY ALL ORDER BY any_value(d.known_at) DESC, d.decision_id DESC LIMIT 15",
    )
    decisions = tables["Recent decisions"][1:]
    assert [(cells[1][0], cells[3][1]) for cells in decisions] == [
        (row["family"], str(float(row["legs"]))) for row in read_warehouse_state.rows(named=True)
    ]
    assert [cells[4][0].partition(":")[0] for cells in decisions] == [
        str(len(row["reasons"])) if row["reasons"] else "none" for row in read_warehouse_state.rows(named=True)
    ]
    spent = query(
        warehouse,
        "SELECT a.family, count(*) n, sum(d.input_tokens) i, sum(d.output_tokens) o, if(count(d.cost) < count(*), NULL, sum(d.cost))::DOUBLE c FROM arena.decisions d JOIN arena.agents a USING (agent_id) GROUP BY ALL",
    )
    costs = {
        cells[0][0]: [cells[place][1] and float(cells[place][1]) for place in (1, 3, 4, 5, 6, 7)]
        for cells in tables["Cost by family and token"][1:]
    }
    expected = {family: [None if value is None else float(value) for value in values] for family, *values in spent.iter_rows()}
    assert costs == {
        family: [n, i, o, cost, cost and pytest.approx(cost / n), cost and pytest.approx(1e6 * cost / (i + o), rel=1e-5)]
        for family, (n, i, o, cost) in expected.items()
    }
    assert {values[3] is None for values in costs.values()} == {True, False}


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
    charts = charts_of(site / "trading/episode/episode-1/index.html")
    heat_map, depth = (
        charts["Contracts at each price over time, with trades and fills"],
        charts["Contracts at the best 5 prices of each side: bids above, asks below"],
    )
    states = [row for row in heat_map if row["fill"] is None]
    assert len(states) == len(depth) == rows.height == 24
    for row, drawn in zip(rows.iter_rows(named=True), ({**one, **other} for one, other in zip(states, depth, strict=True)), strict=True):
        assert (drawn["name"], drawn["x"]) == (row["ticker"], f"{row['at']:%Y-%m-%dT%H:%M:%S}.000Z")
        for name in ("bid_depth", "ask_depth", "traded", "trade_price"):
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


def test_an_episode_without_books_says_so_and_many_markets_are_counted() -> None:
    (note,) = trading.book_parts(table("replay/books").empty().select(trading.BOOK_COLUMNS), [])
    assert isinstance(note, Note) and "no books" in note.body
    many = rows_of(
        "replay/books", 11, ticker=[f"m-{place % 10}" for place in range(11)], at=[NOW, *[NOW] * 9, NOW + timedelta(minutes=1)], bid=0.4
    )
    note, quotes, depths = trading.book_parts(many.sort("ticker", "at").select(trading.BOOK_COLUMNS), [])
    assert isinstance(note, Note) and "8 of 10 markets" in note.body
    assert isinstance(quotes, Chart) and isinstance(depths, Chart) and quotes.first == depths.first == ["m-0"]
    assert {row["name"] for row in quotes.rows} == {f"m-{place}" for place in range(8)}


def test_a_family_has_its_releases_marked_on_its_curve_and_in_a_table(site: Path, warehouse: Path) -> None:
    known = query(warehouse, "FROM arena.releases WHERE family = 'family-1' ORDER BY first_cohort")
    page = site / "arena/family/family-1.html"
    charts = [json.loads(one) for one in re.findall(r'<script type="application/json">(.*?)</script>', page.read_text()) if "rule" in one]
    (drawn,) = (chart["spec"]["datasets"]["marks"] for chart in charts if "datasets" in chart["spec"])
    expected = [{"x": str(row["first_cohort"]), "text": row["model"]} for row in known.iter_rows(named=True)]
    assert len(expected) == 2 and drawn == expected
    heads, *cells = Reader(page).tables["Releases of family-1 and their cohorts"]
    listed = [dict(zip((head for head, _ in heads), (cell for cell, _ in row), strict=True)) for row in cells]
    assert [(one["Release"], one["From"], one["To"], one["Cohorts"], one["Before it"]) for one in listed] == [
        (row["model"], str(row["first_cohort"]), str(row["last_cohort"]), str(row["cohorts"]), row["previous"] or "–")
        for row in known.iter_rows(named=True)
    ]


def test_a_cohort_can_be_downloaded_with_exactly_its_rows(site: Path, warehouse: Path) -> None:
    with zipfile.ZipFile(site / "arena/cohort/2025-07-06/cohort.zip") as found:
        trades = pl.read_parquet(io.BytesIO(found.read("data/trades.parquet")))
        assert trades.equals(query(warehouse, "FROM arena.trades WHERE week = '2025-07-06' ORDER BY trade_id"))
        assert (
            found.read("csv/ledger.csv").decode().count("\n") == pl.read_parquet(io.BytesIO(found.read("data/ledger.parquet"))).height + 1
        )
    assert "cohort.zip" in "".join(Reader(site / "arena/cohort/2025-07-06/index.html").links)


def test_what_all_prompts_of_a_week_end_with_is_kept_once() -> None:
    listed = "\n".join(f"- market {place}" for place in range(100))
    rows_ = [
        (agent, number, role, body)
        for agent in ("a", "b")
        for number, role, body in ((1, "user", f"cash of {agent}\n{listed}"), (2, "assistant", "{}"))
    ]
    found = texts.DecisionTexts.of(pl.DataFrame(rows_, schema=["decision_id", "number", "role", "content"], orient="row"), "arena/x")
    assert found.end == f"\n{listed}" and [path for path, _ in found.files()] == ["arena/x.js"]
    prompt, answer = found.entries("a")
    assert prompt.texts == [("user", "cash of a", "arena/x")] and answer.texts == [("verbatim", "{}", "")]
    assert texts.DecisionTexts.of(pl.DataFrame(rows_[:2], schema=["decision_id", "number", "role", "content"], orient="row"), "x").end == ""


def test_hostile_texts_are_text_everywhere(tmp_path: Path) -> None:
    def words(kind: str, place: int) -> str:
        if kind in ("release", "model", "episode", "agent"):
            return f"{kind}<script>\"'{place}"
        return f"{kind}{HOSTILE}{place}" + ("x" * 100_000 if kind in ("response", "criteria") and not place else "")

    size = Size(questions=3, prices=2, models=2, episodes=1, agents=1, samples=3, orders=30, cohorts=1, families=1, markets=30)
    build(published(tmp_path, size, words), tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        read = Reader(page)
        known = {
            "img": 0,
            "script": sum(tag == "script" and ("src" in named or named.get("type") == "application/json") for tag, named in read.tags),
        }
        assert {tag: sum(one == tag for one, _ in read.tags) for tag in known} == known, page
        assert not [named for _, named in read.tags if any(name.startswith("on") for name in named)], page
        assert not [link for link in read.links if ":" in link and link != "data:,"], page
        assert page.stat().st_size <= 300_000, page
    for data in (tmp_path / "site").rglob("*.js"):
        if data.parent.name != "static":
            text = data.read_text("utf-8")
            assert not re.search("[<>&\u2028\u2029]", text), data
            json.loads("[" + text[len("bellwether.put(") : -3] + "]")
    page = next((tmp_path / "site").glob("benchmark/*/index.html")).read_text("utf-8")
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
    assert snapshot(tmp_path / "fresh") == snapshot(site) and fresh.written == fresh.files - 1
    again = build(warehouse, tmp_path / "fresh")
    assert (again.written, again.files, again.bytes) == (0, fresh.files, fresh.bytes)
    assert read_site_state(tmp_path / "fresh") == read_warehouse_state(warehouse) and read_site_state(tmp_path / "none") is None


def test_a_new_cohort_writes_its_pages_and_few_others(place: Path, site: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "lake", tmp_path / "lake")
    shutil.copytree(site, tmp_path / "site")
    arena(Lake(str(tmp_path / "lake"), clock=lambda: NOW), replace(SMALL, cohorts=SMALL.cohorts + 1))
    publish(Lake(str(tmp_path / "lake")), tmp_path / "w.duckdb")
    before = snapshot(tmp_path / "site")
    second = build(tmp_path / "w.duckdb", tmp_path / "site")
    changed = {path for path, data in snapshot(tmp_path / "site").items() if before.get(path) != data}
    assert second.written == len(changed) - 1 < len(before) / 2
    assert not [path for path in changed if path.startswith(("benchmark", "trading")) or "cohort/2025-06-29" in path]
    assert build(tmp_path / "w.duckdb", tmp_path / "fresh").files == second.files
    assert snapshot(tmp_path / "fresh") == snapshot(tmp_path / "site")


def test_pages_state_the_publication_and_leaderboards_when_they_were_computed(site: Path, warehouse: Path) -> None:
    published = query(warehouse, "SELECT published_at FROM meta.publication").item()
    shared = (site / "static/publication.css").read_text()
    assert f'--published: "{published:%Y-%m-%dT%H:%M:%SZ}"; --max-age-hours: 36;' in shared
    assert f'.published::after {{ content: "{published:%Y-%m-%d %H:%M} UTC"; }}' in shared
    for path in site.rglob("*.html"):
        page = path.read_text()
        assert '<span class="published"></span>' in page and "static/publication.css" in page, path
    dated = {"index.html": published, "arena/index.html": NOW, "trading/index.html": NOW, "benchmark/index.html": NOW}
    for name, at in dated.items():
        assert f'As of <time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{at:%Y-%m-%d %H:%M} UTC</time>' in (site / name).read_text(), name


def test_every_page_names_a_table_whose_rebuild_failed(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "lake", tmp_path / "lake")
    lake, board = Lake(str(tmp_path / "lake"), clock=lambda: NOW), table("arena/leaderboard")
    lake.write(board, (), lake.slice(board).read(), run_id="r", inputs={"arena/trades": "of rows before the last ones"})
    publish(lake, tmp_path / "w.duckdb")
    build(tmp_path / "w.duckdb", tmp_path / "site")
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert pages and all(
        f"Out of date, because a rebuild failed or is overdue: arena/leaderboard of {NOW:%Y-%m-%d %H:%M} UTC." in page for page in pages
    )


def test_an_empty_warehouse_gives_pages_that_say_what_is_missing(tmp_path: Path) -> None:
    publish(Lake(str(tmp_path / "lake")), tmp_path / "w.duckdb")
    build(tmp_path / "w.duckdb", tmp_path / "site")
    home = (tmp_path / "site/index.html").read_text()
    assert "no rows of benchmark.leaderboard" in home and "no rows of replay.summary" in home and "no rows of arena.leaderboard" in home
    assert "no release of questions yet" in (tmp_path / "site/benchmark/index.html").read_text()
    assert (
        "no episodes yet" in (tmp_path / "site/trading/index.html").read_text()
        and "no cohorts yet" in (tmp_path / "site/arena/index.html").read_text()
    )


def test_a_warehouse_of_one_table_and_a_release_of_one_question_are_shown(tiny: Path, tmp_path: Path) -> None:
    assert "Leaderboard of release-0" in Reader(tiny / "site/benchmark/release-0/index.html").tables
    publish(Lake(str(tiny / "lake")), tmp_path / "w.duckdb", tables=[table("benchmark/questions")])
    build(tmp_path / "w.duckdb", tmp_path / "site")
    assert "No forecaster has been scored" in (tmp_path / "site/benchmark/release-0/index.html").read_text()


def test_nan_and_null_in_every_column_are_shown_as_missing(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write(lake, Size(questions=2, prices=1, models=2, episodes=1, agents=1, cohorts=1, families=1, markets=3))
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
    build(tmp_path / "w.duckdb", tmp_path / "site")
    assert all(
        cell[0] != "nan"
        for rows_ in Reader(tmp_path / "site/benchmark/release-0/index.html").tables.values()
        for row in rows_
        for cell in row
    )


@pytest.mark.parametrize("damage", ["missing", "no database", "another version", "files gone", "disk full"])
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
    elif damage == "another version":
        import duckdb

        with duckdb.connect(str(path)) as connection:
            connection.execute("ALTER TABLE benchmark.leaderboard DROP COLUMN brier")
            connection.execute("DELETE FROM meta.columns WHERE table_name = 'benchmark.leaderboard' AND column_name = 'brier'")
    elif damage == "files gone":
        (tmp_path / "site/benchmark/release-0/index.html").write_text("changed by hand, so that it is made again")
        before = snapshot(tmp_path / "site")
        gone = tiny / "lake/benchmark/forecasts"
        gone.rename(tiny / "gone")
    else:
        expected = BellwetherError

        def full(page: Any) -> Any:
            raise OSError(28, "No space left on device")

        for module in ("home", "benchmark", "release", "trading", "arena", "data_pages"):
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
