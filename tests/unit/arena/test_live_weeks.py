"""Live weeks: universes by volume, quotes, marks, polls, corrections, and what the summary of a run names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bellwether.arena.checks import LAKE_CHECKS
from bellwether.arena.decision import Reason
from bellwether.arena.frames import prices_frame
from bellwether.arena.identity import week_of
from bellwether.arena.market import Market
from bellwether.arena.marks import HeldPrice, PriceObservation, PriceSource
from bellwether.arena.resolution import CORRECTIONS, FIRST
from bellwether.arena.weekly.evidence import FactRows, build_evidence_rows, list_due_markets
from bellwether.arena.weekly.held_prices import reconstruct_prices, store_tick
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.queries import has_unexecuted_answer, is_week_decided
from bellwether.arena.weekly.summary import describe_run
from bellwether.checks.rule import Observation
from bellwether.errors import ConfigError, LakeError, VenueError
from bellwether.files import try_lock
from bellwether.tables import arena as tables
from tests.damage import flip_bit
from tests.unit.arena.weeks import SEVEN, Arena
from tests.unit.arena.world import NOW, V1, account, bet, bets, execute_decision, usd

START = datetime(2026, 6, 28, 0, 10, tzinfo=UTC)
WEEK = START.date()
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def live_week(folder: Path, lineup: str = "few") -> Arena:
    """Return an arena whose week was decided while it began."""
    arena = Arena(folder, now=START, lineup=lineup)
    arena.decide(WEEK)
    return arena


def held_markets(arena: Arena) -> list[str]:
    return sorted(set(arena.read(tables.TRADES)["market_id"]))


def observe(arena: Arena, at: datetime, *asked: str) -> pl.DataFrame:
    """Collect evidence of the present week and store it. asked: markets to poll although they are not due."""
    arena.now = at
    week = week_of(at)
    with arena.journal() as journal:
        world = arena.world(journal)
        found = build_evidence_rows(world, week, FactRows.load(world), requested=asked)
    arena.lake.write(tables.EVIDENCE, (week.isoformat(),), found, run_id="test")
    return found


def test_a_live_week_has_the_open_markets_of_largest_volume_and_the_quotes_of_its_decisions(tmp_path: Path) -> None:
    arena = live_week(tmp_path, "tiny")
    universe, trades = arena.read(tables.UNIVERSE), arena.read(tables.TRADES)
    assert not universe["reconstructed"].any()
    assert universe.sort("place")["volume"].to_list() == [8000, 8000, 7000, 7000, 6000, 6000, 5000, 5000, 4000, 4000]
    assert universe["known_at"].unique().to_list() == [START]
    assert universe.filter(pl.col("closes_at") <= pl.col("known_at")).is_empty()
    assert trades.height > 8
    assert set(trades["quote_source"]) == {"clob"}
    assert trades.select("bid", "mid", "ask", "unmatched").null_count().row(0) == (0, 0, 0, 0)
    assert trades.filter((pl.col("ask") - pl.col("bid") != Decimal("0.02")) | (pl.col("price") != pl.col("mid"))).is_empty()
    assert arena.results().violations == []
    with arena.journal() as journal:
        world = arena.world(journal)
        assert is_week_decided(world, WEEK, START)
        assert not is_week_decided(world, WEEK - SEVEN, START - SEVEN), "its cohort may still be started"
        assert is_week_decided(world, WEEK - SEVEN, START - SEVEN + 2 * HOUR), "only an explicit request starts it now"


def test_held_markets_are_polled_once_and_marked_when_their_price_changed(tmp_path: Path) -> None:
    arena = live_week(tmp_path)
    held = held_markets(arena)
    with arena.journal() as journal:
        world = arena.world(journal)
        assert list_due_markets(world) == held
        assert sorted(arena.evidence(WEEK)["market_id"]) == held
        assert list_due_markets(world) == [], "nothing is due again at once"

        day, changed = store_tick(world)
        prices = arena.read(tables.PRICES)
        assert (prices["market_id"].sort().to_list(), changed, set(prices["at"])) == (held, len(held), {START})
        assert store_tick(world) == (day, 0)
        assert reconstruct_prices(world, [day])[day].equals(prices), "what was seen live stays"
        rebuilt = prices.with_columns(pl.col("at") - timedelta(minutes=10), reconstructed=pl.lit(value=True))
        arena.lake.write(tables.PRICES, (day.isoformat(),), rebuilt, run_id="rebuilt")
        assert store_tick(world) == (day, changed), "an equal price that was reconstructed was not seen"
    arena.venue.one_sided.add(held[0])
    arena.now += HOUR
    assert arena.tick() == (day, len(held)), "one moved to the source prior, the others changed"
    last = arena.read(tables.PRICES).filter(at=arena.now)
    assert dict(last.select("market_id", "source").iter_rows()) == dict.fromkeys(held, "live") | {held[0]: "prior"}


def test_a_slow_tick_keeps_what_others_stored_meanwhile_and_marks_the_day_on_which_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = live_week(tmp_path)
    midnight = datetime(2026, 6, 29, tzinfo=UTC)
    own = HeldPrice("other", "YES", midnight, 1, PriceSource.LIVE, midnight, reconstructed=False, known_at=midnight)

    async def answer_late(data: Polymarket, tokens: Iterable[str]) -> dict[str, PriceObservation]:
        with Path(f"{arena.lake.uri}.marks.lock").open() as lock:
            assert not try_lock(lock), "other ticks wait"
        arena.now = midnight + timedelta(minutes=2)
        arena.lake.write(tables.PRICES, (str(midnight.date()),), prices_frame([own]), run_id="other")
        return {token: PriceObservation(500_000, arena.now) for token in tokens}

    arena.now = midnight - timedelta(minutes=1)
    monkeypatch.setattr(Polymarket, "fetch_midpoints", answer_late)
    day, changed = arena.tick()
    prices = arena.lake.slice(tables.PRICES, [(str(day),)]).read()
    assert (day, prices.height, set(prices["at"])) == (midnight.date(), changed + 1, {midnight})
    assert "other" in prices["market_id"].to_list()


def test_a_mark_that_the_listing_contradicts_is_recorded_and_an_outage_of_the_listing_costs_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = live_week(tmp_path)

    async def contradict(data: Polymarket, keys: Iterable[Any], now: datetime) -> dict[Any, int]:
        return dict.fromkeys(keys, 800_000)

    monkeypatch.setattr(Polymarket, "fetch_listed_prices", contradict)
    arena.tick()
    rows = arena.read(tables.PRICES)
    assert rows.height
    assert set(rows["other"]) == {Decimal("0.8")}
    assert rows["disagrees"].to_list() == [abs(price - Decimal("0.8")) > Decimal("0.05") for price in rows["price"]]

    async def away(*_: object) -> Any:
        raise VenueError("reading markets", 3, "Gamma does not answer")

    monkeypatch.setattr(Polymarket, "fetch_listed_prices", away)
    arena.now += HOUR
    arena.tick()
    later = arena.read(tables.PRICES).filter(at=arena.now)
    assert later.height == rows.height
    assert later["other"].is_null().all()


def test_a_result_that_changes_after_the_settlement_is_corrected_and_polls_end_with_the_window(tmp_path: Path) -> None:
    arena = live_week(tmp_path)
    market = held_markets(arena)[0]
    closed_at = datetime(2026, 6, 29, 6, 30, tzinfo=UTC)
    for hours in (0.5, 1.5):
        observe(arena, closed_at + hours * HOUR)
    arena.venue.flipped.add(market)
    corrected = closed_at + DAY
    observe(arena, corrected)
    found = arena.results().frames
    settled = found["arena/settlements"].filter(market_id=market)
    assert settled.select("number", "result", "winner", "known_at").rows() == [
        (1, "won", "Yes", closed_at + 1.5 * HOUR),
        (2, "won", "No", corrected),
    ], "the second look confirms the first; a day later the window for disputes is over, and one look is enough"
    ledger = found["arena/ledger"].filter(market_id=market)
    assert ledger["corrects"].is_not_null().any(), "what was paid is taken back"
    end = corrected + CORRECTIONS
    assert observe(arena, end - HOUR).filter(market_id=market, known_at=end - HOUR).height == 1
    assert market not in observe(arena, end + HOUR).filter(known_at=end + HOUR)["market_id"]
    assert observe(arena, end + 9 * DAY, market).filter(market_id=market).height == 1, "`arena admin resolve` looks at any time"


def test_a_market_that_vanishes_is_a_row_alarms_once_and_is_polled_less_often(tmp_path: Path) -> None:
    def check(name: str) -> Observation:
        (found,) = (one for one in LAKE_CHECKS if one.name == name)
        return found.evaluate(arena.lake, arena.now)

    arena = live_week(tmp_path)
    market = held_markets(arena)[-1]
    arena.venue.gone.add(market)
    looked = START + HOUR
    assert observe(arena, looked).filter(market_id=market)["missing"].to_list() == [True]
    for number in range(3):
        for minutes, due in ((-1, False), (0, True)):
            arena.now = looked + FIRST * 2**number + timedelta(minutes=minutes)
            with arena.journal() as journal:
                assert (market in list_due_markets(arena.world(journal))) is due
        looked = arena.now
        observe(arena, looked)
    arena.books()
    missing = check("held_markets_are_listed")
    assert (missing.passed, missing.subjects) == (False, (market,))
    arena.venue.gone.clear()
    observe(arena, arena.now + DAY)
    assert check("held_markets_are_listed").passed


def test_a_venue_whose_clock_is_in_another_week_is_named(tmp_path: Path) -> None:
    arena = live_week(tmp_path)
    arena.venue.now = lambda: START - 3 * DAY
    with pytest.raises(ConfigError, match="the venue's clock shows 2026-06-25 00:10 UTC, this machine's 2026-06-28 01:10"):
        observe(arena, START + HOUR)


def test_damaged_evidence_of_live_cohorts_is_never_left_out(tmp_path: Path) -> None:
    arena = live_week(tmp_path)
    arena.evidence(WEEK)
    (manifest,) = arena.lake.manifests(tables.EVIDENCE).values()
    flip_bit(Path(arena.lake.storage.location(manifest.file)))
    with arena.journal() as journal, pytest.raises(LakeError, match="restore the file from a backup"):
        FactRows.load(arena.world(journal), rebuilt=[WEEK])


def test_live_weeks_open_decide_mark_and_resolve_under_a_moving_clock(tmp_path: Path) -> None:
    start = datetime(2026, 3, 1, 0, 10, tzinfo=UTC)
    arena = Arena(tmp_path, now=start, lineup="few")
    for hours in (0, 168, 450):
        arena.now = start + hours * HOUR
        week = week_of(arena.now)
        if hours < 450:
            arena.decide(week, forced=False)
        if hours:
            arena.evidence(week)
        arena.tick()
    found = arena.results()
    assert found.violations == []
    evidence, prices, trades = map(arena.read, (tables.EVIDENCE, tables.PRICES, tables.TRADES))
    assert not evidence["reconstructed"].any()
    assert set(evidence["known_at"]) <= {start + hours * HOUR for hours in (0, 168, 450)}, "each look is dated when it was made"
    settled = found.frames["arena/settlements"]
    closed = evidence.filter("closed").group_by("market_id").agg(first=pl.col("known_at").min())
    assert settled.height == trades["market_id"].n_unique()
    assert settled.join(closed, on="market_id").filter(pl.col("known_at") < pl.col("first")).is_empty(), "nothing counts before it was seen"
    assert prices.filter(~pl.col("price").is_between(0, 1)).is_empty()
    assert prices["at"].n_unique() == 2, "at the end nothing is held"
    board = found.frames["arena/leaderboard"]
    assert (board["reconstructed"].any(), board["cohorts"].to_list(), board["open_positions"].sum()) == (False, [2] * 4, 0)
    assert board["cash"].sum() == 80_000 + found.frames["arena/ledger"]["amount"].sum()


def test_only_a_book_with_two_sides_is_a_price(tmp_path: Path) -> None:
    """Market 8 has no ask, and market 0 is closed and has no book."""
    arena = Arena(tmp_path, now=datetime(2026, 1, 1, tzinfo=UTC))
    arena.venue.one_sided.add("8")
    markets = {name: Market(name, "q", ("Yes", "No"), token_ids=(f"{name}1", f"{name}2")) for name in ("8", "9", "0")}
    statuses, quotes = arena.query(lambda data: data.fetch_quotes(markets, NOW))
    assert {name: str(status) for name, status in statuses.items()} == {"8": "active", "9": "active", "0": "closed"}
    legs = bets(*(bet("22", market_id=name) for name in markets))
    done = execute_decision(legs, account(), *markets.values(), quotes=quotes, rules=V1)
    assert [(trade.market_id, trade.price, trade.quote_source, trade.unmatched) for trade in done.trades] == [("9", usd("0.24"), "clob", 0)]
    assert [(one.leg, one.reason) for one in done.refusals] == [(1, Reason.NO_MIDPOINT), (3, Reason.NO_MIDPOINT)]


def test_a_week_without_prices_is_retried_then_refused_and_the_summary_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arena = Arena(tmp_path, now=START, lineup="few")

    async def fetch_nothing(*_: object) -> Any:
        return {}, {}

    with monkeypatch.context() as patch:
        patch.setattr(Polymarket, "fetch_quotes", fetch_nothing)
        for hours in (0, 1):
            arena.now = START + hours * HOUR
            assert Counter(str(one.state) for _, one in arena.decide(WEEK).decisions) == {"read": 3, "finished": 1}
        with arena.journal() as journal:
            world = arena.world(journal)
            assert not is_week_decided(world, WEEK, arena.now)
            lines = list(describe_run(world, [WEEK], arena.now))
        betting = [f"{WEEK}/{family}/{WEEK}" for family in ("favourite", "proportional", "random")]
        requested = arena.read(tables.DECISIONS)["legs"].sum()
        assert lines[0] == f"Refused    {requested} of {requested} legs: no midpoint {requested}"
        assert sorted(re.findall(rf"{WEEK}/\w+/{WEEK}", "\n".join(line for line in lines if line.startswith("Open")))) == betting
        assert lines[-1] == "Next       3 open decisions of 2026-06-28; deadline 2026-06-30 00:00 UTC; no weekly budget is set"
    arena.now = datetime(2026, 6, 30, 0, 5, tzinfo=UTC)
    with arena.journal() as journal:
        assert has_unexecuted_answer(arena.world(journal), WEEK), "the schedule runs once more after the deadline"
    arena.decide(WEEK)
    rows = arena.read(tables.DECISIONS)
    assert dict(rows.select("action", "state").unique().iter_rows()) == {"BET": "refused", "HOLD": "finished"}
    assert arena.read(tables.TRADES).is_empty()
    board = arena.results().frames["arena/leaderboard"].sort("family")
    legs = dict(rows.select("agent_id", "legs").iter_rows())
    assert board.select("family", "finished", "unfinished", "refused").rows() == [
        (family, 1, 0, legs[f"{WEEK}/{family}"]) for family in ("favourite", "hold", "proportional", "random")
    ]
    with arena.journal() as journal:
        world = arena.world(journal)
        assert is_week_decided(world, WEEK, arena.now)
        assert not has_unexecuted_answer(world, WEEK)
        after = list(describe_run(world, [WEEK], arena.now))
    assert not any(line.startswith("Open") for line in after)
    assert after[-1].startswith("Next       week 2026-07-05, from 2026-07-05 00:05 UTC; deadline 2026-07-07 00:00 UTC")


def test_the_summary_names_failed_and_invalid_decisions_and_what_they_cost(tmp_path: Path) -> None:
    arena = live_week(tmp_path, "tiny")
    rows = arena.read(tables.DECISIONS)
    failing = pl.col("agent_id").str.ends_with("/hold")
    changed = rows.with_columns(
        state=pl.when(failing).then(pl.lit("failed")).otherwise("state"),
        reason=pl.when(failing).then(pl.lit("refusal: no")).otherwise("reason"),
        action=pl.when(failing).then(None).otherwise("action"),
    )
    arena.lake.write(tables.DECISIONS, (WEEK.isoformat(),), changed, run_id="test")
    with arena.journal() as journal:
        lines = list(describe_run(arena.world(journal), [WEEK], arena.now))
    assert f"Invalid    {WEEK}/mute/{WEEK} (no JSON)" in lines
    assert f"Failed     {WEEK}/hold/{WEEK}: failed: refusal: no" in lines
    assert not any(line.startswith("Done ") for line in lines)
    assert f"Cost       ${rows['cost'].sum():.4f}" in lines
