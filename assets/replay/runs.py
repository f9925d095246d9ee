"""What commands launch for replay, where it is out of date: recordings, episodes, backtests and their comparison."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from assets.replay import jobs
from assets.replay.assets import BACKTEST_TABLES, STANDING_TABLES
from assets.replay.partitions import AGENT, EPISODE
from assets.venues.jobs import RECORDINGS
from assets.venues.partitions import RECORDING
from assets.venues.recordings import RECORDING_TABLES
from bellwether.errors import BellwetherError
from bellwether.settings import settings
from orchestration.declare import key
from orchestration.runner import Runner
from resources.recordings import RecordingsResource


def demo(work: Runner, days: int) -> dict[str, BellwetherError | None]:
    """Record what the sandbox's latest settled events were like, and let every agent that costs nothing trade them."""
    from bellwether.recordings.generating import generate_recordings
    from bellwether.replay.registry import competitors
    from bellwether.sandbox import GeneratedWorld

    config = settings()
    generate_recordings(config.recordings_path, GeneratedWorld(config.sandbox_seed), now=config.now())
    return replay(work, list(competitors()))


def replay(work: Runner, agents: Sequence[str]) -> dict[str, BellwetherError | None]:
    """Take finished recordings into the lake, make their episodes, let the agents trade each, and compare them.

    Returns by agent and episode how a backtest ended: None, or why it failed; one that fails stops no other.
    """
    recordings: RecordingsResource = work.resource("recordings")
    held = recordings.episodes()
    names = sorted({found.name for found, _ in held.values()})
    work.instance.add_dynamic_partitions(str(RECORDING.name), names)
    work.instance.add_dynamic_partitions(str(EPISODE.name), list(held))
    work.instance.add_dynamic_partitions(str(AGENT.name), list(agents))
    work.run_stale(RECORDINGS, RECORDING_TABLES, names, "recording", {})
    recorded = work.record().changes(key("raw/recordings"), names)
    of_episode = {name: recorded.get(found.name, 0) for name, (found, _) in held.items()}
    work.run_stale(jobs.EPISODES, ("replay/episodes",), list(held), "episode", of_episode)
    made = work.record().changes(key("replay/episodes"))
    work.run_stale(jobs.BOOKS, ("replay/books",), list(held), "book", made)
    pairs = {str(dg.MultiPartitionKey({"episode": name, "agent": agent})): made.get(name, 0) for name in held for agent in agents}
    ends = work.run_stale(jobs.BACKTEST, BACKTEST_TABLES, list(pairs), "backtest", pairs, go_on=True)
    _compare_agents(work)
    return ends


def _compare_agents(work: Runner) -> None:
    """Make what is derived from all backtests, where it is out of date."""
    for job, names, sources in (
        (jobs.STANDING, STANDING_TABLES, BACKTEST_TABLES[:1]),
        (jobs.TRADING, ("replay/report",), (*BACKTEST_TABLES, *STANDING_TABLES)),
    ):
        record = work.record()
        newest = max((record.whole(key(name)) or 0 for name in sources), default=0)
        if newest > min(record.whole(key(name)) or 0 for name in names):
            work.launch(job, job.name.replace("_", " "))
        else:
            work.stats.fresh += 1
