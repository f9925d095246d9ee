"""Inputs of a trading report: rows of the replay's tables, and the tapes of episodes whose books are to be shown."""

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
from bellwether.replay.results.summary import results, summarise
from bellwether.report.inputs import format_stamp, latest_time
from bellwether.tables import Table
from bellwether.tables.replay import BACKTESTS, EQUITY, FILLS

if TYPE_CHECKING:
    from bellwether.replay.tape.layout import Tape

#: Episodes whose books and fills a report shows.
MOST_BOOKS = 6


@dataclass(frozen=True, slots=True)
class TradingInputs:
    """Backtests to report on; rows in any order. Raises `ConfigError` without a backtest.

    name: of the report. backtests, fills, equity: rows of the tables of these names; the latter two may be fewer or none, then figures lack them.
    tapes: episode -> its tape. titles: agent -> display name.
    """

    backtests: pl.DataFrame
    name: str = "trading"
    fills: pl.DataFrame = field(default_factory=FILLS.empty)
    equity: pl.DataFrame = field(default_factory=EQUITY.empty)
    tapes: Mapping[str, Tape] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    results: pl.DataFrame = field(init=False)
    summary: pl.DataFrame = field(init=False)

    def __post_init__(self) -> None:
        if self.backtests.is_empty():
            raise ConfigError(
                "writing a trading report: there is no backtest; `bellwether backtest` or the asset replay/backtests makes some"
            )
        ordered = BACKTESTS.validate(self.backtests, unique=False).sort("agent", "rules", "episode")
        object.__setattr__(self, "backtests", ordered)
        for name, table in (("fills", FILLS), ("equity", EQUITY)):
            object.__setattr__(self, name, table.validate(getattr(self, name), unique=False).sort(table.key))
        object.__setattr__(self, "results", results(ordered))
        object.__setattr__(self, "summary", summarise(ordered))

    @property
    def known_at(self) -> datetime:
        """Time of the report: when the last fact became known, UTC."""
        return latest_time(self.backtests)

    @property
    def stamp(self) -> str:
        """`known_at` as file names have it: the same data give the same names."""
        return format_stamp(self.known_at)

    @property
    def ordered(self) -> pl.DataFrame:
        """The summary, the largest sum of P&L first."""
        return self.summary.sort("pnl", "agent", "rules", descending=[True, False, False])

    @property
    def agents(self) -> list[str]:
        """Names, the largest sum of P&L first."""
        return self.ordered["agent"].unique(maintain_order=True).to_list()

    def labelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """`rows` of any table with the rule set in the agent's name, where there are several rule sets: figures must not mix them."""
        if self.summary["rules"].n_unique() == 1:
            return rows
        return rows.with_columns(agent=pl.format("{} ({})", "agent", "rules"))

    @property
    def episodes(self) -> list[str]:
        """Names, sorted."""
        return self.backtests["episode"].unique().sort().to_list()

    def title(self, agent: str) -> str:
        """Title of an agent."""
        return self.titles.get(agent, agent)


def read_warehouse_inputs(warehouse: Path | str, agents: Sequence[str] = (), rules: str | None = None) -> TradingInputs:
    """All backtests of a published warehouse, or those of some agents and of one rule set.

    Raises `LakeError` where there is no warehouse, `ConfigError` where it has no such backtest.
    """
    return _inputs(lambda table: _published(warehouse, table), agents, rules)


def read_folder_inputs(folder: Path, agents: Sequence[str] = (), rules: str | None = None) -> TradingInputs:
    """The same from a folder that `bellwether backtest --out` wrote."""
    return _inputs(lambda table: read_backtests(folder) if table is BACKTESTS else read_frame(folder, table), agents, rules)


def load_backtests(source: Path | None, warehouse: Path | str) -> pl.DataFrame:
    """Rows of replay/backtests in the folder `source`, or in the warehouse when it is None."""
    return _published(warehouse, BACKTESTS) if source is None else read_backtests(source)


def select_rows(backtests: pl.DataFrame, agents: Sequence[str] = (), rules: str | None = None) -> pl.DataFrame:
    """Rows of some agents (all when none is named) and of one rule set (all when left out). Raises `ConfigError` for what has no row."""
    for name, wanted in (("agent", list(agents)), ("rules", [rules] if rules else [])):
        known = backtests[name].unique().sort().to_list()
        unknown = [value for value in wanted if value not in known]
        if unknown:
            raise ConfigError(f"choosing backtests: there are none with {name} {unknown[0]!r}; {suggestion(unknown[0], known)}")
        if wanted:
            backtests = backtests.filter(pl.col(name).is_in(wanted))
    return backtests


def agent_titles() -> dict[str, str]:
    """Titles of the registered agents by name."""
    return {name: entry.title for name, entry in agents().items()}


def read_tapes(backtests: pl.DataFrame, root: Path, cache: Path) -> dict[str, Tape]:
    """The tapes of the episodes with the most fills, as many as a report shows, that are below `root` as they were replayed. cache: of tapes."""
    found: dict[str, Tape] = {}
    for name, digest in busiest_episodes(backtests):
        if len(found) < MOST_BOOKS and (root / name / "metadata.json").is_file():
            prepared = prepare(load(root / name, cache=cache), cache=cache)
            if prepared.digest == digest:
                found[name] = prepared.tape
    return found


def busiest_episodes(backtests: pl.DataFrame) -> list[tuple[str, str]]:
    """Names and digests of the episodes, those with the most fills first."""
    counts = backtests.group_by("episode", "episode_digest").agg(pl.col("fills").sum())
    return counts.sort("fills", "episode", "episode_digest", descending=[True, False, False]).select("episode", "episode_digest").rows()


def _published(warehouse: Path | str, table: Table) -> pl.DataFrame:
    from bellwether.lake.warehouse import query

    return query(warehouse, f"FROM {table.group}.{table.short_name}").cast(dict(table.schema))  # type: ignore[arg-type]


def _inputs(read: Callable[[Table], pl.DataFrame], agents: Sequence[str], rules: str | None) -> TradingInputs:
    backtests = select_rows(read(BACKTESTS), agents, rules)
    fills, equity = (read(table).join(backtests, on=("episode", "agent", "rules"), how="semi") for table in (FILLS, EQUITY))
    return TradingInputs(backtests, fills=fills, equity=equity, titles=agent_titles())
