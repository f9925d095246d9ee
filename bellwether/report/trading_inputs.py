"""Inputs of a trading report: rows of the replay tables, and tapes for the figures of books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bellwether.errors import ConfigError
from bellwether.lake.sql import run_sql
from bellwether.replay.episode import load
from bellwether.replay.preparation import prepare
from bellwether.replay.registry import agents
from bellwether.report.inputs import format_stamp, latest_time
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS, SUMMARY

if TYPE_CHECKING:
    from bellwether.replay.tape.layout import Tape

#: Maximum number of episodes with figures of books and fills.
MOST_BOOKS = 6


@dataclass(frozen=True, slots=True)
class TradingInputs:
    """Rows of the replay tables, in any order, and tapes (episodes in the simulator's integers) of a trading report. Raises `ConfigError`
    without a backtest.

    name: of the report. backtests, fills, equity: rows of the tables of these names; fills and equity may be incomplete or empty, which omits figures.
    tapes: episode -> its tape. titles: agent -> display name.
    """

    backtests: pl.DataFrame
    name: str = "trading"
    fills: pl.DataFrame = field(default_factory=FILLS.empty)
    equity: pl.DataFrame = field(default_factory=EQUITY.empty)
    tapes: Mapping[str, Tape] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    summary: pl.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        if self.backtests.is_empty():
            raise ConfigError(
                "writing a trading report: no backtests found; run `bellwether backtest` or materialize replay/backtests first"
            )
        ordered = BACKTESTS.validate(self.backtests, unique=False).sort("agent", "rules", "episode")
        object.__setattr__(self, "backtests", ordered)
        for name, table in (("fills", FILLS), ("equity", EQUITY)):
            object.__setattr__(self, name, table.validate(getattr(self, name), unique=False).sort(table.key))
        object.__setattr__(self, "summary", run_sql(SUMMARY, {"backtests": ordered}, {"unsettled": False}))

    @property
    def known_at(self) -> datetime:
        """Time of the report: `known_at` of the latest row, UTC."""
        return latest_time(self.backtests)

    @property
    def stamp(self) -> str:
        """Time of the report as a text for file names; it depends only on the data."""
        return format_stamp(self.known_at)

    @property
    def ordered(self) -> pl.DataFrame:
        """Rows of the summary, largest total P&L first."""
        return self.summary.sort("pnl", "agent", "rules", descending=[True, False, False])

    @property
    def agents(self) -> list[str]:
        """Names of the agents, largest total P&L first."""
        return self.ordered["agent"].unique(maintain_order=True).to_list()

    def labelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add the rule set to each agent's name in `rows`, so that figures distinguish the rule sets; unchanged if the report has only one."""
        if self.summary["rules"].n_unique() == 1:
            return rows
        return rows.with_columns(agent=pl.format("{} ({})", "agent", "rules"))

    @property
    def episodes(self) -> list[str]:
        """Names of the episodes, sorted."""
        return self.backtests["episode"].unique().sort().to_list()

    def title(self, agent: str) -> str:
        """Return the display name of an agent."""
        return self.titles.get(agent, agent)


def agent_titles() -> dict[str, str]:
    """Return the display names of the registered agents by name."""
    return {name: entry.title for name, entry in agents().items()}


def read_tapes(backtests: pl.DataFrame, root: Path, cache: Path) -> dict[str, Tape]:
    """Read the tapes (episodes in the simulator's integers) of the `MOST_BOOKS` busiest episodes, if `root` has them with the backtest's
    digest. cache: folder of built tapes.
    """
    tapes: dict[str, Tape] = {}
    for name, digest in busiest_episodes(backtests):
        if len(tapes) < MOST_BOOKS and (root / name / "metadata.json").is_file():
            prepared = prepare(load(root / name), cache=cache)
            if prepared.digest == digest:
                tapes[name] = prepared.tape
    return tapes


def busiest_episodes(backtests: pl.DataFrame) -> list[tuple[str, str]]:
    """Return (name, digest) of the episodes, the one with the most fills first."""
    counts = backtests.group_by("episode", "episode_digest").agg(pl.col("fills").sum())
    return counts.sort("fills", "episode", "episode_digest", descending=[True, False, False]).select("episode", "episode_digest").rows()
