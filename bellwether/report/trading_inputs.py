"""Inputs of a trading report: rows of the replay tables, and tapes for the figures of books."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bellwether.errors import ConfigError, suggestion
from bellwether.replay.episode import load
from bellwether.replay.preparation import prepare
from bellwether.replay.registry import agents
from bellwether.replay.results.folder import read_backtests, read_frame
from bellwether.replay.results.summary import summarise
from bellwether.report.inputs import format_stamp, latest_time
from bellwether.tables import Table
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS

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
        object.__setattr__(self, "summary", summarise(ordered))

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


def read_warehouse_inputs(warehouse: Path | str, agents: Sequence[str] = (), rules: str | None = None) -> TradingInputs:
    """Read the backtests of a published warehouse. agents, rules: names of agents and a rule set to select; by default all.

    Raises `LakeError` if the warehouse is missing, `ConfigError` if it has no such backtest.
    """
    return _inputs(lambda table: _published(warehouse, table), agents, rules)


def read_folder_inputs(folder: Path, agents: Sequence[str] = (), rules: str | None = None) -> TradingInputs:
    """Read the backtests in a folder written by `bellwether backtest --out`, selected as in `read_warehouse_inputs`."""
    return _inputs(lambda table: read_backtests(folder) if table is BACKTESTS else read_frame(folder, table), agents, rules)


def load_backtests(source: Path | None, warehouse: Path | str) -> pl.DataFrame:
    """Read rows of replay/backtests from the folder `source`; if it is None, from the warehouse."""
    return _published(warehouse, BACKTESTS) if source is None else read_backtests(source)


def select_rows(backtests: pl.DataFrame, agents: Sequence[str] = (), rules: str | None = None) -> pl.DataFrame:
    """Select the rows of these agents and this rule set, by default all. Raises `ConfigError` for an agent or rule set that has no rows."""
    for name, wanted in (("agent", list(agents)), ("rules", [rules] if rules else [])):
        existing = backtests[name].unique().sort().to_list()
        unknown = [value for value in wanted if value not in existing]
        if unknown:
            raise ConfigError(f"choosing backtests: none found with {name} {unknown[0]!r}; {suggestion(unknown[0], existing)}")
        if wanted:
            backtests = backtests.filter(pl.col(name).is_in(wanted))
    return backtests


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


def _published(warehouse: Path | str, table: Table) -> pl.DataFrame:
    from bellwether.lake.warehouse import query

    return query(warehouse, f"FROM {table.group}.{table.short_name}").cast(dict(table.schema))  # type: ignore[arg-type]


def _inputs(read: Callable[[Table], pl.DataFrame], agents: Sequence[str], rules: str | None) -> TradingInputs:
    backtests = select_rows(read(BACKTESTS), agents, rules)
    fills, equity = (read(table).join(backtests, on=("episode", "agent", "rules"), how="semi") for table in (FILLS, EQUITY))
    return TradingInputs(backtests, fills=fills, equity=equity, titles=agent_titles())
