"""Runs of replay that commands launch: recordings, episodes, backtests and their comparison, where they are out of date."""

from __future__ import annotations

from collections.abc import Sequence

from assets.raw.assets import RECORDING, RECORDING_TABLES
from assets.raw.jobs import RECORDINGS
from assets.replay import jobs
from assets.replay.assets import AGENT, BACKTEST_TABLES, EPISODE
from bellwether.errors import BellwetherError
from bellwether.lake.warehouse import query
from bellwether.recordings.captures import import_captures
from bellwether.replay.episode_builder.sources import outdated_episodes
from bellwether.replay.results.text_tables import comparison_table, print_table
from bellwether.sandbox.replayer import CAPTURES
from bellwether.settings import settings
from orchestration.runner import Runner
from resources.recordings import RecordingsResource


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Import the captures that the sandbox ships, and backtest the automatic agents in them. days: not used."""
    from bellwether.replay.registry import competitors

    import_captures(settings().recordings_path, CAPTURES)
    return run_backtests(work, list(competitors()))


def run_backtests(work: Runner, agents: Sequence[str]) -> dict[str, BellwetherError | None]:
    """Store finished recordings in the lake, build their episodes, backtest the given agents in each episode, and compare the agents.

    Returns None or the error of each backtest. An error of one does not stop the others.
    """
    recordings: RecordingsResource = work.resource("recordings")
    episodes = recordings.episodes()
    names = sorted({recording.name for recording, _ in episodes.values()})
    work.instance.add_dynamic_partitions(str(RECORDING.name), names)
    work.instance.add_dynamic_partitions(str(EPISODE.name), list(episodes))
    work.instance.add_dynamic_partitions(str(AGENT.name), list(agents))
    work.run_due(RECORDINGS, RECORDING_TABLES, [(name,) for name in names], "recording")
    outdated = outdated_episodes(work.lake, {name: recording.name for name, (recording, _) in episodes.items()})
    for error in work.run_partitions(jobs.EPISODES, "replay/episodes", list(outdated), "episode").values():
        if error:
            raise error
    work.stats.fresh += len(episodes) - len(outdated)
    work.run_due(jobs.BOOKS, ("replay/books",), [(name,) for name in episodes], "book")
    pairs = [(name, agent) for name in episodes for agent in agents]
    ends = work.run_due(jobs.BACKTEST, BACKTEST_TABLES, pairs, "backtest", go_on=True)
    work.run_if_due(jobs.STANDING, ("replay/summary",), "comparison of agents")
    return ends


def print_comparison() -> None:
    """Print the published comparison of all agents."""
    from bellwether.replay.registry import agents

    titles = {name: entry.title for name, entry in agents().items()}
    print_table(comparison_table(query(settings().warehouse_uri, "FROM replay.summary"), titles))
