"""Settled weather markets with hourly candles: from typed rows to a scored market baseline."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from bellwether.calibration import evaluate
from bellwether.calibration.scores import score
from bellwether.checks import rules_for, validate
from bellwether.forecasting import forecaster
from bellwether.lake.sql import run_sql
from bellwether.questions import build, release
from bellwether.tables import table
from bellwether.tables.benchmark import HORIZONS
from bellwether.tables.schema import PRICE, SIZE, TIME

pytestmark = pytest.mark.real

SCORED = ("1h", "6h", "24h")
SETTLED = pl.col("status").eq("finalized") & pl.col("result").is_in(["yes", "no"])


def recorded(folder: Path, kind: str) -> pl.DataFrame:
    frames = [pl.read_parquet(file) for file in sorted(folder.glob(f"kalshi_{kind}*.parquet"))]
    frame = pl.concat(frames, how="diagonal_relaxed").unique(maintain_order=True)
    return frame.with_columns(
        pl.col(name).dt.cast_time_unit("us").dt.replace_time_zone("UTC") for name, dtype in frame.schema.items() if dtype.is_temporal()
    )


def typed(name: str, frame: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    """`frame` as the table `name`: what it does not hold is null."""
    made = frame.select(**columns)
    absent = [pl.lit(None, column.dtype).alias(column.name) for column in table(name).columns if column.name not in made.columns]
    return table(name).validate(made.with_columns(absent).select(table(name).names))


def dollars(column: str) -> pl.Expr:
    return pl.col(column).round(6).cast(pl.String).cast(PRICE)


@pytest.fixture(scope="module")
def markets(recordings: Path) -> pl.DataFrame:
    return recorded(recordings / "kalshi" / "settled", "markets")


@pytest.fixture(scope="module")
def candles(recordings: Path, markets: pl.DataFrame) -> pl.DataFrame:
    frame = recorded(recordings / "kalshi" / "settled", "candles")
    return frame.with_columns(at=pl.from_epoch("end_ts").dt.replace_time_zone("UTC").cast(TIME)).join(
        markets.select("ticker", "open_time", "close_time"), on="ticker"
    )


@pytest.fixture(scope="module")
def cleaned(recordings: Path, markets: pl.DataFrame, candles: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """clean/markets and clean/prices made by the project's SQL from the recorded rows."""
    known_at = pl.lit(markets["close_time"].max() + timedelta(days=1), TIME)
    fetched = {
        "request": pl.lit("recorded"),
        "page": pl.lit(0, pl.Int32),
        "fetched_at": known_at,
        "known_at": known_at,
        "body": pl.lit("{}"),
    }
    day = pl.col("close_time").dt.date()
    raw_markets = typed(
        "raw/kalshi_markets",
        markets,
        day=day,
        **{
            name: pl.col(name)
            for name in (
                "ticker",
                "event_ticker",
                "market_type",
                "yes_sub_title",
                "open_time",
                "close_time",
                "status",
                "result",
                "rules_primary",
            )
        },
        is_combo=pl.lit(False),
        wire_format=pl.lit("current"),
        source=pl.lit("live"),
        **fetched,
    )
    events = recorded(recordings / "kalshi" / "settled", "events").unique("event_ticker", maintain_order=True)
    raw_events = typed(
        "raw/kalshi_events",
        events.join(markets.select("event_ticker", day=day).unique(), on="event_ticker"),
        **{name: pl.col(name) for name in ("day", "event_ticker", "series_ticker", "title", "category", "mutually_exclusive")},
        **fetched,
    )
    raw_candles = typed(
        "raw/kalshi_candles",
        candles,
        day=day,
        ticker=pl.col("ticker"),
        period_minutes=pl.lit(60, pl.Int32),
        end_at=pl.col("at"),
        yes_bid_close=pl.when(pl.col("yes_bid_close") > 0).then(dollars("yes_bid_close")),
        yes_ask_close=pl.when(pl.col("yes_ask_close") < 1).then(dollars("yes_ask_close")),
        price_close=dollars("price_close"),
        price_previous=dollars("price_prev"),
        volume=pl.col("volume").round(2).cast(pl.String).cast(SIZE),
        source=pl.lit("live"),
        **{name: value for name, value in fetched.items() if name != "body"},
    )
    inputs = {
        "kalshi_markets": raw_markets,
        "kalshi_archive": table("raw/kalshi_archive").empty(),
        "kalshi_events": raw_events,
        "kalshi_series": table("raw/kalshi_series").empty(),
        **{name: table(f"raw/{name}").empty() for name in ("polymarket_markets", "polymarket_events")},
        "resolutions": table("clean/resolutions").empty(),
    }
    days: dict[str, date] = {"first_day": raw_markets["day"].min(), "last_day": raw_markets["day"].max()}  # type: ignore[dict-item]
    clean_markets = run_sql(table("clean/markets"), inputs, days)
    priced = {"kalshi_candles": raw_candles, "polymarket_prices": table("raw/polymarket_prices").empty(), "markets": clean_markets}
    return clean_markets, run_sql(table("clean/prices"), priced, days)


@pytest.fixture(scope="module")
def questions(cleaned: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
    clean_markets, clean_prices = cleaned
    return build(release("weather-2026"), clean_markets.lazy(), clean_prices.lazy())


def test_every_settled_market_is_a_question_and_no_open_one(markets: pl.DataFrame, questions: pl.DataFrame) -> None:
    settled = markets.filter(SETTLED & (pl.col("close_time") > release("weather-2026").cutoff))
    assert settled.height > 0
    assert dict(questions.select("market_id", "ground_truth").rows()) == dict(settled.select("ticker", "result").rows())


def test_every_question_says_which_market_of_its_event_it_is(questions: pl.DataFrame) -> None:
    assert questions.filter(pl.struct("event_id", "question").is_duplicated()).is_empty()
    assert questions["description"].str.len_chars().min() >= 10


def test_clean_rows_and_questions_meet_every_rule(cleaned: tuple[pl.DataFrame, pl.DataFrame], questions: pl.DataFrame) -> None:
    for name, frame in zip(("clean/markets", "clean/prices", "benchmark/questions"), (*cleaned, questions), strict=True):
        assert [outcome for outcome in validate(table(name), frame, rules_for(name)) if not outcome.passed] == []


@pytest.mark.parametrize("horizon", HORIZONS)
def test_prices_equal_a_search_through_the_recorded_candles(horizon: str, candles: pl.DataFrame, questions: pl.DataFrame) -> None:
    by_market = {ticker[0]: rows.rows(named=True) for ticker, rows in candles.group_by("ticker")}
    for question in questions.rows(named=True):
        last = question["close_time"] - timedelta(hours=HORIZONS[horizon])
        before = [candle for candle in by_market.get(question["market_id"], []) if question["open_time"] <= candle["at"] <= last]
        if not before:
            assert (question[f"price_{horizon}"], question[f"price_{horizon}_at"]) == (None, None)
            continue
        candle = max(before, key=lambda candle: candle["at"])
        bid, ask = candle["yes_bid_close"], candle["yes_ask_close"]
        trade = candle["price_prev"] if candle["price_close"] is None else candle["price_close"]
        expected = (bid + ask) / 2 if bid > 0 and ask < 1 else trade
        assert question[f"price_{horizon}"] == (None if expected is None else Decimal(f"{expected:.6f}"))
        assert question[f"price_{horizon}_at"] == (None if expected is None else candle["at"])


def test_the_markets_price_is_a_good_forecast_that_sharpens_towards_the_close(questions: pl.DataFrame) -> None:
    brier = {}
    for horizon in SCORED:
        forecasts = forecaster(f"market-{horizon}").forecast(questions)
        answered = forecasts.join(questions, left_on="question_id", right_on="id").filter(pl.col("p_yes").is_not_null())
        assert answered.height == questions[f"price_{horizon}"].count() > 0
        brier[horizon] = evaluate(answered["p_yes"], answered["ground_truth"] == "yes")["brier"].value
        rows = score(forecasts, questions, replicates=0)
        interval = rows.filter(scope="all", metric="brier").select("lower", "upper").row(0)
        assert None not in interval and interval[0] < brier[horizon] < interval[1] < 0.25
        assert rows.filter(scope="all", metric="brier").select("value", "n").row(0) == (pytest.approx(brier[horizon]), answered.height)
        assert rows.filter(scope="all", metric="coverage")["value"].item() == pytest.approx(answered.height / questions.height)
    assert brier["1h"] < brier["6h"] < brier["24h"]


def test_a_question_without_recorded_candles_has_a_reason_and_no_market_forecast(candles: pl.DataFrame, questions: pl.DataFrame) -> None:
    forecasts = forecaster("market-24h").forecast(questions)
    silent = questions.filter(~pl.col("market_id").is_in(candles["ticker"].unique().to_list()))
    assert forecasts.height == questions.height
    assert forecasts.filter(pl.col("question_id").is_in(silent["id"].to_list()) & pl.col("error").is_null()).is_empty()
