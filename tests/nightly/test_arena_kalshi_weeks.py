"""Weeks on the sandbox's Kalshi, reconstructed and live: independent of later events, with a balanced ledger."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from bellwether.arena.identity import week_of
from bellwether.arena.weekly.context import decision_time, freeze_universe
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.checks import rules_for, validate
from bellwether.errors import ConfigError
from bellwether.sandbox.world import GeneratedWorld
from bellwether.tables import arena as tables
from tests.nightly.sandbox_arena import KalshiArena
from tests.unit.arena.test_time_travel import prompts
from tests.unit.arena.weeks import LATER, SEVEN, WEEK

NEXT = WEEK + SEVEN
AT = decision_time(NEXT)
KALSHI = pl.col("market_id").str.starts_with("KX")


# --- a plain computation of the ledger -----------------------------------------------------------------------------


def fee(shares: Decimal, price: Decimal, half: bool, *, sold: bool = False) -> Decimal:
    """Fee of April 2026: 7 % of price × (1 − price), rounded up to 0.01 cents, then up to a whole cent of the balance."""
    trade = (Decimal("0.07") / (2 if half else 1) * shares * price * (1 - price)).quantize(Decimal("0.0001"), ROUND_CEILING)
    cost = (shares * price).quantize(Decimal("0.000001"))
    change = (cost if sold else -cost) - trade
    return trade + change - change.quantize(Decimal("0.01"), ROUND_FLOOR)


def payout(world: GeneratedWorld, market_id: str, side: str) -> Decimal | None:
    """Return the payout of a share in dollars by the sandbox's own outcome. None if the market is void."""
    found = world.market(market_id)
    if found is None:
        event = world.event(market_id)
        assert event is not None
        found = next(one for one in event.markets if one.terms["yes_sub_title"].strip() == side)
        side = "YES"
    if found.determination.value is None:
        return None
    yes = Decimal(found.determination.value) / 10_000
    return yes if side == "YES" else 1 - yes


def plain_cash(trades: pl.DataFrame) -> dict[str, Decimal]:
    """Return the final cash of each agent that bought and never sold."""
    world, cash = GeneratedWorld(7), {}
    for row in trades.iter_rows(named=True):
        assert row["action"] == "BUY"
        cash.setdefault(row["agent_id"], Decimal(10_000))
        pays = payout(world, row["market_id"], row["side"])
        cost = row["amount"]
        assert abs(row["shares"] * row["price"] - cost) <= row["shares"] / 1_000_000, "the price is the average of what was paid"
        paid = cost if pays is None else (row["shares"] * pays).quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
        cash[row["agent_id"]] += paid - cost - row["fee"]
    return cash


# --- a reconstructed week, after one on Polymarket ------------------------------------------------------------------


def decide_on_both_venues(folder: Path) -> KalshiArena:
    """Return an arena with a cohort on Polymarket, and a week later one on Kalshi. Both decide in the second week."""
    arena = KalshiArena(folder, lineup="few", methodology=None)
    arena.decide(WEEK)
    arena.lineup, arena.methodology = "tiny", "small-kalshi"
    arena.decide(NEXT)
    for number in range(5):
        arena.evidence(WEEK + number * SEVEN)
    return arena


def assert_each_cohort_stays_on_its_venue(decided: KalshiArena) -> None:
    universe, trades, agents = (decided.read(one) for one in (tables.UNIVERSE, tables.TRADES, tables.AGENTS))
    both = universe.filter(pl.col("week") == NEXT)
    assert Counter(both["venue"]) == {"polymarket": 25, "kalshi": 60}
    assert both.group_by("digest").agg(first=pl.col("place").min(), last=pl.col("place").max())["first"].to_list() == [1, 1]
    assert universe.filter(pl.col("week") == WEEK, KALSHI).is_empty()
    assert dict(agents.select("week", "methodology").iter_rows()) == {WEEK: "small", NEXT: "small-kalshi"}
    of_cohort = (
        trades.with_columns(cohort=pl.col("agent_id").str.slice(0, 10), kalshi=KALSHI).group_by("cohort").agg(pl.col("kalshi").unique())
    )
    assert dict(of_cohort.iter_rows()) == {str(WEEK): [False], str(NEXT): [True]}
    assert decided.read(tables.DECISIONS).filter(pl.col("week") == NEXT).height == agents.height, "every agent of both cohorts decides once"


def assert_universes_are_checked_by_venue(decided: KalshiArena) -> None:
    both = decided.read(tables.UNIVERSE).filter(pl.col("week") == NEXT)
    rules = [rule for rule in rules_for("arena/universe") if rule.name == "one_digest"]
    assert [found.passed for found in validate(tables.UNIVERSE, both, rules)] == [True]
    torn = both.with_columns(digest=pl.when(KALSHI & (pl.col("place") == 2)).then(pl.lit("another")).otherwise("digest"))
    assert [found.passed for found in validate(tables.UNIVERSE, torn, rules)] == [False]


def assert_the_past_is_rebuilt_from_dates_and_candles(decided: KalshiArena) -> None:
    universe = decided.read(tables.UNIVERSE).filter(KALSHI)
    assert universe["known_at"].unique().to_list() == [AT]
    assert universe["reconstructed"].all()
    assert universe["volume"].null_count() == universe["tick"].null_count() == universe.height
    assert universe.filter(~pl.col("closes_at").is_between(AT + timedelta(days=1), AT + timedelta(days=14))).is_empty()
    assert {2} < set(universe["outcomes"].list.len()), "contracts with two sides, and races with more outcomes"
    trades = decided.read(tables.TRADES).filter(KALSHI)
    assert trades.height > 3
    assert trades["quote_source"].unique().to_list() == ["candlesticks"]
    assert trades.filter(pl.col("quoted_at") > AT).is_empty()
    assert trades["ask"].null_count() == 0
    assert trades.filter(pl.col("price") != pl.col("mid")).is_empty()
    assert trades["unmatched"].null_count() == trades.height, "candles have no sizes"


def assert_the_ledger_equals_a_plain_computation(decided: KalshiArena) -> None:
    found = decided.results()
    assert found.violations == []
    trades = decided.read(tables.TRADES).filter(KALSHI)
    world = GeneratedWorld(7)
    for row in trades.iter_rows(named=True):
        series = world.market(row["market_id"]) or world.event(row["market_id"])
        assert series is not None
        half = "Financials" in str(decided.read(tables.UNIVERSE).filter(pl.col("market_id") == row["market_id"])["category"][0])
        assert row["fee"] == fee(row["shares"], row["price"], half), row["trade_id"]
    positions = found.frames["arena/positions"].filter(KALSHI)
    assert set(positions["status"]) == {"settled"}
    ledger = found.frames["arena/ledger"].filter(KALSHI)
    assert set(ledger["kind"]) >= {"BUY", "FEE", "SETTLE"}
    last = dict(ledger.sort("number").group_by("agent_id").agg(pl.col("cash").last()).iter_rows())
    assert {name: Decimal(cash) for name, cash in last.items()} == plain_cash(trades)
    assert all(cash == cash.quantize(Decimal("0.01")) for cash in ledger.filter(pl.col("kind") == "FEE")["cash"]), "cents, in April 2026"


# --- the same, whatever happened later -----------------------------------------------------------------------------


@dataclass
class Tampered(KalshiArena):
    """Arena in which Kalshi reports altered data about the time after `AT`."""

    changed: Counter[str] = field(default_factory=Counter)

    def transport(self, inner: httpx.AsyncBaseTransport | None) -> httpx.AsyncBaseTransport | None:
        assert inner is not None
        return _Tampering(inner, self.changed)


#: Fields of a listing that describe the present. Other values must change nothing.
NOW_FIELDS: dict[str, Any] = {
    "last_price_dollars": "0.1230",
    "yes_bid_dollars": "0.1100",
    "yes_ask_dollars": "0.1300",
    "no_bid_dollars": "0.8700",
    "no_ask_dollars": "0.8900",
    "volume_fp": "987654.25",
    "volume_24h_fp": "4321.00",
    "open_interest_fp": "999.00",
    "price_level_structure": "deci_cent",
    "updated_time": "2026-06-30T01:02:03Z",
    "expiration_value": "another",
}


class AlteringTransport(httpx.AsyncBaseTransport, ABC):
    """Transport that alters the objects of every JSON answer, outer ones first, and counts the changes."""

    def __init__(self, inner: httpx.AsyncBaseTransport, changed: Counter[str]) -> None:
        self._inner, self.changed = inner, changed

    @abstractmethod
    def change(self, item: dict[str, Any]) -> None:
        """Change an object in place."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        body = await answer.aread()
        try:
            document = json.loads(body)
        except ValueError:
            return httpx.Response(answer.status_code, headers=answer.headers, content=body)
        self._walk(document)
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(document).encode())

    def _walk(self, value: Any) -> None:
        if isinstance(value, dict):
            self.change(value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._walk(child)


class _Tampering(AlteringTransport):
    def change(self, found: dict[str, Any]) -> None:
        if "yes_sub_title" in found:
            self._contract(found)
        if "end_period_ts" in found and datetime.fromtimestamp(found["end_period_ts"], UTC) > AT:
            found["yes_bid"], found["yes_ask"] = ({**found[side], "close_dollars": price} for side, price in _OTHER_CANDLE)
            self.changed["candle"] += 1

    def _contract(self, contract: dict[str, Any]) -> None:
        self.changed["contract"] += 1
        contract.update(NOW_FIELDS)
        close = datetime.fromisoformat(contract["close_time"])
        if close > AT:
            contract["close_time"] = (close + timedelta(hours=5)).isoformat().replace("+00:00", "Z")
            self.changed["close"] += 1
        other = {"yes": ("no", "0.0000"), "no": ("yes", "1.0000")}.get(contract["result"])
        if other is not None:
            contract["result"], contract["settlement_value_dollars"] = other
            self.changed["result"] += 1
        if "settlement_ts" in contract:
            contract["settlement_ts"] = (
                (datetime.fromisoformat(contract["settlement_ts"]) + timedelta(hours=7)).isoformat().replace("+00:00", "Z")
            )


_OTHER_CANDLE = (("yes_bid", "0.2200"), ("yes_ask", "0.2300"))


def assert_later_facts_change_nothing(decided: KalshiArena, folder: Path) -> None:
    """The reconstruction runs at another time, against a venue that alters every later fact."""
    tampered = Tampered(folder, now=datetime(2026, 5, 20, 1, tzinfo=UTC))
    tampered.decide(NEXT)
    assert min(tampered.changed[what] for what in ("contract", "close", "result")) > 50
    own = pl.col("agent_id").str.starts_with(f"{NEXT}/")
    for declared, mine in ((tables.UNIVERSE, KALSHI), (tables.AGENTS, own), (tables.DECISIONS, own), (tables.TRADES, own)):
        assert decided.read(declared).filter(mine).equals(tampered.read(declared)), declared.name
    assert tampered.read(tables.TRADES).height > 3
    said, told = prompts(tampered), prompts(decided)
    assert len(said) == tampered.read(tables.AGENTS).height >= 5
    assert said == {name: told[name] for name in said}
    assert sum(map(len, said.values())) > 10_000
    first = decided.read(tables.EVIDENCE).filter(KALSHI)
    other = pl.concat([tampered.evidence(NEXT + number * SEVEN) for number in range(2)])
    assert first.height > 0
    assert not first.select("market_id", "results").equals(other.select("market_id", "results")), "the later facts are really others"


def test_a_reconstructed_week_on_kalshi_after_one_on_polymarket(tmp_path: Path) -> None:
    decided = decide_on_both_venues(tmp_path / "venues")
    assert_each_cohort_stays_on_its_venue(decided)
    assert_universes_are_checked_by_venue(decided)
    assert_the_past_is_rebuilt_from_dates_and_candles(decided)
    assert_the_ledger_equals_a_plain_computation(decided)
    assert_later_facts_change_nothing(decided, tmp_path / "tampered")


def test_a_week_that_the_venue_no_longer_lists_is_refused(tmp_path: Path) -> None:
    arena = KalshiArena(tmp_path, now=LATER)
    with arena.journal() as journal, pytest.raises(ConfigError, match="choose a later week"):
        freeze_universe(arena.world(journal), WEEK - 4 * SEVEN, "kalshi")


# --- a live week ---------------------------------------------------------------------------------------------------


def live_until_paid_out(folder: Path) -> KalshiArena:
    """Return a live week of the rules, marked and observed until its bets are paid out."""
    start = AT + timedelta(minutes=5)
    arena = KalshiArena(folder, lineup="rules", methodology="small-bets-kalshi", now=start)
    arena.decide(start.date(), forced=False)
    for hours in (1, 80, 169, 240, 337, 400, 505, 673, 841, 1009, 1177):
        arena.now = start + timedelta(hours=hours)
        arena.evidence(week_of(arena.now))
        if hours < 240:
            with arena.journal() as journal:
                store_tick(arena.world(journal))
        if set(arena.results().frames["arena/positions"]["status"]) == {"settled"}:
            break
    return arena


def test_live_bets_are_filled_from_books_marked_and_paid_out(tmp_path: Path) -> None:
    lived = live_until_paid_out(tmp_path)
    trades, evidence, prices = (lived.read(one) for one in (tables.TRADES, tables.EVIDENCE, tables.PRICES))
    assert trades.height > 2
    assert trades["quote_source"].unique().to_list() == ["orderbook"]
    assert trades.filter(pl.col("price") < pl.col("ask")).is_empty()
    assert not evidence["reconstructed"].any()
    assert set(evidence.filter(~pl.col("closed"))["resolution_status"]) <= {"active"}
    assert set(prices["source"]) <= {"live", "prior"}
    assert prices.height >= trades["market_id"].n_unique()
    found = lived.results()
    assert found.violations == []
    positions = found.frames["arena/positions"]
    assert set(positions["status"]) == {"settled"}
    last = dict(found.frames["arena/ledger"].sort("number").group_by("agent_id").agg(pl.col("cash").last()).iter_rows())
    assert {name: Decimal(cash) for name, cash in last.items()} == plain_cash(trades)
    assert set(found.frames["arena/ledger"]["kind"]) == {"BUY", "FEE", "SETTLE"}
    settled = found.frames["arena/settlements"].join(evidence.group_by("market_id").agg(pl.col("settled_at").min()), on="market_id")
    assert settled.filter(pl.col("known_at") < pl.col("settled_at")).is_empty(), "nothing counts before it was paid out"
