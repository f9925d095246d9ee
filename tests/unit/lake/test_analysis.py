"""Queries in sql/analysis: each begins with a comment, runs on a published warehouse, and gives the described result."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from bellwether.errors import ConfigError
from bellwether.lake import Lake
from bellwether.lake.sql import MACROS, VIEWS, sql_text
from bellwether.lake.warehouse import publish, query
from bellwether.tables import table
from tests.rows import filled

ROOT = Path(__file__).resolve().parents[3]
CLOSE = datetime(2025, 9, 1, 18, tzinfo=UTC)
RELEASE = {"release": "q", "known_at": CLOSE, "rules": "1"}


def _market(number: int, category: str, outcome: str | None) -> dict[str, Any]:
    return {
        "day": date(2025, 9, 1),
        "venue": "kalshi",
        "market_id": f"M{number}",
        "category": category,
        "is_combo": number == 99,
        "close_time": CLOSE,
        "status": "settled",
        "outcome": outcome,
        "outcome_reason": None if outcome else "void",
        "source": "live",
        "known_at": CLOSE,
    }


def _price(hours: int, bid: str | None, ask: str) -> dict[str, Any]:
    quote = {"bid": Decimal(bid) if bid else None, "ask": Decimal(ask), "period_minutes": 60}
    return {"day": date(2025, 9, 1), "venue": "kalshi", "market_id": "M0", "at": CLOSE - timedelta(hours=hours), **quote, "known_at": CLOSE}


def _question(number: int, truth: str) -> dict[str, Any]:
    text = dict.fromkeys(("question", "description", "category", "series_ticker", "source", "market_id", "event_id", "cluster"), "x")
    return {
        **RELEASE,
        **text,
        "id": f"kalshi:M{number}",
        "source": "kalshi",
        "market_id": f"M{number}",
        "ground_truth": truth,
        "close_time": CLOSE,
        "cutoff": CLOSE,
        "ordinal": number,
        "version": 1,
    }


def _forecast(forecaster: str, number: int, p_yes: float | None, sample: int = 0, **asked: Any) -> dict[str, Any]:
    row = {"forecaster": forecaster, "question_id": f"kalshi:M{number}", "sample": sample, "p_yes": p_yes, "could_know": False}
    return {**RELEASE, **row, **asked}


def _line(forecaster: str, rank: int | None, brier: float, skill: float, lower: float | None = None) -> dict[str, Any]:
    counts = {"n": 2, "n_questions": 2, "coverage": 1.0, "n_clusters": 2, "could_know": 0, "could_know_share": 0.0, "failed": 0}
    return {
        **RELEASE,
        "forecaster": forecaster,
        "rank": rank,
        "kind": "constant",
        "brier": brier,
        "skill_vs_market": skill,
        "skill_vs_market_lower": lower,
        **counts,
    }


def _bin(ordinal: int, n: int) -> dict[str, Any]:
    edges = {"bin": ordinal, "lower_edge": ordinal / 2, "upper_edge": (ordinal + 1) / 2, "n": n, "n_clusters": n}
    rates = {"mean_forecast": 0.2, "yes_rate": 0.5, "yes_rate_lower": 0.1, "yes_rate_upper": 0.9} if n else {}
    return {**RELEASE, "forecaster": "a", **edges, **rates}


def _score(forecaster: str, scope: str, metric: str, value: float, n: int) -> dict[str, Any]:
    counts = {"n": n, "n_questions": 2, "n_clusters": n, "seed": 1}
    return {**RELEASE, "forecaster": forecaster, "scope": scope, "metric": metric, "value": value, "lower": value - 0.1, **counts}


def _pair(forecaster: str, other: str, difference: float, p_holm: float | None) -> dict[str, Any]:
    ends = {"lower": difference - 0.01, "upper": difference + 0.02}
    counts = {"n": 2, "n_clusters": 2}
    return {**RELEASE, "forecaster": forecaster, "other": other, "difference": difference, "p_holm": p_holm, **ends, **counts}


def _backtest(agent: str, episode: str, hours: int, pnl: str) -> dict[str, Any]:
    money = {"pnl": Decimal(pnl), "queue_pnl_low": Decimal(pnl) - 1, "queue_pnl_high": Decimal(pnl) + 2}
    return filled("replay/backtests", agent=agent, episode=episode, settled_at=CLOSE + timedelta(hours=hours), **money)


def _call(cost: str | None, **facts: Any) -> dict[str, Any]:
    tokens = {"input_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5}
    return {"attempts": 2, "latency": 1.5, "repaired": False, "cost": Decimal(cost) if cost else None, **tokens, **facts}


_DISTANCES = [
    (name, (metric, value, n))
    for name, n in ((">=365d", 3), ("<90d", 1), ("90d-180d", 2))
    for metric, value in (("accuracy", 0.5), ("brier", 0.25))
]
#: Agents, their P&L, and their orders.
_TRADERS = [("idle", Decimal(0), 0), ("loser", Decimal("-1.5"), 3), ("winner", Decimal("2.5"), 2)]
#: A contradictory model, one that failed twice, and one answer that the model could have known.
_ASKED = [
    _forecast("m", 0, 0.9, **_call("0.000100", p_yes_compat=0.1, contradiction="said no with 10 %")),
    _forecast("m", 1, 0.5, 0, **_call("0.000300", p_yes_compat=0.5, repaired=True)),
    _forecast("m", 1, 0.0, 1, **_call(None, p_yes_compat=0.0, contradiction="two answers", could_know=True)),
]
_FAILED = [
    _forecast("n", 0, None, **_call("0.000200", failure="timeout", error="took 600 s")),
    _forecast("n", 1, None, **_call(None, failure="timeout", error="took 601 s")),
]


def _reject(meant_for: str, ordinal: int) -> dict[str, Any]:
    venue = meant_for.removeprefix("raw/").split("_")[0]
    texts = {"venue": venue, "table": meant_for, "reason": "not a number", "body": "{}", "request": f"GET of {meant_for}"}
    return {"day": date(2025, 9, 1), **texts, "page": 0, "ordinal": ordinal, "fetched_at": CLOSE, "known_at": CLOSE}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    lake = Lake(str(folder / "lake"))
    outcomes = [("Weather", "yes"), ("Weather", "yes"), ("Weather", "no"), ("Weather", None), ("Sports", None)]
    markets = [_market(number, *one) for number, one in enumerate(outcomes)] + [_market(99, "Weather", "no")]
    markets[0]["volume"] = Decimal(7)
    markets[1] |= {"venue": "polymarket", "volume": Decimal(9)}
    for name, partition, rows in (
        ("clean/markets", ("2025-09-01",), markets),
        ("clean/prices", ("2025-09-01",), [_price(1, "0.6", "0.7"), _price(24, None, "0.9")]),
        ("benchmark/questions", ("q",), [_question(0, "yes"), _question(1, "no")]),
        ("benchmark/forecasts", ("q", "a"), [_forecast("a", 0, 0.9), _forecast("a", 1, 0.8, 0), _forecast("a", 1, 0.6, 1)]),
        ("benchmark/forecasts", ("q", "b"), [_forecast("b", 0, None), _forecast("b", 1, 0.5)]),
        ("benchmark/forecasts", ("q", "m"), _ASKED),
        ("benchmark/forecasts", ("q", "n"), _FAILED),
        ("benchmark/scores", ("q", "m"), [_score("m", f"distance:{name}", *one) for name, one in _DISTANCES]),
        ("benchmark/comparisons", ("q",), [_pair("a", "b", 0.2, 0.01), _pair("a", "c", 0.1, 0.2), _pair("b", "c", -0.3, 0.001)]),
        ("benchmark/leaderboard", ("q",), [_line("b", 2, 0.25, 0.1, -0.2), _line("c", None, 0.1, 0.0), _line("a", 1, 0.2, 0.9)]),
        ("benchmark/reliability", ("q", "a"), [_bin(0, 3), _bin(1, 0)]),
        ("benchmark/questions", ("q v2",), [{**_question(0, "no"), "release": "q v2"}, {**_question(2, "no"), "release": "q v2"}]),
        ("replay/backtests", ("early", "maker"), [_backtest("maker", "early", 1, "2.5")]),
        ("replay/backtests", ("late", "maker"), [_backtest("maker", "late", 5, "-1")]),
        ("replay/summary", (), [filled("replay/summary", agent=name, pnl=pnl, orders=count) for name, pnl, count in _TRADERS]),
        (
            "replay/market_pnl",
            ("early", "maker"),
            [filled("replay/market_pnl", agent="maker", episode="early", ticker="M0", pnl=Decimal("2.5"))],
        ),
        ("replay/episodes", ("early",), [filled("replay/episodes", episode="early", ticker="M0", event="E", venue="kalshi", result="YES")]),
        ("raw/kalshi_rejects", ("2025-09-01",), [_reject("raw/kalshi_archive", 0), _reject("raw/kalshi_markets", 0)]),
        ("raw/kalshi_archive_rejects", (), [_reject("raw/kalshi_archive", 0), _reject("raw/kalshi_archive", 1)]),
        ("raw/kalshi_series_rejects", (), [_reject("raw/kalshi_series", 0)]),
        ("raw/polymarket_rejects", ("2025-09-01",), [_reject("raw/polymarket_markets", 0)]),
    ):
        lake.write(table(name), partition, table(name).frame(rows), run_id="r1")
    publish(lake, folder / "warehouse.duckdb")
    return folder / "warehouse.duckdb"


def ask(path: Path, name: str, **params: str) -> pl.DataFrame:
    return query(path, sql_text(f"analysis/{name}"), params)


def test_the_leaderboard_is_ranked_and_the_unranked_come_last(path: Path) -> None:
    assert ask(path, "leaderboard", release="q").select("rank", "forecaster", "brier").rows() == [
        (1, "a", 0.2),
        (2, "b", 0.25),
        (None, "c", 0.1),
    ]


def test_the_site_leaves_out_a_skill_without_an_interval_except_that_of_copies(path: Path) -> None:
    lines = query(path, sql_text("site/leaderboard"), {"release": "q"}).filter(scope="all")
    assert dict(lines.select("forecaster", "skill_vs_market").rows()) == {"a": None, "b": 0.1, "c": 0.0}


def test_agents_without_an_order_come_last(path: Path) -> None:
    rows = ask(path, "trading_leaderboard").select("agent", "pnl").rows()
    assert rows == [("winner", 2.5), ("loser", -1.5), ("idle", 0.0)]


def test_reliability_says_where_the_forecaster_is_calibrated(path: Path) -> None:
    assert ask(path, "reliability", release="q", forecaster="a").select("bin", "n", "calibrated").rows() == [(0, 3, True), (1, 0, None)]


def test_the_hardest_questions_come_first_and_samples_are_averaged(path: Path) -> None:
    rows = ask(path, "hardest_questions", release="q")
    assert rows["id"].to_list() == ["kalshi:M1", "kalshi:M0"]
    assert rows["forecasters"].to_list() == [3, 2]
    assert rows["mean_brier"].to_list() == pytest.approx([(0.7**2 + 0.5**2 + 0.25**2) / 3, 0.1**2])


def test_outcome_rates_leave_combos_out(path: Path) -> None:
    weather, sports = ask(path, "outcome_rate_by_category").rows(named=True)
    assert weather == {"category": "Weather", "markets": 4, "resolved": 3, "events": 3, "yes_rate": pytest.approx(2 / 3)}
    assert sports == {"category": "Sports", "markets": 1, "resolved": 0, "events": 0, "yes_rate": None}


def test_a_price_path_runs_towards_the_close(path: Path) -> None:
    rows = ask(path, "price_path", venue="kalshi", market_id="M0")
    assert rows["hours_to_close"].to_list() == [24.0, 1.0]
    assert [None if mid is None else float(mid) for mid in rows["mid"]] == [None, 0.65]
    assert rows["outcome"].to_list() == ["yes", "yes"]


def test_failures_are_counted_by_kind_with_what_they_cost(path: Path) -> None:
    first, second = ask(path, "failures_by_model", release="q").rows(named=True)
    assert (first["forecaster"], first["failure"], first["questions"], first["share"]) == ("n", "timeout", 2, 1.0)
    assert (first["requests"], first["dollars"], first["one_reason"]) == (4, Decimal("0.000200"), "took 600 s")
    assert (second["forecaster"], second["failure"], second["questions"]) == ("b", "other", 1)


def test_costs_are_summed_where_they_are_known(path: Path) -> None:
    first, second = ask(path, "cost_per_model", release="q").rows(named=True)
    assert (first["forecaster"], first["forecasts"], first["requests"], first["input_tokens"]) == ("m", 3, 6, 300)
    assert (first["dollars"], first["rows_of_unknown_cost"]) == (Decimal("0.000400"), 1)
    assert first["dollars_per_forecast"] == pytest.approx(0.0004 / 3)
    assert (second["forecaster"], second["dollars_per_forecast"], second["rows_of_unknown_cost"]) == ("n", None, 1)


def test_contradictions_are_counted_without_what_could_be_known(path: Path) -> None:
    first, second = ask(path, "contradictions", release="q").rows(named=True)
    assert (first["forecaster"], first["answers"], first["contradictions"], first["repaired"], first["read_otherwise"]) == ("m", 2, 1, 1, 1)
    assert (first["brier"], first["brier_compat"]) == pytest.approx(((0.1**2 + 0.5**2) / 2, (0.9**2 + 0.5**2) / 2))
    assert (second["forecaster"], second["contradictions"], second["brier"]) == ("n", 0, None)


def test_distances_run_away_from_the_cutoff(path: Path) -> None:
    rows = ask(path, "accuracy_by_distance", release="q")
    assert rows["distance"].to_list() == ["<90d", "90d-180d", ">=365d"]
    assert rows["n"].to_list() == [1, 2, 3]
    assert rows.row(0, named=True)["accuracy_lower"] == pytest.approx(0.4)


def test_pairs_that_differ_name_the_better_one_first(path: Path) -> None:
    rows = ask(path, "pairs_that_differ", release="q")
    assert rows.select("better", "worse").rows() == [("b", "c"), ("b", "a")]
    surest, other = rows.rows(named=True)
    assert (surest["difference"], surest["difference_lower"], surest["difference_upper"]) == pytest.approx((0.3, 0.28, 0.31))
    assert (other["difference"], other["difference_lower"], other["difference_upper"]) == pytest.approx((0.2, 0.19, 0.22))


def test_calibration_by_category_is_that_of_the_combined_samples(path: Path) -> None:
    first, *_ = ask(path, "calibration_by_category", release="q").rows(named=True)
    assert (first["forecaster"], first["category"], first["n"]) == ("a", "x", 2)
    assert (first["mean_forecast"], first["yes_rate"], first["gap"]) == pytest.approx((0.8, 0.5, 0.3))
    assert first["brier"] == pytest.approx((0.1**2 + 0.7**2) / 2)


def test_pnl_adds_up_over_the_episodes_of_an_agent(path: Path) -> None:
    early, late = ask(path, "pnl_by_agent").rows(named=True)
    assert (early["episode"], early["pnl"], early["pnl_so_far"]) == ("early", Decimal("2.5"), Decimal("2.5"))
    assert (early["queue_pnl_low"], early["queue_pnl_high"]) == (Decimal("1.5"), Decimal("4.5"))
    assert (late["episode"], late["pnl_so_far"]) == ("late", Decimal("1.5"))


def test_forecasts_are_compared_with_the_price_on_the_same_questions(path: Path) -> None:
    first, *_ = ask(path, "forecasts_against_price", release="q", hours="1").rows(named=True)
    assert (first["forecaster"], first["n"]) == ("a", 1)
    assert (first["brier"], first["brier_price"]) == pytest.approx((0.01, 0.1225))
    assert first["skill"] == pytest.approx(1 - 0.01 / 0.1225, abs=1e-4)


def test_the_difference_between_versions_says_what_was_added_removed_and_changed(path: Path) -> None:
    rows = ask(path, "difference_between_versions", release="q", other="q v2")
    assert rows.select("question_id", "difference", "changed").rows() == [
        ("kalshi:M2", "added", None),
        ("kalshi:M0", "changed", ["outcome"]),
        ("kalshi:M1", "removed", None),
    ]
    assert ask(path, "difference_between_versions", release="q", other="q").is_empty()
    for pair in ({"release": "q", "other": "q v3"}, {"release": "q v3", "other": "q"}):
        with pytest.raises(ConfigError, match=r"there is no release q v3$"):
            ask(path, "difference_between_versions", **pair)


def test_what_was_traded_has_one_unit_per_column(path: Path) -> None:
    rows = query(path, "SELECT market_id, contracts_traded, dollars_traded FROM views.markets WHERE market_id IN ('M0', 'M1') ORDER BY 1")
    assert rows.rows() == [("M0", Decimal(7), None), ("M1", None, Decimal(9))]
    assert "volume" not in query(path, "DESCRIBE views.markets")["column_name"].to_list()


def test_pnl_per_market_has_the_outcome_in_the_words_of_clean_markets(path: Path) -> None:
    rows = query(path, "SELECT agent, market_id, outcome, pnl FROM views.pnl")
    assert rows.rows() == [("maker", "M0", "yes", Decimal("2.5"))]


def test_every_reject_is_told_once_though_a_day_files_those_of_the_archive_again(path: Path) -> None:
    rows = query(path, 'SELECT venue, "table", count(*) FROM views.rejects GROUP BY ALL ORDER BY ALL')
    assert rows.rows() == [
        ("kalshi", "raw/kalshi_archive", 2),
        ("kalshi", "raw/kalshi_markets", 1),
        ("kalshi", "raw/kalshi_series", 1),
        ("polymarket", "raw/polymarket_markets", 1),
    ]


#: tests/unit/arena/test_checks.py runs those of the arena.
ANALYSES = sorted(file.stem for file in ROOT.glob("sql/analysis/*.sql") if not file.stem.startswith("arena_"))
PAGE = (ROOT / "docs" / "querying.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_on_querying_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from cli import data

    monkeypatch.setattr(data, "settings", lambda: SimpleNamespace(warehouse_uri=path))
    shown = re.findall(r"^    bellwether query (\w+ --set .*)$", PAGE, re.MULTILINE)
    assert len(shown) == 3
    for line in shown:
        result = CliRunner().invoke(data.query, [*line.replace("sandbox-2026", "q").split(), "--json"])
        assert result.exit_code == 0, result.output
        assert result.output.strip().startswith("[")


def test_the_notebook_of_the_examples_runs(path: Path) -> None:
    notebook = json.loads((ROOT / "examples" / "warehouse.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"]).replace(".bellwether/sandbox/warehouse.duckdb", str(path))
            exec(source.replace('"sandbox-2026"', '"q"').replace("price_before(24)", "price_before(1)"), names)
    assert "clean.markets" in names["tables"]["table_name"].to_list()
    assert set(names["board"]["forecaster"]) == {"a", "b", "c"}
    assert names["chart"].to_dict()["layer"]
    assert names["against"].height


def test_the_price_before_the_resolution_is_one_that_was_known_by_then(path: Path) -> None:
    for hours, price in (("1", 0.65), ("0.5", 0.65), ("2", None), ("24", None)):
        rows = ask(path, "price_against_outcome", release="q", hours=hours)
        assert rows["mean_price"].to_list() == ([] if price is None else [price])
        if price is not None:
            assert rows.row(0, named=True)["brier"] == pytest.approx((1 - price) ** 2)


def test_every_analysis_and_every_query_of_the_page_on_querying_answers_with_rows(path: Path) -> None:
    known = {"release": "q", "forecaster": "a", "venue": "kalshi", "market_id": "M0", "hours": "1", "other": "q v2"}
    for name in ANALYSES:
        params = {param: known[param] for param in re.findall(r"\$(\w+)", re.sub("--.*", "", sql_text(f"analysis/{name}")))}
        assert ask(path, name, **params).height, name
    for statement in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
        found = query(path, statement.replace("'sandbox-2026'", "'q'").replace("'market-maker'", "'maker'").replace("n >= 10", "n >= 1"))
        assert found.height, statement


def test_files_of_sql_and_views_are_described() -> None:
    for file in ROOT.glob("sql/**/*.sql"):
        assert file.read_text(encoding="utf-8").startswith("-- One row "), file
    assert {name for name in (*VIEWS, *MACROS) if f"`views.{name}" not in PAGE} == set()
    assert {file.stem for file in ROOT.glob("sql/views/*.sql")} == {*VIEWS, *MACROS}
