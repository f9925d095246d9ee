"""The compiled engine and the plain one agree on episodes made of recordings of the real venue."""

from __future__ import annotations

from pathlib import Path

import pytest

from bellwether.recordings.importing import import_captures
from bellwether.replay import Prepared, prepare
from bellwether.replay.building import Outcomes, build_recording
from bellwether.replay.engine import Settings
from bellwether.replay.episode import Episode, write
from bellwether.replay.rules.combined import combined
from bellwether.replay.tape.merge import merge_tapes, with_units
from bellwether.replay.units import MICROS, SECOND
from tests.replay.both_engines import first, replay_both
from tests.replay.random_tapes import RandomAgent, Shape, Temper
from tests.replay.reference.portfolio import portfolio

pytestmark = [pytest.mark.real, pytest.mark.slow]

#: The plain engine takes its time: no more events than these of an episode.
EVENTS = 100_000
SETTINGS = {
    "as it was": Settings(cadence=10 * SECOND, bankroll=10_000 * MICROS),
    "reconciled, late": Settings(
        cadence=10 * SECOND, bankroll=10_000 * MICROS, queue="reconciled", order_latency=150_000_000, data_latency=70_000_000
    ),
    "proportional, often": Settings(cadence=3 * SECOND, bankroll=100 * MICROS, queue="proportional", self_trade="cancel_maker"),
}


@pytest.fixture(scope="module")
def episodes(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Episode]:
    """The first episode of each capture by its folder."""
    root = tmp_path_factory.mktemp("both")
    found: dict[str, Episode] = {}
    for folder in ("ws_nba_2026_03", "ws_btc15m_2026_05", "orders_spx_2023"):
        recording = next(iter(import_captures(root / "recordings", recordings / "kalshi" / folder)))
        draft = build_recording(recording, outcomes=Outcomes(infer=True))[0]
        found[folder] = write(root / draft.metadata.episode_id, draft)
    return found


def _fills(prepared: Prepared, settings: Settings) -> int:
    tape = first(prepared.tape, EVENTS)
    temper = Temper(orders=5, stacks=0.02, largest=200, odd_lots=0.2)
    agent = RandomAgent(11, Shape(tickers=len(tape.tickers), tick=10), temper)
    return len(replay_both(tape, prepared.rules, settings, agent.act).fills)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("folder", ["ws_nba_2026_03", "ws_btc15m_2026_05", "orders_spx_2023"])
def test_both_engines_agree_on_recorded_books(episodes: dict[str, Episode], folder: str, settings: str) -> None:
    assert _fills(prepare(episodes[folder]), SETTINGS[settings]) > 50


@pytest.mark.parametrize("folder", ["ws_nba_2026_03", "ws_btc15m_2026_05"])
def test_both_engines_agree_on_recorded_books_under_the_originals_rules(episodes: dict[str, Episode], folder: str) -> None:
    assert _fills(prepare(episodes[folder], "pmb-2026-01"), Settings(cadence=5 * SECOND)) > 50


@pytest.mark.parametrize("settings", SETTINGS)
def test_both_engines_agree_on_a_portfolio_of_recordings(episodes: dict[str, Episode], settings: str) -> None:
    """A game of March and a quarter of an hour of May, of different rules, with one bankroll."""
    prepared = [prepare(episodes[folder]) for folder in ("ws_nba_2026_03", "ws_btc15m_2026_05")]
    parts = [(first(one.tape, EVENTS // 5), one.rules) for one in prepared]
    tape = merge_tapes([with_units(one, rules.units) for one, rules in parts])
    temper = Temper(orders=5, stacks=0.02, largest=200, odd_lots=0.2)
    agent = RandomAgent(12, Shape(tickers=len(tape.tickers), tick=10), temper)
    replay = replay_both(tape, combined([rules for _, rules in parts]), SETTINGS[settings], agent.act, seen=portfolio(parts))
    assert len({fill.ticker for fill in replay.fills}) == len(tape.tickers)
    assert parts[0][1].name != parts[1][1].name
