"""Recordings of Polymarket: all objects are parsed or rejected with a reason, and resolutions equal the recorded ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.tables.raw import POLYMARKET_BOOK, POLYMARKET_MARKETS, POLYMARKET_WINNERS
from bellwether.venues.polymarket.resolution import EVIDENCE, build_resolutions, resolve_markets
from bellwether.venues.polymarket.wire import parse_books, parse_markets, parse_winners
from bellwether.venues.wire.rejects import Origin, ParsedRecords

pytestmark = pytest.mark.real

DAY = date(2026, 3, 11)
FETCHED = datetime(2026, 7, 25, tzinfo=UTC)
ORIGIN = Origin("GET /recorded", 0, FETCHED)


@pytest.fixture(scope="module")
def folder(recordings: Path) -> Path:
    return recordings / "polymarket"


@pytest.fixture(scope="module")
def listed(folder: Path) -> list[list[Any]]:
    """Objects of every recorded page of Gamma's markets."""
    files = sorted((folder / "gamma_pages_2026_03").glob("*.json.gz"))
    return [json.loads(gzip.decompress(file.read_bytes()))["markets"] for file in files]


@pytest.fixture(scope="module")
def short_markets(folder: Path) -> list[dict[str, Any]]:
    """Gamma's objects of recorded five-minute markets, with the recorder's own interpretation."""
    (file,) = (folder / "resolved").glob("BTC-5m-markets-*.jsonl.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def clob(folder: Path) -> ParsedRecords:
    """The recorded page of the CLOB's markets. The file is the output of a program around it."""
    text = gzip.decompress((folder / "clob" / "clob_markets_2023.json.gz").read_bytes()).decode()
    answer, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return parse_winners(answer["data"], ORIGIN, day=DAY)


def test_every_listed_market_is_typed_or_has_no_end(listed: list[list[Any]]) -> None:
    parsed = [parse_markets(objects, ORIGIN, day=DAY) for objects in listed]
    rows, rejects = pl.concat(page.rows for page in parsed), pl.concat(page.rejects for page in parsed)
    POLYMARKET_MARKETS.validate(rows)
    assert rows.height + rejects.height == sum(map(len, listed))
    without_end = {market["id"] for objects in listed for market in objects if not market.get("endDate")}
    assert set(rejects["record_id"]) == without_end
    assert set(rejects["field"]) <= {"endDate"}


def test_prices_and_tokens_of_listed_markets_are_those_of_the_wire(listed: list[list[Any]]) -> None:
    for objects in listed:
        wire = {market["id"]: market for market in objects}
        for row in parse_markets(objects, ORIGIN, day=DAY).rows.iter_rows(named=True):
            market = wire[row["market_id"]]
            assert row["outcome_prices"] == [Decimal(price) for price in json.loads(market["outcomePrices"])]
            assert [row["yes_token"], row["no_token"]] == json.loads(market["clobTokenIds"])
            assert row["best_ask"] == (Decimal(str(market["bestAsk"])) if market["bestAsk"] != 1 else None)
            assert abs(row["volume"] - Decimal(market["volume"])) < Decimal("0.000001") if "volume" in market else row["volume"] is None


def test_every_five_minute_market_is_typed_and_resolved_as_recorded(short_markets: list[dict[str, Any]]) -> None:
    parsed = parse_markets([recorded["raw"] for recorded in short_markets], ORIGIN, day=DAY)
    assert (parsed.rows.height, parsed.rejects.height) == (len(short_markets), 0)
    assert parsed.rows["fee_rate"].null_count() == 0
    assert parsed.rows["token_ids"].to_list() == [recorded["token_ids"] for recorded in short_markets]
    verdicts = build_resolutions(parsed.rows.lazy(), POLYMARKET_WINNERS.empty().lazy())
    winners = dict(verdicts.select("market_id", "winner").iter_rows())
    for recorded in short_markets:
        assert recorded["resolved"]
        assert winners[recorded["raw"]["id"]] == ("Up" if recorded["outcome_prices"] == ["1", "0"] else "Down")
    assert set(verdicts["rule"]) == {"prices after UMA's word"}


def test_of_the_clobs_closed_markets_exactly_those_with_a_flag_are_resolved_by_it(clob: ParsedRecords) -> None:
    flags = (
        clob.rows.filter("closed")
        .group_by("condition_id", maintain_order=True)
        .agg(
            outcomes="outcome",
            outcome_prices="price",
            winners=pl.col("outcome").filter("winner"),
            is_50_50=pl.col("is_50_50_outcome").any(),
        )
    )
    evidence = pl.concat(
        [pl.DataFrame(schema=EVIDENCE), _named(flags).with_columns(closed=pl.lit(True), market_id="condition_id")], how="diagonal"
    )
    found = resolve_markets(evidence)
    told = Counter(found.select("status", "outcome_reason").iter_rows())
    assert told == {("settled", None): 579, ("settled", "void"): 7, ("closed", "undetermined"): 941 - 579 - 7}
    assert found.filter(pl.col("winner").is_not_null()).select(pl.col("winners").list.first() == pl.col("winner")).to_series().all()


def test_every_recorded_book_is_read_best_first(folder: Path) -> None:
    for file in (folder / "clob").glob("books_*.jsonl.gz"):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            wire = {book["asset_id"]: book for book in json.loads(line)["books"]}
            parsed = parse_books(list(wire.values()), ORIGIN, day=DAY)
            POLYMARKET_BOOK.validate(parsed.rows)
            assert parsed.rejects.is_empty()
            assert parsed.rows.height == sum(len(book["bids"]) + len(book["asks"]) for book in wire.values())
            best = parsed.rows.filter(level=0).select("token_id", "side", "price", "size").rows()
            assert best == [
                (token, side, Decimal(book[f"{side}s"][-1]["price"]), Decimal(book[f"{side}s"][-1]["size"]))
                for token, book in wire.items()
                for side in ("bid", "ask")
                if book[f"{side}s"]
            ]


def test_recorded_resolutions_agree_but_for_markets_that_had_not_ended(folder: Path) -> None:
    """For two markets, the recording reports the last price as settlement, although UMA had not resolved them and they end months later."""
    recorded = json.loads(gzip.decompress((folder / "resolved" / "uma_resolutions_1000.json.gz").read_bytes()))
    assert len({row["polymarket_condition_id"] for row in recorded}) == len(recorded)
    found = resolve_markets(pl.DataFrame([_evidence(row) for row in recorded], schema=EVIDENCE, orient="row"))
    expected = {0.0: ("no", None), 1.0: ("yes", None), 0.5: (None, "void")}
    differing = [
        (row["settled_price"], row["uma_resolution_status"], verdict["status"], verdict["outcome_reason"])
        for row, verdict in zip(recorded, found.iter_rows(named=True), strict=True)
        if (verdict["status"], verdict["outcome"], verdict["outcome_reason"])
        != ("settled", *expected.get(row["settled_price"], (None, "scalar")))
    ]
    assert sorted(differing) == [(0.0245, "", "active", "undetermined"), (0.085, "", "active", "undetermined")]
    assert Counter(found["outcome"]) == {"no": 650, "yes": 350, None: 7}
    assert found.filter(pl.col("status") == "settled").height == 1005


def _evidence(row: dict[str, Any]) -> dict[str, Any]:
    """Return the evidence for a market in the recording. A market with a close after its "resolution" was not closed."""
    closed, resolved = (datetime.fromtimestamp(row[name], UTC) for name in ("closed_at_unix", "resolved_at_unix"))
    price = Decimal(str(row["settled_price"]))
    return {
        "market_id": row["polymarket_condition_id"],
        "market_type": "binary",
        "outcomes": ["Yes", "No"],
        "closed": closed <= resolved,
        "uma_resolution_status": row["uma_resolution_status"],
        "uma_statuses": row["uma_status_history"],
        "outcome_prices": [price, 1 - price],
        "closed_at": closed,
        "fetched_at": resolved,
    }


def _named(flags: pl.DataFrame) -> pl.DataFrame:
    words = pl.col("outcomes").list.eval(pl.element().str.to_lowercase()).list.sort()
    binary = words == pl.lit(["no", "yes"], dtype=pl.List(pl.String))
    return flags.with_columns(market_type=pl.when(binary).then(pl.lit("binary")).otherwise(pl.lit("named")))
