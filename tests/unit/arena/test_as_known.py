"""Random histories of live weeks: for every past instant, each table gives the rows that were published then, whatever happened later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from bellwether.arena.as_known import load_inputs, read_as_known
from bellwether.arena.frames import universe_frame
from bellwether.arena.identity import week_of, week_start
from bellwether.arena.market import MarketStatus
from bellwether.arena.marks import PriceObservation
from bellwether.arena.methodology import methodologies
from bellwether.arena.rankings import compute_rankings
from bellwether.arena.submissions import submissions_frame
from bellwether.arena.weekly import model_calls
from bellwether.arena.weekly import rows as row_builders
from bellwether.arena.weekly.context import freeze_universe, load_cohort
from bellwether.arena.weekly.held_prices import store_tick
from bellwether.arena.weekly.interventions import archive_cohort, cancel_market, close_agent
from bellwether.arena.weekly.polymarket import Polymarket
from bellwether.arena.weekly.rows import build_agents_rows
from bellwether.errors import BellwetherError
from bellwether.journal.values import Outcome
from bellwether.models.client import NoAnswer
from bellwether.models.scheduler import Stopped
from bellwether.submissions.validation import SCHEMA
from bellwether.tables import TABLES
from bellwether.tables import arena as tables
from bellwether.tables.arena import MESSAGES
from bellwether.tables.arena_rankings import SUBMISSIONS
from bellwether.tables.schema import Table
from tests.unit.arena.weeks import Arena

START = datetime(2026, 3, 1, 0, 7, 13, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
#: Tables with facts, and tables computed from them.
READ = ("universe", "agents", "decisions", "decision_versions", "messages", "refusals", "trades", "evidence", "prices", "submissions")
FOLDED = ("settlements", "ledger", "positions", "scores", "portfolios", "leaderboard")
FAULTS = ("fine", "fine", "fine", "fine", "unreachable", "out_of_credit", "failed")
#: Seeds and length of histories that together contain every event, state and table.
SEEDS, LENGTH = (0, 8), 15
EVENTS = ("decide", "decide", "decide", "look", "look", "mark", "mark", "mark", "cancel", "close", "archive", "submit")


class Trouble:
    """Faults of models and the venue, drawn again for each event."""

    def __init__(self, rng: Random, patch: pytest.MonkeyPatch) -> None:
        self.rng, self.fault, self.asks, self.looks = rng, "", dict[str, str](), "all"
        self.flipped, self.gone = set[str](), set[str]()
        ruled, look, evidence, midpoints = (
            model_calls._answer_by_rule,
            Polymarket.fetch_quotes,
            Polymarket.fetch_evidence,
            Polymarket.fetch_midpoints,
        )

        def answer(rule: str, task: Any, plan: Any, sample: int) -> Any:
            fault = self.fault or self.asks.setdefault(task.key.decision_id, self.rng.choice(FAULTS))
            found = ruled(rule, task, plan, sample)
            if fault == "fine":
                return found
            if fault == "failed":
                return NoAnswer(found.key, Outcome.REFUSAL, f"refused {self.rng.random()}", 1, final=True)
            raise Stopped(rule, fault, f"fault {self.rng.randrange(2)}")  # type: ignore[arg-type]

        async def looked(venue: Polymarket, markets: Mapping[str, Any], now: datetime) -> Any:
            if self.looks == "away":
                raise BellwetherError("looking at quotes: the venue is away")
            statuses, quotes = await look(venue, markets, now)
            share = {"none": 1.0, "some": 0.4}.get(self.looks, 0.0)
            closed = {name: MarketStatus.CLOSED for name in markets if self.rng.random() < share}
            return {**statuses, **closed}, quotes

        async def seen(venue: Polymarket, market_ids: Any, now: datetime) -> list[dict[str, Any]]:
            found = await evidence(venue, market_ids, now)
            return [_flipped(one, self.flipped) for one in found if one["market_id"] not in self.gone]

        async def mids(venue: Polymarket, tokens: Any) -> Any:
            found = await midpoints(venue, tokens)
            return {name: self._moved(one) for name, one in found.items() if self.rng.random() < 0.8}

        patch.setattr(model_calls, "_answer_by_rule", answer)
        patch.setattr(Polymarket, "fetch_quotes", looked)
        patch.setattr(Polymarket, "fetch_evidence", seen)
        patch.setattr(Polymarket, "fetch_midpoints", mids)

    def _moved(self, one: PriceObservation) -> PriceObservation:
        return (
            one
            if one.mid is None or self.rng.random() < 0.5
            else PriceObservation(type(one.mid)(self.rng.randrange(1, 1_000_000)), one.at, one.other)
        )

    def draw(self, arena: Arena) -> None:
        self.asks.clear()
        self.looks = self.rng.choice(("all", "all", "some", "none", "away"))
        held = sorted(set(arena.read(tables.TRADES)["market_id"]))
        for chosen in (self.flipped, self.gone):
            if held and self.rng.random() < 0.3:
                chosen ^= {self.rng.choice(held)}


def _flipped(look: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return evidence of the opposite outcome from every source."""
    if look["market_id"] not in names or not look["outcome_prices"]:
        return look
    prices = list(reversed(look["outcome_prices"]))
    return {**look, "outcome_prices": prices, "winners": [name for name, price in zip(look["outcomes"], prices, strict=True) if price == 1]}


class History:
    """Arena with random events. `published`: rows of every table after the last event, by instant."""

    def __init__(self, home: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.rng = Random(seed)
        self.arena = Arena(home, now=START, lineup="rules")
        self.rules = methodologies(self.arena.registry)
        self.trouble = Trouble(self.rng, patch)
        self.forecasts: list[tuple[Any, ...]] = []
        self.published: dict[datetime, dict[str, pl.DataFrame]] = {}
        self.happened: Counter[str] = Counter()

    def happen(self) -> None:
        arena, rng = self.arena, self.rng
        arena.now += rng.choice((0 * MINUTE, 3 * MINUTE, 4 * MINUTE, 11 * MINUTE, HOUR, 5 * HOUR, 26 * HOUR, 3 * DAY))
        self.trouble.draw(arena)
        week = week_of(arena.now)
        begun = arena.read(tables.AGENTS)["week"].unique().sort()
        event = rng.choice(EVENTS) if len(begun) else "decide"
        if event == "decide" and week not in begun and arena.now - week_start(week) > 40 * HOUR:
            event = "look"  # a cohort that starts this late would be marked as reconstructed, with earlier times
        with arena.journal() as journal:
            world = arena.world(journal)
            agents, held = sorted(arena.read(tables.AGENTS)["agent_id"]), sorted(set(arena.read(tables.TRADES)["market_id"]))
            if event == "mark":
                store_tick(world)
                self.publish()
                arena.now += 2 * MINUTE
                store_tick(world)
            elif event == "cancel" and held:
                cancel_market(world, rng.choice(held), "ann", "withdrawn")
            elif event == "close":
                close_agent(world, rng.choice(agents), "ann", "unwanted")
            elif event == "archive" and rng.random() < 0.3:
                archive_cohort(world, rng.choice(begun.to_list()), "ann", "broken")
            for cohort in begun:
                agents_rows = build_agents_rows(world, load_cohort(world.records, cohort))
                arena.lake.write(tables.AGENTS, (cohort.isoformat(),), agents_rows, run_id="test")
        if event == "submit":
            market = rng.choice(arena.read(tables.UNIVERSE)["market_id"].to_list())
            self.forecasts.append((f"f{rng.randrange(2)}", f"polymarket:{market}", arena.now, round(rng.random(), 2), arena.now))
        if event == "decide":
            arena.decide(week)
        if event in ("look", "cancel"):
            arena.evidence(week)
        self.happened[event] += 1
        self.publish()

    def publish(self) -> None:
        arena = self.arena
        stored = pl.DataFrame(self.forecasts, schema=SCHEMA, orient="row").unique(
            ["forecaster", "market", "stated_at"], keep="last", maintain_order=True
        )
        arena.lake.write(SUBMISSIONS, (), submissions_frame(stored, arena.read(tables.UNIVERSE), self.rules), run_id="test")
        arena.books()
        self.published[arena.now] = {name: arena.read(_table(name)) for name in (*READ, *FOLDED)}

    def known(self, at: datetime) -> Callable[[Table], pl.DataFrame]:
        return read_as_known(self.arena.lake, self.rules, at)


def _table(name: str) -> Table:
    return TABLES[f"arena/{name}"]


def publish_history(folder: Path, seed: int, length: int) -> History:
    with pytest.MonkeyPatch.context() as patch:
        made = History(folder, seed, patch)
        for _ in range(length):
            made.happen()
    return made


def assert_known_as_published(made: History, seed: int, first: int, step: int) -> None:
    for at, published in list(made.published.items())[first::step]:
        read = made.known(at)
        for name, rows in published.items():
            assert read(_table(name)).equals(rows), (seed, at, name)


def test_what_was_published_at_an_instant_is_known_as_of_it(tmp_path: Path) -> None:
    made = publish_history(tmp_path, 3, 3)
    assert made.happened.keys() >= {"decide", "look"}
    assert_known_as_published(made, 3, 0, 2)


@pytest.mark.nightly
def test_random_histories_are_known_as_they_were_published(tmp_path: Path) -> None:
    """The histories together contain every event, state and table. Rankings are compared, too."""
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        made = publish_history(tmp_path / str(seed), seed, LENGTH)
        assert_known_as_published(made, seed, seed % 2, 2)
        for at, published in list(made.published.items())[seed % 2 + 8 :: 12]:
            read = made.known(at)
            for name, rows in compute_rankings(load_inputs(lambda table, then=published: then[table.short_name], {})).items():  # type: ignore[misc]
                assert read(TABLES[name]).equals(rows), (seed, at, name)
                seen[name] += rows.height
        last = made.published[made.arena.now]
        seen += made.happened
        seen += Counter({name: rows.height for name, rows in last.items()})
        seen += Counter(pl.concat([last["decisions"]["state"], last["decision_versions"]["state"]]).to_list())
        seen["superseded"] += last["refusals"]["superseded_at"].count()
    wanted = ("blocked", "open", "failed", "read", "finished", "superseded", *EVENTS, *READ, *FOLDED)
    assert not [name for name in wanted if not seen[name]], seen


#: Hourly runs of a live week, as (behaviour of the models, quotes of the venue): the agents are blocked, refused twice, and executed.
RUNS = (("out_of_credit", "all"), ("fine", "none"), ("fine", "none"), ("fine", "all"))
TIMES = [START + number * HOUR for number in range(len(RUNS))]


def run_hourly(folder: Path, monkeypatch: pytest.MonkeyPatch, runs: Sequence[tuple[str, str]]) -> Arena:
    """Return the arena an hour after the last run."""
    arena = Arena(folder, now=START, lineup="rules")
    with monkeypatch.context() as patch:
        trouble = Trouble(Random(0), patch)
        for trouble.fault, trouble.looks in runs:
            arena.decide(START.date())
            arena.now += HOUR
    return arena


def test_a_decision_has_one_row_known_from_its_first_state_and_a_version_for_each_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = run_hourly(tmp_path, monkeypatch, RUNS)
    row = arena.read(tables.DECISIONS).row(by_predicate=pl.col("decision_id").str.contains("/favourite/"), named=True)
    assert (row["state"], row["known_at"], row["changed_at"]) == ("finished", TIMES[0], TIMES[3])
    versions = arena.read(tables.DECISION_VERSIONS).filter(decision_id=row["decision_id"])
    assert versions.select("state", "known_at", "changed_at", "superseded_at").rows() == [
        ("blocked", TIMES[0], TIMES[0], TIMES[1]),
        ("read", TIMES[0], TIMES[1], TIMES[2]),
        ("read", TIMES[0], TIMES[2], TIMES[3]),
    ]
    assert versions["prompt_hash"].null_count() == versions["action"].null_count() == 1
    refusals = arena.read(tables.REFUSALS).filter(decision_id=row["decision_id"]).sort("known_at", "leg")
    legs = row["legs"]
    assert refusals["known_at"].to_list() == [TIMES[1]] * legs + [TIMES[2]] * legs
    assert refusals["superseded_at"].to_list() == [TIMES[2]] * legs + [TIMES[3]] * legs
    trades = arena.read(tables.TRADES).filter(pl.col("trade_id").str.starts_with(row["decision_id"]))
    assert trades["known_at"].to_list() == [TIMES[3]] * legs
    messages = arena.read(MESSAGES).filter(decision_id=row["decision_id"])
    assert set(messages.select("role", "known_at").rows()) == {("system", TIMES[1]), ("user", TIMES[1])}


def test_a_week_that_is_run_again_keeps_its_bytes_also_over_damaged_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = (tables.DECISIONS, tables.DECISION_VERSIONS, tables.REFUSALS, tables.TRADES, tables.AGENTS, MESSAGES)
    arena, partition = run_hourly(tmp_path, monkeypatch, RUNS[2:]), (START.date().isoformat(),)
    before = {one.name: arena.lake.manifests(one)[partition].digest for one in kept}
    Path(arena.lake.storage.location(arena.lake.manifests(tables.DECISIONS)[partition].file)).write_bytes(b"{")
    arena.decide(START.date())
    assert {one.name: arena.lake.manifests(one)[partition].digest for one in kept} == before
    assert arena.read(tables.DECISIONS).height == 4


def test_a_decision_without_an_answer_ends_with_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arena, trouble = Arena(tmp_path, now=START, lineup="rules"), Trouble(Random(0), monkeypatch)
    trouble.fault = "out_of_credit"
    arena.decide(START.date())
    before = arena.read(tables.DECISIONS)
    closed = before.filter(pl.col("prompt_hash").is_null())["agent_id"][0]
    arena.now += HOUR
    with arena.journal() as journal:
        close_agent(arena.world(journal), closed, "ann", "unwanted")
    for _ in range(2):
        arena.now += HOUR
        arena.decide(START.date())
    assert closed not in arena.read(tables.DECISIONS)["agent_id"]
    assert arena.read(tables.DECISION_VERSIONS).filter(agent_id=closed)["superseded_at"].to_list() == [START + 2 * HOUR]
    assert read_as_known(arena.lake, methodologies(arena.registry), START)(tables.DECISIONS).equals(before)


def test_changed_tokens_are_a_new_state() -> None:
    first, later = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)

    def state(tokens: int, at: datetime) -> dict[str, object]:
        return {"state": "FAILED", "input_tokens": tokens, "output_tokens": tokens, **dict.fromkeys(("known_at", "changed_at"), at)}

    def merge(stored: int, journaled: int) -> list[tuple[object, object]]:
        states = row_builders._merge_states([state(stored, first)], [state(journaled, later)], None, later)
        return [(each["input_tokens"], each["changed_at"]) for each in states]

    assert merge(100, 100) == [(100, first)]
    assert merge(100, 200) == [(100, first), (200, later)], "what was published at `first` stays"


def test_a_forecast_is_known_once_the_universe_of_its_week_is_frozen(tmp_path: Path) -> None:
    """The forecast for the next week arrives before that week has a universe."""
    arena = Arena(tmp_path, now=START)
    with arena.journal() as journal:
        universe = universe_frame(START.date(), freeze_universe(arena.world(journal), START.date(), "polymarket"))
    forecast_at = START + 2 * DAY
    market = universe.filter(pl.col("outcomes").list.sort() == pl.lit(["No", "Yes"])).sort("closes_at")["market_id"][-1]
    stored = pl.DataFrame([("ann", f"polymarket:{market}", forecast_at, 0.5, forecast_at)], schema=SCHEMA, orient="row")
    rules = methodologies(arena.registry)
    assert submissions_frame(stored, universe, rules).is_empty()
    frozen = START + 7 * DAY
    later = universe.with_columns(pl.col("week") + 7 * DAY, known_at=pl.lit(frozen, tables.UNIVERSE.schema["known_at"]))
    assert submissions_frame(stored, pl.concat([universe, later]), rules)["known_at"].to_list() == [frozen]
