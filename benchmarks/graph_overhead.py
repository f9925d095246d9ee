"""What Dagster and our wiring add: the demo's graph in process against the same work as plain calls of the domain library.

Both sides run in this process, over the same days of the same world, from empty folders. The overhead is what the graph takes
longer, as a share of its total.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bellwether.tables import table

if TYPE_CHECKING:
    from bellwether.lake import Lake

FIRST, DAYS = date(2026, 3, 18), 31
RELEASE = "sandbox-2026"
TARGET = 0.5


def _plain(folder: Path) -> None:
    """The demo's work without Dagster: pull, write, SQL, checks, questions, forecasts, scores, pictures, publication."""
    from bellwether.lake import Lake
    from bellwether.lake.warehouse import publish

    lake = Lake(str(folder / "lake"))
    days = [FIRST + timedelta(days=offset) for offset in range(DAYS)]
    _pull(lake, days)
    _clean(lake, days)
    _evaluate(lake, folder / "reports")
    publish(lake, folder / "warehouse.duckdb")


def _pull(lake: Lake, days: list[date]) -> None:
    from assets.venues.raw import DAYS_AT_ONCE, KALSHI_TABLES, POLYMARKET_TABLES
    from bellwether.sandbox import serve
    from bellwether.sandbox.worlds import generated
    from bellwether.venues.http.pages import PageStore
    from bellwether.venues.http.together import together
    from bellwether.venues.kalshi import pull as kalshi
    from bellwether.venues.kalshi.client import KalshiClient, RateLimit
    from bellwether.venues.polymarket import pull as polymarket
    from bellwether.venues.polymarket.client import ClobClient, GammaClient

    unlimited = RateLimit(tokens_per_second=1e9)
    kalshi_pages, polymarket_pages = PageStore(lake.storage), PageStore(lake.storage, "polymarket")

    async def pull_kalshi(url: str) -> list[Any]:
        async with KalshiClient(url, limits=unlimited) as client:
            lake.write(table("raw/kalshi_series"), (), (await kalshi.pull_series(client, kalshi_pages)).series(), run_id="plain")
            lake.write(table("raw/kalshi_archive"), (), (await kalshi.pull_archive(client, kalshi_pages)).markets(), run_id="plain")
            archive = lake.slice(table("raw/kalshi_archive")).scan()
            pull = partial(kalshi.pull_day, client, kalshi_pages, archive=archive, plan=kalshi.CandlePlan())
            return await together((partial(pull, day) for day in days), most=DAYS_AT_ONCE)

    async def pull_polymarket(gamma_url: str, clob_url: str) -> list[Any]:
        async with GammaClient(gamma_url, limits=unlimited) as gamma, ClobClient(clob_url, limits=unlimited) as clob:
            pull = partial(polymarket.pull_day, gamma, clob, polymarket_pages, plan=polymarket.PricePlan())
            return await together((partial(pull, day) for day in days), most=DAYS_AT_ONCE)

    with serve(generated(7, datetime(2026, 7, 1, tzinfo=UTC))) as site:
        found = {"kalshi": asyncio.run(pull_kalshi(site.kalshi)), "polymarket": asyncio.run(pull_polymarket(site.gamma, site.clob))}
    for pulls, tables in ((found["kalshi"], KALSHI_TABLES), (found["polymarket"], POLYMARKET_TABLES)):
        for pulled in pulls:
            for name, part in tables.items():
                lake.write(table(name), (pulled.day.isoformat(),), getattr(pulled, part)(), run_id="plain")


def _clean(lake: Lake, days: list[date]) -> None:
    from assets.venues.raw import DAY_TABLES
    from bellwether.checks.rules import RULES
    from bellwether.lake.sql import run_sql
    from bellwether.venues.polymarket.resolution import resolutions

    keys = [(day.isoformat(),) for day in days]
    span: dict[str, Any] = {"first_day": days[0], "last_day": days[-1]}
    raw = ("kalshi_markets", "kalshi_events", "kalshi_series", "kalshi_archive", "polymarket_markets", "polymarket_events")
    inputs: dict[str, Any] = {name: lake.slice(table(f"raw/{name}")) for name in raw}
    verdicts = resolutions(inputs["polymarket_markets"].scan(), lake.slice(table("raw/polymarket_winners")).scan())
    markets = run_sql(table("clean/markets"), {**inputs, "resolutions": verdicts}, span)
    sources = {name: lake.slice(table(f"raw/{name}")) for name in ("kalshi_candles", "polymarket_prices")}
    prices = run_sql(table("clean/prices"), {**sources, "markets": markets}, span)
    made = {"clean/resolutions": verdicts, "clean/markets": markets, "clean/prices": prices}
    for name, rows in made.items():
        for day, key in zip(days, keys, strict=True):
            lake.write(table(name), key, rows.filter(day=day), run_id="plain")
    for name in ("raw/kalshi_series", "raw/kalshi_archive"):
        _check(lake, name, ())
    for name in (*DAY_TABLES, *made):
        if name in RULES:
            _check(lake, name, *keys)


def _baselines() -> dict[str, Any]:
    """The forecasters that ask no model: those are measured by benchmarks/model_calls.py."""
    from bellwether.forecasting import KINDS, forecasters

    return {name: entry for name, entry in forecasters().items() if entry.kind in KINDS}


def _evaluate(lake: Lake, reports: Path) -> None:
    from bellwether.calibration.scores import compare_forecasters, comparison_table, leaderboard, reliability, score
    from bellwether.checks import require
    from bellwether.questions import build, release
    from bellwether.questions.analysis import analyse
    from bellwether.report.figures import release_figures
    from bellwether.report.inputs import TABLES, Inputs, registered
    from bellwether.report.plots import calibration_overlays, confidence_histograms, reliability_diagram, score_comparison
    from bellwether.report.write import write_report

    markets, prices = lake.slice(table("clean/markets")), lake.slice(table("clean/prices"))
    asked = build(release(RELEASE), markets.scan(), prices.scan())
    require("clean/markets", markets.scan())
    lake.write(table("benchmark/questions"), (RELEASE,), asked, run_id="plain")
    _check(lake, "benchmark/questions", (RELEASE,))
    kinds = {}
    for name, forecaster in _baselines().items():
        forecasts = forecaster.forecast(asked)
        lake.write(table("benchmark/forecasts"), (RELEASE, name), forecasts, run_id="plain")
        _check(lake, "benchmark/forecasts", (RELEASE, name))
        lake.write(table("benchmark/scores"), (RELEASE, name), score(forecasts, asked), run_id="plain")
        bins = reliability(forecasts, asked)
        lake.write(table("benchmark/reliability"), (RELEASE, name), bins, run_id="plain")
        bands, curves = calibration_overlays(forecasts, asked)
        reliability_diagram(bins, name, bands=bands, curves=curves)
        confidence_histograms(forecasts, asked, name)
        kinds[name] = forecaster.kind
    scores = lake.slice(table("benchmark/scores")).read()
    comparison = compare_forecasters(lake.slice(table("benchmark/forecasts")).read(), asked)
    board = leaderboard(scores, kinds, comparison=comparison)
    pairs = comparison_table(comparison, release=RELEASE, known_at=board["known_at"].to_list()[0])
    for name, rows in (("leaderboard", board), ("comparisons", pairs), ("dataset_analysis", analyse(asked).frame())):
        lake.write(table(f"benchmark/{name}"), (RELEASE,), rows, run_id="plain")
    score_comparison(board)
    inputs = registered(Inputs(**{name: lake.slice(declared).read() for name, declared in TABLES.items()}))
    write_report(inputs, reports)
    for figure in release_figures(inputs):
        figure.draw()


def _check(lake: Lake, name: str, *partitions: tuple[str, ...]) -> None:
    from bellwether.checks import rules_for, validate
    from bellwether.checks.rules import columns_read

    declared, rules = table(name), rules_for(name)
    rows = lake.slice(declared, list(partitions)).scan().select(columns_read(declared, rules))
    validate(declared, rows.collect(), rules)


def _graph(folder: Path) -> None:
    """The same through the jobs of the command line, on a Dagster instance of its own."""
    import dagster as dg

    from assets.benchmark.runs import release
    from assets.venues import runs
    from assets.warehouse.runs import publish
    from bellwether.settings import Settings
    from orchestration.definitions import build_defs
    from orchestration.runner import Runner

    (folder / "dagster").mkdir(parents=True)
    config = Settings(home=folder)
    log = {"module": "orchestration.event_log", "class": "EventLog", "config": {"home": str(folder / "dagster")}}
    with dg.DagsterInstance.local_temp(str(folder / "dagster"), overrides={"event_log_storage": log}) as instance:
        runner = Runner(build_defs(config=config), instance)
        runs.series(runner)
        runs.archive(runner)
        runs.days(runner, FIRST, FIRST + timedelta(days=DAYS - 1))
        release(runner, RELEASE, list(_baselines()))
        publish(runner)


def run() -> list[dict[str, Any]]:
    """One line: the share of the graph's time that the plain calls do not need."""
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    seconds: dict[str, list[float]] = {"plain": [], "graph": []}
    with tempfile.TemporaryDirectory() as folder:
        _plain(Path(folder) / "warm-up")
        for turn in range(2):
            for name, work in (("plain", _plain), ("graph", _graph)):
                started = time.perf_counter()
                work(Path(folder) / f"{name}-{turn}")
                seconds[name].append(time.perf_counter() - started)
    plain, graph = min(seconds["plain"]), min(seconds["graph"])
    detail = f"{DAYS} days, 9 forecasters: graph {graph:.1f} s, plain calls {plain:.1f} s"
    return [
        {"name": "overhead of Dagster and wiring in the demo graph", "ratio": (graph - plain) / graph, "target": TARGET, "detail": detail}
    ]
